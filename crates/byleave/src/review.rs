//! Reviewers: looks at arguments before a call, and at results after it (R1 to R4).
//!
//! A reviewer is a trait object, or a closure wrapped by [`input`], [`output`] and their kin. [`Reviewers`] holds them and
//! runs them in order. Nothing here reads what the model wrote as anything but content, and a reviewer that breaks is
//! never skipped.

mod cache;
mod closure;
mod hold;
mod opinion;
mod registry;

use std::sync::Arc;

use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use byleave_core::outcome::Output;
use serde_json::Value;

use crate::boxed::BoxFuture;

pub use closure::{input, input_async, input_blocking, output, output_async, output_blocking};
pub use hold::{HoldReviewer, hold};
pub use opinion::IntoOpinion;
pub use registry::{ReviewResult, ReviewScope, Reviewers};

/// What a reviewer thinks of a value. A plain `bool` is a verdict, a plain value is a change (R2).
#[derive(Clone, Debug, PartialEq)]
pub enum Opinion<T> {
    /// Nothing to object.
    Pass,
    /// This in its place: all the arguments, or the whole result.
    Change {
        /// The new value.
        value: T,
        /// Why; the model is told.
        why: Option<String>,
    },
    /// A person should look at it.
    Hold {
        /// Why.
        why: Option<String>,
    },
    /// No.
    Deny {
        /// Why; the model is told.
        why: Option<String>,
    },
}

/// A reviewer could not do its work, which counts as an objection (R3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// It broke.
    #[error("{0}")]
    Failed(String),
    /// It answered something that makes no sense.
    #[error("{0}")]
    Nonsense(String),
}

/// A draft to be reviewed.
#[derive(Clone, Copy, Debug)]
pub struct InputSubject<'a> {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The arguments, valid against the schema.
    pub arguments: &'a Value,
    /// What they would do.
    pub plan: &'a Plan,
}

/// A result to be reviewed.
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
    /// The same, to keep.
    pub fn owned(&self) -> OwnedInput {
        OwnedInput {
            call: self.call,
            tool: self.tool.into(),
            arguments: Arc::new(self.arguments.clone()),
            plan: Arc::new(self.plan.clone()),
        }
    }
}

impl OutputSubject<'_> {
    /// The same, to keep.
    pub fn owned(&self) -> OwnedOutput {
        OwnedOutput {
            call: self.call,
            tool: self.tool.into(),
            arguments: Arc::new(self.arguments.clone()),
            output: Arc::new(self.output.clone()),
        }
    }
}

/// A draft to be reviewed, to keep; cheap to clone.
#[derive(Clone, Debug)]
pub struct OwnedInput {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The arguments, valid against the schema.
    pub arguments: Arc<Value>,
    /// What they would do.
    pub plan: Arc<Plan>,
}

impl OwnedInput {
    /// The same, to look at.
    pub fn subject(&self) -> InputSubject<'_> {
        InputSubject { call: self.call, tool: &self.tool, arguments: &self.arguments, plan: &self.plan }
    }
}

/// A result to be reviewed, to keep; cheap to clone.
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
    /// The same, to look at.
    pub fn subject(&self) -> OutputSubject<'_> {
        OutputSubject { call: self.call, tool: &self.tool, arguments: &self.arguments, output: &self.output }
    }
}

/// Looks at arguments before a call.
pub trait InputReviewer: Send + Sync + 'static {
    /// Its name in the book.
    fn name(&self) -> &str;
    /// Whether the same arguments and effects always get the same opinion, so that it may be remembered (P9).
    fn cacheable(&self) -> bool {
        false
    }
    /// What it thinks.
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>>;
}

/// Looks at results before the model sees them.
pub trait OutputReviewer: Send + Sync + 'static {
    /// Its name in the book.
    fn name(&self) -> &str;
    /// What it thinks.
    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>>;
}
