//! Reviewers made of closures: ones that answer at once, ones that wait, and ones that block.

use std::sync::Arc;

use byleave_core::outcome::Output;
use serde_json::Value;

use super::{
    InputReviewer, InputSubject, IntoOpinion, Opinion, OutputReviewer, OutputSubject, OwnedInput,
    OwnedOutput, ReviewFault,
};
use crate::guard::apart;
use crate::pending::Pending;

/// A reviewer of arguments from a closure that answers at once. For one that may block, see [`input_blocking`].
pub fn input<F, O>(name: impl Into<String>, closure: F) -> impl InputReviewer
where
    F: Fn(InputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Value>,
{
    let ask = move |subject: InputSubject<'_>| closure(subject).into_opinion();
    AtOnce { name: name.into(), ask }
}

/// A reviewer of arguments from a closure that waits without blocking.
pub fn input_async<F, Fut, O>(name: impl Into<String>, closure: F) -> impl InputReviewer
where
    F: Fn(OwnedInput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = O> + Send + 'static,
    O: IntoOpinion<Value>,
{
    let ask = move |subject: OwnedInput| -> Opining<Value> {
        let answer = closure(subject);
        Box::pin(async move { answer.await.into_opinion() })
    };
    Later { name: name.into(), ask }
}

/// A reviewer of arguments from a closure that may block its thread: reading files, asking a database. It is given a
/// thread where that harms nobody, and is left behind when it takes too long.
pub fn input_blocking<F, O>(name: impl Into<String>, closure: F) -> impl InputReviewer
where
    F: Fn(InputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Value> + Send + 'static,
{
    let closure = Arc::new(closure);
    input_async(name, move |subject| {
        let closure = Arc::clone(&closure);
        apart(move || closure(subject.subject()))
    })
}

/// A reviewer of results from a closure that answers at once. For one that may block, see [`output_blocking`].
pub fn output<F, O>(name: impl Into<String>, closure: F) -> impl OutputReviewer
where
    F: Fn(OutputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Output>,
{
    let ask = move |subject: OutputSubject<'_>| closure(subject).into_opinion();
    AtOnce { name: name.into(), ask }
}

/// A reviewer of results from a closure that waits without blocking.
pub fn output_async<F, Fut, O>(name: impl Into<String>, closure: F) -> impl OutputReviewer
where
    F: Fn(OwnedOutput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = O> + Send + 'static,
    O: IntoOpinion<Output>,
{
    let ask = move |subject: OwnedOutput| -> Opining<Output> {
        let answer = closure(subject);
        Box::pin(async move { answer.await.into_opinion() })
    };
    Later { name: name.into(), ask }
}

/// A reviewer of results from a closure that may block its thread; see [`input_blocking`].
pub fn output_blocking<F, O>(name: impl Into<String>, closure: F) -> impl OutputReviewer
where
    F: Fn(OutputSubject<'_>) -> O + Send + Sync + 'static,
    O: IntoOpinion<Output> + Send + 'static,
{
    let closure = Arc::new(closure);
    output_async(name, move |subject| {
        let closure = Arc::clone(&closure);
        apart(move || closure(subject.subject()))
    })
}

type Opining<T> = Pending<'static, Result<Opinion<T>, ReviewFault>>;

struct AtOnce<F> {
    name: String,
    ask: F,
}

impl<F> InputReviewer for AtOnce<F>
where
    F: Fn(InputSubject<'_>) -> Result<Opinion<Value>, ReviewFault> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> Pending<'a, Result<Opinion<Value>, ReviewFault>> {
        Box::pin(async move { (self.ask)(subject) })
    }
}

impl<F> OutputReviewer for AtOnce<F>
where
    F: Fn(OutputSubject<'_>) -> Result<Opinion<Output>, ReviewFault> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: OutputSubject<'a>) -> Pending<'a, Result<Opinion<Output>, ReviewFault>> {
        Box::pin(async move { (self.ask)(subject) })
    }
}

struct Later<F> {
    name: String,
    ask: F,
}

impl<F> InputReviewer for Later<F>
where
    F: Fn(OwnedInput) -> Opining<Value> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> Pending<'a, Result<Opinion<Value>, ReviewFault>> {
        (self.ask)(subject.owned())
    }
}

impl<F> OutputReviewer for Later<F>
where
    F: Fn(OwnedOutput) -> Opining<Output> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: OutputSubject<'a>) -> Pending<'a, Result<Opinion<Output>, ReviewFault>> {
        (self.ask)(subject.owned())
    }
}
