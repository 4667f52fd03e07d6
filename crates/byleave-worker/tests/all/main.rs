//! Tests of byleave-worker: the whole suites of ledgers and gates over a wire, and everything that can happen to the wire.
#![expect(clippy::unwrap_used, reason = "tests")]

mod breaking;
mod gate;
mod ledger;
mod rights;
mod socket;
mod stage;
