//! Normalizes host names, and escapes text from inside.

use std::net::IpAddr;

use super::refusal::ConnectionRefusedError;

/// Normalizes a host. Refuses text that one parser could read as an address and another as a name.
pub(crate) fn normalize_host(host: &str) -> Result<String, ConnectionRefusedError> {
    let no_host = || ConnectionRefusedError::InvalidHost(shorten(host));
    if host.len() > 255 {
        return Err(no_host());
    }
    let name = byleave_core::host::normalize(host).ok_or_else(no_host)?;
    if name.parse::<IpAddr>().is_ok() {
        return Ok(name);
    }
    // `010.0.0.1`, `1.2.3.4.5`: no top-level domain is a number, and resolvers disagree about such names.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if numeric || name.len() > 253 || name.split('.').any(|label| label.len() > 63) {
        Err(no_host())
    } else {
        Ok(name)
    }
}

/// Shortens and escapes text from inside, so that it is safe to print in a line.
pub(crate) fn shorten(text: &str) -> String {
    let shown: String = text.chars().take(80).flat_map(char::escape_default).collect();
    if text.chars().count() > 80 { format!("{shown}…") } else { shown }
}
