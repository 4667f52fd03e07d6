//! Checks the login endpoints that a server names, before anything is sent there or opened.
//!
//! An endpoint is untrusted text. A browser opens it, and our secrets are sent there. It must therefore be an `https` address
//! in plain characters. The original text is checked, because parsers repair their input.

use std::net::IpAddr;

use byleave_sandbox::net::address::global;
use url::{Host, Url};

/// The maximum length of an endpoint.
const ENDPOINT_BYTES_MAX: usize = 2_048;
/// The maximum length of an address that is opened.
const ADDRESS_BYTES_MAX: usize = 8_192;

/// The reason why an endpoint is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} is refused: {why}: `{shown}`")]
pub struct EndpointError {
    what: &'static str,
    why: &'static str,
    shown: String,
}

/// The rules for endpoints. A remote server must not name endpoints on this machine.
#[derive(Clone, Debug)]
pub(super) struct EndpointPolicy {
    /// The address of the server.
    pub(super) server: Url,
    /// Whether hosts of the person's own network are allowed too.
    pub(super) allow_private_network: bool,
}

impl EndpointPolicy {
    /// Returns the parsed endpoint, if it is allowed.
    pub(super) fn check_endpoint(&self, what: &'static str, text: &str) -> Result<Url, EndpointError> {
        self.judged(text, ENDPOINT_BYTES_MAX).map_err(|why| unsound(what, why, text))
    }

    /// Returns the parsed address for a browser, if it leads to this endpoint.
    pub(super) fn check_redirect_target(&self, endpoint: &Url, text: &str) -> Result<Url, EndpointError> {
        let what = "address to open";
        let url = self.judged(text, ADDRESS_BYTES_MAX).map_err(|why| unsound(what, why, text))?;
        if url.origin() == endpoint.origin() && url.path() == endpoint.path() {
            return Ok(url);
        }
        Err(unsound(what, "it does not lead to the endpoint", text))
    }

    /// Checks whether an IP address may be connected to, for a host other than the server's.
    pub(super) fn allows_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let own = self.allow_private_network && is_private(address);
        global(address) || own || address.is_loopback() && is_loopback(&self.server)
    }

    fn judged(&self, text: &str, bytes_max: usize) -> Result<Url, &'static str> {
        if text.len() > bytes_max {
            return Err("it is too long");
        }
        if text.starts_with('-') {
            return Err("it begins like a command-line option");
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("it has invisible characters");
        }
        let (scheme, rest) = text.split_once("://").ok_or("it is not an https address")?;
        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return Err("it is not an https address");
        }
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err("it contains a user name");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if !authority.chars().all(plain) || !authority.starts_with(|c: char| c != '-') {
            return Err("its host is malformed");
        }
        let after = rest.get(authority.len()..).unwrap_or_default();
        // An endpoint must not contain characters that a shell, a launcher or a parser could misinterpret.
        if !after.chars().all(|c| c.is_ascii_alphanumeric() || "-._~:/?&=+%,@*".contains(c)) {
            return Err("it has forbidden characters");
        }
        let url = Url::parse(text).map_err(|_| "it is not a valid URL")?;
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err("it contains a user name or a fragment");
        }
        let here = is_loopback(&url);
        if here && !is_loopback(&self.server) {
            return Err("it is on this machine, but the server is not");
        }
        if !secure && !here {
            return Err("it is not an https address");
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::from(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::from(address)),
            Some(Host::Domain(_)) => None,
            None => return Err("it has no host"),
        };
        if address.is_some_and(|address| !self.allows_address(address)) && url.host() != self.server.host() {
            return Err("its host is not on the public internet");
        }
        Ok(url)
    }
}

/// Checks whether an address is written as one of this machine. The addresses that a name resolves to are ignored, because
/// its owner controls them.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).to_canonical().is_loopback(),
        None => false,
    }
}

/// Returns the host and port of an address for people.
pub(super) fn host_and_port(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            v4.is_private() || first == 100 && (64..128).contains(&second)
        }
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

