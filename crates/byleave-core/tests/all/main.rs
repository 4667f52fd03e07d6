//! Tests of the public API of byleave-core.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod account;
mod card;
mod delegation;
mod every_record;
mod format;
mod git_lend;
mod git_settings;
mod local_ports;
mod offers;
mod policy;
mod policy_file;
mod purity;
mod refusals;
mod render;
mod runs_later;
mod sending;
mod walk;
mod words;
