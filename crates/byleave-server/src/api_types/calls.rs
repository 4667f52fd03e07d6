//! Types of calls: requests and their status.

use byleave::core::call::Mode;
use byleave::core::question::{Question, QuestionKind};
use byleave::core::refusal::Refusal;
use byleave::result::{self, CallOutcome, CallResult, CallStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::client_tools::InputReview;
use crate::problem::page;
use crate::tenant::ClientCallStatus;

/// The maximum waiting time of a request, in seconds.
pub(crate) const MAX_WAIT_S: u32 = 60;

/// One use of one tool
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallBody {
    /// The tool's name
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) tool: String,
    /// The arguments, as the model wrote them
    #[schema(value_type = Object)]
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// The conversation or task that it is part of: its calls keep their order. Sessions are the principal's own
    #[schema(min_length = 1, max_length = 48, pattern = "^[A-Za-z0-9._-]+$", default = "main")]
    #[serde(default = "main_session")]
    pub(crate) session: String,
    /// Why, in the model's own words; shown to people as such
    #[schema(max_length = 4000)]
    pub(crate) reason: Option<String>,
    /// How much is asked. Never less than the server's own mode asks
    pub(crate) mode: Option<ModeName>,
    /// Say what would happen, and change nothing
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// What the maker's own reviewer said of the arguments; only for the maker's own tools
    pub(crate) review: Option<InputReview>,
}

fn main_session() -> String {
    "main".to_owned()
}

/// How much is asked
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ModeName {
    ConfirmAll,
    ConfirmSensitive,
    ConfirmDangerous,
    Yolo,
    ReadOnly,
}

impl From<ModeName> for Mode {
    fn from(word: ModeName) -> Self {
        match word {
            ModeName::ConfirmAll => Self::ConfirmAll,
            ModeName::ConfirmSensitive => Self::ConfirmSensitive,
            ModeName::ConfirmDangerous => Self::ConfirmDangerous,
            ModeName::Yolo => Self::Yolo,
            ModeName::ReadOnly => Self::ReadOnly,
        }
    }
}

/// How long to wait
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// How many seconds to wait at most for the call to be settled
    #[param(minimum = 0, maximum = 60)]
    #[serde(default)]
    pub(crate) wait: u32,
}

/// Where to go on
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AfterQuery {
    /// The entry that was seen last, where no header says so
    #[param(minimum = 0, maximum = 4294967295_u32)]
    pub(crate) after: Option<u32>,
}

/// Where to go on, as browsers say it
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only described: it is read as a header")]
pub(crate) struct LastEventHeader {
    /// The entry that was seen last
    #[param(rename = "Last-Event-ID", nullable = false, minimum = 0, maximum = 4294967295_u32)]
    last_event_id: Option<u32>,
}

/// An event of a call, as server-sent events have it
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: it is written as text")]
pub(crate) struct CallEvent {
    /// `entry` or `tool_approval`
    event: String,
    /// The number of the entry; a `tool_approval` has none, and comes right before the entry that it is about
    id: Option<String>,
    /// JSON: `call`, `seq`, `link` and `entry`, or `call`, `tool`, `parameters` and `approved`
    data: String,
}

/// How far a call has come
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallStatusBody {
    /// The call
    pub(crate) call: Uuid,
    /// How far it has come
    pub(crate) state: CallStateName,
    /// What a person is asked, where it waits for one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) question: Option<QuestionRef>,
    /// The call that it stands behind, where it does
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) held_up_by: Option<Uuid>,
    /// What to run it with, where it was taken
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) arguments: Option<Value>,
    /// What came of it, where it is settled
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) result: Option<CallResultBody>,
}

/// How far a call has come
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CallStateName {
    /// To its end
    Settled,
    /// To a person
    Waiting,
    /// Behind another call of its session
    HeldUp,
    /// To its maker, who may take it; only calls of own tools
    Ready,
    /// Into the hands of its maker, who runs it
    Taken,
    /// It is worked on
    Running,
}

/// A question, with the digest that an answer repeats
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionRef {
    pub(crate) id: Uuid,
    /// approval, checkpoint or release
    pub(crate) kind: String,
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub(crate) digest: String,
    /// Nobody can answer it after that; milliseconds since 1970
    pub(crate) expires_at: u64,
}

/// What came of a call
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallResultBody {
    pub(crate) outcome: CallOutcomeName,
    /// The tool's own name
    pub(crate) tool: String,
    /// Whether the model can take it as done
    pub(crate) success: bool,
    /// For the model to read
    pub(crate) output: String,
    /// Something was cut away
    pub(crate) truncated: bool,
    pub(crate) execution_time_ms: u64,
    /// What went wrong, for the model
    pub(crate) error: Option<String>,
    /// Why it did not run, or why its result is not released
    pub(crate) refusal: Option<RefusalBody>,
    /// The arguments as they were used
    pub(crate) arguments: Value,
    /// Structured data
    pub(crate) data: Option<Value>,
    /// What it would do, where it was a dry run
    #[schema(value_type = Option<Vec<Object>>)]
    pub(crate) effects: Option<Vec<Value>>,
    /// What was changed on the way
    pub(crate) changes: Vec<ModificationBody>,
    /// Where it stands in the book
    pub(crate) receipt: Option<Receipt>,
}

