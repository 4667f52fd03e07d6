//! The vault: contents are sealed under their record's key, and that key is wrapped by the ledger's master key, before
//! anything leaves the process. The engine sees neither.
//!
//! Destroying the wrapped key forgets the contents. They are made small before they are sealed: afterwards it cannot be done.

use byleave::ledger::{Content, ContentFault};
use byleave_core::digest::{Digest, RecordKey};
use byleave_core::id::CallId;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::packing::{PackingFault, squeeze, unsqueeze};

const NONCE_BYTES: usize = 24;

/// Wraps and unwraps the keys of records.
pub(crate) struct Vault {
    master: Zeroizing<[u8; 32]>,
}

/// Something could not be sealed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VaultFault {
    #[error("no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("too large to seal")]
    TooLarge,
    #[error(transparent)]
    Packing(#[from] PackingFault),
}

impl Vault {
    pub(crate) const fn new(master: Zeroizing<[u8; 32]>) -> Self {
        Self { master }
    }

    pub(crate) fn wrap(&self, call: CallId, key: &RecordKey) -> Result<Vec<u8>, VaultFault> {
        seal(&self.master, &name(b"key", call, 0), key.expose().to_vec())
    }

    /// The key, if these bytes are what [`Vault::wrap`] made for this call.
    pub(crate) fn unwrap(&self, call: CallId, wrapped: &[u8]) -> Option<RecordKey> {
        let bytes = Zeroizing::new(open(&self.master, &name(b"key", call, 0), wrapped)?);
        <[u8; 32]>::try_from(bytes.as_slice()).ok().map(RecordKey::from_bytes)
    }
}

/// Seals the contents that come with lines as one.
pub(crate) fn pack(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    contents: &[Content],
) -> Result<Vec<u8>, VaultFault> {
    let mut plain = Vec::new();
    for content in contents {
        let length = u32::try_from(content.bytes.len()).map_err(|_| VaultFault::TooLarge)?;
        plain.extend_from_slice(&length.to_le_bytes());
        plain.extend_from_slice(&content.bytes);
    }
    seal(&content_key(key), &name(b"contents", call, seq), squeeze(&plain)?)
}

/// Opens what was packed for this place. What a content is called follows from what it is.
pub(crate) fn unpack(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    sealed: &[u8],
) -> Result<Vec<Content>, ContentFault> {
    let plain =
        open(&content_key(key), &name(b"contents", call, seq), sealed).ok_or(ContentFault::Changed)?;
    let plain = unsqueeze(&plain).map_err(|_| ContentFault::Changed)?;
    let mut rest = plain.as_slice();
    let mut contents = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(ContentFault::Changed)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| ContentFault::Changed)?;
        let (bytes, after) = after.split_at_checked(length).ok_or(ContentFault::Changed)?;
        rest = after;
        contents.push(Content { held: key.hold(bytes), bytes: bytes.to_vec() });
    }
    Ok(contents)
}

/// The record's key also keys digests; sealing gets one of its own.
fn content_key(key: &RecordKey) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(blake3::derive_key("byleave 2025 contents of a record in a fleet", key.expose()))
}

fn name(what: &[u8], call: CallId, seq: u32) -> Digest {
    Digest::of_parts("byleave.fleet", &[what, call.as_bytes(), &seq.to_le_bytes()])
}

/// Encrypts; the tag and the nonce go behind.
fn seal(key: &[u8; 32], name: &Digest, mut bytes: Vec<u8>) -> Result<Vec<u8>, VaultFault> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce)?;
    XChaCha20Poly1305::new(&Key::from(*key))
        .encrypt_in_place(&XNonce::from(nonce), name.as_bytes(), &mut bytes)
        .map_err(|_| VaultFault::TooLarge)?;
    bytes.extend_from_slice(&nonce);
    Ok(bytes)
}

fn open(key: &[u8; 32], name: &Digest, sealed: &[u8]) -> Option<Vec<u8>> {
    let (sealed, nonce) = sealed.split_last_chunk::<NONCE_BYTES>()?;
    let mut bytes = sealed.to_vec();
    let opened = XChaCha20Poly1305::new(&Key::from(*key)).decrypt_in_place(
        &XNonce::from(*nonce),
        name.as_bytes(),
        &mut bytes,
    );
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
        let vault = Vault::new(Zeroizing::new([1; 32]));
        let wrapped = vault.wrap(call(1), &RecordKey::from_bytes([7; 32])).unwrap();
        assert_eq!(vault.unwrap(call(1), &wrapped).unwrap().expose(), &[7; 32]);
        assert!(vault.unwrap(call(2), &wrapped).is_none());
        assert!(Vault::new(Zeroizing::new([2; 32])).unwrap(call(1), &wrapped).is_none());
    }

    #[test]
    fn contents_come_back_and_show_every_flipped_byte() {
        let key = RecordKey::from_bytes([7; 32]);
        let contents: Vec<Content> = [b"one".as_slice(), b"", b"three"]
            .map(|bytes| Content { held: key.hold(bytes), bytes: bytes.to_vec() })
            .to_vec();
        let sealed = pack(&key, call(1), 4, &contents).unwrap();
        assert!(!sealed.windows(5).any(|window| window == b"three"));
        assert_eq!(unpack(&key, call(1), 4, &sealed).unwrap(), contents);
        assert!(unpack(&key, call(1), 5, &sealed).is_err(), "it belongs to another place");
        assert!(unpack(&key, call(2), 4, &sealed).is_err(), "it belongs to another call");
        for place in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[place] ^= 1;
            assert!(unpack(&key, call(1), 4, &flipped).is_err(), "byte {place}");
        }
    }
}
