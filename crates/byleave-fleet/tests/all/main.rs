//! What the fleet shows from outside, on a real engine, in one binary.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod book;
mod engine;
mod expiry;
mod gate;
mod ledger;
mod proofs;
mod remote;
mod unsigned;
