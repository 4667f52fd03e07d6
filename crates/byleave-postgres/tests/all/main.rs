//! Tests of the public API of the Postgres audit log on a real server, in one binary.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod book;
mod forgetting;
mod killed;
mod lists;
mod sealing;
mod server;
mod story;
mod taking;
mod tampering;
