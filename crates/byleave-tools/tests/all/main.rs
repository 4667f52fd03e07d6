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
mod changing;
mod fatigue;
mod files;
mod hands;
mod hostile;
mod hostile_writers;
mod killed;
mod rehearsing;
#[path = "../../../byleave-sandbox/tests/all/user.rs"]
mod user;
mod world;
