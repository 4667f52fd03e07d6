//! Drives: the gate between an AI agent and the world.

pub mod approve;
pub mod catalog;
pub mod challenge;
pub mod forms;
pub mod ledger;
pub mod pending;
pub mod review;
pub mod schema;
mod search;
pub mod tool;
pub mod tool_search;
pub mod typed;

pub use byleave_core as core;
