//! The copies of a scenario in memory, with counts of their uses.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use byleave_core::id::CallId;
use parking_lot::{Mutex, MutexGuard};

/// The copies of a scenario. They outlive the gates, as copies on disk do.
#[derive(Clone, Default)]
pub(super) struct TestCopies(Arc<Mutex<TestCopiesState>>);

/// The state of the copies.
#[derive(Default)]
pub(super) struct TestCopiesState {
    pub(super) copies: HashMap<CallId, Vec<(String, String)>>,
    pub(super) done: HashSet<CallId>,
    pub(super) rehearsed: usize,
    pub(super) committed: usize,
    pub(super) executed: usize,
    pub(super) granted: Vec<String>,
}

impl TestCopies {
    pub(super) fn inner(&self) -> MutexGuard<'_, TestCopiesState> {
        self.0.lock()
    }

    /// Returns the numbers of rehearsals, of commits and of executions without a copy.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let kept = self.inner();
        (kept.rehearsed, kept.committed, kept.executed)
    }

    /// Returns the number of copies.
    pub(super) fn count(&self) -> usize {
        self.inner().copies.len()
    }

    /// Drops all copies.
    pub(super) fn forget(&self) {
        self.inner().copies.clear();
    }

    /// Returns the effects that were granted to runs without a copy.
    pub(super) fn granted(&self) -> Vec<String> {
        self.inner().granted.clone()
    }
}
