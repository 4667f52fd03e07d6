//! Sealing: contents and the note beside them, made small and sealed before anything leaves the process.
//!
//! The seal is that of every book ([`byleave_gate::audit_log::encryption`]), so what the engine gives up to the book is read there as it is. Only
//! what is under the seal is laid out more tightly: an open question should cost the engine less than a kilobyte. Whatever was not
//! written like this is changed, and never a shorter list.

use byleave_core::digest::{Digest, RecordKey};
use byleave_core::id::CallId;
use byleave_gate::audit_log::encryption::{self, KeyVault, UnpackedContents, VaultError};
use byleave_gate::ledger::{ContentError, RecordContent};
use byleave_postgres::Unsealer;
use zeroize::Zeroizing;

use crate::packing::{PackingFault, squeeze, unsqueeze};

/// Opens what the ledgers of a fleet have sealed under a master key: for whoever opens the book that it is given up to.
pub struct FleetUnsealer(KeyVault);

impl FleetUnsealer {
    /// With the master key of the ledger.
    pub const fn new(master: Zeroizing<[u8; 32]>) -> Self {
        Self(KeyVault::new(master))
    }
}

impl Unsealer for FleetUnsealer {
    fn fingerprint(&self) -> [u8; 32] {
        // Another than the vault's own: what lies under the seal is laid out otherwise.
        *Digest::compute_parts("byleave.fleet.book", &[&self.0.fingerprint()]).as_bytes()
    }

    fn key(&self, call: CallId, wrapped: &[u8]) -> Option<RecordKey> {
        self.0.unwrap(call, wrapped)
    }

    fn contents(
        &self,
        key: &RecordKey,
        call: CallId,
        seq: u32,
        sealed: &[u8],
    ) -> Result<UnpackedContents, ContentError> {
        unpack(key, call, seq, sealed)
    }
}

/// Something could not be sealed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealingFault {
    #[error("too large to seal")]
    TooLarge,
    #[error(transparent)]
    Packing(#[from] PackingFault),
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// Seals the contents that come with lines as one, with a note beside them.
pub(crate) fn pack(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    note: &str,
    contents: &[RecordContent],
) -> Result<Vec<u8>, SealingFault> {
    let mut plain = Vec::new();
    for bytes in std::iter::once(note.as_bytes()).chain(contents.iter().map(|content| &*content.bytes)) {
        let length = u32::try_from(bytes.len()).map_err(|_| SealingFault::TooLarge)?;
        plain.extend_from_slice(&length.to_le_bytes());
        plain.extend_from_slice(bytes);
    }
    Ok(encryption::encrypt_batch(key, call, seq, squeeze(&plain)?)?)
}

/// Opens what was packed for this place. What a content is called follows from what it is.
pub(crate) fn unpack(
    key: &RecordKey,
    call: CallId,
    seq: u32,
    sealed: &[u8],
) -> Result<UnpackedContents, ContentError> {
    let plain = encryption::decrypt_batch(key, call, seq, sealed)?;
    let plain = unsqueeze(&plain).map_err(|_| ContentError::Corrupted)?;
    let mut rest = plain.as_slice();
    let note = take(&mut rest)?.to_vec();
    let note = String::from_utf8(note).map_err(|_| ContentError::Corrupted)?;
    let mut contents = Vec::new();
    while !rest.is_empty() {
        let bytes = take(&mut rest)?;
        contents.push(RecordContent { content_ref: key.content_ref(bytes), bytes: bytes.to_vec() });
    }
    Ok(UnpackedContents { note, contents })
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ContentError> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or(ContentError::Corrupted)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| ContentError::Corrupted)?;
    let (bytes, after) = after.split_at_checked(length).ok_or(ContentError::Corrupted)?;
    *rest = after;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(n: u128) -> CallId {
        CallId::new(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn contents_come_back_and_show_every_flipped_byte() {
        let key = RecordKey::from_bytes([7; 32]);
        let contents: Vec<RecordContent> = [b"one".as_slice(), b"", b"three"]
            .map(|bytes| RecordContent { content_ref: key.content_ref(bytes), bytes: bytes.to_vec() })
            .to_vec();
        let sealed = pack(&key, call(1), 4, "does a thing", &contents).unwrap();
        assert!(!sealed.windows(5).any(|window| window == b"three"));
        let unpacked = unpack(&key, call(1), 4, &sealed).unwrap();
        assert_eq!(unpacked, UnpackedContents { note: "does a thing".into(), contents });
        assert!(unpack(&key, call(1), 5, &sealed).is_err(), "it belongs to another place");
        assert!(unpack(&key, call(2), 4, &sealed).is_err(), "it belongs to another call");
        for place in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[place] ^= 1;
            assert!(unpack(&key, call(1), 4, &flipped).is_err(), "byte {place}");
        }
    }
}