fn unsound(what: &'static str, why: &'static str, text: &str) -> EndpointError {
    let mut shown: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    if text.chars().nth(200).is_some() {
        shown.push('…');
    }
    EndpointError { what, why, shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(server: &str) -> EndpointPolicy {
        EndpointPolicy { server: Url::parse(server).unwrap(), allow_private_network: false }
    }

    // req: M1
    #[test]
    fn an_endpoint_is_a_plain_https_address_or_refused() {
        let far = from("https://mcp.example/mcp");
        for good in [
            "https://auth.example/authorize",
            "https://auth.example:8443/a/b?p=B2C_1&x=%20y",
            "HTTPS://AUTH.example/x",
            "https://8.8.8.8/x",
            "https://[2606:4700::1111]/x",
            "https://xn--bcher-kva.example/",
        ] {
            assert!(far.check_endpoint("endpoint", good).is_ok(), "{good}");
        }
        let long = format!("https://auth.example/{}", "a".repeat(ENDPOINT_BYTES_MAX));
        for bad in [
            "",
            "file:/c:/windows/system32/calc.exe",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "javascript://auth.example/%0aalert(1)",
            "ms-msdt:/id",
            "ms-word:ofe|u|https://auth.example/x.docx",
            "data:text/html,x",
            "ftp://auth.example/",
            "http://auth.example/authorize",
            "https:auth.example",
            "https:/auth.example",
            "https:\\\\auth.example\\x",
            "https://",
            "https:///x",
            "//auth.example/x",
            "-https://auth.example/",
            "--help",
            "https://-auth.example/",
            "https://user@auth.example/",
            "https://user:pass@auth.example/",
            "https://auth.example$(calc)/",
            "https://$(touch${IFS}x).example/",
            "https://auth.example/$(touch x)",
            "https://auth.example/`id`",
            "https://auth.example/;id",
            "https://auth.example/|id",
            "https://auth.example/x\"y",
            "https://auth.example/x'y",
            "https://auth.example/x\\y",
            "https://auth.example/x#y",
            "https://auth.example/x y",
            " https://auth.example/",
            "https://auth.example/\n",
            "https://auth.example/\tx",
            "https://auth.example/\u{0}x",
            "https://auth.example/\u{1b}[8m",
            "https://auth.example/\u{202e}x",
            "https://аuth.example/",
            "https://auth%2eexample/",
            "https://localhost/x",
            "http://localhost/x",
            "https://127.0.0.1/x",
            "https://0177.0.0.1/x",
            "https://2130706433/x",
            "https://[::1]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://169.254.169.254/latest",
            "https://10.0.0.1/x",
            "https://0.0.0.0/x",
            long.as_str(),
        ] {
            assert!(far.check_endpoint("endpoint", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_here_may_name_what_is_here() {
        let here = from("http://127.0.0.1:1/mcp");
        for good in
            ["http://127.0.0.1:2/a", "http://localhost:2/a", "http://[::1]/a", "https://auth.example/"]
        {
            assert!(here.check_endpoint("endpoint", good).is_ok(), "{good}");
        }
        for bad in
            ["http://auth.example/", "http://10.0.0.1/", "https://10.0.0.1/", "http://localhost.example/"]
        {
            assert!(here.check_endpoint("endpoint", bad).is_err(), "{bad}");
        }
        let own = EndpointPolicy { allow_private_network: true, ..from("https://mcp.example/mcp") };
        assert!(own.check_endpoint("endpoint", "https://10.0.0.1/").is_ok());
        assert!(own.check_endpoint("endpoint", "https://169.254.169.254/").is_err());
    }

    #[test]
    fn what_is_opened_leads_to_the_endpoint() {
        let far = from("https://mcp.example/mcp");
        let endpoint = far.check_endpoint("endpoint", "https://auth.example/authorize?p=1").unwrap();
        let good = "https://auth.example/authorize?p=1&state=x&redirect_uri=http%3A%2F%2F127.0.0.1";
        assert!(far.check_redirect_target(&endpoint, good).is_ok());
        for bad in ["https://auth.example/other?state=x", "https://other.example/authorize", "file:/x"] {
            assert!(far.check_redirect_target(&endpoint, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_refused_is_shown_and_cannot_draw() {
        let refused =
            from("https://mcp.example/").check_endpoint("token endpoint", "file:/\u{1b}[2Jx").unwrap_err();
        let said = refused.to_string();
        assert!(said.contains("token endpoint") && said.contains("file:/\\u{1b}[2Jx"), "{said}");
    }
}
