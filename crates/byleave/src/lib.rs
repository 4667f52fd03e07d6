//! Drives: the gate between an AI agent and the world.

pub mod approve;
pub mod book;
pub mod challenge;
pub mod ledger;
pub mod pending;
pub mod review;
pub mod tool;

pub use byleave_core as core;
