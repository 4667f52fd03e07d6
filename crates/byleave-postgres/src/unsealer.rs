//! Unsealer: opens what was sealed before it came here.

use byleave::audit_log::encryption::{self, KeyVault, UnpackedContents};
use byleave::ledger::ContentError;
use byleave_core::digest::RecordKey;
use byleave_core::id::CallId;

/// Opens keys and contents that others have sealed. The master key is its own, and goes nowhere.
pub trait Unsealer: Send + Sync + 'static {
    /// A value that tells whether a book belongs to this master key, and nothing more.
    fn mark(&self) -> [u8; 32];

    /// The key of a record, if these bytes are what was wrapped for it.
    fn key(&self, call: CallId, wrapped: &[u8]) -> Option<RecordKey>;

    /// What was sealed together for the lines from `seq` on, with the note beside it.
    fn contents(
        &self,
        key: &RecordKey,
        call: CallId,
        seq: u32,
        sealed: &[u8],
    ) -> Result<UnpackedContents, ContentError>;
}

impl Unsealer for KeyVault {
    fn mark(&self) -> [u8; 32] {
        self.mark()
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
