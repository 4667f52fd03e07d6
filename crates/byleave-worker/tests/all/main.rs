//! Tests of byleave-worker: the whole suites for ledgers and gates over a connection, and every failure of the connection.
#![expect(clippy::unwrap_used, reason = "tests")]

mod breaking;
mod gate;
mod ledger;
mod rights;
mod socket;
mod stage;
