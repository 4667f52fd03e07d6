//! Tools, rulings, halts, health.

use byleave::core::ruling::{Reason, Verdict};
use byleave::forms::Form;
use byleave::gate::Explanation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::calls::{ModeWord, Refused};

/// In which form
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolQuery {
    /// Whose form the schemas have
    #[param(inline)]
    pub(crate) form: ToolForm,
}

/// Whose form schemas have
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolForm {
    #[default]
    Mcp,
    Openai,
    Anthropic,
    Gemini,
}

impl From<ToolForm> for Form {
    fn from(form: ToolForm) -> Self {
        match form {
            ToolForm::Mcp => Self::Mcp,
            ToolForm::Openai => Self::OpenAi,
            ToolForm::Anthropic => Self::Anthropic,
            ToolForm::Gemini => Self::Gemini,
        }
    }
}

/// The tools that there are
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolList {
    pub(crate) tools: Vec<ToolEntry>,
}

/// A tool
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolEntry {
    pub(crate) name: String,
    /// The tool in the form that was asked for; null where that form cannot have it
    pub(crate) schema: Option<Value>,
    /// Why it cannot
    pub(crate) unfit: Option<String>,
    /// Its own word; it never loosens a verdict
    pub(crate) read_only: bool,
    /// Its own word
    pub(crate) destructive: bool,
}

/// A call to be explained; nothing is run, and nobody is asked
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainBody {
    /// The tool's name
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) tool: String,
    /// The arguments
    #[schema(value_type = Object)]
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// The server's own, if not said
    pub(crate) mode: Option<ModeWord>,
}

/// What a call would do, and what the policy says of it
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explained {
    pub(crate) tool: String,
    /// allow, ask or deny; absent where it is refused before it is judged
    pub(crate) verdict: Option<String>,
    /// Why it is refused before it is judged
    pub(crate) refusal: Option<Refused>,
    /// What it would do
    #[schema(value_type = Vec<Object>)]
    pub(crate) effects: Vec<Value>,
    pub(crate) reasons: Vec<Reasoned>,
    /// The digest of the policy that ruled
    pub(crate) policy: Option<String>,
}

/// A reason of a ruling
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reasoned {
    /// allow, ask or deny
    pub(crate) verdict: String,
    /// The rule that decided, by id
    pub(crate) rule: Option<String>,
    /// Where it stands: layer, file and line
    pub(crate) origin: Option<String>,
    /// The places of the effects that it is about; empty: the call as a whole
    pub(crate) effects: Vec<u32>,
    pub(crate) why: String,
}

const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

impl From<&Explanation> for Explained {
    fn from(found: &Explanation) -> Self {
        let reasoned = |reason: &Reason| Reasoned {
            verdict: verdict_word(reason.verdict).to_owned(),
            rule: reason.rule.clone(),
            origin: reason.origin.clone(),
            effects: reason.effects.clone(),
            why: reason.why.clone(),
        };
        let effects = found.plan.effects.iter();
        Self {
            tool: found.tool.clone(),
            verdict: Some(verdict_word(found.ruling.verdict).to_owned()),
            refusal: None,
            effects: effects.map(|effect| serde_json::to_value(effect).unwrap_or_default()).collect(),
            reasons: found.ruling.reasons.iter().map(reasoned).collect(),
            policy: Some(found.ruling.policy.to_string()),
        }
    }
}

/// Whether everything is halted
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Halt {
    pub(crate) halted: bool,
    pub(crate) why: Option<String>,
    pub(crate) by: Option<String>,
}

/// Why everything is halted
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HaltBody {
    #[schema(min_length = 1, max_length = 1000)]
    pub(crate) why: String,
}

/// How the server is
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// ok
    pub(crate) status: String,
    pub(crate) version: String,
}
