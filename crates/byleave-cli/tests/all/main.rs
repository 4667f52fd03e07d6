//! The program as a user sees it: transcripts of the real binary, in one test binary.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

#[cfg(feature = "agent")]
mod acp;
mod answered_elsewhere;
mod approvals;
mod book;
mod calls;
#[cfg(feature = "agent")]
mod chat;
#[cfg(all(feature = "serve", feature = "fleet", feature = "agent"))]
mod commands;
mod config;
mod container;
mod desk;
#[cfg(any(feature = "serve", feature = "agent"))]
mod dice;
mod doctor;
#[cfg(all(feature = "serve", feature = "agent"))]
mod doors;
mod exam;
mod explain;
#[cfg(feature = "fleet")]
mod fleet;
mod guide;
mod hooks;
mod hostile_files;
mod inbox;
mod inbox_screen;
mod init;
mod killed;
mod learn;
mod leaves;
mod log_account;
mod mcp;
mod mcp_login;
#[cfg(feature = "serve")]
mod notices;
mod ordinary_session;
mod pictures;
mod places;
mod policy;
#[cfg(feature = "agent")]
mod provider;
mod rehearse;
#[cfg(feature = "agent")]
mod samples;
mod sandbox;
#[cfg(feature = "serve")]
mod scene;
mod scores;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod server_killed;
mod sessions;
mod shells;
mod sitting;
mod status;
#[cfg(all(feature = "serve", feature = "agent"))]
mod strict_json;
#[cfg(feature = "agent")]
mod task;
#[cfg(feature = "serve")]
mod telemetry;
mod terminal;
mod tools;
mod watching;
mod window;
#[cfg(feature = "serve")]
mod worker;
mod world;
