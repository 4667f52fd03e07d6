//! An approver behind HTTP: the question goes out signed, the answer must come back signed (see [`crate::signed`]).
//!
//! The body sent is an object with `question` (the digest an answer must repeat), `expires_at`, `sheet`, `lines` (the
//! question as it must be shown) and `complete`. The answer is an object with `question` and `reply`, which has `say`:
//! `yes` (with `note`), `no` (with `feedback`), `edit` (with `value`, `note`), `part` (with `paths`, `note`), `leave` (with
//! `leave`) or `abort`.

use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::leave::Leave;
use byleave_core::question::Grade;
use byleave_core::render::{RenderLine, Rendering};
use byleave_core::sheet::Sheet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Approver, ApproverFault, Reply};
use crate::pending::Pending;
use crate::secret::Secret;
use crate::signed::{BadService, NoAnswer, Service};

/// An approver behind HTTP, which holds the request until it has an answer.
pub struct Webhook {
    name: String,
    grade: Grade,
    service: Service,
}

impl Webhook {
    /// An approver that posts to this address: https, or http on this machine. The secret is shared with the service.
    pub fn new(name: impl Into<String>, url: &str, secret: Secret) -> Result<Self, BadService> {
        Ok(Self { name: name.into(), grade: Grade::Program, service: Service::new(url, secret)? })
    }

    /// Says how sure the service is that its answers are a person's. Unless told otherwise, it counts as a program.
    #[must_use]
    pub fn with_grade(mut self, grade: Grade) -> Self {
        self.grade = grade;
        self
    }

    async fn put(&self, sheet: &Sheet, rendering: &Rendering) -> Result<Reply, ApproverFault> {
        let question = sheet.question.digest();
        let body = serde_json::to_vec(&Request {
            question,
            expires_at: sheet.question.expires_at,
            sheet,
            lines: &rendering.lines,
            complete: rendering.complete,
        })
        .map_err(|error| ApproverFault::Failed(format!("cannot write the question: {error}")))?;
        let answer = self.service.ask(body).await.map_err(|error| match error {
            NoAnswer::Failed(why) => ApproverFault::Failed(why),
            NoAnswer::Nonsense(why) => ApproverFault::Nonsense(why),
        })?;
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|error| ApproverFault::Nonsense(format!("the answer cannot be read: {error}")))?;
        if answer.question != question {
            return Err(ApproverFault::Nonsense("the answer belongs to another question".into()));
        }
        Ok(answer.reply.into())
    }
}

#[derive(Serialize)]
struct Request<'a> {
    question: Digest,
    expires_at: Millis,
    sheet: &'a Sheet,
    lines: &'a [RenderLine],
    complete: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    question: Digest,
    reply: WireReply,
}

#[derive(Deserialize)]
#[serde(tag = "say", rename_all = "lowercase", deny_unknown_fields)]
enum WireReply {
    Yes { note: Option<String> },
    No { feedback: Option<String> },
    Edit { value: Value, note: Option<String> },
    Part { paths: Vec<String>, note: Option<String> },
    Leave { leave: Leave },
    Abort {},
}

impl From<WireReply> for Reply {
    fn from(wire: WireReply) -> Self {
        match wire {
            WireReply::Yes { note } => Self::Yes { note },
            WireReply::No { feedback } => Self::No { feedback },
            WireReply::Edit { value, note } => Self::Edit { value, note },
            WireReply::Part { paths, note } => Self::Part { paths, note },
            WireReply::Leave { leave } => Self::Leave(leave),
            WireReply::Abort {} => Self::Abort,
        }
    }
}

impl Approver for Webhook {
    fn name(&self) -> &str {
        &self.name
    }
    fn grade(&self) -> Grade {
        self.grade
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a Sheet,
        rendering: &'a Rendering,
    ) -> Pending<'a, Result<Reply, ApproverFault>> {
        Box::pin(self.put(sheet, rendering))
    }
}
