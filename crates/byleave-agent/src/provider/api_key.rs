//! The API keys of providers: a secret that cannot be printed, and where it comes from.
//!
//! Keys are not read from the system keyring, because its crate needs the C library of D-Bus to build. Users of a keyring must pass the key
//! themselves.

use std::fmt;

use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

use super::ProviderKind;
use crate::model::ModelError;

/// An API key. It is wiped from memory when dropped; the client gets a copy for each request.
#[derive(Clone)]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    /// Creates a key from a text without surrounding whitespace. Returns `None` if it is not valid in a header.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = Zeroizing::new(text.into());
        let key = text.trim();
        let fits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(Zeroizing::new(key.to_owned())))
    }

    /// Reads the key from the provider's usual environment variable. Returns `None` if the provider does not use a key.
    pub fn from_env(kind: ProviderKind) -> Result<Option<Self>, ModelError> {
        let Some(variable) = kind.variable() else { return Ok(None) };
        let found = std::env::var(variable).ok().and_then(Self::new);
        found.map(Some).ok_or_else(|| ModelError::NoKey { variable: variable.to_owned() })
    }

    /// Returns the header value with its prefix. It is marked as sensitive, so that printing the header does not show it.
    pub(super) fn header(&self, before: &str) -> Option<HeaderValue> {
        let text = Zeroizing::new(format!("{before}{}", self.expose()));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Returns the key itself. The name makes its uses easy to find in a review.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
