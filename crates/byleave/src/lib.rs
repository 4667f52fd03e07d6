//! Drives: the gate between an AI agent and the world.

pub mod approve;
pub mod catalog;
pub mod challenge;
pub mod forms;
mod guard;
pub mod ledger;
pub mod pending;
pub mod redact;
pub mod review;
pub mod schema;
mod search;
pub mod reviewers;
pub mod secret;
pub mod signed;
pub mod tool;
pub mod tool_search;
pub mod typed;

pub use byleave_core as core;
