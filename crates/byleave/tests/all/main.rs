//! What the library shows from outside, in one binary.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

mod catalog;
mod forms;
mod gate;
mod ledger;
mod schema;
mod search;
mod sqlite_book;
mod support;
mod typed;
