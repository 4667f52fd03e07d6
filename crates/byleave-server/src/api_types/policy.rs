//! Types of tools, decisions, and replays of past calls under other rules.

use byleave_gate::core::decision::{DecisionReason, Verdict};
use byleave_gate::gate::Explanation;
use byleave_gate::provider_formats::ProviderFormat;
use byleave_gate::replay::PolicyReplay;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::calls::{ModeName, RefusalBody};

/// The format of the schemas
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolQuery {
    /// The provider whose format the schemas have
    #[param(inline)]
    pub(crate) format: ToolFormat,
}

/// The format of schemas
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

/// The available tools
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolList {
    pub(crate) tools: Vec<ToolEntry>,
}

/// A tool
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolEntry {
    pub(crate) name: String,
    /// The tool in the requested format; null if the format cannot express it
    pub(crate) schema: Option<Value>,
    /// Why the format cannot express the tool
    pub(crate) unsupported_reason: Option<String>,
    /// Declared by the tool. It never makes a verdict less strict
    pub(crate) read_only: bool,
    /// Declared by the tool
    pub(crate) destructive: bool,
}

/// A call to explain. Nothing runs, and nobody is asked
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainBody {
    /// The name of the tool
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) tool: String,
    /// The arguments
    #[schema(value_type = Object)]
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// The mode; the mode of the server by default
    pub(crate) mode: Option<ModeName>,
}

/// The effects of a call and the decision of the policy
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExplanationBody {
    pub(crate) tool: String,
    /// allow, ask or deny; absent if the call is refused before the policy is evaluated
    pub(crate) verdict: Option<String>,
    /// Why the call is refused before the policy is evaluated
    pub(crate) refusal: Option<RefusalBody>,
    /// The predicted effects
    #[schema(value_type = Vec<Object>)]
    pub(crate) effects: Vec<Value>,
    pub(crate) reasons: Vec<ReasonBody>,
    /// The digest of the evaluated policy
    pub(crate) policy: Option<String>,
}

/// A reason of a decision
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReasonBody {
    /// allow, ask or deny
    pub(crate) verdict: String,
    /// The id of the rule that decided
    pub(crate) rule: Option<String>,
    /// The position of the rule: layer, file and line
    pub(crate) origin: Option<String>,
    /// The indexes of the affected effects; empty for the whole call
    pub(crate) effects: Vec<u32>,
    pub(crate) message: String,
}

impl From<&Explanation> for ExplanationBody {
    fn from(found: &Explanation) -> Self {
        let reasoned = |reason: &DecisionReason| ReasonBody {
            verdict: reason.verdict.as_str().to_owned(),
            rule: reason.rule.clone(),
            origin: reason.origin.clone(),
            effects: reason.effects.clone(),
            message: reason.message.clone(),
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

/// Rules to try. They do not come into force
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayBody {
    /// A policy file as TOML, in place of the user's policy file
    #[schema(max_length = 100_000)]
    pub(crate) policy: String,
    /// The number of newest calls to evaluate
    #[schema(minimum = 1, maximum = 1000, default = 500)]
    #[serde(default = "usual_limit")]
    pub(crate) limit: u32,
}

const fn usual_limit() -> u32 {
    500
}

/// The result of evaluating past calls with other rules
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayReport {
    /// The number of evaluated calls
    pub(crate) evaluated: u64,
    /// The number of calls that would get the same verdict
    pub(crate) same: u64,
    /// Whether there are older calls that were not evaluated
    pub(crate) has_more: bool,
    pub(crate) counts: Vec<ReplayCount>,
    pub(crate) changed: Vec<ReplayChange>,
    pub(crate) skipped: Vec<ReplaySkip>,
}

/// The number of calls that would change from one verdict to another
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayCount {
    /// allow, ask or deny
    pub(crate) before: String,
    /// allow, ask or deny
    pub(crate) after: String,
    pub(crate) calls: u64,
}

/// A call that would get another verdict
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayChange {
    pub(crate) call: Uuid,
    pub(crate) tool: String,
    /// A summary of its effects, with secrets removed
    pub(crate) summary: String,
    /// allow, ask or deny
    pub(crate) before: String,
    /// allow, ask or deny
    pub(crate) after: String,
    /// The id of the rule that would decide
    pub(crate) rule: Option<String>,
    /// The position of the rule: layer, file and line
    pub(crate) origin: Option<String>,
    pub(crate) message: String,
}

/// A call that cannot be evaluated again
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplaySkip {
    pub(crate) call: Uuid,
    pub(crate) tool: String,
    pub(crate) reason: String,
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
                after: word(change.new_decision.verdict),
                rule: decisive.and_then(|reason| reason.rule.clone()),
                origin: decisive.and_then(|reason| reason.origin.clone()),
                message: decisive.map_or_else(String::new, |reason| reason.message.clone()),
            }
        });
        let unjudged = replay.skipped.iter();
        Self {
            evaluated: replay.evaluated,
            same: replay.unchanged_count(),
            has_more: more,
            counts: counts
                .map(|((before, now), calls)| ReplayCount { before: word(before), after: word(now), calls })
                .collect(),
            changed: changed.collect(),
            skipped: unjudged
                .map(|one| ReplaySkip {
                    call: one.call.uuid(),
                    tool: one.tool.clone(),
                    reason: one.reason.clone(),
                })
                .collect(),
        }
    }
}
