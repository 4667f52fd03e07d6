//! What users of the library could notice.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests say what they expect"
)]

mod approve;
mod review;
mod service;
mod terminal;
