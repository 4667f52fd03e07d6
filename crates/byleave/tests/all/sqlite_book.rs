//! The ledger and the book in SQLite.

mod book;
mod counting;
mod ledger;
mod scribe;
mod sharing;
mod tampering;
