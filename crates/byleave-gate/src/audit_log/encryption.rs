//! Encrypts contents under the key of their record, and wraps record keys with the master key of the audit log.
//!
//! Destroying the wrapped key erases the contents. This module must never write a key or a content in plaintext. Every audit
//! log that stores contents uses this format, so that one can be imported into another.

use byleave_core::digest::{Digest, RecordKey};
use byleave_core::id::CallId;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::ledger::{ContentError, RecordContent};

/// The size of a wrapped key: key, tag, nonce.
pub const WRAPPED_BYTES: usize = 32 + TAG_BYTES + NONCE_BYTES;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// A vault that wraps and unwraps the keys of records.
pub struct KeyVault {
    master: Zeroizing<[u8; 32]>,
}

/// An encryption error: random numbers are not available, or the data is too large.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// Random numbers are not available.
    #[error("cannot get random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// The data is too large.
    #[error("the content is too large to encrypt")]
    TooLarge,
}

impl KeyVault {
    /// Creates a vault with a master key.
    pub const fn new(master: Zeroizing<[u8; 32]>) -> Self {
        Self { master }
    }

    /// Returns a value that identifies whether an audit log belongs to this vault, and reveals nothing else.
    pub fn fingerprint(&self) -> [u8; 32] {
        blake3::keyed_hash(&self.master, b"byleave.audit-log").into()
    }

    /// Wraps the key of a record.
    pub fn wrap(&self, call: CallId, key: &RecordKey) -> Result<Vec<u8>, VaultError> {
        let mut wrapped = Vec::with_capacity(WRAPPED_BYTES);
        wrapped.extend_from_slice(key.expose());
        encrypt(&self.master, &key_aad(call), &mut wrapped)?;
        Ok(wrapped)
    }

    /// Unwraps a key. Returns `None` unless [`KeyVault::wrap`] made these bytes for this call.
    pub fn unwrap(&self, call: CallId, wrapped: &[u8]) -> Option<RecordKey> {
        let bytes = Zeroizing::new(decrypt(&self.master, &key_aad(call), wrapped)?);
        <[u8; 32]>::try_from(bytes.as_slice()).ok().map(RecordKey::from_bytes)
    }
}

/// Checks whether these bytes mark a destroyed key.
pub fn is_destroyed(wrapped: &[u8]) -> bool {
    wrapped.iter().all(|byte| *byte == 0)
}

/// Encrypts the contents of one batch together with a note. One message for all is cheaper than one per content.
pub fn pack(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    note: &str,
    contents: &[RecordContent],
) -> Result<Vec<u8>, VaultError> {
    let size: usize = contents.iter().map(|content| content.bytes.len() + 36).sum();
    let mut packed = Vec::with_capacity(size + note.len() + 4 + TAG_BYTES + NONCE_BYTES);
    write_part(&mut packed, note.as_bytes())?;
    for content in contents {
        packed.extend_from_slice(content.content_ref.digest.as_bytes());
        write_part(&mut packed, &content.bytes)?;
    }
    encrypt_batch(key, call, seq, packed)
}

/// Encrypts the encoded contents of one batch. It is for callers that compress them first, because ciphertext does not compress.
pub fn encrypt_batch(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    mut plain: Vec<u8>,
) -> Result<Vec<u8>, VaultError> {
    encrypt(&content_key(key), &batch_aad(call, seq), &mut plain)?;
    Ok(plain)
}

/// Decrypts what [`encrypt_batch`] encrypted for this position.
pub fn decrypt_batch(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    sealed: &[u8],
) -> Result<Vec<u8>, ContentError> {
    decrypt(&content_key(key), &batch_aad(call, seq), sealed).ok_or(ContentError::Corrupted)
}

fn write_part(packed: &mut Vec<u8>, bytes: &[u8]) -> Result<(), VaultError> {
    let length = u32::try_from(bytes.len()).map_err(|_| VaultError::TooLarge)?;
    packed.extend_from_slice(&length.to_le_bytes());
    packed.extend_from_slice(bytes);
    Ok(())
}

/// The decrypted contents of one batch.
#[derive(Debug, PartialEq, Eq)]
pub struct UnpackedContents {
    /// The note stored with them.
    pub note: String,
    /// The contents.
    pub contents: Vec<RecordContent>,
}

