//! What a caller gets back: an outcome with true contents, and what was changed on the way.

use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use byleave_core::outcome::Output;
use byleave_core::question::Question;
use byleave_core::refusal::Refusal;
use serde_json::Value;

/// What a caller gets back. Always; there is no error beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub call: CallId,
    /// The tool's own name, or what the model called it if there is none such.
    pub tool: String,
    /// The arguments as used.
    pub arguments: Value,
    /// What came of it.
    pub ending: CallOutcome,
    /// What was changed on the way, and why; the model is told.
    pub changes: Vec<Modification>,
    /// Where it stands in the book; absent only if the book failed.
    pub receipt: Option<Receipt>,
}

/// What came of a call, with true contents.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// Ran and says that it worked.
    Completed(Output),
    /// Ran and says that it did not work.
    Failed(Output),
    /// Ran; its output is not released.
    Withheld(Refusal),
    /// Did not run.
    Refused(Refusal),
    /// Did not run; this is what would have.
    Rehearsed(Plan),
    /// May have run; nobody can say.
    Unknown(Refusal),
}

impl CallOutcome {
    /// The ending in a word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Withheld(_) => "withheld",
            Self::Refused(_) => "refused",
            Self::Rehearsed(_) => "rehearsed",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Why there is no result, where there is none.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Withheld(refusal) | Self::Refused(refusal) | Self::Unknown(refusal) => Some(refusal),
            Self::Completed(_) | Self::Failed(_) | Self::Rehearsed(_) => None,
        }
    }
}

/// Something that was changed on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modification {
    /// What was changed.
    pub what: ModifiedPart,
    /// Who changed it.
    pub by: String,
    /// Why.
    pub why: Option<String>,
}

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifiedPart {
    /// The arguments.
    Arguments,
    /// The result.
    Output,
    /// Nothing: someone only added a word.
    Nothing,
}

/// Where a call stands in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// How many entries its record has.
    pub entries: u32,
    /// The link of the last.
    pub head: byleave_core::digest::Digest,
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStatus {
    /// To its end.
    Settled(CallResult),
    /// To a person. Nothing is kept in memory; the answer is enough to go on.
    Waiting {
        /// The call.
        call: CallId,
        /// The question.
        question: Question,
    },
    /// Behind another call of its session that waits for a person and that it conflicts with.
    HeldUp {
        /// The call.
        call: CallId,
        /// The other one.
        by: CallId,
    },
    /// Another process is running it.
    RunningElsewhere {
        /// The call.
        call: CallId,
    },
    /// To where all that is left is to begin it, and no further: that is for whoever resumes it.
    Ready {
        /// The call.
        call: CallId,
    },
}

impl CallStatus {
    /// The call.
    pub const fn call(&self) -> CallId {
        match self {
            Self::Settled(result) => result.call,
            Self::Waiting { call, .. }
            | Self::HeldUp { call, .. }
            | Self::RunningElsewhere { call }
            | Self::Ready { call } => *call,
        }
    }
}

impl CallResult {
    /// Whether the model can take it as done.
    pub const fn success(&self) -> bool {
        matches!(self.ending, CallOutcome::Completed(_) | CallOutcome::Rehearsed(_))
    }

    /// What the model reads: the output, a refusal, or what a dry run would do; with what was changed on the way.
    pub fn text(&self) -> String {
        let mut text = self.changes_text();
        match &self.ending {
            CallOutcome::Completed(output) | CallOutcome::Failed(output) => text.push_str(&output.text),
            CallOutcome::Withheld(_) | CallOutcome::Refused(_) | CallOutcome::Unknown(_) => {}
            CallOutcome::Rehearsed(plan) => {
                text.push_str(&format!("[DRY-RUN] {} {}", self.tool, self.arguments));
                for effect in &plan.effects {
                    text.push_str(&format!("\n[DRY-RUN] would {effect}"));
                }
            }
        }
        text
    }

    /// What was changed on the way, for the model: a line each.
    pub fn changes_text(&self) -> String {
        self.changes.iter().map(|change| change.sentence(&self.arguments) + "\n").collect()
    }

    /// What went wrong, for the model.
    pub fn error(&self) -> Option<String> {
        let said = |what: &str, refusal: &Refusal| Some(format!("{what}: {refusal}"));
        match &self.ending {
            CallOutcome::Completed(_) | CallOutcome::Rehearsed(_) => None,
            CallOutcome::Failed(output) => {
                Some(output.error.clone().unwrap_or_else(|| "the tool failed".into()))
            }
            CallOutcome::Refused(refusal) => said("refused", refusal),
            CallOutcome::Withheld(refusal) => said("it ran, but the result is withheld", refusal),
            CallOutcome::Unknown(refusal) => {
                said("it may or may not have taken effect; do not repeat it unasked", refusal)
            }
        }
    }
}

impl Modification {
    fn sentence(&self, arguments: &Value) -> String {
        let why = self.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        match self.what {
            ModifiedPart::Arguments => {
                format!("[byleave] {} changed the arguments{why}; used were {arguments}", self.by)
            }
            ModifiedPart::Output => format!("[byleave] {} changed the result{why}", self.by),
            ModifiedPart::Nothing => format!("[byleave] {} says{why}", self.by),
        }
    }
}
