//! Approvers made of closures: ones that answer at once, ones that wait, and ones that block.

use std::fmt::Display;
use std::sync::Arc;

use byleave_core::question::Grade;
use byleave_core::render::Rendering;
use byleave_core::sheet::Sheet;

use super::{Approver, ApproverFault, Reply};
use crate::guard::apart;
use crate::pending::Pending;

/// An approver from a closure that answers at once. For one that may block, see [`callback_blocking`].
pub fn callback<F, R>(name: impl Into<String>, closure: F) -> impl Approver
where
    F: Fn(&Sheet) -> R + Send + Sync + 'static,
    R: IntoReply,
{
    AtOnce { name: name.into(), ask: move |sheet: &Sheet| closure(sheet).into_reply() }
}

/// An approver from a closure that waits without blocking.
pub fn callback_async<F, Fut, R>(name: impl Into<String>, closure: F) -> impl Approver
where
    F: Fn(Sheet) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoReply,
{
    let ask = move |sheet: Sheet| -> Replying {
        let answer = closure(sheet);
        Box::pin(async move { answer.await.into_reply() })
    };
    Later { name: name.into(), ask }
}

/// An approver from a closure that may block its thread, as a dialogue does. It is given a thread where that harms
/// nobody, and is left behind when it takes too long.
pub fn callback_blocking<F, R>(name: impl Into<String>, closure: F) -> impl Approver
where
    F: Fn(&Sheet) -> R + Send + Sync + 'static,
    R: IntoReply + Send + 'static,
{
    let closure = Arc::new(closure);
    callback_async(name, move |sheet| {
        let closure = Arc::clone(&closure);
        apart(move || closure(&sheet))
    })
}

/// What an approving closure may return: a [`Reply`], a `bool`, or a `Result` of either.
pub trait IntoReply {
    /// The reply it stands for; an error refuses.
    fn into_reply(self) -> Result<Reply, ApproverFault>;
}

impl From<bool> for Reply {
    fn from(approved: bool) -> Self {
        if approved { Self::Yes { note: None } } else { Self::No { feedback: None } }
    }
}

impl IntoReply for bool {
    fn into_reply(self) -> Result<Reply, ApproverFault> {
        Ok(self.into())
    }
}

impl IntoReply for Reply {
    fn into_reply(self) -> Result<Reply, ApproverFault> {
        Ok(self)
    }
}

impl<R: IntoReply, E: Display> IntoReply for Result<R, E> {
    fn into_reply(self) -> Result<Reply, ApproverFault> {
        self.map_err(|error| ApproverFault::Failed(error.to_string()))?.into_reply()
    }
}

type Replying = Pending<'static, Result<Reply, ApproverFault>>;

struct AtOnce<F> {
    name: String,
    ask: F,
}

impl<F> Approver for AtOnce<F>
where
    F: Fn(&Sheet) -> Result<Reply, ApproverFault> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn grade(&self) -> Grade {
        Grade::Program
    }
    fn ask<'a>(&'a self, sheet: &'a Sheet, _: &'a Rendering) -> Pending<'a, Result<Reply, ApproverFault>> {
        Box::pin(async move { (self.ask)(sheet) })
    }
}

struct Later<F> {
    name: String,
    ask: F,
}

impl<F> Approver for Later<F>
where
    F: Fn(Sheet) -> Replying + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn grade(&self) -> Grade {
        Grade::Program
    }
    fn ask<'a>(&'a self, sheet: &'a Sheet, _: &'a Rendering) -> Pending<'a, Result<Reply, ApproverFault>> {
        (self.ask)(sheet.clone())
    }
}
