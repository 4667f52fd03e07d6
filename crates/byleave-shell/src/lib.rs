//! Reading shell: what would a command do?
//!
//! Command text goes in, effects come out. Pure: nothing here runs, opens or looks up anything; what must be known of the
//! world is asked of a [`shell_env::ShellEnv`]. Deny must see everything that a command could be, and allow needs a proof, so what
//! cannot be told is said to be unknown, with a reason. It is never left out.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod analyze;
pub mod commands;
pub mod danger;
pub mod display_tree;
pub mod effects;
mod embedded_languages;
mod env_var_rules;
mod host;
pub mod interpreter;
pub mod manual;
pub mod shell_env;
pub mod source_outline;
mod syntax;
pub mod word;

pub use analyze::{tell, tell_in_full};
pub use interpreter::read;
