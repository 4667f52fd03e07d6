//! Analysis of shell commands: predicts the effects of a command text without running it.
//!
//! The crate is pure: it never runs, opens or looks up anything. It asks a [`shell_env::ShellEnv`] for facts about the machine. A
//! deny must see everything that a command could do, and an allow needs a proof. So anything that cannot be determined is reported
//! as unknown, with a reason. It is never left out.
//!
//! | module | purpose |
//! |---|---|
//! | `syntax` | parses text into a tree by the grammar of bash 5.2, line by line |
//! | [`interpreter`] | follows every branch of the tree; tracks variables, the directory and functions; expands words |
//! | [`commands`], [`word`] | the simple commands that a text would run, with what stayed unresolved; words and how certain they are |
//! | [`shell_env`] | the trait that answers questions about the machine |
//! | [`manual`] | the manuals in `manuals/*.toml`: options, operands and roles of programs |
//! | [`effects`] | turns commands into effects, including commands inside commands |
//! | `embedded_languages` | scans sed, awk and jq programs for reads, writes and commands |
//! | `analyze` | the entry point: text in, effects out |
//! | [`danger`] | commands that are never allowed silently (`manuals/dangers.toml`) |
//! | [`services`] | servers and watchers, which stay until they are stopped (`manuals/services.toml`) |
//! | `env_var_rules` | variables that are harmless to set, and variables that change what runs (`manuals/environment.toml`) |
//! | [`repository`] | repositories whose settings are plain files |
//! | `wildcard` | wildcards that programs match against names by themselves |
//! | `host` | the host and port in a URL or a similar argument |
//! | [`display_tree`], [`source_outline`] | how a command was read, for people; not used for decisions |

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
pub mod repository;
pub mod services;
pub mod shell_env;
pub mod source_outline;
mod syntax;
mod wildcard;
pub mod word;

pub use analyze::{analyze, analyze_with_tree};
pub use interpreter::parse_commands;
