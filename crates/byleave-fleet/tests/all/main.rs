//! What the fleet shows from outside, on a real engine, in one binary.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod engine;
mod gate;
mod ledger;
