//! Credentials that the proxy adds to requests to one host, so that they are never inside the sandbox.
//!
//! A credential is never printed or logged, and it is wiped when dropped. A header of the same name from inside is removed.

use std::fmt;

use zeroize::Zeroizing;

use super::refusal::ConnectionRefusedError;

/// The transport of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialTransport {
    /// TLS, which the proxy terminates and re-establishes.
    Tls,
    /// Plain HTTP, which others on the network can read. For private networks.
    Plain,
}

/// A header that is added to every request to one host and port.
#[derive(Clone)]
pub struct Credential {
    host: String,
    port: u16,
    over: CredentialTransport,
    header: String,
    value: Zeroizing<Vec<u8>>,
}

/// The error for a credential that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The host is not valid.
    #[error("cannot use the credential: {0}")]
    Host(#[from] ConnectionRefusedError),
    /// The header is not one that a proxy may set.
    #[error(
        "cannot add header `{0}`: this is not a header name, or the header controls how the message is parsed"
    )]
    Header(String),
    /// The value would end the header.
    #[error("cannot add the credential for `{0}`: its value has a byte that is not allowed in a header")]
    Value(String),
    /// It needs TLS, but there is no interception.
    #[error("cannot add the credential for `{0}`: the connection uses TLS, and TLS interception is off")]
    NoInterceptor(String),
}

/// Headers that determine where a message goes or ends. A credential in one of them would allow request smuggling.
const READ_BY_US: [&str; 8] =
    ["host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect"];

impl Credential {
    /// Creates a header for requests to this host and port.
    pub fn new(
        host: &str,
        port: u16,
        over: CredentialTransport,
        header: &str,
        value: impl Into<Vec<u8>>,
    ) -> Result<Self, CredentialError> {
        let value = Zeroizing::new(value.into());
        let host = super::host_normalize::normalize_host(host)?;
        let header = header.to_ascii_lowercase();
        if !super::http_head::is_token(header.as_bytes()) || READ_BY_US.contains(&header.as_str()) {
            return Err(CredentialError::Header(header));
        }
        if value.iter().any(|byte| *byte < b' ' || *byte == 0x7f) {
            return Err(CredentialError::Value(host));
        }
        Ok(Self { host, port, over, header, value })
    }

    /// Returns whether it applies to this host, port and transport.
    pub(crate) fn matches(&self, host: &str, port: u16, over: CredentialTransport) -> bool {
        self.over == over && self.port == port && self.host == host
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn over(&self) -> CredentialTransport {
        self.over
    }

    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// Returns the value itself. Reviewers should search for calls of this function.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.value
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}: … for {}:{})", self.header, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_does_not_print_itself_and_cannot_change_the_message() {
        let made =
            |header, value: &str| Credential::new("A.example.", 443, CredentialTransport::Tls, header, value);
        let credential = made("Authorization", "Bearer hunter2").unwrap();
        assert_eq!(format!("{credential:?}"), "Credential(authorization: … for a.example:443)");
        for (header, value) in [
            ("Host", "x"),
            ("Transfer-Encoding", "chunked"),
            ("a b", "x"),
            ("", "x"),
            ("x-key", "a\r\nhost: b"),
        ] {
            let flaw = made(header, value).unwrap_err();
            assert!(!flaw.to_string().contains("host: b"), "{flaw}");
        }
        assert!(Credential::new("010.0.0.1", 443, CredentialTransport::Tls, "x", "x").is_err());
    }
}
