//! Tests of the agent's parts that look at them from outside.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod calls;
mod cases;
mod delay;
mod guide;
mod plain;
mod splits;
mod stage;
