//! Judging: the effects one by one, then the call as a whole, then the mode, then the leaves; for a sub-agent at its own
//! level and at every level above it.

use std::cmp::{Ordering, Reverse};

use super::compile::{CompiledRule, Policy};
use super::delegation::{SessionLevel, add_from_above, ceiling_reasons, is_readonly_use};
use super::index::{IndexScratch, RuleNumber};
use super::request::PolicyRequest;
use super::rule::{Layer, Rule};
use crate::call::Mode;
use crate::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use crate::effect::{Effect, is_at_or_beneath, is_resolved};
use crate::manifest::{ApprovalRequirement, Manifest, PermissionClass};
use crate::pattern::{Pattern, PatternMatcher, place_of};
use crate::session::{EffectiveMode, SessionNode};
use crate::standing_approval::{StandingApprovalMatcher, asked};

/// A rule that is about an effect of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedRule<'a> {
    /// The effect's place in the plan.
    pub effect: u32,
    /// The rule.
    pub rule: &'a Rule,
    /// Whether it was among those that decided on the effect.
    pub decided: bool,
}

/// Whether a ruling made now is stricter than the one that a call was granted on.
///
/// A policy that became looser voids nothing, nor does a new leave. An allow that rested on a leave which is gone is an
/// ask now, and so stricter; the same verdict that now depends on one guarantee more is stricter, too.
pub fn is_stricter(now: &PolicyDecision, then: &PolicyDecision) -> bool {
    let more = || now.guarantees.iter().any(|guarantee| !then.guarantees.contains(guarantee));
    now.verdict > then.verdict || (now.verdict == then.verdict && more())
}

impl Policy {
    /// Judges a call of a session that stands alone. Never fails; the same request under the same policy gets the same
    /// ruling.
    pub fn rule(&self, request: &PolicyRequest<'_>) -> PolicyDecision {
        self.rule_in(request, &[])
    }

    /// Judges a call of a session that was opened: as its own, and as that of each session above it. The strictest wins.
    ///
    /// The lineage begins with the session itself and ends at the top of the tree.
    pub fn rule_in(&self, request: &PolicyRequest<'_>, lineage: &[SessionNode]) -> PolicyDecision {
        let met = EffectiveMode::new(request.mode, lineage);
        let LevelDecision { mut reasons, mut guarantees } =
            self.hear(&SessionLevel::own(request, met, lineage));
        for (above, opening) in lineage.iter().enumerate() {
            let level = SessionLevel::of(opening, above, request, met, lineage);
            let heard = self.hear(&level);
            guarantees.extend(heard.guarantees);
            let own = heard.reasons.into_iter().chain(self.not_this_agent(&level));
            for reason in own.chain(ceiling_reasons(&opening.ceiling, request, met)) {
                add_from_above(&mut reasons, reason, opening, above);
            }
        }
        reasons.sort_by_key(|reason| Reverse(reason.verdict));
        guarantees.sort_unstable();
        guarantees.dedup();
        let mut verdict = reasons.first().map_or(Verdict::Ask, |reason| reason.verdict);
        let mut leave = None;
        if verdict == Verdict::Ask
            && let Some(answer) = answering(request, &reasons)
        {
            verdict = Verdict::Allow;
            leave = Some(answer.leave().id);
        }
        if verdict == Verdict::Deny {
            guarantees.clear();
        }
        PolicyDecision { verdict, reasons, policy: self.digest(), leave, guarantees, cached: false }
    }

    /// Whether some rule denies the effect, in whatever call: what a sandbox must make impossible.
    pub fn may_deny(&self, effect: &Effect) -> bool {
        self.guarded(effect) == Some(Verdict::Deny)
    }

    /// Whether some rule asks about the effect, in whatever call: what a sandbox must make impossible until a person has
    /// said yes to that very effect. What is asked about because no rule covers it is not meant.
    pub fn may_ask(&self, effect: &Effect) -> bool {
        self.guards(effect).contains(&Verdict::Ask)
    }

    /// The stricter of both: a deny, or an ask.
    pub fn guarded(&self, effect: &Effect) -> Option<Verdict> {
        self.guards(effect).into_iter().max()
    }

    /// The verdicts, but for allows, of rules that are about the effect by a pattern.
    fn guards(&self, effect: &Effect) -> Vec<Verdict> {
        let mut scratch = IndexScratch::default();
        let guards =
            |ready: &CompiledRule| ready.rule.verdict != Verdict::Allow && !ready.rule.patterns.is_empty();
        self.find(guards, effect, &mut scratch);
        scratch.found.iter().filter_map(|no| self.ready(*no)).map(|ready| ready.rule.verdict).collect()
    }

