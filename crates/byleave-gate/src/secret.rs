//! A secret that cannot be printed.

use std::fmt;

use zeroize::Zeroize;

/// A secret that must not appear in a log. It is wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Wraps the bytes of a secret.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the secret itself. Search for calls of this in a review.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_itself() {
        #[derive(Debug)]
        struct SecretHolder {
            _key: Secret,
        }
        assert_eq!(format!("{:?}", Secret::from("hunter2")), "Secret(…)");
        assert!(!format!("{:#?}", SecretHolder { _key: Secret::from("hunter2") }).contains("hunter2"));
    }
}
