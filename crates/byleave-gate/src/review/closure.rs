//! Reviewers made from closures: immediate, asynchronous and blocking.

use std::sync::Arc;

use byleave_core::outcome::Output;
use serde_json::Value;

use super::{
    InputReviewer, InputSubject, IntoOpinion, Opinion, OutputReviewer, OutputSubject, OwnedInput,
    OwnedOutput, ReviewError,
};
use crate::boxed::BoxFuture;
use crate::plugin_guard::run_isolated;

/// Returns a reviewer of arguments from a closure that answers at once. For one that may block, see [`input_reviewer_blocking`].
pub fn input_reviewer<F, O>(name: impl Into<String>, closure: F) -> impl InputReviewer
where
    F: Fn(InputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Value>,
{
    let ask = move |subject: InputSubject<'_>| closure(subject).into_opinion();
    SyncReviewer { name: name.into(), ask }
}

/// Returns a reviewer of arguments from an asynchronous closure.
pub fn input_reviewer_async<F, Fut, O>(name: impl Into<String>, closure: F) -> impl InputReviewer
where
    F: Fn(OwnedInput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = O> + Send + 'static,
    O: IntoOpinion<Value>,
{
    let ask = move |subject: OwnedInput| -> OpinionFuture<Value> {
        let answer = closure(subject);
        Box::pin(async move { answer.await.into_opinion() })
    };
    AsyncReviewer { name: name.into(), ask }
}

/// Returns a reviewer of arguments from a closure that may block its thread, for example to read files or query a database.
/// It runs on a thread where blocking is harmless, and is abandoned when it takes too long.
pub fn input_reviewer_blocking<F, O>(name: impl Into<String>, closure: F) -> impl InputReviewer
where
    F: Fn(InputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Value> + Send + 'static,
{
    let closure = Arc::new(closure);
    input_reviewer_async(name, move |subject| {
        let closure = Arc::clone(&closure);
        run_isolated(move || closure(subject.as_subject()))
    })
}

/// Returns a reviewer of results from a closure that answers at once. For one that may block, see [`output_reviewer_blocking`].
pub fn output_reviewer<F, O>(name: impl Into<String>, closure: F) -> impl OutputReviewer
where
    F: Fn(OutputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Output>,
{
    let ask = move |subject: OutputSubject<'_>| closure(subject).into_opinion();
    SyncReviewer { name: name.into(), ask }
}

/// Returns a reviewer of results from an asynchronous closure.
pub fn output_reviewer_async<F, Fut, O>(name: impl Into<String>, closure: F) -> impl OutputReviewer
where
    F: Fn(OwnedOutput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = O> + Send + 'static,
    O: IntoOpinion<Output>,
{
    let ask = move |subject: OwnedOutput| -> OpinionFuture<Output> {
        let answer = closure(subject);
        Box::pin(async move { answer.await.into_opinion() })
    };
    AsyncReviewer { name: name.into(), ask }
}

/// Returns a reviewer of results from a closure that may block its thread; see [`input_reviewer_blocking`].
pub fn output_reviewer_blocking<F, O>(name: impl Into<String>, closure: F) -> impl OutputReviewer
where
    F: Fn(OutputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Output> + Send + 'static,
{
    let closure = Arc::new(closure);
    output_reviewer_async(name, move |subject| {
        let closure = Arc::clone(&closure);
        run_isolated(move || closure(subject.as_subject()))
    })
}

type OpinionFuture<T> = BoxFuture<'static, Result<Opinion<T>, ReviewError>>;

struct SyncReviewer<F> {
    name: String,
    ask: F,
}

impl<F> InputReviewer for SyncReviewer<F>
where
    F: Fn(InputSubject<'_>) -> Result<Opinion<Value>, ReviewError> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        Box::pin(async move { (self.ask)(subject) })
    }
}

impl<F> OutputReviewer for SyncReviewer<F>
where
    F: Fn(OutputSubject<'_>) -> Result<Opinion<Output>, ReviewError> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        Box::pin(async move { (self.ask)(subject) })
    }
}

struct AsyncReviewer<F> {
    name: String,
    ask: F,
}

impl<F> InputReviewer for AsyncReviewer<F>
where
    F: Fn(OwnedInput) -> OpinionFuture<Value> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        (self.ask)(subject.to_owned_input())
    }
}

impl<F> OutputReviewer for AsyncReviewer<F>
where
    F: Fn(OwnedOutput) -> OpinionFuture<Output> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        (self.ask)(subject.to_owned_output())
    }
}
