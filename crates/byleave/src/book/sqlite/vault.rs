//! The vault: contents encrypted under their record's key, and record keys wrapped by the book's master key.
//!
//! Destroying the wrapped key forgets the contents. Nothing here may write a key or a content in the clear.

use byleave_core::digest::{Digest, RecordKey};
use byleave_core::id::CallId;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::ledger::{Content, ContentFault};

/// How many bytes a wrapped key has: nonce, key, tag.
pub(super) const WRAPPED_BYTES: usize = NONCE_BYTES + 32 + TAG_BYTES;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const CONTENT: u8 = 1;
const NOTE: u8 = 2;

/// Wraps and unwraps the keys of records.
pub(super) struct Vault {
    master: Zeroizing<[u8; 32]>,
}

/// Something could not be encrypted: there are no random numbers, or it is too large.
#[derive(Debug, thiserror::Error)]
pub(super) enum VaultFault {
    #[error("no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("too large to encrypt")]
    TooLarge,
}

impl Vault {
    pub(super) const fn new(master: Zeroizing<[u8; 32]>) -> Self {
        Self { master }
    }

    /// A value that tells whether a book belongs to this vault, and nothing more.
    pub(super) fn mark(&self) -> [u8; 32] {
        blake3::keyed_hash(&self.master, b"byleave.book").into()
    }

    pub(super) fn wrap(&self, call: CallId, key: &RecordKey) -> Result<Vec<u8>, VaultFault> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)?;
        let mut wrapped = Vec::with_capacity(WRAPPED_BYTES);
        wrapped.extend_from_slice(&nonce);
        wrapped.extend(seal(&self.master, &nonce, &key_name(call), key.expose())?);
        Ok(wrapped)
    }

    /// The key, if these bytes are what [`Vault::wrap`] made for this call.
    pub(super) fn unwrap(&self, call: CallId, wrapped: &[u8]) -> Option<RecordKey> {
        let (nonce, sealed) = wrapped.split_first_chunk::<NONCE_BYTES>()?;
        let bytes = Zeroizing::new(open(&self.master, nonce, &key_name(call), sealed)?);
        <[u8; 32]>::try_from(bytes.as_slice()).ok().map(RecordKey::from_bytes)
    }
}

/// Whether this is what stands in place of a key that was destroyed.
pub(super) fn is_destroyed(wrapped: &[u8]) -> bool {
    wrapped.iter().all(|byte| *byte == 0)
}

/// Encrypts the contents of one batch, and a note beside them.
pub(super) fn pack(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    note: &str,
    contents: &[Content],
) -> Result<Vec<u8>, VaultFault> {
    let sizes: usize = contents.iter().map(|content| content.bytes.len() + ITEM_BYTES).sum();
    let mut packed = Vec::with_capacity(sizes + note.len() + ITEM_BYTES);
    let under = content_key(key);
    let mut nonces = Zeroizing::new(vec![0; NONCE_BYTES * (contents.len() + 1)]);
    getrandom::fill(&mut nonces)?;
    let (nonces, _) = nonces.as_chunks::<NONCE_BYTES>();
    let mut nonces = nonces.iter();
    let mut put = |tag: u8, digest: &Digest, name: &[u8], bytes: &[u8]| {
        let nonce = nonces.next().ok_or(VaultFault::TooLarge)?;
        let sealed = seal(&under, nonce, name, bytes)?;
        packed.push(tag);
        packed.extend_from_slice(digest.as_bytes());
        packed
            .extend_from_slice(&u32::try_from(sealed.len()).map_err(|_| VaultFault::TooLarge)?.to_le_bytes());
        packed.extend_from_slice(nonce);
        packed.extend_from_slice(&sealed);
        Ok::<(), VaultFault>(())
    };
    let digests = contents.iter().map(|content| content.held.digest);
    put(NOTE, &Digest::from_bytes([0; 32]), &note_name(call, seq, digests), note.as_bytes())?;
    for content in contents {
        put(CONTENT, &content.held.digest, &content_name(call, &content.held.digest), &content.bytes)?;
    }
    Ok(packed)
}

const ITEM_BYTES: usize = 1 + 32 + 4 + NONCE_BYTES + TAG_BYTES;

/// One encrypted item of a batch.
pub(super) struct Item<'a> {
    tag: u8,
    digest: Digest,
    nonce: &'a [u8; NONCE_BYTES],
    sealed: &'a [u8],
}

/// The items of a batch are cut off or run over.
#[derive(Debug)]
pub(super) struct Malformed;

/// Takes the encrypted items of a batch apart.
pub(super) fn items(mut packed: &[u8]) -> Result<Vec<Item<'_>>, Malformed> {
    let mut items = Vec::new();
    while !packed.is_empty() {
        let (item, rest) = item(packed).ok_or(Malformed)?;
        items.push(item);
        packed = rest;
    }
    Ok(items)
}

