//! A policy gate for AI agents.
//!
//! Byleave works out what a tool call would do, checks the effects against a policy, asks a person when needed, runs the call once, and
//! records every step in a tamper-evident audit log.
//!
//! ```
//! use byleave::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Greet {
//!     /// Name of the person.
//!     name: String,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let greet = TypedTool::new("greet", "Greets somebody", |args: Greet, _run: RunContext| async move {
//!     Ok::<_, std::convert::Infallible>(format!("hello {}", args.name))
//! });
//! let gate = Gate::builder().tool(greet).build()?;
//! let result = gate.session("docs").call("greet", json!({ "name": "Ann" })).await;
//! // The tool does not declare that it is harmless, and there is no approver to ask.
//! assert_eq!(result.code(), Some(Code::NoApprover));
//! # Ok::<_, Error>(())
//! # })?;
//! # Ok::<_, Error>(())
//! ```
//!
//! A call never returns an error instead of a result. A refusal is a result with a [`Code`], and each code has a page in the manual.
//! If a tool, an approver or a reviewer fails, hangs or panics, the gate refuses the call. It never skips the extension.
//!
//! # Start here
//!
//! | You want | Use | Complete program, run with the tests |
//! |---|---|---|
//! | a tool | [`TypedTool`], or the trait [`Tool`] | `examples/tool.rs` |
//! | a shell in the sandbox, with undo | `Gate::local` (feature `local`) | `examples/sandboxed_shell.rs` |
//! | the loop of an agent | [`Session::call_all`] and [`tool::result_json`] | `examples/agent.rs` |
//! | an approver | [`GateBuilder::approve_with`], or the trait [`Approver`] | `examples/approver.rs` |
//! | rules of your own | [`policy`] | `examples/policy_layer.rs` |
//! | a reviewer of arguments or results | the functions of [`review`], or its traits | `examples/reviewer.rs` |
//! | a store | the traits [`Ledger`] and [`AuditLog`], tested with the feature `conformance` | |
//!
//! # Features
//!
//! | Feature | Adds |
//! |---|---|
//! | `sqlite` (default) | the SQLite audit log |
//! | `local` | `Gate::local`: the built-in tools, the sandbox and the SQLite audit log |
//! | `webhooks` | approvers and reviewers over HTTP |
//! | `terminal` | an approver that asks at the terminal |
//! | `conformance` | the conformance suites for ledgers and audit logs |
//!
//! This crate is the promise to applications. The crates beneath it, such as `byleave-gate` and `byleave-core`, are its parts, and
//! change without notice.

pub mod approver;
pub mod audit_log;
pub mod ledger;
pub mod policy;
pub mod prelude;
pub mod review;
pub mod tool;

#[cfg(feature = "local")]
mod local;

pub use byleave_core::call::{Call, Mode};
pub use byleave_core::effect::{Effect, Plan};
pub use byleave_core::id::{AgentId, CallId, InvalidNameError, SessionId, TenantId};
pub use byleave_core::refusal::{Code, FailureCause, Refusal};
pub use byleave_gate::event::{CallEvents, GateEvent};
pub use byleave_gate::gate::{BuildError, Explanation, Gate, GateBuilder, OpenSessionError, Session};
pub use byleave_gate::result::{CallOutcome, CallResult, CallStatus, Modification, ModifiedPart, Receipt};
pub use byleave_gate::settings::{GateSettings, UnattendedAction};

#[cfg(feature = "conformance")]
pub use byleave_conformance as conformance;

pub use self::approver::{Approver, QuestionView};
pub use self::audit_log::AuditLog;
pub use self::ledger::Ledger;
#[cfg(feature = "local")]
pub use self::local::{LocalGate, LocalGateBuilder, LocalGateError};
pub use self::policy::{Policy, Verdict};
pub use self::tool::{RunContext, Tool, TypedTool};

/// The error of a program that uses this crate. Any error converts to it with `?`.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A result with any error, for `main` and for examples.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Compiles and runs the example of the README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
