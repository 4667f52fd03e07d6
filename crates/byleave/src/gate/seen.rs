//! What stood in the ledger when a call came in, so that the usual call looks there once.
//!
//! It counts for a moment only, and only as long as nothing was written in this process that others must see. Whatever
//! is older is read again; it must never stand in for the checks that the ledger makes when an attempt begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_core::act::Act;
use byleave_core::leave::Leave;

/// So long what was seen counts as now. Less than what passes anyway between a look and what is done upon it.
const FRESH: Duration = Duration::from_millis(2);

/// What stood in the ledger a moment ago.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The leaves in force for the call's tool.
    pub(crate) leaves: Vec<Arc<Leave>>,
    /// The halt in force.
    pub(crate) halt: Option<Act>,
    /// Whether anyone in the session could hold it up.
    pub(crate) is_crowded: bool,
    /// When it was looked.
    pub(crate) at: Instant,
    /// How often this process had written then.
    pub(crate) stirs: u64,
}

impl Seen {
    /// Whether it still counts.
    pub(crate) fn is_fresh(&self, stirs: u64) -> bool {
        self.stirs == stirs && self.at.elapsed() < FRESH
    }
}
