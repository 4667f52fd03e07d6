//! Questions to a person, and their answers.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::digest::{ContentRef, Digest};
use crate::id::QuestionId;
use crate::standing_approval::StandingApproval;

/// The kind of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// May this plan run?
    Approval,
    /// The release of a checkpoint (R8). It is required in every mode, and no standing approval answers it.
    Checkpoint,
    /// May the model see this result?
    Release,
}

/// A question to a person. [`crate::render`] makes the text on the screen from the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Its id.
    pub id: QuestionId,
    /// The kind of the question.
    pub kind: QuestionKind,
    /// The exact plan or the exact result that it is about.
    pub binding: Digest,
    /// The time after which it cannot be answered.
    pub expires_at: Millis,
}

impl Question {
    /// Returns the digest that an answer must repeat, so that it cannot be used for another question.
    pub fn digest(&self) -> Digest {
        let kind = [self.kind as u8];
        let parts: [&[u8]; 4] =
            [self.id.as_bytes(), &kind, self.binding.as_bytes(), &self.expires_at.to_le_bytes()];
        Digest::compute_parts("byleave.question", &parts)
    }
}

/// The certainty about the identity of the approver. It is recorded with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assurance {
    /// A person at this terminal.
    Terminal,
    /// A person authenticated on the web.
    Web,
    /// An MCP client that states that a person answered.
    ClientAttested,
    /// A program that the operator registered.
    Program,
}

impl Assurance {
    /// Returns whether the answers come from a person whom no client and no program speaks for.
    pub const fn is_person(self) -> bool {
        matches!(self, Self::Terminal | Self::Web)
    }
}

/// The approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproverIdentity {
    /// A name for people to read.
    pub name: String,
    /// The certainty about the identity.
    pub assurance: Assurance,
}

/// The answer of a person. Full contents are stored under the record's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Approves.
    Yes {
        /// A note for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Declines.
    No {
        /// The instructions for the model instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// Replaces the arguments or the result.
    Edit {
        /// The complete new arguments or result.
        content: ContentRef,
        /// A note for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Approves a part of the rehearsed changes.
    Partial {
        /// The paths that are committed, with everything beneath them. Stored under the record's key.
        paths: ContentRef,
        /// A note for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Approves now, and in future within this scope.
    StandingApproval(StandingApproval),
    /// Gives the result in the place of the tool, which does not run. Only a person can, and not for a checkpoint.
    Result {
        /// The result, as the output of a tool.
        output: ContentRef,
    },
    /// Stops everything.
    Abort,
}

impl Answer {
    /// Returns the answer in a few words.
    pub const fn description(&self) -> &'static str {
        match self {
            Self::Yes { .. } => "yes",
            Self::No { .. } => "no",
            Self::Edit { .. } => "yes, with changes",
            Self::Partial { .. } => "yes to a part",
            Self::StandingApproval(_) => "yes, with a standing approval",
            Self::Result { .. } => "a result in the place of the tool",
            Self::Abort => "abort",
        }
    }

    /// Returns what the person said with the answer: the note, the instructions, or the scope of the standing approval. Not escaped.
    pub fn remark(&self) -> Option<String> {
        match self {
            Self::Yes { note } | Self::Edit { note, .. } | Self::Partial { note, .. } => note.clone(),
            Self::No { feedback } => feedback.clone(),
            Self::StandingApproval(approval) => Some(approval.describe_scope()),
            Self::Result { .. } | Self::Abort => None,
        }
    }
}

impl RecordedAnswer {
    /// Returns what was answered, by whom, and the remark. Not escaped.
    pub fn description(&self) -> String {
        let remark = self.answer.remark().map(|remark| format!(": {remark}")).unwrap_or_default();
        format!("{} by {}{remark}", self.answer.description(), self.approver.name)
    }
}

/// An answer on the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedAnswer {
    /// The question it answers.
    pub question: QuestionId,
    /// [`Question::digest`] of that question.
    pub digest: Digest,
    /// The answer.
    pub answer: Answer,
    /// The approver.
    pub approver: ApproverIdentity,
}
