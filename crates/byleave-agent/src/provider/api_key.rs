//! Keys of providers: a secret that cannot print itself, and where it comes from.
//!
//! No key is read from the system's keyring: the crate for it wants the C library of D-Bus to build. Who has one brings the key.

use std::fmt;

use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

use super::ProviderKind;
use crate::model::ModelError;

/// A key. Wiped from memory when dropped; what is handed to the client for a request is a copy.
#[derive(Clone)]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    /// Takes a key, without the blanks around it. Nothing where it could not stand in a header.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = Zeroizing::new(text.into());
        let key = text.trim();
        let fits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(Zeroizing::new(key.to_owned())))
    }

    /// The key in the environment, under the provider's usual name. None where the provider takes none.
    pub fn from_env(kind: ProviderKind) -> Result<Option<Self>, ModelError> {
        let Some(variable) = kind.variable() else { return Ok(None) };
        let found = std::env::var(variable).ok().and_then(Self::new);
        found.map(Some).ok_or_else(|| ModelError::NoKey { variable: variable.to_owned() })
    }

    /// The key in a header, behind what stands before it there. Whoever prints the header does not see it.
    pub(super) fn header(&self, before: &str) -> Option<HeaderValue> {
        let text = Zeroizing::new(format!("{before}{}", self.expose()));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The key itself; a call worth searching for in a review.
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
