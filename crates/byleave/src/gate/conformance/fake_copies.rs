//! What is on the copies of a stage, and what was done with them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use byleave_core::id::CallId;

use crate::lock::locked;

/// The copies of a stage: they outlive the gates, as those on a disk do.
#[derive(Clone, Default)]
pub(super) struct TestCopies(Arc<Mutex<TestCopiesState>>);

/// What there is of them.
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
    pub(super) fn kept(&self) -> MutexGuard<'_, TestCopiesState> {
        locked(&self.0)
    }

    /// How often something was rehearsed, committed and executed without.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let kept = self.kept();
        (kept.rehearsed, kept.committed, kept.executed)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.kept().copies.len()
    }

    /// Drops all of them.
    pub(super) fn forget(&self) {
        self.kept().copies.clear();
    }

    /// The effects that runs without a copy were granted.
    pub(super) fn granted(&self) -> Vec<String> {
        self.kept().granted.clone()
    }
}
