//! Types of questions and answers.

use byleave::approver::RiskLevel;
use byleave::audit_log::QuestionItem;
use byleave::core::approval_scopes::{ScopeWidth, approval_scopes};
use byleave::core::question_view::QuestionView;
use byleave::core::render::render;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::calls::{QuestionRef, kind_as_str};
use super::integer;

/// Open questions, the newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionList {
    pub(crate) questions: Vec<OpenQuestion>,
}

/// An open question, in a line
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
    /// What it would do, with secrets taken out
    pub(crate) summary: String,
    /// Milliseconds since 1970
    pub(crate) asked_at: u64,
    /// Milliseconds since 1970
    pub(crate) expires_at: u64,
    /// For `after`, to see what comes after it in the list
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
    /// The arguments, exact
    pub(crate) arguments: Value,
    /// What is to be shown: all of it, in this order, as text and never as markup
    pub(crate) lines: Vec<QuestionLine>,
    /// Whether everything is there; if not, it cannot be approved
    pub(crate) complete: bool,
    /// ordinary, grave or final: how carefully it must be put
    pub(crate) gravity: String,
    /// The leaves that would spare this question the next time, the narrowest first
    pub(crate) offers: Vec<ApprovalScopeBody>,
    /// Why none would, where none would
    pub(crate) no_leave: Option<String>,
}

/// One line of a question
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionLine {
    /// What kind of line it is, to style it
    pub(crate) role: Value,
    /// Its text, its gutter included
    pub(crate) text: String,
    /// How many characters at its start are gutter; whoever wraps the line repeats them
    pub(crate) gutter: u16,
}

/// A leave that may be given
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalScopeBody {
    /// To answer with
    #[schema(minimum = 1)]
    pub(crate) offer: u32,
    /// exact, program, directory, workspace, host or tool
    pub(crate) breadth: String,
    /// All that it lets pass, in words
    pub(crate) words: String,
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
            tool: sheet.terms.tool.clone(),
            arguments: sheet.arguments.clone(),
            lines: lines.collect(),
            complete: rendering.complete,
            gravity: gravity.to_owned(),
            offers: (1..)
                .zip(offers)
                .map(|(offer, found)| ApprovalScopeBody {
                    offer,
                    breadth: breadth_word(found.breadth).to_owned(),
                    words: found.words,
                })
                .collect(),
            no_leave,
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
    /// The digest of the question as it was shown; an answer without it, or with another, is none
    #[schema(pattern = "^[0-9a-f]{64}$", min_length = 64, max_length = 64)]
    pub(crate) digest: String,
    pub(crate) answer: AnswerChoice,
}

/// What is said
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "say", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum AnswerChoice {
    /// Go ahead
    #[schema(title = "Yes")]
    Yes {
        /// Something for the model to know
        #[schema(max_length = 4000)]
        note: Option<String>,
        /// `release`, where it is a checkpoint
        confirm: Option<String>,
    },
    /// Do not
    #[schema(title = "No")]
    No {
        /// What the model should do instead
        #[schema(max_length = 4000)]
        feedback: Option<String>,
    },
    /// With these arguments, or this result, instead
    #[schema(title = "Edit")]
    Edit {
        /// The whole of it
        #[schema(value_type = Object)]
        value: serde_json::Map<String, Value>,
        /// Something for the model to know
        #[schema(max_length = 4000)]
        note: Option<String>,
    },
    /// Go ahead with a part of what the rehearsal changed
    #[schema(title = "Part")]
    Part {
        /// Absolute paths, with everything beneath them
        #[schema(min_items = 1, max_items = 10000)]
        paths: Vec<String>,
        /// Something for the model to know
        #[schema(max_length = 4000)]
        note: Option<String>,
    },
    /// Go ahead, now and in future within one of the scopes that the question offers
    #[schema(title = "Leave")]
    Leave {
        /// Which of the offers
        #[schema(minimum = 1, maximum = 4294967295_u32)]
        #[serde(deserialize_with = "integer::deserialize_u32")]
        offer: u32,
        /// How many seconds it lasts; for ever if not said
        #[schema(minimum = 1, maximum = 31622400)]
        #[serde(default, deserialize_with = "integer::deserialize_optional_u32")]
        lasts_s: Option<u32>,
        /// How often it may be used
        #[schema(minimum = 1, maximum = 4294967295_u32)]
        #[serde(default, deserialize_with = "integer::deserialize_optional_u32")]
        uses_max: Option<u32>,
        /// Only in the session of this call
        #[serde(default)]
        this_session: bool,
    },
    /// Stop everything
    #[schema(title = "Abort")]
    Abort {},
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_whole_however_they_are_written() {
        let offer = |number: Value| {
            let body = json!({"digest": "", "answer": {"say": "leave", "offer": number, "uses_max": 2.0}});
            match serde_json::from_value::<AnswerBody>(body).ok()?.answer {
                AnswerChoice::Leave { offer, uses_max: Some(2), lasts_s: None, .. } => Some(offer),
                _ => None,
            }
        };
        assert_eq!([json!(3), json!(3.0)].map(offer), [Some(3), Some(3)]);
        for wrong in [json!(3.5), json!(-1), json!(-1.0), json!(1e10), json!("3"), Value::Null] {
            assert_eq!(offer(wrong.clone()), None, "{wrong}");
        }
    }
}
