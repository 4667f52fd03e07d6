//! The ledger and the audit log in SQLite.

mod book;
mod counting;
mod ledger;
mod scribe;
mod sharing;
mod tampering;
