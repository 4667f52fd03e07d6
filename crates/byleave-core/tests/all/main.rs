//! Tests of core that look at it from outside.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod delegation;
mod every_record;
mod offers;
mod policy;
mod policy_file;
mod purity;
mod refusals;
mod render;
mod walk;
mod words;
