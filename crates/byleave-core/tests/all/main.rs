//! Tests of core that look at it from outside.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod every_record;
mod policy;
mod purity;
mod refusals;
mod render;
mod walk;
mod words;
