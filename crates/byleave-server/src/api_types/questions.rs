//! Types of questions and answers.

use byleave_gate::approver::RiskLevel;
use byleave_gate::audit_log::QuestionItem;
use byleave_gate::core::approval_scopes::{ScopeWidth, approval_scopes};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::render;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::calls::{QuestionRef, kind_as_str};
use super::integer;

/// Open questions, newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionList {
    pub(crate) questions: Vec<OpenQuestion>,
}

/// An open question, summarized
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpenQuestion {
    pub(crate) question: Uuid,
    /// approval, checkpoint or release
    pub(crate) kind: String,
    pub(crate) call: Uuid,
    pub(crate) session: String,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) operation: String,
    /// A summary of its effects, with secrets removed
    pub(crate) summary: String,
    /// Milliseconds since 1970
    pub(crate) asked_at: u64,
    /// Milliseconds since 1970
    pub(crate) expires_at: u64,
    /// The cursor of this item, for `after`
    pub(crate) cursor: i64,
}

impl From<&QuestionItem> for OpenQuestion {
    fn from(item: &QuestionItem) -> Self {
        Self {
            question: item.question.uuid(),
            kind: kind_as_str(item.kind).to_owned(),
            call: item.call.uuid(),
            session: item.call_summary.session.to_string(),
            agent: item.call_summary.agent.clone(),
            tool: item.call_summary.tool.clone(),
            operation: item.call_summary.operation.clone(),
            summary: item.call_summary.summary.clone(),
            asked_at: item.asked_at,
            expires_at: item.expires_at,
            cursor: item.cursor.0,
        }
    }
}

/// Everything that a person must see to answer a question
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionViewBody {
    pub(crate) question: QuestionRef,
    pub(crate) call: Uuid,
    pub(crate) agent: String,
    pub(crate) session: String,
    pub(crate) tool: String,
    /// The exact arguments
    pub(crate) arguments: Value,
    /// The lines to show: all of them, in this order, as text and never as markup
    pub(crate) lines: Vec<QuestionLine>,
    /// Whether the lines are complete. If not, the question cannot be approved
    pub(crate) complete: bool,
    /// The severity: ordinary, grave or final
    pub(crate) severity: String,
    /// The scopes of standing approvals that cover this call, narrowest first
    pub(crate) approval_scopes: Vec<ApprovalScopeBody>,
    /// Why no standing approval is possible, if none is
    pub(crate) no_approval_reason: Option<String>,
}

/// One line of a question
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionLine {
    /// The kind of line, for styling
    pub(crate) role: Value,
    /// The text, including the gutter
    pub(crate) text: String,
    /// The number of gutter characters at the start. A client that wraps the line must repeat them
    pub(crate) gutter: u16,
}

/// A scope for a standing approval
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalScopeBody {
    /// The number to answer with
    #[schema(minimum = 1)]
    pub(crate) scope: u32,
    /// exact, program, directory, workspace, host or tool
    pub(crate) width: String,
    /// A description of the calls that it covers
    pub(crate) description: String,
}

impl From<&QuestionView> for QuestionViewBody {
    fn from(sheet: &QuestionView) -> Self {
        let rendering = render(sheet);
        let (offers, no_leave) = match approval_scopes(sheet) {
            Ok(offers) => (offers, None),
            Err(why) => (Vec::new(), Some(why.to_string())),
        };
        let lines = rendering.lines.into_iter().map(|line| QuestionLine {
            role: serde_json::to_value(line.role).unwrap_or_default(),
            text: line.text,
            gutter: line.gutter,
        });
        let gravity = match RiskLevel::for_question(sheet) {
            RiskLevel::Normal => "ordinary",
            RiskLevel::High => "grave",
            RiskLevel::Irreversible => "final",
        };
        Self {
            question: (&sheet.question).into(),
            call: sheet.call.uuid(),
            agent: sheet.agent.to_string(),
            session: sheet.session.to_string(),
            tool: sheet.resolved_tool.tool.clone(),
            arguments: sheet.arguments.clone(),
            lines: lines.collect(),
            complete: rendering.complete,
            severity: gravity.to_owned(),
            approval_scopes: (1..)
                .zip(offers)
                .map(|(offer, found)| ApprovalScopeBody {
                    scope: offer,
                    width: breadth_word(found.width).to_owned(),
                    description: found.description,
                })
                .collect(),
            no_approval_reason: no_leave,
        }
    }
}

