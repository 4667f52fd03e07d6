//! Tests of the public API of the library, in one binary.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

mod approve;
mod book;
mod catalog;
mod corpus;
mod earlier_data;
mod foreign_text;
mod forms;
mod gate;
mod invariants;
mod leaves;
mod ledger;
mod proofs;
mod review;
mod schema;
mod search;
mod service;
mod sqlite_book;
mod stats;
mod support;
mod terminal;
mod typed;
