//! Proofs on an engine of their own, which they may kill: everything killed at random moments.
//!
//! Each has a short form that runs with the other tests; `BYLEAVE_PROOF=long` (`scripts/prove`) is the long one.

mod book_away;
mod fleet;
mod kills;
mod postgres;
mod upgrade;
pub(crate) mod worker;

pub(crate) fn long() -> bool {
    std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "long")
}
