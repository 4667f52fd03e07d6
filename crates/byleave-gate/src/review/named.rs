//! A reviewer under a name of the operator's choice.

use std::time::Duration;

use byleave_core::outcome::Output;
use serde_json::Value;

use super::{InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewError};
use crate::boxed::BoxFuture;

/// A reviewer with another name, and if set with another time limit.
#[derive(Clone, Debug)]
pub struct NamedReviewer<R> {
    name: String,
    timeout: Option<Duration>,
    reviewer: R,
}

impl<R> NamedReviewer<R> {
    /// Gives a reviewer this name in the audit log.
    pub fn new(name: impl Into<String>, reviewer: R) -> Self {
        Self { name: name.into(), timeout: None, reviewer }
    }

    /// Sets how long a review may take, in place of the limit of the gate.
    #[must_use]
    pub const fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
}

impl<R: InputReviewer> InputReviewer for NamedReviewer<R> {
    fn name(&self) -> &str {
        &self.name
    }
    fn is_cacheable(&self) -> bool {
        self.reviewer.is_cacheable()
    }
    fn timeout(&self) -> Option<Duration> {
        self.timeout.or_else(|| self.reviewer.timeout())
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        self.reviewer.review(subject)
    }
}

impl<R: OutputReviewer> OutputReviewer for NamedReviewer<R> {
    fn name(&self) -> &str {
        &self.name
    }
    fn timeout(&self) -> Option<Duration> {
        self.timeout.or_else(|| self.reviewer.timeout())
    }
    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        self.reviewer.review(subject)
    }
}
