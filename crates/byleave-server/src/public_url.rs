//! The public address of the pages, which begins the links to questions.

use std::fmt;
use std::str::FromStr;

use byleave_gate::core::id::QuestionId;
use byleave_gate::endpoint::Endpoint;
use url::Url;

/// The reason why an address cannot be used for links.
#[derive(Debug, thiserror::Error)]
pub enum PublicUrlError {
    /// It is not the address of a server.
    #[error("cannot use `{0}` as the public address: {1}")]
    Address(String, String),
    /// It contains more than the address of a server.
    #[error("the public address `{0}` has more than a host and a port; remove the rest")]
    ExtraParts(String),
}

/// The public address of the pages: https and a host, or http on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    origin: String,
    host: String,
}

impl PublicUrl {
    /// Returns the address of the inbox.
    pub(crate) fn inbox(&self) -> String {
        format!("{}/", self.origin)
    }

    /// Returns the address of a question's page.
    pub fn question(&self, question: QuestionId) -> String {
        format!("{}/questions/{question}", self.origin)
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Checks whether the address is https, so that others cannot listen.
    pub fn is_encrypted(&self) -> bool {
        self.origin.starts_with("https://")
    }

    /// Checks whether an origin from a browser is this address.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        self.origin == origin
    }
}

impl FromStr for PublicUrl {
    type Err = PublicUrlError;

    fn from_str(text: &str) -> Result<Self, PublicUrlError> {
        let bad = |why: &dyn fmt::Display| PublicUrlError::Address(text.to_owned(), why.to_string());
        let url = Url::parse(text).map_err(|error| bad(&error))?;
        Endpoint::new(text).map_err(|error| bad(&error))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(PublicUrlError::ExtraParts(text.to_owned()));
        }
        Ok(Self { origin: url.origin().ascii_serialization(), host })
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_begin_with_a_protected_place_and_nothing_else() {
        let good = |text: &str| text.parse::<PublicUrl>().unwrap().to_string();
        assert_eq!(good("https://Gate.Example.org/"), "https://gate.example.org");
        assert_eq!(good("https://gate.example.org:443"), "https://gate.example.org");
        assert_eq!(good("http://127.0.0.1:7411"), "http://127.0.0.1:7411");
        assert_eq!(good("http://[::1]:7411"), "http://[::1]:7411");
        for bad in [
            "gate.example.org",
            "http://gate.example.org",
            "https://ann:pw@gate.example.org",
            "https://gate.example.org/below",
            "https://gate.example.org/?a",
            "https://gate.example.org/#a",
            "javascript:alert(1)",
        ] {
            assert!(bad.parse::<PublicUrl>().is_err(), "{bad}");
        }
    }
}
