//! An approver behind HTTP. The question is sent signed, and the answer must be signed (see [`crate::signed_http`]).
//!
//! The request body is an object with `question`, `expires_at`, `sheet`, `lines` and `complete`. An answer must repeat
//! `question`, a digest. `lines` is the question as it must be shown. The answer is an object with `question` and `reply`.
//! `reply` has a field `say`: `yes` (with `note`), `no` (with `feedback`), `edit` (with `value`, `note`), `part` (with
//! `paths`, `note`), `leave` (with `leave`) or `abort`.

use byleave_core::call::Millis;
use byleave_core::challenge::Challenge;
use byleave_core::digest::Digest;
use byleave_core::question::Assurance;
use byleave_core::question_view::QuestionView;
use byleave_core::render::{RenderLine, Rendering};
use byleave_core::standing_approval::StandingApproval;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Approver, ApproverError, Reply};
use crate::boxed::BoxFuture;
use crate::secret::Secret;
use crate::signed_http::{ServiceError, ServiceResponseError, SignedService};

/// An approver behind HTTP. The service holds the request open until it has an answer.
pub struct WebhookApprover {
    name: String,
    assurance: Assurance,
    service: SignedService,
}

impl WebhookApprover {
    /// Creates an approver that posts to this URL: https, or http on this machine. The secret is shared with the service.
    pub fn new(name: impl Into<String>, url: &str, secret: Secret) -> Result<Self, ServiceError> {
        Ok(Self {
            name: name.into(),
            assurance: Assurance::Program,
            service: SignedService::new(url, secret)?,
        })
    }

    /// Sets how certain the service is that its answers come from a person. The default is [`Assurance::Program`].
    #[must_use]
    pub fn with_assurance(mut self, grade: Assurance) -> Self {
        self.assurance = grade;
        self
    }

    async fn send_question(
        &self,
        sheet: &QuestionView,
        rendering: &Rendering,
    ) -> Result<Reply, ApproverError> {
        let question = sheet.question.digest();
        let body = serde_json::to_vec(&ApprovalRequest {
            question,
            expires_at: sheet.question.expires_at,
            question_view: sheet,
            lines: &rendering.lines,
            complete: rendering.complete,
        })
        .map_err(|error| ApproverError::Failed(format!("cannot encode the question: {error}")))?;
        let answer = self.service.request(body).await.map_err(|error| match error {
            ServiceResponseError::Failed(why) => ApproverError::Failed(why),
            ServiceResponseError::InvalidResponse(why) => ApproverError::InvalidResponse(why),
        })?;
        let answer: ApprovalResponse = serde_json::from_slice(&answer)
            .map_err(|error| ApproverError::InvalidResponse(format!("cannot read the answer: {error}")))?;
        if answer.question != question {
            return Err(ApproverError::InvalidResponse("the answer is for another question".into()));
        }
        Ok(answer.reply.into())
    }
}

#[derive(Serialize)]
struct ApprovalRequest<'a> {
    question: Digest,
    expires_at: Millis,
    question_view: &'a QuestionView,
    lines: &'a [RenderLine],
    complete: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalResponse {
    question: Digest,
    reply: WireReply,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum WireReply {
    Yes { note: Option<String>, challenge: Option<Challenge> },
    No { feedback: Option<String> },
    Edit { value: Value, note: Option<String> },
    Partial { paths: Vec<String>, note: Option<String> },
    StandingApproval { standing_approval: StandingApproval },
    Result { text: String },
    Abort {},
}

impl From<WireReply> for Reply {
    fn from(wire: WireReply) -> Self {
        match wire {
            WireReply::Yes { note, challenge: None } => Self::Yes { note },
            WireReply::Yes { note, challenge: Some(challenge) } => Self::YesWithChallenge { challenge, note },
            WireReply::No { feedback } => Self::No { feedback },
            WireReply::Edit { value, note } => Self::Edit { value, note },
            WireReply::Partial { paths, note } => Self::Partial { paths, note },
            WireReply::StandingApproval { standing_approval: leave } => Self::StandingApproval(leave),
            WireReply::Result { text } => Self::Result { text },
            WireReply::Abort {} => Self::Abort,
        }
    }
}

impl Approver for WebhookApprover {
    fn name(&self) -> &str {
        &self.name
    }
    fn assurance(&self) -> Assurance {
        self.assurance
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        Box::pin(self.send_question(sheet, rendering))
    }
}
