//! Copies, from the outside: real overlays in a mount namespace, real files, real crashes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod committing;
mod crashing;
mod external;
mod faithful;
mod listing;
mod outputs;
mod place;
mod putting;
mod storing;
mod undoing;
