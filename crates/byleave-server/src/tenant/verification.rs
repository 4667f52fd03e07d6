//! Checking the book: one check at a time, and what came of the last.

use std::sync::{Arc, PoisonError};

use byleave::audit_log::Verification;
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::call::Millis;
use byleave::ledger::LedgerError;

use super::Tenant;

/// What came of a check.
#[derive(Clone, Debug)]
pub(crate) struct VerificationResult {
    pub(crate) at: Millis,
    pub(crate) records: u64,
    /// The first place that is not as it was written.
    pub(crate) flaw: Option<String>,
}

/// Why there was no check.
#[derive(Debug)]
pub(crate) enum VerificationError {
    /// Another is under way.
    Busy,
    /// The book cannot be read.
    Fault(LedgerError),
    /// The task that checked it broke.
    Broke(String),
}

impl Tenant {
    /// Checks everything that is written.
    pub(crate) async fn check(self: Arc<Self>) -> Result<Verification, VerificationError> {
        let turn = Arc::clone(&self.reading_all).try_acquire_owned().map_err(|_| VerificationError::Busy)?;
        // On its own: a client that goes away and comes back does not have it checked twice at once.
        let checked = tokio::spawn(async move {
            let found = self.book.verify().await;
            if let Ok(found) = &found {
                let flaw = found.flaw.as_ref().map(ToString::to_string);
                let checked = VerificationResult { at: SystemClock.now(), records: found.records, flaw };
                *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = Some(checked);
            }
            drop(turn);
            found
        });
        checked
            .await
            .map_err(|broke| VerificationError::Broke(broke.to_string()))?
            .map_err(VerificationError::Fault)
    }

    /// What came of the last check, since the server began.
    pub(crate) fn checked(&self) -> Option<VerificationResult> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
