//! Approvers answer questions: closures, the terminal, webhooks, or your own.

pub use byleave_core::challenge::{Challenge, ChallengeVerdict};
pub use byleave_core::question::{ApproverIdentity, Assurance, Question, QuestionKind};
pub use byleave_core::question_view::{QuestionView, RehearsalView};
pub use byleave_core::render::Rendering;
pub use byleave_core::standing_approval::StandingApproval;
#[cfg(feature = "terminal")]
pub use byleave_gate::approver::TerminalApprover;
#[cfg(feature = "webhooks")]
pub use byleave_gate::approver::WebhookApprover;
pub use byleave_gate::approver::{
    Approver, ApproverError, IntoReply, Reply, callback, callback_async, callback_blocking,
};
pub use byleave_gate::boxed::BoxFuture;
pub use byleave_gate::challenge::{ChallengeError, ChallengeSubject, Challenger};
pub use byleave_gate::gate::{AnswerError, SubmittedAnswer};
#[cfg(feature = "webhooks")]
pub use byleave_gate::secret::Secret;
#[cfg(feature = "webhooks")]
pub use byleave_gate::signed_http::ServiceError;
