//! A gate between AI agents and tools.
//!
//! Every call takes the same path: call → plan → decision → question → execution → audit log. An application holds one
//! [`gate::Gate`]. Agents use tools that implement [`tool::Tool`]. A [`ledger::Ledger`] stores the records.
//!
//! Applications use the crate `byleave`, which re-exports the parts of this crate that are a promise. The other crates of Byleave use
//! this one directly.
//!
//! # Modules
//!
//! | Module | Purpose |
//! |---|---|
//! | [`gate`] | The object that an application holds. Every call goes through it. |
//! | [`ledger`] | The trait of a store that appends entries, a ledger in memory. |
//! | [`audit_log`] | The trait of a store that lists, verifies, exports and forgets records, and the SQLite store. |
//! | [`tool`], [`typed_tool`] | The `Tool` trait; tools from a struct and an async function. |
//! | [`catalog`] | The registered tools. |
//! | [`schema`] | Validates arguments against JSON Schema, with bounds on everything. |
//! | [`tool_search`], `tool_ranking` | The tool that offers tool search to a model; finds tools by words. |
//! | [`plan`], [`patch`] | Effects from the permission class and argument roles; the files that a patch names. |
//! | [`plan_bindings`] | The files that a plan depends on, and whether they are unchanged. |
//! | [`path_resolution`], `local_shell_env` | Resolves a path to one file; this machine as the shell analyzer sees it. |
//! | [`policy_files`], [`rule_examples`] | Finds and merges policy files; checks the commands in rule examples. |
//! | [`policy_case`] | Evaluates a test case in a fictional environment. |
//! | [`recorded_calls`], [`replay`], [`stats`] | Past calls; past calls under another policy; statistics from records. |
//! | [`review`], [`builtin_reviewers`] | The reviewer traits, their registry and cache; the reviewers that come with the library. |
//! | [`approver`], [`challenge`] | The approver trait with callbacks, a terminal and a webhook; the challenger trait. |
//! | [`signed_http`], [`endpoint`] | Signed messages to a service and back; a URL that is posted to. |
//! | [`secret`], [`redact`] | A secret that cannot print itself; removes secrets from text by shape. |
//! | [`provider_formats`] | Tools and results in the formats of OpenAI, Anthropic, Gemini and MCP. |
//! | [`event`] | Entries and progress for subscribers. |
//! | [`result`], [`settings`] | The result for the caller; limits and choices of a gate. |
//! | `plugin_guard` | Runs foreign code with a time limit and catches panics. |
//! | [`clock`], [`boxed`] | Time and fresh ids; boxed futures. |

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod agent_report;
pub mod approver;
pub mod audit_log;
pub mod boxed;
pub mod builtin_reviewers;
pub mod catalog;
pub mod challenge;
pub mod clock;
#[cfg(feature = "webhooks")]
pub mod endpoint;
pub mod event;
pub mod gate;
mod hard_links;
pub mod ledger;
mod link_names;
mod local_shell_env;
pub mod patch;
pub mod path_resolution;
pub mod plan;
pub mod plan_bindings;
mod plugin_guard;
pub mod policy_case;
pub mod policy_files;
pub mod provider_formats;
pub mod recorded_calls;
pub mod redact;
pub mod replay;
pub mod result;
pub mod review;
pub mod rule_examples;
pub mod schema;
pub mod secret;
pub mod settings;
#[cfg(feature = "webhooks")]
pub mod signed_http;
pub mod stats;
pub mod tool;
mod tool_ranking;
pub mod tool_search;
pub mod typed_tool;

pub use byleave_core as core;
pub use byleave_shell as shell;
