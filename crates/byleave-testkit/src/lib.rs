//! Fixtures that the tests and benchmarks of several crates share.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "test fixtures"
)]

pub mod bench_page;
#[cfg(feature = "corpus")]
pub mod corpus;
pub mod fake_internet;
mod internet_tls;
pub mod machine;
pub mod oauth;
pub mod user;
