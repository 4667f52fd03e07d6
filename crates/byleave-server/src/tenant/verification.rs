//! Verifies the audit log, one run at a time, and keeps the last result.

use std::sync::Arc;

use byleave_gate::audit_log::Verification;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::call::Millis;
use byleave_gate::ledger::LedgerError;

use super::Tenant;

/// The result of a verification.
#[derive(Clone, Debug)]
pub(crate) struct VerificationResult {
    pub(crate) checked_at: Millis,
    pub(crate) records: u64,
    /// The first position with an error.
    pub(crate) integrity_error: Option<String>,
}

/// The reason why there was no verification.
#[derive(Debug)]
pub(crate) enum VerificationError {
    /// Another one is running.
    Busy,
    /// The audit log cannot be read.
    Ledger(LedgerError),
    /// The task that verified it failed.
    TaskFailed(String),
}

impl Tenant {
    /// Verifies the whole audit log.
    pub(crate) async fn verify(self: Arc<Self>) -> Result<Verification, VerificationError> {
        let turn =
            Arc::clone(&self.full_read_permit).try_acquire_owned().map_err(|_| VerificationError::Busy)?;
        // In a task of its own, so that a client that disconnects and retries does not start a second one.
        let checked = tokio::spawn(async move {
            let found = self.audit_log.verify().await;
            if let Ok(found) = &found {
                let flaw = found.integrity_error.as_ref().map(ToString::to_string);
                let checked = VerificationResult {
                    checked_at: SystemClock.now(),
                    records: found.records,
                    integrity_error: flaw,
                };
                *self.checked.lock() = Some(checked);
            }
            drop(turn);
            found
        });
        checked
            .await
            .map_err(|broke| VerificationError::TaskFailed(broke.to_string()))?
            .map_err(VerificationError::Ledger)
    }

    /// Returns the result of the last verification since the server started.
    pub(crate) fn last_verification(&self) -> Option<VerificationResult> {
        self.checked.lock().clone()
    }
}
