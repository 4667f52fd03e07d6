//! Reviewers of arguments before a call, and of results after it (R1 to R4).
//!
//! A reviewer is a trait object, or a closure wrapped by [`input_reviewer`], [`output_reviewer`] and related functions. [`Reviewers`] holds
//! them and runs them in order. The model's text must only be treated as content, and a reviewer that fails is never
//! skipped.

mod cache;
mod closure;
mod hold;
mod named;
mod opinion;
mod registry;
mod scope;

use std::sync::Arc;
use std::time::Duration;

use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use byleave_core::outcome::Output;
use serde_json::Value;

use crate::boxed::BoxFuture;

pub use closure::{
    input_reviewer, input_reviewer_async, input_reviewer_blocking, output_reviewer, output_reviewer_async,
    output_reviewer_blocking,
};
pub use hold::{HoldReviewer, hold_reviewer};
pub use named::NamedReviewer;
pub use opinion::IntoOpinion;
pub use registry::{ReviewResult, Reviewers};
pub use scope::ReviewScope;

/// The opinion of a reviewer. A plain `bool` is a verdict, a plain value is a change (R2).
#[derive(Clone, Debug, PartialEq)]
pub enum Opinion<T> {
    /// No objection.
    Pass,
    /// Replaces all the arguments, or the whole result.
    Change {
        /// The new value.
        value: T,
        /// The reason, which is shown to the model.
        reason: Option<String>,
    },
    /// A person must review it.
    Hold {
        /// The reason.
        reason: Option<String>,
    },
    /// Refuses it.
    Deny {
        /// The reason, which is shown to the model.
        reason: Option<String>,
    },
}

/// The error of a reviewer, which is treated as an objection (R3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The reviewer failed.
    #[error("{0}")]
    Failed(String),
    /// The reviewer returned an invalid answer.
    #[error("{0}")]
    InvalidResponse(String),
}

/// A draft to review.
#[derive(Clone, Copy, Debug)]
pub struct InputSubject<'a> {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The arguments, valid against the schema.
    pub arguments: &'a Value,
    /// The predicted effects.
    pub plan: &'a Plan,
}

/// A result to review.
#[derive(Clone, Copy, Debug)]
pub struct OutputSubject<'a> {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The arguments as used.
    pub arguments: &'a Value,
    /// The result.
    pub output: &'a Output,
}

impl InputSubject<'_> {
    /// Returns an owned copy.
    pub fn to_owned_input(&self) -> OwnedInput {
        OwnedInput {
            call: self.call,
            tool: self.tool.into(),
            arguments: Arc::new(self.arguments.clone()),
            plan: Arc::new(self.plan.clone()),
        }
    }
}

impl OutputSubject<'_> {
    /// Returns an owned copy.
    pub fn to_owned_output(&self) -> OwnedOutput {
        OwnedOutput {
            call: self.call,
            tool: self.tool.into(),
            arguments: Arc::new(self.arguments.clone()),
            output: Arc::new(self.output.clone()),
        }
    }
}

/// A draft to review, owned and cheap to clone.
#[derive(Clone, Debug)]
pub struct OwnedInput {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The arguments, valid against the schema.
    pub arguments: Arc<Value>,
    /// The predicted effects.
    pub plan: Arc<Plan>,
}

impl OwnedInput {
    /// Returns a borrowed view.
    pub fn as_subject(&self) -> InputSubject<'_> {
        InputSubject { call: self.call, tool: &self.tool, arguments: &self.arguments, plan: &self.plan }
    }
}

/// A result to review, owned and cheap to clone.
#[derive(Clone, Debug)]
pub struct OwnedOutput {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The arguments as used.
    pub arguments: Arc<Value>,
    /// The result.
    pub output: Arc<Output>,
}

impl OwnedOutput {
    /// Returns a borrowed view.
    pub fn as_subject(&self) -> OutputSubject<'_> {
        OutputSubject { call: self.call, tool: &self.tool, arguments: &self.arguments, output: &self.output }
    }
}

/// A reviewer of arguments before a call.
pub trait InputReviewer: Send + Sync + 'static {
    /// Returns its name in the audit log.
    fn name(&self) -> &str;
    /// Returns whether the same arguments and effects always get the same opinion, so that it may be cached (P9).
    fn is_cacheable(&self) -> bool {
        false
    }
    /// Returns how long a review may take, if that is not the limit of the gate.
    fn timeout(&self) -> Option<Duration> {
        None
    }
    /// Reviews a draft.
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>>;
}

/// A reviewer of results before the model sees them.
pub trait OutputReviewer: Send + Sync + 'static {
    /// Returns its name in the audit log.
    fn name(&self) -> &str;
    /// Returns how long a review may take, if that is not the limit of the gate.
    fn timeout(&self) -> Option<Duration> {
        None
    }
    /// Reviews a result.
    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>>;
}
