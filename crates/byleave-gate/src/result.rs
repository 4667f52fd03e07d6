//! The result for a caller: an outcome with original contents, and the modifications on the way.

use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use byleave_core::outcome::Output;
use byleave_core::question::Question;
use byleave_core::refusal::{Code, Refusal};
use serde_json::Value;

/// The result for a caller. There is always one, and never an error instead.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// The call.
    pub call: CallId,
    /// The tool's own name, or the name that the model used if there is none.
    pub tool: String,
    /// The arguments as used.
    pub arguments: Value,
    /// The outcome.
    pub outcome: CallOutcome,
    /// The modifications on the way with their reasons, which are shown to the model.
    pub modifications: Vec<Modification>,
    /// Its position in the audit log. It is `None` only if the audit log failed.
    pub receipt: Option<Receipt>,
}

/// The outcome of a call, with original contents.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// It ran and reported success.
    Completed(Output),
    /// It ran and reported failure.
    Failed(Output),
    /// It ran, but its output is not released.
    Withheld(Refusal),
    /// It did not run.
    Refused(Refusal),
    /// It did not run. This is its plan.
    DryRun(Plan),
    /// It may have run. The outcome is unknown.
    Unknown(Refusal),
    /// It did not run. A person gave this result in the place of the tool.
    Answered(Output),
}

impl CallOutcome {
    /// Returns the outcome as a single word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Withheld(_) => "withheld",
            Self::Refused(_) => "refused",
            Self::DryRun(_) => "dry-run",
            Self::Unknown(_) => "unknown",
            Self::Answered(_) => "answered",
        }
    }

    /// Returns the refusal, if the call has no result.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Withheld(refusal) | Self::Refused(refusal) | Self::Unknown(refusal) => Some(refusal),
            Self::Completed(_) | Self::Failed(_) | Self::DryRun(_) | Self::Answered(_) => None,
        }
    }
}

/// A modification on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modification {
    /// The modified part.
    pub part: ModifiedPart,
    /// The author of the modification.
    pub author: String,
    /// The reason.
    pub reason: Option<String>,
}

/// The part of a call that was modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifiedPart {
    /// The arguments.
    Arguments,
    /// The result.
    Output,
    /// Nothing: only a note was added.
    NoteOnly,
    /// The execution: a person gave the result in the place of the tool.
    Execution,
}

/// The position of a call in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// How many entries its record has.
    pub entries: u32,
    /// The link of the last entry.
    pub head: byleave_core::digest::Digest,
}

/// The status of a call.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most statuses are settled, and none is stored in numbers")]
pub enum CallStatus {
    /// It is settled.
    Settled(CallResult),
    /// It waits for a person. Nothing is kept in memory, and the answer is enough to continue.
    Waiting {
        /// The call.
        call: CallId,
        /// The question.
        question: Question,
    },
    /// It waits for a conflicting call of its session, which waits for a person.
    Blocked {
        /// The call.
        call: CallId,
        /// The conflicting call.
        blocked_by: CallId,
    },
    /// Another process is running it.
    RunningElsewhere {
        /// The call.
        call: CallId,
    },
    /// It is ready to begin, but was not begun here. The process that resumes it will begin it.
    Ready {
        /// The call.
        call: CallId,
    },
}

impl CallStatus {
    /// Returns the call.
    pub const fn call(&self) -> CallId {
        match self {
            Self::Settled(result) => result.call,
            Self::Waiting { call, .. }
            | Self::Blocked { call, .. }
            | Self::RunningElsewhere { call }
            | Self::Ready { call } => *call,
        }
    }
}

impl CallResult {
    /// Checks whether the model has a result that it can use. Only [`CallOutcome::Completed`] means that the tool ran.
    pub const fn is_success(&self) -> bool {
        matches!(self.outcome, CallOutcome::Completed(_) | CallOutcome::DryRun(_) | CallOutcome::Answered(_))
    }

    /// Returns the code of the refusal, if the call has no result.
    pub const fn code(&self) -> Option<Code> {
        match self.outcome.refusal() {
            Some(refusal) => Some(refusal.code),
            None => None,
        }
    }

    /// Returns the text for the model: the output, a refusal, or the plan of a dry run, with the modifications. The text of a dry run
    /// begins with `[DRY-RUN]`.
    pub fn to_text(&self) -> String {
        let changes = self.modifications_text();
        match &self.outcome {
            CallOutcome::Completed(output) | CallOutcome::Failed(output) | CallOutcome::Answered(output) => {
                changes + &output.text
            }
            CallOutcome::Withheld(_) | CallOutcome::Refused(_) | CallOutcome::Unknown(_) => changes,
            CallOutcome::DryRun(plan) => {
                let mut text = format!("[DRY-RUN] {} {}", self.tool, self.arguments);
                for effect in &plan.effects {
                    text.push_str(&format!("\n[DRY-RUN] would {effect}"));
                }
                for change in changes.lines() {
                    text.push_str(&format!("\n{change}"));
                }
                text
            }
        }
    }

    /// Returns the modifications for the model, one per line.
    pub fn modifications_text(&self) -> String {
        self.modifications.iter().map(|change| change.to_sentence(&self.arguments) + "\n").collect()
    }

    /// Returns the error for the model.
    pub fn error(&self) -> Option<String> {
        let said = |what: &str, refusal: &Refusal| Some(format!("{what}: {refusal}"));
        match &self.outcome {
            CallOutcome::Completed(_) | CallOutcome::DryRun(_) | CallOutcome::Answered(_) => None,
            CallOutcome::Failed(output) => {
                Some(output.error.clone().unwrap_or_else(|| "the tool failed".into()))
            }
            CallOutcome::Refused(refusal) => said("refused", refusal),
            CallOutcome::Withheld(refusal) => said("the call ran, but the result is withheld", refusal),
            CallOutcome::Unknown(refusal) => {
                said("the call may or may not have taken effect; do not repeat it without asking", refusal)
            }
        }
    }

    /// Returns the reason for an agent that runs its tools itself, and can only be told not to. Returns `None` if the agent may run the
    /// tool.
    pub fn denial_reason(&self) -> Option<String> {
        match &self.outcome {
            CallOutcome::Answered(output) => {
                Some(format!("A person answered in the place of the tool: {}", output.text))
            }
            CallOutcome::DryRun(_) => {
                Some(format!("This is a dry run: nothing is executed.\n{}", self.to_text()))
            }
            _ => self.error(),
        }
    }
}

impl Modification {
    fn to_sentence(&self, arguments: &Value) -> String {
        let why = self.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        match self.part {
            ModifiedPart::Arguments => {
                format!("[byleave] {} changed the arguments{why}; the call used {arguments}", self.author)
            }
            ModifiedPart::Output => format!("[byleave] {} changed the result{why}", self.author),
            ModifiedPart::NoteOnly => format!("[byleave] {} says{why}", self.author),
            ModifiedPart::Execution => {
                format!(
                    "[byleave] a person ({}) answered in the place of the tool; the tool did not run",
                    self.author
                )
            }
        }
    }
}
