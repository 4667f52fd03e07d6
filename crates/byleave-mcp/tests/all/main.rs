//! Tests of byleave-mcp: the gateway with real clients, servers as real processes, and the cases of the corpus.
#![expect(deprecated, reason = "clients and servers of the older protocol are tried too")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod calls;
mod corpus;
mod fixture;
mod hostile;
mod ladder;
mod near;
mod oauth;
mod passed_on;
mod servers;
mod stage;
mod upstream;
