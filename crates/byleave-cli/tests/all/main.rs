//! The program as a person meets it: transcripts of the real binary, in one binary of ours.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

mod acp;
mod book;
mod calls;
mod chat;
mod commands;
mod config;
mod desk;
mod doctor;
mod exam;
mod explain;
mod fleet;
mod guide;
mod hooks;
mod inbox;
mod inbox_screen;
mod init;
mod killed;
mod learn;
mod leaves;
mod mcp;
mod mcp_login;
mod notices;
#[path = "../../../byleave-mcp/tests/all/oauth/fake.rs"]
mod oauth;
mod pictures;
mod policy;
mod provider;
mod rehearse;
mod samples;
mod sandbox;
mod scene;
mod scores;
mod serve;
mod server_killed;
mod sessions;
mod shells;
mod sitting;
mod task;
mod telemetry;
mod terminal;
mod tools;
#[path = "../../../byleave-sandbox/tests/all/user.rs"]
#[expect(dead_code, reason = "whoever is somebody else from the beginning does not begin again")]
mod user;
mod watching;
mod window;
mod worker;
mod world;
