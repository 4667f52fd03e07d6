//! Extracts hosts from URLs and other arguments, normalized to lower-case punycode.

use url::{Host, Url};

/// The target of a word that names something on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkTarget {
    /// A host and a port.
    Reach(String, u16),
    /// A local file.
    File(String),
}

/// Returns the target of a URL. Without a scheme it is treated as `http`, as curl and wget do.
pub(crate) fn parse_url(text: &str) -> Option<NetworkTarget> {
    let text = text.trim();
    // `sparse+https` and the like name a protocol on top of the scheme.
    let scheme_end = text.find("://");
    let protocol_end = text.find('+').filter(|at| scheme_end.is_some_and(|end| *at < end));
    let text = match protocol_end {
        Some(at) if !text.starts_with("git+ssh") => text.get(at.saturating_add(1)..).unwrap_or(text),
        _ => text,
    };
    let whole = if scheme_end.is_some() { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&whole).ok()?;
    if url.scheme().eq_ignore_ascii_case("file") {
        return Some(NetworkTarget::File(url.path().to_owned()));
    }
    let port = url.port().or_else(|| default_port(url.scheme()))?;
    // The URL parser normalizes addresses only for web schemes.
    parse_name(url.host_str()?).map(|host| NetworkTarget::Reach(host, port))
}

/// Returns the target of `host`, `host:port`, `[address]:port` or `user@host`.
pub(crate) fn parse_host(text: &str, port: u16) -> Option<NetworkTarget> {
    let text = text.rsplit('@').next().unwrap_or(text);
    let (name, port) = match text.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => (name, digits.parse().ok()?),
        _ => (text, port),
    };
    parse_name(name).map(|host| NetworkTarget::Reach(host, port))
}

fn parse_name(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.');
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let host = if bare.contains(':') { Host::parse(&format!("[{bare}]")) } else { Host::parse(bare) };
    host.ok().map(|host| host.to_string().to_ascii_lowercase()).filter(|host| !host.is_empty())
}

fn default_port(scheme: &str) -> Option<u16> {
    Some(match scheme {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        "ftp" => 21,
        "ftps" => 990,
        "ssh" | "sftp" | "scp" | "git+ssh" => 22,
        "git" => 9418,
        "ldap" => 389,
        "smtp" => 25,
        "rsync" => 873,
        "telnet" => 23,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_spelling() {
        let reach = |host: &str, port| Some(NetworkTarget::Reach(host.into(), port));
        for (text, target) in [
            ("https://Example.ORG/x", reach("example.org", 443)),
            ("example.org.", reach("example.org", 80)),
            ("http://bücher.example:8080/", reach("xn--bcher-kva.example", 8080)),
            ("http://0x7f.1/", reach("127.0.0.1", 80)),
            ("http://user:pw@h.example@evil.example/", reach("evil.example", 80)),
            ("ssh://git@Host.example/x", reach("host.example", 22)),
            ("git://2130706433/x", reach("127.0.0.1", 9418)),
            ("http://[::1]:9/", reach("[::1]", 9)),
            ("file:///etc/passwd", Some(NetworkTarget::File("/etc/passwd".into()))),
            ("sparse+https://Index.example/", reach("index.example", 443)),
            ("gopher-x://h/", None),
        ] {
            assert_eq!(parse_url(text), target, "{text}");
        }
        assert_eq!(parse_host("root@Box.example", 22), reach("box.example", 22));
        assert_eq!(parse_host("box:2222", 22), reach("box", 2222));
    }
}
