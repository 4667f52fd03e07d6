//! Proofs with real processes on a real audit log: killed at random moments, with very many open questions, and
//! two at once.
//!
//! Each has a short form that runs with the other tests; `BYLEAVE_PROOF=long` (`scripts/prove`) is the long one.

mod crash;
mod two_processes;
mod waiting;
mod worker;

pub(crate) fn long() -> bool {
    std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "long")
}
