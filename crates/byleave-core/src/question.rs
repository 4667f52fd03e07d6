//! Questions and answers: what a person is asked, and says.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::digest::{ContentRef, Digest};
use crate::id::QuestionId;
use crate::standing_approval::StandingApproval;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// May this plan run?
    Approval,
    /// The ceremony for what cannot be taken back (R8): in every mode, by no leave.
    Checkpoint,
    /// May the model see this result?
    Release,
}

/// What a person is asked. The words on the screen are made from the record by [`crate::render`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Its id.
    pub id: QuestionId,
    /// What it is about.
    pub kind: QuestionKind,
    /// The exact plan, or the exact result, that it is about.
    pub binding: Digest,
    /// Nobody can answer it after that.
    pub expires_at: Millis,
}

impl Question {
    /// What an answer must repeat, so that it cannot be used for another question.
    pub fn digest(&self) -> Digest {
        let kind = [self.kind as u8];
        let parts: [&[u8]; 4] =
            [self.id.as_bytes(), &kind, self.binding.as_bytes(), &self.expires_at.to_le_bytes()];
        Digest::of_parts("byleave.question", &parts)
    }
}

/// How sure we are who answered; recorded with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assurance {
    /// A person at this terminal.
    Terminal,
    /// A person authenticated on the web.
    Web,
    /// An MCP client says that a person said so.
    ClientAttested,
    /// A program that the operator registered.
    Program,
}

/// Who answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproverIdentity {
    /// A name for people.
    pub name: String,
    /// How sure we are.
    pub grade: Assurance,
}

/// What a person says. True contents are kept under the record's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Go ahead.
    Yes {
        /// Something for the model to know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Do not.
    No {
        /// What the model should do instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// With these arguments, or this result, instead.
    Edit {
        /// The whole of the new arguments or result.
        content: ContentRef,
        /// Something for the model to know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Go ahead with a part of what the rehearsal changed.
    Part {
        /// The paths that are committed, with everything beneath them; kept under the record's key.
        paths: ContentRef,
        /// Something for the model to know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Go ahead, now and in future within this scope.
    Leave(StandingApproval),
    /// Stop everything.
    Abort,
}

/// An answer on the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedAnswer {
    /// The question it answers.
    pub question: QuestionId,
    /// [`Question::digest`] of that question.
    pub digest: Digest,
    /// What was said.
    pub answer: Answer,
    /// Who said it.
    pub by: ApproverIdentity,
}
