//! Drives: the gate between an AI agent and the world.

pub mod approve;
pub mod challenge;
mod guard;
pub mod ledger;
pub mod pending;
pub mod redact;
pub mod review;
pub mod reviewers;
pub mod secret;
pub mod signed;
pub mod tool;

pub use byleave_core as core;
