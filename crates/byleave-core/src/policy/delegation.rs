//! Delegation: a call of a sub-agent is evaluated as its own call and as a call of every session above it.
//!
//! The levels above can only tighten. There is one exception: a rule may let them delegate to a sub-agent, by name, what they may not do
//! themselves.

use super::compile::CompiledRule;
use super::request::PolicyRequest;
use crate::decision::{AskCause, DecisionReason, Verdict};
use crate::effect::Effect;
use crate::manifest::{Manifest, PermissionClass};
use crate::pattern::{MatchCertainty, Pattern, PatternMatcher};
use crate::session::{Ceiling, EffectiveMode, SessionNode};

/// A call, seen as a call of one session of the lineage.
#[derive(Debug)]
pub(super) struct SessionLevel<'a> {
    /// The call, as if this session made it.
    pub(super) request: PolicyRequest<'a>,
    pub(super) effective_mode: EffectiveMode,
    /// The plan has no effect but reads.
    pub(super) reads_only: bool,
    /// This is the session that makes the call, not one above it.
    is_own: bool,
    lineage: &'a [SessionNode],
}

impl<'a> SessionLevel<'a> {
    /// Creates the level of the call itself.
    pub(super) fn for_own_session(
        request: &PolicyRequest<'a>,
        met: EffectiveMode,
        lineage: &'a [SessionNode],
    ) -> Self {
        Self {
            request: *request,
            effective_mode: met,
            reads_only: plan_reads_only(request),
            is_own: true,
            lineage,
        }
    }

    /// Creates the level of a session of the lineage. The first is the session that makes the call, under the name with which it was
    /// opened.
    pub(super) fn for_ancestor(
        opening: &'a SessionNode,
        above: usize,
        request: &PolicyRequest<'a>,
        met: EffectiveMode,
        lineage: &'a [SessionNode],
    ) -> Self {
        let request = PolicyRequest { session: &opening.session, agent: &opening.agent, ..*request };
        Self { is_own: above == 0, ..Self::for_own_session(&request, met, lineage) }
    }

    /// Checks whether a rule applies to this call, or allows its delegation.
    pub(super) fn rule_applies(&self, ready: &CompiledRule) -> bool {
        ready.condition.matches(&self.request, self.reads_only, ready.rule.certainty())
            || self.is_own && self.is_delegate(ready)
    }

    /// Checks whether an effect that the rule forbids is allowed because it was delegated.
    pub(super) fn is_delegated(&self, ready: &CompiledRule, effect: &Effect) -> bool {
        let covers = ready.delegate.as_ref().is_some_and(|delegate| delegate.covers(effect));
        covers && self.is_delegate(ready)
    }

    /// Checks whether the rule lets the sessions above, to which it applies, delegate to the session that makes the call.
    fn is_delegate(&self, ready: &CompiledRule) -> bool {
        let (Some(delegate), Some((own, above))) = (&ready.delegate, self.lineage.split_first()) else {
            return false;
        };
        let surely = |session, agent| {
            let request = PolicyRequest { session, agent, ..self.request };
            ready.condition.matches(&request, self.reads_only, MatchCertainty::Certain)
        };
        let by_those_above = match self.is_own {
            true => above.iter().any(|opening| surely(&opening.session, &opening.agent)),
            false => surely(self.request.session, self.request.agent),
        };
        !above.is_empty()
            && delegate.to.matches(own.agent.as_str(), MatchCertainty::Certain)
            && by_those_above
    }
}

/// Returns the reasons that the ceiling of a session adds to a call.
pub(super) fn ceiling_reasons(
    ceiling: &Ceiling,
    request: &PolicyRequest<'_>,
    met: EffectiveMode,
) -> Vec<DecisionReason> {
    let mut reasons = Vec::new();
    for (patterns, said, cause) in
        [(&ceiling.deny, Verdict::Deny, None), (&ceiling.ask, Verdict::Ask, Some(AskCause::Rule))]
    {
        let effects = (0..).zip(&request.plan.effects);
        let effects: Vec<u32> =
            effects.filter(|(_, effect)| matches_any(patterns, effect)).map(|(place, _)| place).collect();
        if !effects.is_empty() {
            let verdict = cause.map_or(said, |cause| cause.verdict_in_mode(met.mode));
            let why = "the call exceeds the ceiling of the session".to_owned();
            reasons.push(DecisionReason { verdict, cause, rule: None, origin: None, effects, message: why });
        }
    }
    reasons
}

/// Checks whether a pattern may match the effect. An invalid pattern matches everything.
fn matches_any(patterns: &[Pattern], effect: &Effect) -> bool {
    patterns.iter().any(|pattern| {
        let matcher = PatternMatcher::with_certainty(pattern.clone(), MatchCertainty::Possible);
        matcher.map_or(true, |matcher| matcher.matches(effect))
    })
}

/// Adds a reason from a level above, unless it is already there or allows the call.
pub(super) fn add_from_above(
    reasons: &mut Vec<DecisionReason>,
    mut reason: DecisionReason,
    opening: &SessionNode,
    above: usize,
) {
    if reason.verdict == Verdict::Allow || reasons.contains(&reason) {
        return;
    }
    reason.message.push_str(&match above {
        0 => format!("; decided for `{}`", opening.agent),
        _ => format!("; decided for `{}`, above this sub-agent", opening.agent),
    });
    reasons.push(reason);
}

/// Checks whether the plan has no effect but reads. The plan's own flag is necessary, but not sufficient.
fn plan_reads_only(request: &PolicyRequest<'_>) -> bool {
    let PolicyRequest { manifest, plan, .. } = request;
    let reads = |effect: &Effect| matches!(effect, Effect::Read { .. }) || is_readonly_use(manifest, effect);
    plan.read_only && !plan.effects.is_empty() && plan.effects.iter().all(reads)
}

/// Checks whether the effect is the use of this tool, and the tool has the class readonly.
pub(super) fn is_readonly_use(manifest: &Manifest, effect: &Effect) -> bool {
    let of_its_server = |tool: &str| {
        let server = manifest.server.as_deref();
        server.is_some_and(|server| {
            tool.strip_prefix("mcp:")
                .and_then(|tool| tool.strip_prefix(server))
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    manifest.permission_class == PermissionClass::Readonly
        && matches!(effect, Effect::Invoke { tool } if *tool == manifest.name || of_its_server(tool))
}
