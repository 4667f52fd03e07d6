//! The tests of this crate from the outside.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

mod catalog;
mod forms;
mod schema;
mod search;
mod support;
mod typed;
