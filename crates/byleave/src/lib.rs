//! Drives: the gate between an AI agent and the world.
//!
//! Every call goes one way: call → plan → ruling → question → execution → book. [`gate::Gate`] is the one object an
//! application holds; [`tool::Tool`] is what it lets agents use; [`ledger::Ledger`] keeps the records.

pub mod approve;
pub mod book;
pub mod bound;
pub mod catalog;
pub mod challenge;
pub mod clock;
pub mod endpoint;
pub mod event;
pub mod examples;
pub mod forms;
pub mod gate;
mod guard;
pub mod ledger;
mod lock;
pub mod past;
pub mod patch;
pub mod path;
pub mod pending;
pub mod plan;
pub mod policy_files;
pub mod redact;
pub mod replay;
pub mod result;
pub mod review;
pub mod reviewers;
mod scene;
pub mod schema;
mod search;
pub mod secret;
pub mod settings;
pub mod signed;
pub mod stats;
pub mod tool;
pub mod tool_search;
pub mod trial;
pub mod typed;

pub use byleave_core as core;
pub use byleave_shell as shell;

/// The example in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
