//! What stood in the ledger when a call came in, so that the usual call looks there once.
//!
//! It counts for a moment only, and only as long as nothing was written in this process that others must see. Whatever
//! is older is read again; it must never stand in for the checks that the ledger makes when an attempt begins.

use std::time::{Duration, Instant};

use crate::ledger::SessionContext;

/// So long what was told counts as now: hardly longer than what passes anyway between an answer and what is done upon it.
const FRESH: Duration = Duration::from_millis(2);

/// What stood in the ledger a moment ago.
#[derive(Debug)]
pub(crate) struct LedgerSnapshot {
    /// What it was.
    pub(crate) around: SessionContext,
    /// When the ledger told it.
    pub(crate) at: Instant,
    /// How often this process had written then.
    pub(crate) stirs: u64,
}

impl LedgerSnapshot {
    /// Whether it still counts.
    pub(crate) fn is_fresh(&self, stirs: u64) -> bool {
        self.stirs == stirs && self.at.elapsed() < FRESH
    }
}
