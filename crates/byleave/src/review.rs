//! Reviewers: looks at arguments before a call, and at results after it (R1 to R4).

use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use byleave_core::outcome::Output;
use serde_json::Value;

use crate::pending::Pending;

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
#[error("{0}")]
pub struct ReviewFault(pub String);

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

/// Looks at arguments before a call.
pub trait InputReviewer: Send + Sync + 'static {
    /// Its name in the book.
    fn name(&self) -> &str;
    /// Whether the same arguments and effects always get the same opinion, so that it may be remembered (P9).
    fn cacheable(&self) -> bool {
        false
    }
    /// What it thinks.
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> Pending<'a, Result<Opinion<Value>, ReviewFault>>;
}

/// Looks at results before the model sees them.
pub trait OutputReviewer: Send + Sync + 'static {
    /// Its name in the book.
    fn name(&self) -> &str;
    /// What it thinks.
    fn review<'a>(&'a self, subject: OutputSubject<'a>) -> Pending<'a, Result<Opinion<Output>, ReviewFault>>;
}
