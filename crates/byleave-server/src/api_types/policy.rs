//! Types of tools, decisions, and replays of past calls under other rules.

use byleave::core::decision::{DecisionReason, Verdict};
use byleave::gate::Explanation;
use byleave::provider_formats::ProviderFormat;
use byleave::replay::PolicyReplay;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::calls::{ModeName, RefusalBody};

/// In which form
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolQuery {
    /// Whose form the schemas have
    #[param(inline)]
    pub(crate) form: ToolFormat,
}

/// Whose form schemas have
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolFormat {
    #[default]
    Mcp,
    Openai,
    Anthropic,
    Gemini,
}

impl From<ToolFormat> for ProviderFormat {
    fn from(form: ToolFormat) -> Self {
        match form {
            ToolFormat::Mcp => Self::Mcp,
            ToolFormat::Openai => Self::OpenAi,
            ToolFormat::Anthropic => Self::Anthropic,
            ToolFormat::Gemini => Self::Gemini,
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
    pub(crate) mode: Option<ModeName>,
}

/// What a call would do, and what the policy says of it
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExplanationBody {
    pub(crate) tool: String,
    /// allow, ask or deny; absent where it is refused before it is judged
    pub(crate) verdict: Option<String>,
    /// Why it is refused before it is judged
    pub(crate) refusal: Option<RefusalBody>,
    /// What it would do
    #[schema(value_type = Vec<Object>)]
    pub(crate) effects: Vec<Value>,
    pub(crate) reasons: Vec<ReasonBody>,
    /// The digest of the policy that ruled
    pub(crate) policy: Option<String>,
}

/// A reason of a ruling
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReasonBody {
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

impl From<&Explanation> for ExplanationBody {
    fn from(found: &Explanation) -> Self {
        let reasoned = |reason: &DecisionReason| ReasonBody {
            verdict: reason.verdict.as_str().to_owned(),
            rule: reason.rule.clone(),
            origin: reason.origin.clone(),
            effects: reason.effects.clone(),
            why: reason.why.clone(),
        };
        let effects = found.plan.effects.iter();
        Self {
            tool: found.tool.clone(),
            verdict: Some(found.decision.verdict.as_str().to_owned()),
            refusal: None,
            effects: effects.map(|effect| serde_json::to_value(effect).unwrap_or_default()).collect(),
            reasons: found.decision.reasons.iter().map(reasoned).collect(),
            policy: Some(found.decision.policy.to_string()),
        }
    }
}

/// The maximum length of a policy for a replay.
pub(crate) const MAX_POLICY_CHARS: usize = 100_000;
/// The maximum number of calls in a replay.
pub(crate) const MAX_REPLAY: u32 = 1_000;

/// Rules to be tried; nothing is put in force
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayBody {
    /// A policy file, as TOML, in the place of the person's own
    #[schema(max_length = 100_000)]
    pub(crate) policy: String,
    /// How many of the newest calls
    #[schema(minimum = 1, maximum = 1000, default = 500)]
    #[serde(default = "usual_limit")]
    pub(crate) limit: u32,
}

const fn usual_limit() -> u32 {
    500
}

/// What other rules would have made of past calls
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayReport {
    /// So many were judged again
    pub(crate) judged: u64,
    /// So many of them would get the same verdict
    pub(crate) same: u64,
    /// There are older calls that were not looked at
    pub(crate) more: bool,
    pub(crate) counts: Vec<ReplayCount>,
    pub(crate) changed: Vec<ReplayChange>,
    pub(crate) not_judged: Vec<ReplaySkip>,
}

/// How many calls would go from one verdict to another
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayCount {
    /// allow, ask or deny
    pub(crate) before: String,
    /// allow, ask or deny
    pub(crate) now: String,
    pub(crate) calls: u64,
}

/// A call that would get another verdict
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayChange {
    pub(crate) call: Uuid,
    pub(crate) tool: String,
    /// What it would do, with secrets taken out
    pub(crate) summary: String,
    /// allow, ask or deny
    pub(crate) before: String,
    /// allow, ask or deny
    pub(crate) now: String,
    /// The rule that would decide, by id
    pub(crate) rule: Option<String>,
    /// Where it stands: layer, file and line
    pub(crate) origin: Option<String>,
    pub(crate) why: String,
}

/// A call that cannot be judged again
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplaySkip {
    pub(crate) call: Uuid,
    pub(crate) tool: String,
    pub(crate) why: String,
}

impl ReplayReport {
    pub(crate) fn from_replay(replay: &PolicyReplay, more: bool) -> Self {
        let word = |verdict: Verdict| verdict.as_str().to_owned();
        let counts = replay.transition_counts().into_iter();
        let changed = replay.changes.iter().map(|change| {
            let decisive = change.new_decision.decisive_reason();
            ReplayChange {
                call: change.call.call.uuid(),
                tool: change.call.header.tool.clone(),
                summary: change.call.summary.clone(),
                before: word(change.call.decision.verdict),
                now: word(change.new_decision.verdict),
                rule: decisive.and_then(|reason| reason.rule.clone()),
                origin: decisive.and_then(|reason| reason.origin.clone()),
                why: decisive.map_or_else(String::new, |reason| reason.why.clone()),
            }
        });
        let unjudged = replay.skipped.iter();
        Self {
            judged: replay.evaluated,
            same: replay.unchanged_count(),
            more,
            counts: counts
                .map(|((before, now), calls)| ReplayCount { before: word(before), now: word(now), calls })
                .collect(),
            changed: changed.collect(),
            not_judged: unjudged
                .map(|one| ReplaySkip {
                    call: one.call.uuid(),
                    tool: one.tool.clone(),
                    why: one.reason.clone(),
                })
                .collect(),
        }
    }
}
