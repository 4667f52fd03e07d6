//! The state of the ledger when a call arrived, so that a typical call needs only one lookup.
//!
//! A snapshot is valid for a moment, and only while this process writes nothing that other calls must see. Older state is read
//! again. A snapshot must never replace the checks that the ledger makes when an attempt begins.

use std::time::{Duration, Instant};

use crate::ledger::SessionContext;

/// The validity of a snapshot. It is hardly longer than the usual delay between an answer of the ledger and its use.
const MAX_AGE: Duration = Duration::from_millis(2);

/// The state of the ledger a moment ago.
#[derive(Debug)]
pub(crate) struct LedgerSnapshot {
    /// The state.
    pub(crate) session_context: SessionContext,
    /// The time of the lookup.
    pub(crate) at: Instant,
    /// The write count of this process at that time.
    pub(crate) epoch: u64,
}

impl LedgerSnapshot {
    /// Returns whether the snapshot is still valid.
    pub(crate) fn is_fresh(&self, stirs: u64) -> bool {
        self.epoch == stirs && self.at.elapsed() < MAX_AGE
    }
}
