//! Finds the hosts that a web address leads to, in any spelling.

use byleave_core::effect::Effect;
use byleave_core::host;
use url::Url;

use crate::tool::ToolError;

/// Returns the hosts that a URL leads to: its own, and those of URLs within it, which its host may follow.
pub(super) fn url_effects(address: &str) -> Result<Vec<Effect>, ToolError> {
    let wrong = |why: &str| ToolError(format!("`{}` {why}", address.escape_debug()));
    let url = Url::parse(address).map_err(|_| wrong("is not a web address"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is not a web address; only http and https are supported"));
    }
    let lower = address.to_ascii_lowercase();
    if lower.contains("%0d") || lower.contains("%0a") {
        return Err(wrong("contains a line break"));
    }
    let effect = |url: &Url| {
        let host = url.host_str().and_then(host::normalize)?;
        Some(Effect::Reach { host, port: url.port_or_known_default()? })
    };
    let mut effects = vec![effect(&url).ok_or_else(|| wrong("has no host"))?];
    for carried in embedded_urls(&url) {
        match Url::parse(&carried).ok().as_ref().and_then(effect) {
            Some(effect) if effects.contains(&effect) => {}
            Some(effect) => effects.push(effect),
            None => effects.push(Effect::Unknown { reason: "a URL inside the URL cannot be read".into() }),
        }
    }
    Ok(effects)
}

/// Returns the URLs in the path, the query or the fragment of another one, also if encoded repeatedly.
fn embedded_urls(url: &Url) -> Vec<String> {
    let mut text =
        [Some(url.path()), url.query(), url.fragment()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    // No legitimate URL is encoded more than three times.
    for _ in 0..3 {
        let lower = text.to_ascii_lowercase();
        for (at, _) in lower.match_indices("://") {
            let scheme = ["https", "http"]
                .iter()
                .find(|scheme| lower.get(..at).is_some_and(|before| before.ends_with(*scheme)));
            let rest = lower.get(at..).unwrap_or_default();
            let end = rest
                .find(|c: char| c.is_whitespace() || matches!(c, '&' | '"' | '\'' | '<' | '>' | ')'))
                .unwrap_or(rest.len());
            found.extend(scheme.map(|scheme| format!("{scheme}{}", rest.get(..end).unwrap_or_default())));
        }
        let decoded = percent_decode(&text);
        if decoded == text {
            break;
        }
        text = decoded;
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        // `from_str_radix` accepts a sign, which is not a hexadecimal digit.
        let hex = hex.filter(|hex| *first == b'%' && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
