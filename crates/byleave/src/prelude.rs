//! The names that most programs need.
//!
//! `Deserialize` and `JsonSchema` are derived for the arguments of a tool. The derived code names the crates `serde` and `schemars`,
//! so your program needs them as dependencies.

pub use schemars::JsonSchema;
pub use serde::Deserialize;
pub use serde_json::{Value, json};

#[cfg(feature = "local")]
pub use crate::LocalGate;
pub use crate::approver::Reply;
pub use crate::{
    Approver, AuditLog, CallOutcome, CallResult, Code, Effect, Error, Gate, Ledger, Mode, Plan, Policy,
    QuestionView, RunContext, Session, Tool, TypedTool, Verdict,
};
