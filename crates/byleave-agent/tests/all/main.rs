//! Tests of the agent's parts that look at them from outside.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod calls;
mod cases;
mod delay;
mod guide;
mod persona_arguments;
mod persona_files;
mod persona_prompts;
mod plain;
mod splits;
mod stage;