fn item(packed: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (tag, rest) = packed.split_first()?;
    let (digest, rest) = rest.split_first_chunk::<32>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let (sealed, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((Item { tag: *tag, digest: Digest::from_bytes(*digest), nonce, sealed }, rest))
}

impl Item<'_> {
    pub(super) fn is_content(&self) -> bool {
        self.tag == CONTENT
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// Decrypts a content, and holds it against its digest.
    pub(super) fn content(&self, key: &RecordKey, call: CallId) -> Result<Content, ContentFault> {
        let bytes = open(&content_key(key), self.nonce, &content_name(call, &self.digest), self.sealed)
            .ok_or(ContentFault::Changed)?;
        let held = key.hold(&bytes);
        if held.digest != self.digest {
            return Err(ContentFault::Changed);
        }
        Ok(Content { held, bytes })
    }
}

/// Decrypts the note of a batch. It opens only with just the contents beside it that were packed with it.
pub(super) fn note(
    items: &[Item<'_>],
    key: &RecordKey,
    call: CallId,
    seq: u32,
) -> Result<String, ContentFault> {
    let (note, contents) = items.split_first().ok_or(ContentFault::Missing)?;
    if note.tag != NOTE || note.digest != Digest::from_bytes([0; 32]) {
        return Err(ContentFault::Changed);
    }
    let name = note_name(call, seq, contents.iter().map(|item| item.digest));
    let bytes = open(&content_key(key), note.nonce, &name, note.sealed);
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(ContentFault::Changed)
}

/// The record's key also keys digests; encryption gets one of its own.
fn content_key(key: &RecordKey) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(blake3::derive_key("byleave 2025 contents of a record", key.expose()))
}

fn key_name(call: CallId) -> Vec<u8> {
    [b"key".as_slice(), call.as_bytes()].concat()
}

fn content_name(call: CallId, digest: &Digest) -> Vec<u8> {
    [b"content".as_slice(), call.as_bytes(), digest.as_bytes()].concat()
}

fn note_name(call: CallId, seq: u32, contents: impl Iterator<Item = Digest>) -> Vec<u8> {
    let mut name = [b"note".as_slice(), call.as_bytes(), &seq.to_le_bytes()].concat();
    for digest in contents {
        name.extend_from_slice(digest.as_bytes());
    }
    name
}

fn seal(key: &[u8; 32], nonce: &[u8; NONCE_BYTES], name: &[u8], plain: &[u8]) -> Result<Vec<u8>, VaultFault> {
    XChaCha20Poly1305::new(&Key::from(*key))
        .encrypt(&XNonce::from(*nonce), Payload { msg: plain, aad: name })
        .map_err(|_| VaultFault::TooLarge)
}

fn open(key: &[u8; 32], nonce: &[u8; NONCE_BYTES], name: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    XChaCha20Poly1305::new(&Key::from(*key))
        .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: name })
        .ok()
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
        assert_eq!(wrapped.len(), WRAPPED_BYTES);
        assert_eq!(vault.unwrap(call(1), &wrapped).unwrap().expose(), &[7; 32]);
        assert!(vault.unwrap(call(2), &wrapped).is_none());
        assert!(Vault::new(Zeroizing::new([2; 32])).unwrap(call(1), &wrapped).is_none());
        assert!(vault.unwrap(call(1), &[0; WRAPPED_BYTES]).is_none());
    }

    #[test]
    fn contents_come_back_and_show_every_flipped_byte() {
        let key = RecordKey::from_bytes([7; 32]);
        let contents: Vec<Content> = [b"one".as_slice(), b"", b"three"]
            .map(|bytes| Content { held: key.hold(bytes), bytes: bytes.to_vec() })
            .to_vec();
        let packed = pack(&key, call(1), 4, "does a thing", &contents).unwrap();
        let read = |packed: &[u8]| -> Option<(String, Vec<Content>)> {
            let items = items(packed).ok()?;
            let note = note(&items, &key, call(1), 4).ok()?;
            let rest = items.get(1..)?;
            let whole =
                rest.iter().map(|item| item.content(&key, call(1)).ok().filter(|_| item.is_content()));
            Some((note, whole.collect::<Option<_>>()?))
        };
        assert_eq!(read(&packed), Some(("does a thing".to_owned(), contents)));
        for place in 0..packed.len() {
            let mut flipped = packed.clone();
            flipped[place] ^= 1;
            assert_eq!(read(&flipped), None, "byte {place}");
        }
        let second = ITEM_BYTES + "does a thing".len()..2 * ITEM_BYTES + "does a thing".len() + 3;
        let without: Vec<u8> = [&packed[..second.start], &packed[second.end..]].concat();
        assert!(items(&without).is_ok());
        assert_eq!(read(&without), None, "a content was taken out");
        assert!(!packed.windows(5).any(|window| window == b"three"));
    }
}
