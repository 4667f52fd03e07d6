//! Tests of byleave-server: real sockets, a real audit log, and hostile requests of many kinds.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod abuse;
mod asking;
mod calls;
mod document;
mod events;
mod full_inbox;
mod own_tools;
mod pages;
mod pressure;
mod stage;
mod tenants;
mod webhooks;
