//! Tests of the agent's parts that look at them from outside.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod by_blocks;
mod calls;
mod cases;
mod delay;
mod fake;
mod guide;
mod plain;
mod requests;
mod secrets;
mod splits;
mod stage;
mod streams;
mod turns;
