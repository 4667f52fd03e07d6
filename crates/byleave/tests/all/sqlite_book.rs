//! The ledger and the book in SQLite.

mod book;
mod ledger;
mod scribe;
mod sharing;
mod tampering;
