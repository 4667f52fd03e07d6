//! Digests, record keys and canonical JSON.
//!
//! The record refers to contents (arguments, plans, outputs) only by digests that are keyed with the record's own key. Once the key is
//! destroyed, nobody can even check a guess.

use std::fmt;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use zeroize::Zeroize;

/// A BLAKE3 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Wraps bytes that were computed elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the digest of plain bytes.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// Returns the digest of several parts. No two different lists of parts give the same input.
    pub fn compute_parts(domain: &str, parts: &[&[u8]]) -> Self {
        let all = || std::iter::once(domain.as_bytes()).chain(parts.iter().copied());
        // Hashed in one call: many small updates cost more than the copy.
        let mut framed = Vec::with_capacity(all().map(|part| part.len() + 8).sum());
        for part in all() {
            framed.extend_from_slice(&(part.len() as u64).to_le_bytes());
            framed.extend_from_slice(part);
        }
        Self::compute(&framed)
    }

    /// Returns the first twelve characters, enough for a person to distinguish two digests.
    pub fn short_hex(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

/// Returns the 64 characters of a digest. A record has a dozen digests, so the characters are not pushed one by one.
fn hex(bytes: &[u8; 32]) -> [u8; 64] {
    const fn digit(nibble: u8) -> u8 {
        if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
    }
    let mut text = [0; 64];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    text
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short_hex())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = hex(&self.0);
        serializer.serialize_str(str::from_utf8(&text).map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Upper case would be a second spelling of the same digest, and so a byte that nobody checks.
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(D::Error::custom("a digest must be lower-case hexadecimal"));
        }
        blake3::Hash::from_hex(&text).map(|hash| Self(hash.into())).map_err(D::Error::custom)
    }
}

/// The secret key of one record. Contents are digested and encrypted under it. Destroying it makes them unreadable.
#[derive(Clone)]
pub struct RecordKey([u8; 32]);

impl RecordKey {
    /// Wraps 32 random bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the key itself. Reviewers can search for calls of this function.
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the digest of content under this key.
    pub fn digest(&self, content: &[u8]) -> Digest {
        Digest(blake3::keyed_hash(&self.0, content).into())
    }

    /// Returns the recorded form of a content: its digest and its size.
    pub fn content_ref(&self, content: &[u8]) -> ContentRef {
        ContentRef { digest: self.digest(content), size: content.len() as u64 }
    }
}

impl Drop for RecordKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordKey(…)")
    }
}

/// A reference to content that is stored elsewhere, under the record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentRef {
    /// Its keyed digest.
    pub digest: Digest,
    /// Its size.
    pub size: u64,
}

/// Returns the canonical form of a JSON value: sorted keys and no white space.
///
/// It does not rely on the map type of `serde_json`, because features of another crate could change that type.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (i, (key, item)) in fields.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_has_one_spelling() {
        let a: Value = serde_json::from_str(r#"{"b":[1,{"y":null,"x":"é\n"}],"a":1.5}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{ "a":1.5, "b":[1,{"x":"é\n","y":null}] }"#).unwrap();
        assert_eq!(canonical_json(&a), canonical_json(&b));
        assert_eq!(canonical_json(&a), r#"{"a":1.5,"b":[1,{"x":"é\n","y":null}]}"#);
    }

    #[test]
    fn parts_cannot_be_shifted() {
        assert_ne!(Digest::compute_parts("d", &[b"ab", b"c"]), Digest::compute_parts("d", &[b"a", b"bc"]));
        assert_ne!(Digest::compute_parts("d", &[b"ab"]), Digest::compute_parts("da", &[b"b"]));
    }

    #[test]
    fn digests_have_one_spelling() {
        let text = serde_json::to_string(&Digest::compute(b"x")).unwrap();
        assert_eq!(text, format!("\"{}\"", Digest::compute(b"x")));
        assert!(serde_json::from_str::<Digest>(&text).is_ok());
        assert!(serde_json::from_str::<Digest>(&text.to_uppercase()).is_err());
    }

    #[test]
    fn a_key_does_not_print_itself() {
        assert_eq!(format!("{:?}", RecordKey::from_bytes([7; 32])), "RecordKey(…)");
    }
}
