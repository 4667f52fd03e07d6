//! Approvers answer questions: a person at a terminal, a callback or a webhook.
//!
//! An approver shows the complete question and passes on the answer it receives. It must never answer on its own.

mod callback;
mod risk;
#[cfg(feature = "terminal")]
mod terminal;
#[cfg(feature = "webhooks")]
mod webhook;

use std::sync::Arc;

use byleave_core::challenge::Challenge;
use byleave_core::question::Assurance;
use byleave_core::question_view::QuestionView;
use byleave_core::render::Rendering;
use byleave_core::standing_approval::StandingApproval;
use serde_json::Value;

use crate::boxed::BoxFuture;

pub use callback::{IntoReply, callback, callback_async, callback_blocking};
pub use risk::RiskLevel;
#[cfg(feature = "terminal")]
pub use terminal::{Console, KeyInput, TerminalApprover};
#[cfg(feature = "webhooks")]
pub use webhook::WebhookApprover;

/// An approver of questions. The same trait serves as checkpoint handler (R8).
pub trait Approver: Send + Sync + 'static {
    /// Returns its name in the audit log.
    fn name(&self) -> &str;
    /// Returns how certain it is that its answers come from a person.
    fn assurance(&self) -> Assurance;
    /// Asks the question and returns the answer. A timeout, an error or a panic refuses the call.
    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>>;
}

impl<A: Approver + ?Sized> Approver for Arc<A> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn assurance(&self) -> Assurance {
        (**self).assurance()
    }

    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        (**self).ask(sheet, rendering)
    }
}

/// The answer of an approver.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Approve.
    Yes {
        /// A note for the model.
        note: Option<String>,
    },
    /// Approve, with the case against the call that a rule or the tool requires (R9).
    YesWithChallenge {
        /// The case. Its verdict counts as `proceed`.
        challenge: Challenge,
        /// A note for the model.
        note: Option<String>,
    },
    /// Decline.
    No {
        /// Feedback for the model on what to do instead.
        feedback: Option<String>,
    },
    /// Approve with these arguments, or this result, instead.
    Edit {
        /// The complete new arguments (an object), or the complete new result (an output).
        value: Value,
        /// A note for the model.
        note: Option<String>,
    },
    /// Approve a part of the changes of the rehearsal.
    Partial {
        /// The absolute paths to commit, with everything beneath them.
        paths: Vec<String>,
        /// A note for the model.
        note: Option<String>,
    },
    /// Approve now and in the future within this scope.
    StandingApproval(StandingApproval),
    /// Give the result in the place of the tool, which does not run. Only a person can, and not for a checkpoint.
    Result {
        /// The text that the model gets as the result.
        text: String,
    },
    /// Stop everything.
    Abort,
}

/// The error of an approver that could not ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApproverError {
    /// The person answers later: the question stays open.
    #[error("the question stays open for a later answer")]
    Later,
    /// The approver failed.
    #[error("{0}")]
    Failed(String),
    /// The approver received an invalid answer.
    #[error("{0}")]
    InvalidResponse(String),
}