const fn breadth_word(breadth: ScopeWidth) -> &'static str {
    match breadth {
        ScopeWidth::Exact => "exact",
        ScopeWidth::Program => "program",
        ScopeWidth::Directory => "directory",
        ScopeWidth::Workspace => "workspace",
        ScopeWidth::Host => "host",
        ScopeWidth::Tool => "tool",
    }
}

/// An answer to a question
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// The digest of the question as it was shown. An answer with another digest is rejected
    #[schema(pattern = "^[0-9a-f]{64}$", min_length = 64, max_length = 64)]
    pub(crate) digest: String,
    pub(crate) answer: AnswerChoice,
}

/// The case against a call, made by the person who approves it
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChallengeBody {
    /// What the call assumes
    #[schema(min_items = 1, max_items = 100)]
    pub(crate) assumptions: Vec<String>,
    /// How the call could fail
    #[schema(min_items = 1, max_items = 100)]
    pub(crate) failure_scenarios: Vec<String>,
    /// Why it is right all the same
    #[schema(min_length = 1, max_length = 4000)]
    pub(crate) reason: String,
}

/// The choice of an answer
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum AnswerChoice {
    /// Approve
    #[schema(title = "Yes")]
    Yes {
        /// A note for the model
        #[schema(max_length = 4000)]
        note: Option<String>,
        /// `release`, for a checkpoint
        confirm: Option<String>,
        /// The case against the call, if the question needs it
        challenge: Option<ChallengeBody>,
    },
    /// Refuse
    #[schema(title = "No")]
    No {
        /// What the model should do instead
        #[schema(max_length = 4000)]
        feedback: Option<String>,
    },
    /// Replace the arguments or the result
    #[schema(title = "Edit")]
    Edit {
        /// All arguments, or the whole result
        #[schema(value_type = Object)]
        value: serde_json::Map<String, Value>,
        /// A note for the model
        #[schema(max_length = 4000)]
        note: Option<String>,
    },
    /// Approve some of the changes of the rehearsal
    #[schema(title = "Partial")]
    Partial {
        /// Absolute paths, including everything below them
        #[schema(min_items = 1, max_items = 10000)]
        paths: Vec<String>,
        /// A note for the model
        #[schema(max_length = 4000)]
        note: Option<String>,
    },
    /// Approve this call, and later calls within one of the offered scopes
    #[schema(title = "StandingApproval")]
    StandingApproval {
        /// The number of the offered scope
        #[schema(minimum = 1, maximum = 4294967295_u32)]
        #[serde(deserialize_with = "integer::deserialize_u32")]
        scope: u32,
        /// The lifetime in seconds; 0 means until it is revoked
        #[schema(minimum = 0, maximum = 31622400, default = 3600)]
        #[serde(default = "default_lifetime_s", deserialize_with = "integer::deserialize_u32")]
        lifetime_s: u32,
        /// The maximum number of uses; unlimited by default
        #[schema(minimum = 1, maximum = 4294967295_u32)]
        #[serde(default, deserialize_with = "integer::deserialize_optional_u32")]
        max_uses: Option<u32>,
        /// Whether it applies in every session, not only in that of this call
        #[serde(default)]
        every_session: bool,
    },
    /// Give the result in the place of the tool, which does not run. Only for a person, and not for a checkpoint
    #[schema(title = "Result")]
    Result {
        /// The text that the model gets as the result, marked as the answer of a person
        #[schema(min_length = 1, max_length = 100000)]
        text: String,
    },
    /// Refuse the call, and ask the agent to stop
    #[schema(title = "Abort")]
    Abort {},
}

/// The default lifetime of a standing approval.
const fn default_lifetime_s() -> u32 {
    3_600
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_whole_however_they_are_written() {
        let offer = |number: Value| {
            let body = json!({"digest": "", "answer": {"kind": "standing-approval", "scope": number, "max_uses": 2.0}});
            match serde_json::from_value::<AnswerBody>(body).ok()?.answer {
                AnswerChoice::StandingApproval {
                    scope: offer, max_uses: Some(2), lifetime_s: 3600, ..
                } => Some(offer),
                _ => None,
            }
        };
        assert_eq!([json!(3), json!(3.0)].map(offer), [Some(3), Some(3)]);
        for wrong in [json!(3.5), json!(-1), json!(-1.0), json!(1e10), json!("3"), Value::Null] {
            assert_eq!(offer(wrong.clone()), None, "{wrong}");
        }
    }
}
