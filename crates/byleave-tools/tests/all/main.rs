//! The built-in tools on a real gate, in a real sandbox, on real copies.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

mod fatigue;
mod rehearsing;
#[path = "../../../byleave-sandbox/tests/all/user.rs"]
mod user;
mod world;