    /// What rules of this verdict say of reading, each with the deepest path that holds all of it, where it says so.
    pub fn reads(&self, verdict: Verdict) -> impl Iterator<Item = (String, PatternMatcher)> {
        let rules = self.rules().filter(move |rule| rule.verdict == verdict);
        rules.flat_map(|rule| rule.patterns.iter().map(|pattern| (rule.sense(), pattern))).filter_map(
            |(sense, pattern)| {
                let Pattern::Read(glob) = pattern else { return None };
                Some((place_of(glob)?, PatternMatcher::in_sense(pattern.clone(), sense).ok()?))
            },
        )
    }

    /// Every rule that is about an effect of the plan, and which of them decided on it.
    pub fn explain(&self, request: &PolicyRequest<'_>) -> Vec<MatchedRule<'_>> {
        let level = SessionLevel::own(request, EffectiveMode::new(request.mode, &[]), &[]);
        let mut scratch = IndexScratch::default();
        let mut considered = Vec::new();
        for (effect, what) in (0..).zip(&request.plan.effects) {
            self.find(|ready| level.holds(ready), what, &mut scratch);
            let grounds = self.judge_effect(&level, what, &scratch.found);
            considered.extend(scratch.found.iter().filter_map(|no| {
                let decided = grounds.contains(&DecisionBasis::Rule(*no));
                self.ready(*no).map(|ready| MatchedRule { effect, rule: &ready.rule, decided })
            }));
        }
        considered
    }

    /// What is to be said of a call at one level of the tree.
    fn hear(&self, level: &SessionLevel<'_>) -> LevelDecision {
        let mut judged = self.judge(level);
        judged.judge_call(level);
        let reasons = judged.grounds.into_iter().map(|found| self.reason(found, level)).collect();
        LevelDecision { reasons, guarantees: judged.guarantees }
    }

    /// Why the agent of this level may do nothing at all, where a rule denies the use of it.
    fn not_this_agent(&self, level: &SessionLevel<'_>) -> Option<DecisionReason> {
        let mut scratch = IndexScratch::default();
        let effect = Effect::Invoke { tool: format!("agent:{}", level.request.agent) };
        self.find(|ready| level.holds(ready), &effect, &mut scratch);
        let denies = |no: &&RuleNumber| self.verdict(DecisionBasis::Rule(**no)) == Verdict::Deny;
        let no = scratch.found.iter().find(denies)?;
        Some(self.reason((DecisionBasis::Rule(*no), Vec::new()), level))
    }

    fn judge(&self, level: &SessionLevel<'_>) -> EvaluatedCall {
        let effects = &level.request.plan.effects;
        let mut scratch = IndexScratch::default();
        // An empty list of effects is not a proof of anything: nothing is allowed by having nothing to judge.
        let some = !effects.is_empty();
        let mut judged = EvaluatedCall {
            reads_only: level.reads_only,
            all_allowed: some,
            all_explicit: some,
            ..EvaluatedCall::default()
        };
        if !some {
            self.about_all(|ready| level.holds(ready))
                .for_each(|no| judged.add(DecisionBasis::Rule(no), None));
        }
        for (place, effect) in (0..).zip(effects) {
            self.find(|ready| level.holds(ready), effect, &mut scratch);
            for ground in self.judge_effect(level, effect, &scratch.found) {
                judged.all_allowed &= self.verdict(ground) == Verdict::Allow;
                let rule = self.rule_of(ground);
                judged.all_explicit &= rule.is_some_and(|rule| {
                    rule.allows_explicitly() || matches!(ground, DecisionBasis::Delegated(_))
                });
                judged.guarantees.extend(rule.into_iter().flat_map(|rule| rule.guarantees.iter().cloned()));
                judged.add(ground, Some(place));
            }
        }
        judged
    }

    /// The grounds on which one effect gets its verdict; never none.
    fn judge_effect(
        &self,
        level: &SessionLevel<'_>,
        effect: &Effect,
        found: &[RuleNumber],
    ) -> Vec<DecisionBasis> {
        let grounds = self.judge_by_rules(level, effect, found);
        let strictest = grounds.iter().map(|ground| self.verdict(*ground)).max();
        if !level.met.read_only || strictest == Some(Verdict::Deny) {
            return grounds;
        }
        let allowed = strictest == Some(Verdict::Allow);
        // A rule that delegates would forbid otherwise, so it does not say that nothing changes.
        let built_in = |ground: &DecisionBasis| {
            matches!(ground, DecisionBasis::Rule(_))
                && self.rule_of(*ground).is_some_and(|rule| rule.layer == Layer::Builtin)
        };
        let changes_nothing = match effect {
            Effect::Read { .. } => true,
            // Programs and hosts do what they do: someone must have said that these may.
            Effect::Run { .. } | Effect::Reach { .. } => allowed,
            // Nothing is kept in `/dev/null`, which is what the built-in rules let be written.
            Effect::Write { .. } | Effect::Delete { .. } => allowed && grounds.iter().all(built_in),
            Effect::Invoke { .. } => is_readonly_use(level.request.manifest, effect),
            Effect::Unconfined { .. } | Effect::Unknown { .. } => false,
        };
        if changes_nothing { grounds } else { vec![DecisionBasis::Changes] }
    }

    /// The same, before the mode has its say.
    ///
    /// Every matching ask is a ground, not the first one only: a plain ask must not hide a firm one.
    fn judge_by_rules(
        &self,
        level: &SessionLevel<'_>,
        effect: &Effect,
        found: &[RuleNumber],
    ) -> Vec<DecisionBasis> {
        match effect {
            Effect::Unknown { .. } => return self.beside(DecisionBasis::Unknown, found),
            Effect::Unconfined { .. } => return self.beside(DecisionBasis::Unconfined, found),
            // A second spelling of a path is a way around every rule on the first. The plan is at fault.
            _ if effect.path().is_some_and(|path| !is_resolved(path)) => {
                return vec![DecisionBasis::Unresolved];
            }
            _ => {}
        }
        let rules = || {
            found.iter().filter_map(|no| {
                let ready = self.ready(*no)?;
                let ground = match level.delegates(ready, effect) {
                    true => DecisionBasis::Delegated(*no),
                    false => DecisionBasis::Rule(*no),
                };
                Some((ground, &ready.rule))
            })
        };
        let outside = self.is_outside(level.request.manifest, effect);
        let Some(strictest) = rules().map(|(ground, _)| self.verdict(ground)).max() else {
            let readonly = level.reads_only && is_readonly_use(level.request.manifest, effect);
            return vec![match () {
                () if readonly => DecisionBasis::Readonly,
                () if outside => DecisionBasis::Outside,
                () => DecisionBasis::Default,
            }];
        };
        let authority = rules().map(|(_, rule)| rule.layer.authority()).max().unwrap_or_default();
        let decides = |(ground, rule): &(DecisionBasis, &Rule)| {
            self.verdict(*ground) == strictest
                && (strictest != Verdict::Allow || rule.layer.authority() == authority)
        };
        let mut grounds: Vec<DecisionBasis> = rules().filter(decides).map(|(ground, _)| ground).collect();
        // A mode may let the ask of a rule pass. That allows no place outside the workspace.
        let allows = |(ground, _): (DecisionBasis, &Rule)| self.verdict(ground) == Verdict::Allow;
        if outside && strictest == Verdict::Ask && !rules().any(allows) {
            grounds.push(DecisionBasis::Outside);
        }
        grounds
    }

    /// Whether a tool would touch a file outside the workspace (P4). The sandbox holds commands.
    fn is_outside(&self, manifest: &Manifest, effect: &Effect) -> bool {
        let (Some(workspace), Some(path)) = (self.workspace(), effect.path()) else { return false };
        manifest.permission_class != PermissionClass::Bash && !is_at_or_beneath(path, workspace)
    }

    /// An ask of our own, with the asks of rules about whole calls; or their denies.
    fn beside(&self, own: DecisionBasis, found: &[RuleNumber]) -> Vec<DecisionBasis> {
        let rules = || found.iter().map(|no| DecisionBasis::Rule(*no));
        let denies: Vec<DecisionBasis> =
            rules().filter(|ground| self.verdict(*ground) == Verdict::Deny).collect();
        if denies.is_empty() { std::iter::once(own).chain(rules()).collect() } else { denies }
    }

    fn rule_of(&self, ground: DecisionBasis) -> Option<&Rule> {
        let (DecisionBasis::Rule(no) | DecisionBasis::Delegated(no)) = ground else { return None };
        self.ready(no).map(|ready| &ready.rule)
    }

    /// What a ground asks for before the mode has its say.
    fn verdict(&self, ground: DecisionBasis) -> Verdict {
        match ground {
            DecisionBasis::Rule(_) => self.rule_of(ground).map_or(Verdict::Deny, |rule| rule.verdict),
            DecisionBasis::Unresolved | DecisionBasis::Forbidden(_) | DecisionBasis::Changes => Verdict::Deny,
            DecisionBasis::Readonly | DecisionBasis::Delegated(_) => Verdict::Allow,
            _ => Verdict::Ask,
        }
    }

    fn reason(
        &self,
        (ground, effects): (DecisionBasis, Vec<u32>),
        level: &SessionLevel<'_>,
    ) -> DecisionReason {
        let mode = level.met.asking;
        let danger = match ground {
            DecisionBasis::Danger(place) | DecisionBasis::Forbidden(place) => {
                level.request.plan.dangers.get(place as usize)
            }
            _ => None,
        };
        let ready = match ground {
            DecisionBasis::Rule(no) | DecisionBasis::Delegated(no) => self.ready(no),
            _ => None,
        };
        let by_rule = ready.filter(|_| matches!(ground, DecisionBasis::Rule(_)));
        let cause = ground.cause().or_else(|| by_rule.and_then(|ready| ready.rule.cause()));
        let said = self.verdict(ground);
        // The mode is asked about asks alone: a deny is not looked up, so no table can soften it.
        let verdict = match (said, cause) {
            (Verdict::Ask, Some(cause)) => cause.under(mode),
            (said, _) => said,
        };
        let mut why = match ready {
            Some(_) if matches!(ground, DecisionBasis::Delegated(_)) => ground.why().to_owned(),
            Some(ready) if ready.rule.why.is_empty() => format!("the rule `{}` says so", ready.rule.id),
            Some(ready) => ready.rule.why.clone(),
            None => danger.map_or_else(|| ground.why().to_owned(), |danger| danger.why.clone()),
        };
        match verdict.cmp(&said) {
            Ordering::Less => why.push_str(&format!("; the mode `{}` lets it pass", mode.word())),
            Ordering::Equal => {}
            Ordering::Greater => why.push_str(&format!("; the mode `{}` asks nobody about it", mode.word())),
        }
        DecisionReason {
            verdict,
            cause,
            rule: ready.map(|ready| ready.rule.id.clone()).or_else(|| danger.map(|danger| danger.id.clone())),
            origin: ready.map(|ready| ready.place.clone()),
            effects,
            why,
        }
    }
}

/// Why an effect or a call gets its verdict. Effects with the same ground share one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecisionBasis {
    /// A rule says so.
    Rule(RuleNumber),
    /// The plan names a path that could be another.
    Unresolved,
    /// The use of a tool of class readonly, which does nothing but permitted reads (P6).
    Readonly,
    /// No rule covers it.
    Default,
    /// It lies outside the workspace, and no rule allows that place.
    Outside,
    /// It could not be worked out.
    Unknown,
    /// It gives up a guarantee of the sandbox.
    Unconfined,
    /// The plan has no effects.
    Empty,
    /// The tool is sensitive, for one of three reasons.
    Sensitive(&'static str),
    /// The tool wants an approval.
    ToolAsks,
    /// It cannot be taken back.
    Irreversible,
    /// Something about it is dangerous: the place in the plan's list.
    Danger(u32),
    /// The same, and denied.
    Forbidden(u32),
    /// The mode asks for everything.
    Mode,
    /// The mode lets nothing be changed, and this may change something.
    Changes,
    /// A rule lets it be delegated, and it was.
    Delegated(RuleNumber),
}

impl DecisionBasis {
    /// The cause with which it asks; a rule knows its own.
    const fn cause(self) -> Option<AskCause> {
        match self {
            Self::Rule(_) | Self::Unresolved | Self::Readonly | Self::Forbidden(_) => None,
            Self::Changes | Self::Delegated(_) => None,
            Self::Default => Some(AskCause::Default),
            Self::Outside => Some(AskCause::Outside),
            Self::Unknown | Self::Empty => Some(AskCause::NotUnderstood),
            Self::Unconfined | Self::Danger(_) => Some(AskCause::Dangerous),
            Self::Sensitive(_) => Some(AskCause::Sensitive),
            Self::ToolAsks => Some(AskCause::ToolAsks),
            Self::Irreversible => Some(AskCause::Irreversible),
            Self::Mode => Some(AskCause::Mode),
        }
    }

