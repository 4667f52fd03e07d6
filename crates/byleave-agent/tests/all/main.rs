//! Tests of the public API of byleave-agent.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agent_fixture;
mod by_blocks;
mod calls;
mod cases;
mod deferred_tools;
mod delay;
mod dry_run;
mod fake;
mod guide;
mod hosted;
mod persona_arguments;
mod persona_files;
mod persona_prompts;
mod plain;
mod reasons;
mod requests;
mod secrets;
mod splits;
mod stage;
mod streams;
mod talks;
mod turns;
