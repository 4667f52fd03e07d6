//! The trait that decrypts keys and contents that were sealed elsewhere.

use byleave_core::digest::RecordKey;
use byleave_core::id::CallId;
use byleave_gate::audit_log::encryption::{self, KeyVault, UnpackedContents};
use byleave_gate::ledger::ContentError;

/// Decrypts keys and contents that other processes have sealed. It never gives away its master key.
pub trait Unsealer: Send + Sync + 'static {
    /// Returns a value that shows only whether an audit log belongs to this master key.
    fn fingerprint(&self) -> [u8; 32];

    /// Returns the key of a record, if these bytes were wrapped for it.
    fn key(&self, call: CallId, wrapped: &[u8]) -> Option<RecordKey>;

    /// Returns the contents that were sealed together for the entries from `seq` on, with the note beside them.
    fn contents(
        &self,
        key: &RecordKey,
        call: CallId,
        seq: u32,
        sealed: &[u8],
    ) -> Result<UnpackedContents, ContentError>;
}

impl Unsealer for KeyVault {
    fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint()
    }

    fn key(&self, call: CallId, wrapped: &[u8]) -> Option<RecordKey> {
        self.unwrap(call, wrapped)
    }

    fn contents(
        &self,
        key: &RecordKey,
        call: CallId,
        seq: u32,
        sealed: &[u8],
    ) -> Result<UnpackedContents, ContentError> {
        encryption::unpack(key, call, seq, sealed)
    }
}