/// Decrypts the batch for this position, and checks each content against its digest.
pub fn unpack(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    packed: &[u8],
) -> Result<UnpackedContents, ContentError> {
    let plain = decrypt_batch(key, call, seq, packed)?;
    let mut rest = plain.as_slice();
    let note = read_part(&mut rest).and_then(|note| String::from_utf8(note.to_vec()).ok());
    let note = note.ok_or(ContentError::Corrupted)?;
    let mut contents = Vec::new();
    while !rest.is_empty() {
        let (digest, after) = rest.split_first_chunk::<32>().ok_or(ContentError::Corrupted)?;
        rest = after;
        let bytes = read_part(&mut rest).ok_or(ContentError::Corrupted)?;
        let held = key.content_ref(bytes);
        if held.digest != Digest::from_bytes(*digest) {
            return Err(ContentError::Corrupted);
        }
        contents.push(RecordContent { content_ref: held, bytes: bytes.to_vec() });
    }
    Ok(UnpackedContents { note, contents })
}

fn read_part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (bytes, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(bytes)
}

/// Derives a separate encryption key, because the record's key is also used for digests.
fn content_key(key: &RecordKey) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(blake3::derive_key("byleave 2025 contents of a record", key.expose()))
}

fn key_aad(call: CallId) -> Vec<u8> {
    [b"key".as_slice(), call.as_bytes()].concat()
}

fn batch_aad(call: CallId, seq: u32) -> Vec<u8> {
    [b"contents".as_slice(), call.as_bytes(), &seq.to_le_bytes()].concat()
}

/// Encrypts in place and appends the tag and the nonce.
fn encrypt(key: &[u8; 32], name: &[u8], bytes: &mut Vec<u8>) -> Result<(), VaultError> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce)?;
    XChaCha20Poly1305::new(&Key::from(*key))
        .encrypt_in_place(&XNonce::from(nonce), name, bytes)
        .map_err(|_| VaultError::TooLarge)?;
    bytes.extend_from_slice(&nonce);
    Ok(())
}

fn decrypt(key: &[u8; 32], name: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (sealed, nonce) = sealed.split_last_chunk::<NONCE_BYTES>()?;
    let mut bytes = sealed.to_vec();
    let opened =
        XChaCha20Poly1305::new(&Key::from(*key)).decrypt_in_place(&XNonce::from(*nonce), name, &mut bytes);
    opened.ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(n: u128) -> CallId {
        CallId::new(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn a_key_opens_only_for_its_call_and_its_master() {
        let vault = KeyVault::new(Zeroizing::new([1; 32]));
        let wrapped = vault.wrap(call(1), &RecordKey::from_bytes([7; 32])).unwrap();
        assert_eq!(wrapped.len(), WRAPPED_BYTES);
        assert_eq!(vault.unwrap(call(1), &wrapped).unwrap().expose(), &[7; 32]);
        assert!(vault.unwrap(call(2), &wrapped).is_none());
        assert!(KeyVault::new(Zeroizing::new([2; 32])).unwrap(call(1), &wrapped).is_none());
        assert!(vault.unwrap(call(1), &[0; WRAPPED_BYTES]).is_none());
    }

    #[test]
    fn contents_come_back_and_show_every_flipped_byte() {
        let key = RecordKey::from_bytes([7; 32]);
        let contents: Vec<RecordContent> = [b"one".as_slice(), b"", b"three"]
            .map(|bytes| RecordContent { content_ref: key.content_ref(bytes), bytes: bytes.to_vec() })
            .to_vec();
        let packed = pack(&key, call(1), 4, "does a thing", &contents).unwrap();
        assert!(!packed.windows(5).any(|window| window == b"three"));
        let unpacked = unpack(&key, call(1), 4, &packed).unwrap();
        assert_eq!(unpacked, UnpackedContents { note: "does a thing".into(), contents });
        assert!(unpack(&key, call(1), 5, &packed).is_err(), "the ciphertext belongs to another position");
        assert!(unpack(&key, call(2), 4, &packed).is_err(), "the ciphertext belongs to another call");
        for place in 0..packed.len() {
            let mut flipped = packed.clone();
            flipped[place] ^= 1;
            assert!(unpack(&key, call(1), 4, &flipped).is_err(), "byte {place}");
        }
    }

    #[test]
    fn a_content_under_anothers_digest_is_changed() {
        let key = RecordKey::from_bytes([7; 32]);
        let lie = RecordContent { content_ref: key.content_ref(b"one"), bytes: b"two".to_vec() };
        let packed = pack(&key, call(1), 0, "", &[lie]).unwrap();
        assert!(matches!(unpack(&key, call(1), 0, &packed), Err(ContentError::Corrupted)));
    }
}
