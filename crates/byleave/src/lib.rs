//! A gate between AI agents and tools.
//!
//! Every call takes the same path: call → plan → decision → question → execution → audit log. An application holds one
//! [`gate::Gate`]. Agents use tools that implement [`tool::Tool`]. A [`ledger::Ledger`] stores the records.
//!
//! ```
//! use byleave::clock::fresh_id;
//! use byleave::core::call::{Call, Mode};
//! use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
//! use byleave::gate::Gate;
//! use byleave::tool::RunContext;
//! use byleave::typed_tool::TypedTool;
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     /// Whom.
//!     name: String,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let greet = TypedTool::new("greet", "Greets somebody", |args: Greet, _run: RunContext| async move {
//!     Ok::<_, std::convert::Infallible>(format!("hello {}", args.name))
//! });
//! let gate = Gate::builder().tool(greet).build()?;
//! let call = Call {
//!     id: CallId::new(fresh_id()),
//!     tenant: TenantId::new("local")?,
//!     session: SessionId::new("docs")?,
//!     agent: AgentId::new("demo")?,
//!     tool: "greet".into(),
//!     arguments: json!({ "name": "Ann" }),
//!     reason: None,
//!     cwd: "/".into(),
//!     mode: Mode::ConfirmSensitive,
//!     dry_run: false,
//! };
//! let result = gate.settle(call).await;
//! // Nobody said that greeting is harmless, and nobody is there to ask.
//! assert_eq!(result.outcome.as_str(), "refused");
//! assert!(result.error().is_some_and(|why| why.contains("no-approver")));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The gate always returns a result and never a separate error. The refusal says what the call above needs before it can run: an
//! [approver], a [rule](policy_files), or a declaration by the [tool](typed_tool::TypedTool::not_sensitive).
//!
//! # Extension points
//!
//! | Extension | Made with | Complete program, run with the tests |
//! |---|---|---|
//! | a tool | [`typed_tool::TypedTool`], or the trait [`tool::Tool`] | `examples/tool.rs` |
//! | a reviewer of arguments or results | closures of [`review`], or its traits | `examples/reviewer.rs` |
//! | an approver | [`approver::callback`], or the trait [`approver::Approver`] | `examples/approver.rs` |
//! | a policy layer | [`core::policy`] and [`policy_files`] | `examples/policy_layer.rs` |
//! | the loop of an agent | [`gate::Gate::settle_all`] and [`provider_formats`] | `examples/agent.rs` |
//! | a store | the trait [`ledger::Ledger`], tested with [`ledger::conformance`]; [`audit_log::sqlite::SqliteLedger`] is included | |
//!
//! If an extension fails, hangs or panics, the gate refuses the call. It never skips the extension.
//!
//! # Modules
//!
//! | Module | Purpose |
//! |---|---|
//! | [`gate`] | The object that an application holds. Every call goes through it. |
//! | [`ledger`] | The trait of a store that appends entries, a ledger in memory, and the test suite of a ledger. |
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
//! | [`clock`], [`boxed`], `lock` | Time and fresh ids; boxed futures; locks that survive a panic. |

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod approver;
pub mod audit_log;
pub mod boxed;
pub mod builtin_reviewers;
pub mod catalog;
pub mod challenge;
pub mod clock;
pub mod endpoint;
pub mod event;
pub mod gate;
pub mod ledger;
mod local_shell_env;
mod lock;
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
pub mod signed_http;
pub mod stats;
pub mod tool;
mod tool_ranking;
pub mod tool_search;
pub mod typed_tool;

pub use byleave_core as core;
pub use byleave_shell as shell;

/// Compiles and runs the example of the README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
