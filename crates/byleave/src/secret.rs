//! A secret that cannot print itself.

use std::fmt;

use zeroize::Zeroize;

/// Something that must not end up in a log. Wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Wraps the bytes of a secret.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The secret itself; a call worth searching for in a review.
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
