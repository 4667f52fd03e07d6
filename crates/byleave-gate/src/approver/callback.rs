//! Approvers made from closures: immediate, asynchronous and blocking.

use std::fmt::Display;
use std::sync::Arc;

use byleave_core::question::Assurance;
use byleave_core::question_view::QuestionView;
use byleave_core::render::Rendering;

use super::{Approver, ApproverError, Reply};
use crate::boxed::BoxFuture;
use crate::plugin_guard::run_isolated;

/// Returns an approver from a closure that answers at once. For one that may block, see [`callback_blocking`].
pub fn callback<F, R>(name: impl Into<String>, closure: F) -> impl Approver
where
    F: Fn(&QuestionView) -> R + Send + Sync + 'static,
    R: IntoReply,
{
    SyncCallback { name: name.into(), ask: move |sheet: &QuestionView| closure(sheet).into_reply() }
}

/// Returns an approver from an asynchronous closure.
pub fn callback_async<F, Fut, R>(name: impl Into<String>, closure: F) -> impl Approver
where
    F: Fn(QuestionView) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoReply,
{
    let ask = move |sheet: QuestionView| -> ReplyFuture {
        let answer = closure(sheet);
        Box::pin(async move { answer.await.into_reply() })
    };
    AsyncCallback { name: name.into(), ask }
}

/// Returns an approver from a closure that may block its thread, such as a dialog. It runs on a thread where blocking is
/// harmless, and is abandoned when it takes too long.
pub fn callback_blocking<F, R>(name: impl Into<String>, closure: F) -> impl Approver
where
    F: Fn(&QuestionView) -> R + Send + Sync + 'static,
    R: IntoReply + Send + 'static,
{
    let closure = Arc::new(closure);
    callback_async(name, move |sheet| {
        let closure = Arc::clone(&closure);
        run_isolated(move || closure(&sheet))
    })
}

/// The return types of an approving closure: a [`Reply`], a `bool`, or a `Result` of either.
pub trait IntoReply {
    /// Converts the value into a reply. An error refuses the call.
    fn into_reply(self) -> Result<Reply, ApproverError>;
}

impl From<bool> for Reply {
    fn from(approved: bool) -> Self {
        if approved { Self::Yes { note: None } } else { Self::No { feedback: None } }
    }
}

impl IntoReply for bool {
    fn into_reply(self) -> Result<Reply, ApproverError> {
        Ok(self.into())
    }
}

impl IntoReply for Reply {
    fn into_reply(self) -> Result<Reply, ApproverError> {
        Ok(self)
    }
}

impl<R: IntoReply, E: Display> IntoReply for Result<R, E> {
    fn into_reply(self) -> Result<Reply, ApproverError> {
        self.map_err(|error| ApproverError::Failed(error.to_string()))?.into_reply()
    }
}

type ReplyFuture = BoxFuture<'static, Result<Reply, ApproverError>>;

struct SyncCallback<F> {
    name: String,
    ask: F,
}

impl<F> Approver for SyncCallback<F>
where
    F: Fn(&QuestionView) -> Result<Reply, ApproverError> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn assurance(&self) -> Assurance {
        Assurance::Program
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        _: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        Box::pin(async move { (self.ask)(sheet) })
    }
}

struct AsyncCallback<F> {
    name: String,
    ask: F,
}

impl<F> Approver for AsyncCallback<F>
where
    F: Fn(QuestionView) -> ReplyFuture + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn assurance(&self) -> Assurance {
        Assurance::Program
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        _: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        (self.ask)(sheet.clone())
    }
}