    /// In words, and in none of the plan's: a ruling stands on the record in clear, where nothing can be forgotten.
    const fn why(self) -> &'static str {
        match self {
            Self::Unknown => "could not be worked out",
            Self::Unconfined => "leaves the sandbox",
            Self::Rule(_) => "a rule says so",
            Self::Unresolved => "the plan names a path that is not absolute and resolved",
            Self::Readonly => "the tool only reads, by its class",
            Self::Default => "no rule covers it",
            Self::Outside => "it lies outside the workspace, and no rule allows that",
            Self::Empty => "nothing is known of what it would do",
            Self::Sensitive(why) => why,
            Self::ToolAsks => "the tool asks for an approval of this call",
            Self::Irreversible => "it cannot be taken back",
            Self::Danger(_) | Self::Forbidden(_) => "it is dangerous",
            Self::Mode => "the mode asks for every call",
            Self::Changes => "the mode `read-only` lets nothing be changed",
            Self::Delegated(_) => "the rule lets it be delegated to this sub-agent",
        }
    }
}

/// What is to be said of a call at one level.
struct LevelDecision {
    reasons: Vec<DecisionReason>,
    guarantees: Vec<String>,
}

/// What was found out about a call.
#[derive(Default)]
struct EvaluatedCall {
    grounds: Vec<(DecisionBasis, Vec<u32>)>,
    guarantees: Vec<String>,
    /// There is no effect but reads.
    reads_only: bool,
    /// There are effects, and each is allowed.
    all_allowed: bool,
    /// There are effects, and each is allowed by a rule of the organisation, the user or the session.
    all_explicit: bool,
}

