//! What the library shows from outside, in one binary.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod gate;
mod ledger;
