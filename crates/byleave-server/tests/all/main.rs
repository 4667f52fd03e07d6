//! Tests of byleave-server: real sockets, a real book, and everything that somebody hostile would try.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::string_slice,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod abuse;
mod asking;
mod calls;
mod document;
mod events;
mod pressure;
mod stage;
mod tenants;
