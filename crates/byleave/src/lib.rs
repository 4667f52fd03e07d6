//! Drives: the gate between an AI agent and the world.
//!
//! Every call goes one way: call → plan → ruling → question → execution → book. [`gate::Gate`] is the one object an
//! application holds; [`tool::Tool`] is what it lets agents use; [`ledger::Ledger`] keeps the records.

pub mod approve;
mod ask;
mod begin;
pub mod book;
pub mod catalog;
pub mod challenge;
pub mod clock;
mod desk;
mod drive;
pub mod event;
mod execute;
pub mod forms;
pub mod gate;
mod guard;
pub mod ledger;
mod parts;
pub mod pending;
mod perform;
pub mod plan;
pub mod redact;
mod report;
pub mod result;
pub mod review;
pub mod reviewers;
mod schedule;
pub mod schema;
mod search;
pub mod secret;
pub mod settings;
pub mod signed;
mod telemetry;
pub mod tool;
pub mod tool_search;
pub mod typed;

pub use byleave_core as core;

/// The example in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