impl EvaluatedCall {
    fn add(&mut self, ground: DecisionBasis, effect: Option<u32>) {
        match self.grounds.iter_mut().find(|(known, _)| *known == ground) {
            Some((_, effects)) => effects.extend(effect),
            None => self.grounds.push((ground, effect.into_iter().collect())),
        }
    }

    /// Adds the grounds that are about the call as a whole. They can only tighten.
    fn judge_call(&mut self, level: &SessionLevel<'_>) {
        let request = &level.request;
        let PolicyRequest { manifest, plan, .. } = request;
        if plan.effects.is_empty() {
            self.add(if level.met.read_only { DecisionBasis::Changes } else { DecisionBasis::Empty }, None);
        }
        if let Some(why) = self.sensitive(manifest) {
            self.add(DecisionBasis::Sensitive(why), None);
        }
        if request.tool_asks || manifest.needs_approval == ApprovalRequirement::Always {
            self.add(DecisionBasis::ToolAsks, None);
        }
        if plan.irreversible {
            self.add(DecisionBasis::Irreversible, None);
        }
        for (place, danger) in (0..).zip(&plan.dangers) {
            self.add(
                if danger.denied { DecisionBasis::Forbidden(place) } else { DecisionBasis::Danger(place) },
                None,
            );
        }
        if level.met.asking == Mode::ConfirmAll {
            self.add(DecisionBasis::Mode, None);
        }
    }

