//! Drives: the gate between an AI agent and the world.
//!
//! Every call goes one way: call → plan → ruling → question → execution → book. [`gate::Gate`] is the one object an
//! application holds; [`tool::Tool`] is what it lets agents use; [`ledger::Ledger`] keeps the records.
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
//! assert_eq!(result.ending.word(), "refused");
//! assert!(result.error().is_some_and(|why| why.contains("no-approver")));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A result always comes back; there is no error beside it. What is missing for the call above to run is said in the refusal: an
//! [approver], a [rule](policy_files), or a word about the [tool](typed_tool::TypedTool::not_sensitive).
//!
//! # What you may bring
//!
//! | What | Made by | A whole program that is run with the tests |
//! |---|---|---|
//! | a tool | [`typed_tool::TypedTool`], or the trait [`tool::Tool`] | `examples/tool.rs` |
//! | a reviewer of arguments or results | closures of [`review`], or its traits | `examples/reviewer.rs` |
//! | somebody who is asked | [`approver::callback`], or the trait [`approver::Approver`] | `examples/approver.rs` |
//! | a layer of rules | [`core::policy`] and [`policy_files`] | `examples/policy_layer.rs` |
//! | the loop of an agent | [`gate::Gate::settle_all`] and [`provider_formats`] | `examples/agent.rs` |
//! | a store | the trait [`ledger::Ledger`], with [`ledger::conformance`] to prove it; [`audit_log::sqlite::SqliteLedger`] is there | |
//!
//! What breaks, hangs or panics in any of them refuses the call, and is never passed over.

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

/// The example in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
