//! Digests: what was said, in 32 bytes that cannot be made to fit something else.
//!
//! Contents (arguments, plans, outputs) are known on the record only by digests keyed with the record's own key, so
//! that once the key is destroyed nobody can even check a guess.

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

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest of plain bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// The digest of several parts; no two different lists of parts give the same input.
    pub fn of_parts(domain: &str, parts: &[&[u8]]) -> Self {
        let all = || std::iter::once(domain.as_bytes()).chain(parts.iter().copied());
        // Hashed in one go: many small updates cost more than the copy.
        let mut framed = Vec::with_capacity(all().map(|part| part.len() + 8).sum());
        for part in all() {
            framed.extend_from_slice(&(part.len() as u64).to_le_bytes());
            framed.extend_from_slice(part);
        }
        Self::of(&framed)
    }

    /// The first twelve characters, enough for a person to tell two apart.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

/// The 64 characters of a digest. A record has a dozen of them, so they are not pushed one by one.
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
        write!(f, "Digest({})", self.short())
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
        // Upper case would be a second spelling of the same digest, and so a byte nobody checks.
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(D::Error::custom("a digest is written in lower-case hexadecimal"));
        }
        blake3::Hash::from_hex(&text).map(|hash| Self(hash.into())).map_err(D::Error::custom)
    }
}

/// The secret of one record: contents are digested and encrypted under it; destroying it forgets them.
#[derive(Clone)]
pub struct RecordKey([u8; 32]);

impl RecordKey {
    /// Wraps 32 random bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key itself; a call worth searching for in a review.
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest of content under this key.
    pub fn digest(&self, content: &[u8]) -> Digest {
        Digest(blake3::keyed_hash(&self.0, content).into())
    }

    /// What the record keeps of a content: its digest and its size.
    pub fn hold(&self, content: &[u8]) -> ContentRef {
        ContentRef { digest: self.digest(content), bytes: content.len() as u64 }
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

/// A content that is kept elsewhere, under the record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentRef {
    /// Its keyed digest.
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
}

/// The one spelling of a JSON value: keys sorted, no white space.
///
/// Does not rely on the map type of `serde_json`, which another crate's features could change.
pub fn canonical(value: &Value) -> String {
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
        assert_eq!(canonical(&a), canonical(&b));
        assert_eq!(canonical(&a), r#"{"a":1.5,"b":[1,{"x":"é\n","y":null}]}"#);
    }

    #[test]
    fn parts_cannot_be_shifted() {
        assert_ne!(Digest::of_parts("d", &[b"ab", b"c"]), Digest::of_parts("d", &[b"a", b"bc"]));
        assert_ne!(Digest::of_parts("d", &[b"ab"]), Digest::of_parts("da", &[b"b"]));
    }

    #[test]
    fn digests_have_one_spelling() {
        let text = serde_json::to_string(&Digest::of(b"x")).unwrap();
        assert_eq!(text, format!("\"{}\"", Digest::of(b"x")));
        assert!(serde_json::from_str::<Digest>(&text).is_ok());
        assert!(serde_json::from_str::<Digest>(&text.to_uppercase()).is_err());
    }

    #[test]
    fn a_key_does_not_print_itself() {
        assert_eq!(format!("{:?}", RecordKey::from_bytes([7; 32])), "RecordKey(…)");
    }
}
