//! The built-in tools on a real gate, in a real sandbox, on real copies.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod attacks;
mod attacks_later;
mod attacks_listing;
mod attacks_network;
mod attacks_secrets;
mod bare;
mod fatigue;
mod files;
mod hostile;
mod hostile_searching;
mod ignoring;
mod rehearsing;
mod searching;
#[path = "../../../byleave-sandbox/tests/all/user.rs"]
mod user;
mod world;
