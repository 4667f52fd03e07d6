//! Types of calls: requests and their status.

use std::collections::BTreeMap;

use byleave_gate::core::call::Mode;
use byleave_gate::core::question::{Question, QuestionKind};
use byleave_gate::core::refusal::Refusal;
use byleave_gate::result::{self, CallOutcome, CallResult, CallStatus};
use byleave_gate::tool::EarlierData;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::client_tools::InputReview;
use crate::client_tools::HandedCall;
use crate::problem::page;
use crate::tenant::ClientCallStatus;

/// The maximum waiting time of a request, in seconds.
pub(crate) const MAX_WAIT_S: u32 = 60;

/// One use of one tool
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallBody {
    /// The name of the tool
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) tool: String,
    /// The arguments, as the model wrote them
    #[schema(value_type = Object)]
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// The conversation or task of the call. Calls of a session keep their order. Each principal has its own sessions
    #[schema(min_length = 1, max_length = 48, pattern = "^[A-Za-z0-9._-]+$", default = "main")]
    #[serde(default = "main_session")]
    pub(crate) session: String,
    /// The reason in the model's own words, shown to people as such
    #[schema(max_length = 4000)]
    pub(crate) reason: Option<String>,
    /// The mode. It must not be looser than the mode of the server
    pub(crate) mode: Option<ModeName>,
    /// Predict the effects and change nothing
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The opinion of the client's reviewer on the arguments. Only for the client's own tools
    pub(crate) review: Option<InputReview>,
}

fn main_session() -> String {
    "main".to_owned()
}

/// How much a session asks
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

/// The waiting time
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// The maximum number of seconds to wait until the call is settled
    #[param(minimum = 0, maximum = 60)]
    #[serde(default)]
    pub(crate) wait: u32,
}

/// Where to continue
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AfterQuery {
    /// The number of the last entry that the client has seen, if there is no header
    #[param(minimum = 0, maximum = 4294967295_u32)]
    pub(crate) after: Option<u32>,
}

/// Where to continue, as a header
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only described: it is read as a header")]
pub(crate) struct LastEventHeader {
    /// The number of the last entry that the client has seen
    #[param(rename = "Last-Event-ID", nullable = false, minimum = 0, maximum = 4294967295_u32)]
    last_event_id: Option<u32>,
}

/// A server-sent event of a call
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: it is written as text")]
pub(crate) struct CallEvent {
    /// `entry` or `tool_approval`
    event: String,
    /// The number of the entry. A `tool_approval` has none, and comes right before its entry
    id: Option<String>,
    /// JSON: `call`, `seq`, `link` and `entry`, or `call`, `tool`, `parameters` and `approved`
    data: String,
}

/// The status of a call
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallStatusBody {
    /// The call
    pub(crate) call: Uuid,
    /// The state of the call
    pub(crate) state: CallStateName,
    /// The open question, if the call waits for a person
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) question: Option<QuestionRef>,
    /// The call that blocks this one, if any
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) blocking_call: Option<Uuid>,
    /// The arguments to run a claimed call with
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) arguments: Option<Value>,
    /// The data of earlier calls that the tool of a claimed call wants, by the name of the tool that returned it. Absent if there is none
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) data: Option<BTreeMap<String, EarlierDataBody>>,
    /// The result of a settled call
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) result: Option<CallResultBody>,
}

/// The state of a call
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CallStateName {
    /// The call has ended
    Settled,
    /// The call waits for a person
    Waiting,
    /// Another call of the session blocks this one
    Blocked,
    /// The client may claim the call. Only for client tools
    Ready,
    /// The client has claimed the call and runs it
    Claimed,
    /// The server or a worker processes the call
    Running,
}

/// The data of an earlier call of the session, as it was released
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EarlierDataBody {
    /// The call that returned it
    pub(crate) call: Uuid,
    /// The structured data of its result
    pub(crate) data: Value,
}

/// A question, with the digest that an answer must repeat
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionRef {
    pub(crate) id: Uuid,
    /// approval, checkpoint or release
    pub(crate) kind: String,
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub(crate) digest: String,
    /// The time after which nobody can answer, in milliseconds since 1970
    pub(crate) expires_at: u64,
}

/// The result of a call
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallResultBody {
    pub(crate) outcome: CallOutcomeName,
    /// The resolved name of the tool
    pub(crate) tool: String,
    /// Whether the call succeeded
    pub(crate) success: bool,
    /// The text for the model
    pub(crate) output: String,
    /// Whether the output was truncated
    pub(crate) truncated: bool,
    pub(crate) execution_time_ms: u64,
    /// The error, for the model
    pub(crate) error: Option<String>,
    /// Why the call did not run, or why its result was not released
    pub(crate) refusal: Option<RefusalBody>,
    /// The final arguments
    pub(crate) arguments: Value,
    /// Structured data
    pub(crate) data: Option<Value>,
    /// The predicted effects, for a dry run
    #[schema(value_type = Option<Vec<Object>>)]
    pub(crate) effects: Option<Vec<Value>>,
    /// The changes by reviewers and people
    pub(crate) modifications: Vec<ModificationBody>,
    /// The position of the call in the audit log
    pub(crate) receipt: Option<Receipt>,
}

/// The outcome of a call
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CallOutcomeName {
    Completed,
    Failed,
    Withheld,
    Refused,
    DryRun,
    Unknown,
    Answered,
}

/// The reason for a refusal
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusalBody {
    /// A stable code for programs
    pub(crate) code: String,
    /// How a participant failed, if the code says that one did: error, panic, timeout or invalid-response
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<String>,
    /// The message for people and models
    pub(crate) message: String,
    /// A page that explains the code
    #[schema(format = "uri")]
    pub(crate) page: String,
}

/// A change by a reviewer or a person
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModificationBody {
    /// arguments, output, execution if a person answered in the place of the tool, or nothing if only a note was added
    pub(crate) kind: String,
    pub(crate) actor: String,
    pub(crate) reason: Option<String>,
}

/// The position of a call in the audit log
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Receipt {
    /// The number of entries in the record
    pub(crate) entries: u32,
    /// The link of the last entry
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub(crate) head: String,
}

impl CallStatusBody {
    fn plain(call: Uuid, state: CallStateName) -> Self {
        Self { call, state, question: None, blocking_call: None, arguments: None, data: None, result: None }
    }

    /// Creates the status of a call that its client runs.
    pub(crate) fn claimed(call: Uuid, handed: &HandedCall) -> Self {
        let body =
            |given: &EarlierData| EarlierDataBody { call: given.call.uuid(), data: given.data.clone() };
        let data = handed.data.iter().map(|(tool, given)| (tool.clone(), body(given)));
        Self {
            arguments: Some(handed.arguments.clone()),
            data: (!handed.data.is_empty()).then(|| data.collect()),
            ..Self::plain(call, CallStateName::Claimed)
        }
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
                Self { blocking_call: Some(by.uuid()), ..Self::plain(call, CallStateName::Blocked) }
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
        Self {
            code: refusal.code.to_string(),
            cause: refusal.cause.map(|cause| cause.as_str().to_owned()),
            message: refusal.message.clone(),
            page: page(refusal.code),
        }
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
                result::ModifiedPart::Execution => "execution",
            };
            ModificationBody {
                kind: what.to_owned(),
                actor: change.author.clone(),
                reason: change.reason.clone(),
            }
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
            modifications: changes.collect(),
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
            CallOutcome::DryRun(_) => Self::DryRun,
            CallOutcome::Unknown(_) => Self::Unknown,
            CallOutcome::Answered(_) => Self::Answered,
        }
    }
}