    /// Why the tool counts as sensitive, unless someone allowed every one of the effects in so many words. What the
    /// tool does not say counts against it, but for permitted reads (R10).
    fn sensitive(&self, manifest: &Manifest) -> Option<&'static str> {
        let permitted_reads = self.reads_only && self.all_allowed;
        let why = match (manifest.sensitive, manifest.permission_class) {
            (Some(true), _) => "the tool says that it is sensitive",
            _ if permitted_reads => return None,
            (None, _) => "the tool does not say that it is not sensitive",
            (Some(false), PermissionClass::Undeclared) => "the tool does not say of which class it is",
            (Some(false), _) => return None,
        };
        (!self.all_explicit).then_some(why)
    }
}

/// The leave that answers every question left, if there is one; of several, the one with the least in it.
fn answering<'a>(
    request: &PolicyRequest<'a>,
    reasons: &[DecisionReason],
) -> Option<&'a StandingApprovalMatcher> {
    if request.leaves.is_empty() {
        return None;
    }
    let asked = asked(&request.plan.effects, reasons).ok()?;
    request
        .leaves
        .iter()
        .filter(|leave| {
            leave.applies(&request.manifest.name, request.session, request.now)
                && leave.answers(&asked, request.plan)
        })
        .min_by_key(|leave| (leave.leave().scope.len(), leave.leave().id))
}
