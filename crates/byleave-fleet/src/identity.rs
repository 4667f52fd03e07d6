//! Who the engine is: the service answers nobody else.
//!
//! The engine signs what it asks with a key of its own (`request-identity-private-key-pem-file`). The service knows the public
//! half, and turns away whatever is not signed with it: whoever merely reaches its port can write no record.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a public key of this kind (Ed25519, as `openssl pkey -pubout` writes it) begins with.
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The public key of an engine, as the SDK takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

/// Why that is no key of an engine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no public key of an engine: Ed25519 as PEM, as `openssl pkey -in KEY -pubout` writes it")]
pub struct NoIdentity;

impl Identity {
    /// Reads a public key as PEM.
    pub fn read(pem: &str) -> Result<Self, NoIdentity> {
        let body = pem.trim().strip_prefix("-----BEGIN PUBLIC KEY-----");
        let body = body.and_then(|rest| rest.strip_suffix("-----END PUBLIC KEY-----")).ok_or(NoIdentity)?;
        let body: String = body.split_whitespace().collect();
        let bytes = STANDARD.decode(body).map_err(|_| NoIdentity)?;
        match bytes.strip_prefix(&PREFIX) {
            Some(key) if key.len() == 32 => {
                Ok(Self(format!("publickeyv1_{}", bs58::encode(key).into_string())))
            }
            _ => Err(NoIdentity),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_and_nothing_else() {
        let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        let identity = Identity::read(pem).unwrap();
        assert!(identity.as_str().starts_with("publickeyv1_"), "{identity:?}");
        for wrong in ["", "publickeyv1_x", &pem.replace("MCow", "MCox"), &pem.replace("PUBLIC", "PRIVATE")] {
            assert_eq!(Identity::read(wrong), Err(NoIdentity), "{wrong}");
        }
    }
}
