//! Spelling: one host, one name; and text from inside made harmless.

use std::net::IpAddr;

use super::refusal::ConnectionRefusedError;

/// A host in its usual spelling; refuses what could be an address to one reader and a name to another.
pub(crate) fn spelled(host: &str) -> Result<String, ConnectionRefusedError> {
    let no_host = || ConnectionRefusedError::NoHost(shortened(host));
    if host.len() > 255 {
        return Err(no_host());
    }
    let name = byleave_core::host::normal(host).ok_or_else(no_host)?;
    if name.parse::<IpAddr>().is_ok() {
        return Ok(name);
    }
    // `010.0.0.1`, `1.2.3.4.5`: no top-level domain is a number, and resolvers do not agree on what that is.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if numeric || name.len() > 253 || name.split('.').any(|label| label.len() > 63) {
        Err(no_host())
    } else {
        Ok(name)
    }
}

/// Text from inside, short enough for a line and harmless to print.
pub(crate) fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(80).flat_map(char::escape_default).collect();
    if text.chars().count() > 80 { format!("{shown}…") } else { shown }
}