/// What came of a call, in a word
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CallOutcomeName {
    Completed,
    Failed,
    Withheld,
    Refused,
    Rehearsed,
    Unknown,
}

/// Why something did not happen
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusalBody {
    /// To branch on
    pub(crate) code: String,
    /// To read
    pub(crate) why: String,
    /// What it means and what to do
    #[schema(format = "uri")]
    pub(crate) page: String,
}

/// Something that was changed on the way
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModificationBody {
    /// arguments, output, or nothing where someone only added a word
    pub(crate) what: String,
    pub(crate) by: String,
    pub(crate) why: Option<String>,
}

/// Where a call stands in the book
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Receipt {
    /// How many entries its record has
    pub(crate) entries: u32,
    /// The link of the last
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub(crate) head: String,
}

impl CallStatusBody {
    fn plain(call: Uuid, state: CallStateName) -> Self {
        Self { call, state, question: None, held_up_by: None, arguments: None, result: None }
    }

    /// Creates the status of a call that its client runs, with these arguments.
    pub(crate) fn claimed(call: Uuid, arguments: Value) -> Self {
        Self { arguments: Some(arguments), ..Self::plain(call, CallStateName::Taken) }
    }

    pub(crate) fn from_status(call: Uuid, stood: &ClientCallStatus) -> Self {
        let ClientCallStatus::Status(standing) = stood else {
            return Self::plain(call, CallStateName::Running);
        };
        match &**standing {
            CallStatus::Settled(result) => {
                Self { result: Some(result.into()), ..Self::plain(call, CallStateName::Settled) }
            }
            CallStatus::Waiting { question, .. } => {
                Self { question: Some(question.into()), ..Self::plain(call, CallStateName::Waiting) }
            }
            CallStatus::Blocked { blocked_by: by, .. } => {
                Self { held_up_by: Some(by.uuid()), ..Self::plain(call, CallStateName::HeldUp) }
            }
            CallStatus::Ready { .. } => Self::plain(call, CallStateName::Ready),
            CallStatus::RunningElsewhere { .. } => Self::plain(call, CallStateName::Running),
        }
    }
}

pub(crate) const fn kind_as_str(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Approval => "approval",
        QuestionKind::Checkpoint => "checkpoint",
        QuestionKind::Release => "release",
    }
}

impl From<&Question> for QuestionRef {
    fn from(question: &Question) -> Self {
        Self {
            id: question.id.uuid(),
            kind: kind_as_str(question.kind).to_owned(),
            digest: question.digest().to_string(),
            expires_at: question.expires_at,
        }
    }
}

impl From<&Refusal> for RefusalBody {
    fn from(refusal: &Refusal) -> Self {
        Self { code: refusal.code.to_string(), why: refusal.why.clone(), page: page(refusal.code) }
    }
}

impl From<&CallResult> for CallResultBody {
    fn from(result: &CallResult) -> Self {
        let report = result.to_report();
        let effects = match &result.outcome {
            CallOutcome::DryRun(plan) => {
                let effects =
                    plan.effects.iter().map(|effect| serde_json::to_value(effect).unwrap_or_default());
                Some(effects.collect())
            }
            _ => None,
        };
        let changes = result.modifications.iter().map(|change| {
            let what = match change.part {
                result::ModifiedPart::Arguments => "arguments",
                result::ModifiedPart::Output => "output",
                result::ModifiedPart::NoteOnly => "nothing",
            };
            ModificationBody { what: what.to_owned(), by: change.author.clone(), why: change.reason.clone() }
        });
        Self {
            outcome: (&result.outcome).into(),
            success: report.success,
            output: report.output,
            truncated: report.truncated,
            execution_time_ms: report.execution_time_ms,
            error: report.error,
            refusal: result.outcome.refusal().map(RefusalBody::from),
            arguments: result.arguments.clone(),
            data: report.data,
            effects,
            changes: changes.collect(),
            receipt: result
                .receipt
                .map(|receipt| Receipt { entries: receipt.entries, head: receipt.head.to_string() }),
            tool: report.tool,
        }
    }
}

impl From<&CallOutcome> for CallOutcomeName {
    fn from(ending: &CallOutcome) -> Self {
        match ending {
            CallOutcome::Completed(_) => Self::Completed,
            CallOutcome::Failed(_) => Self::Failed,
            CallOutcome::Withheld(_) => Self::Withheld,
            CallOutcome::Refused(_) => Self::Refused,
            CallOutcome::DryRun(_) => Self::Rehearsed,
            CallOutcome::Unknown(_) => Self::Unknown,
        }
    }
}
