//! Approvers: who is asked, and how. A person at a terminal, a callback, a webhook; or nobody.
//!
//! An approver shows what it is given, whole, and passes on what it was told. It must never answer by itself.

mod callback;
mod risk;
mod terminal;
mod webhook;

use byleave_core::question::Assurance;
use byleave_core::question_view::QuestionView;
use byleave_core::render::Rendering;
use byleave_core::standing_approval::StandingApproval;
use serde_json::Value;

use crate::boxed::BoxFuture;

pub use callback::{IntoReply, callback, callback_async, callback_blocking};
pub use risk::RiskLevel;
pub use terminal::{Console, KeyInput, TerminalApprover};
pub use webhook::WebhookApprover;

/// Who is asked. The same trait serves as checkpoint handler (R8).
pub trait Approver: Send + Sync + 'static {
    /// Its name in the book.
    fn name(&self) -> &str;
    /// How sure its answers are a person's.
    fn grade(&self) -> Assurance;
    /// Puts the question and returns the answer. Taking too long, failing and panicking all refuse.
    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>>;
}

/// What an approver says.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Go ahead.
    Yes {
        /// Something for the model to know.
        note: Option<String>,
    },
    /// Do not.
    No {
        /// What the model should do instead.
        feedback: Option<String>,
    },
    /// With these arguments, or this result, instead.
    Edit {
        /// The whole of the new arguments (an object), or of the new result (an output).
        value: Value,
        /// Something for the model to know.
        note: Option<String>,
    },
    /// Go ahead with a part of what the rehearsal changed.
    Part {
        /// The paths that are committed, absolute, with everything beneath them.
        paths: Vec<String>,
        /// Something for the model to know.
        note: Option<String>,
    },
    /// Go ahead, now and in future within this scope.
    Leave(StandingApproval),
    /// Stop everything.
    Abort,
}

/// An approver could not ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApproverError {
    /// It broke.
    #[error("{0}")]
    Failed(String),
    /// It got an answer that makes no sense.
    #[error("{0}")]
    Nonsense(String),
}
