//! Evaluation: each effect by itself, then the call as a whole, then the mode, then the standing approvals. A call of a sub-agent is
//! evaluated at its own level and at every level above it.

use std::cmp::{Ordering, Reverse};

use super::compile::{CompiledRule, Policy};
use super::delegation::{SessionLevel, add_from_above, ceiling_reasons, is_readonly_use};
use super::index::{IndexScratch, RuleNumber};
use super::request::PolicyRequest;
use super::rule::{Layer, Rule};
use crate::call::Mode;
use crate::challenge::ChallengeBy;
use crate::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use crate::effect::{Effect, Plan, is_at_or_beneath, is_resolved};
use crate::git_settings::settings_file_of;
use crate::manifest::{ApprovalRequirement, Manifest, PermissionClass};
use crate::pattern::{Pattern, PatternMatcher, base_path, escape_glob, has_wildcard};
use crate::session::{EffectiveMode, SessionNode};
use crate::standing_approval::{StandingApprovalMatcher, effects_to_cover};

/// A rule that applies to an effect of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedRule<'a> {
    /// The position of the effect in the plan.
    pub effect: u32,
    /// The rule.
    pub rule: &'a Rule,
    /// Whether the rule was among those that decided on the effect.
    pub decisive: bool,
}

/// Checks whether a decision made now is stricter than the one that a call was granted on.
///
/// A looser policy voids nothing, nor does a new standing approval. If an allow was based on a standing approval that is gone, it is now an
/// ask, and so stricter. The same verdict that now depends on one more guarantee, a checkpoint or a challenge is stricter, too.
pub fn is_stricter(now: &PolicyDecision, then: &PolicyDecision) -> bool {
    let more = || now.guarantees.iter().any(|guarantee| !then.guarantees.contains(guarantee));
    let released = || now.requires_checkpoint() && !then.requires_checkpoint();
    now.verdict > then.verdict
        || (now.verdict == then.verdict && (more() || released()))
        || (now.challenge.is_some() && then.challenge.is_none())
}

impl Policy {
    /// Evaluates a call of a session that nobody opened. It never fails. The same request under the same policy gets the same decision.
    pub fn evaluate(&self, request: &PolicyRequest<'_>) -> PolicyDecision {
        self.evaluate_in_session(request, &[])
    }

    /// Evaluates a call of a session that was opened: as its own call, and as a call of each session above it. The strictest wins.
    ///
    /// The lineage begins with the session itself and ends at the top of the tree.
    pub fn evaluate_in_session(
        &self,
        request: &PolicyRequest<'_>,
        lineage: &[SessionNode],
    ) -> PolicyDecision {
        let met = EffectiveMode::new(request.mode, lineage);
        let LevelDecision { mut reasons, mut guarantees, mut challenge } =
            self.evaluate_level(&SessionLevel::for_own_session(request, met, lineage));
        for (above, opening) in lineage.iter().enumerate() {
            let level = SessionLevel::for_ancestor(opening, above, request, met, lineage);
            let heard = self.evaluate_level(&level);
            guarantees.extend(heard.guarantees);
            challenge |= heard.challenge;
            let own = heard.reasons.into_iter().chain(self.agent_denial(&level));
            for reason in own.chain(ceiling_reasons(&opening.ceiling, request, met)) {
                add_from_above(&mut reasons, reason, opening, above);
            }
        }
        // The strictest reason decides.
        reasons.sort_by_key(|reason| Reverse(reason.verdict));
        guarantees.sort_unstable();
        guarantees.dedup();
        let mut verdict = reasons.first().map_or(Verdict::Ask, |reason| reason.verdict);
        let mut leave = None;
        if verdict == Verdict::Ask
            && let Some(answer) = covering_approval(request, &reasons)
        {
            verdict = Verdict::Allow;
            leave = Some(answer.standing_approval().id);
        }
        if verdict == Verdict::Deny {
            guarantees.clear();
        }
        PolicyDecision {
            verdict,
            reasons,
            policy: self.digest(),
            standing_approval: leave,
            guarantees,
            challenge: (challenge && verdict != Verdict::Deny).then_some(ChallengeBy::Challenger),
            cached: false,
        }
    }

    /// Checks whether a plan only reads, and runs only programs that the built-in rules know to change nothing.
    pub fn changes_nothing(&self, plan: &Plan) -> bool {
        let mut scratch = IndexScratch::default();
        plan.effects.iter().all(|effect| match effect {
            Effect::Read { .. } => true,
            Effect::Run { .. } | Effect::Write { .. } => {
                let is_builtin_allow = |ready: &CompiledRule| {
                    ready.rule.layer == Layer::Builtin && ready.rule.verdict == Verdict::Allow
                };
                self.find_rules(is_builtin_allow, effect, &mut scratch);
                !scratch.found.is_empty()
            }
            _ => false,
        })
    }

    /// Checks whether some rule denies the effect, in any call. A sandbox must make such an effect impossible.
    pub fn may_deny(&self, effect: &Effect) -> bool {
        self.strictest_restriction(effect) == Some(Verdict::Deny)
    }

    /// Checks whether some rule asks about the effect, in any call. A sandbox must make such an effect impossible until a person has
    /// approved exactly that effect. The default ask, without a rule, is not included.
    pub fn may_ask(&self, effect: &Effect) -> bool {
        self.restrictions(effect).contains(&Verdict::Ask)
    }

    /// Returns the stricter of both: a deny, or an ask.
    pub fn strictest_restriction(&self, effect: &Effect) -> Option<Verdict> {
        self.restrictions(effect).into_iter().max()
    }

    /// Returns the verdicts, except allows, of the rules whose patterns match the effect.
    fn restrictions(&self, effect: &Effect) -> Vec<Verdict> {
        let mut scratch = IndexScratch::default();
        let guards =
            |ready: &CompiledRule| ready.rule.verdict != Verdict::Allow && !ready.rule.patterns.is_empty();
        self.find_rules(guards, effect, &mut scratch);
        scratch
            .found
            .iter()
            .filter_map(|no| self.compiled_rule(*no))
            .map(|ready| ready.rule.verdict)
            .collect()
    }

    /// Returns the read patterns of rules with this verdict, each with the deepest path that contains all matches, if the pattern has one.
    pub fn read_matchers(&self, verdict: Verdict) -> impl Iterator<Item = (String, PatternMatcher)> {
        let rules = self.rules().filter(move |rule| rule.verdict == verdict);
        rules.flat_map(|rule| rule.patterns.iter().map(|pattern| (rule.certainty(), pattern))).filter_map(
            |(sense, pattern)| {
                let Pattern::Read(glob) = pattern else { return None };
                Some((base_path(glob)?, PatternMatcher::with_certainty(pattern.clone(), sense).ok()?))
            },
        )
    }

    /// Returns every rule that applies to an effect of the plan, and whether it decided.
    pub fn explain(&self, request: &PolicyRequest<'_>) -> Vec<MatchedRule<'_>> {
        let level = SessionLevel::for_own_session(request, EffectiveMode::new(request.mode, &[]), &[]);
        let mut scratch = IndexScratch::default();
        let mut considered = Vec::new();
        for (effect, what) in (0..).zip(&request.plan.effects) {
            self.find_rules(|ready| level.rule_applies(ready), what, &mut scratch);
            self.add_possible_rules(&level, what, &mut scratch.found);
            let grounds = self.evaluate_effect(&level, what, &scratch.found);
            considered.extend(scratch.found.iter().filter_map(|no| {
                let decided = grounds.contains(&DecisionBasis::Rule(*no));
                self.compiled_rule(*no).map(|ready| MatchedRule {
                    effect,
                    rule: &ready.rule,
                    decisive: decided,
                })
            }));
        }
        considered
    }

    /// Evaluates a call at one level of the tree.
    fn evaluate_level(&self, level: &SessionLevel<'_>) -> LevelDecision {
        let mut judged = self.evaluate_call(level);
        judged.add_call_bases(level);
        let reasons = judged.bases.into_iter().map(|found| self.to_reason(found, level)).collect();
        LevelDecision { reasons, guarantees: judged.guarantees, challenge: judged.challenge }
    }

    /// Returns the reason why the agent of this level may do nothing at all, if a rule denies its use.
    fn agent_denial(&self, level: &SessionLevel<'_>) -> Option<DecisionReason> {
        let mut scratch = IndexScratch::default();
        let effect = Effect::Invoke { tool: format!("agent:{}", level.request.agent) };
        self.find_rules(|ready| level.rule_applies(ready), &effect, &mut scratch);
        let denies = |no: &&RuleNumber| self.verdict_of_basis(DecisionBasis::Rule(**no)) == Verdict::Deny;
        let no = scratch.found.iter().find(denies)?;
        Some(self.to_reason((DecisionBasis::Rule(*no), Vec::new()), level))
    }

    fn evaluate_call(&self, level: &SessionLevel<'_>) -> EvaluatedCall {
        let effects = &level.request.plan.effects;
        let mut scratch = IndexScratch::default();
        // An empty list of effects proves nothing, so it allows nothing.
        let some = !effects.is_empty();
        let mut judged = EvaluatedCall {
            reads_only: level.reads_only,
            all_allowed: some,
            all_explicit: some,
            ..EvaluatedCall::default()
        };
        if !some {
            for no in self.matching_call_rules(|ready| level.rule_applies(ready)) {
                judged.challenge |= self.requires_challenge(no);
                judged.add(DecisionBasis::Rule(no), None);
            }
        }
        for (place, effect) in (0..).zip(effects) {
            self.find_rules(|ready| level.rule_applies(ready), effect, &mut scratch);
            self.add_possible_rules(level, effect, &mut scratch.found);
            judged.challenge |= scratch.found.iter().any(|no| self.requires_challenge(*no));
            for ground in self.evaluate_effect(level, effect, &scratch.found) {
                judged.all_allowed &= self.verdict_of_basis(ground) == Verdict::Allow;
                let rule = self.rule_for(ground);
                let is_default = matches!(ground, DecisionBasis::Undoable(_));
                judged.all_explicit &= matches!(ground, DecisionBasis::Tentative | DecisionBasis::SessionTmp)
                    || !is_default
                        && rule.is_some_and(|rule| {
                            rule.allows_explicitly() || matches!(ground, DecisionBasis::Delegated(_))
                        });
                judged.guarantees.extend(rule.into_iter().flat_map(|rule| rule.guarantees.iter().cloned()));
                judged.add(ground, Some(place));
            }
        }
        judged
    }

    /// Adds the denies and asks about what an effect may stand for: the contents of a deleted directory, and the files that a glob of
    /// the program may name. Removes the allows that do not cover those contents.
    fn add_possible_rules(&self, level: &SessionLevel<'_>, effect: &Effect, found: &mut Vec<RuleNumber>) {
        self.add_settings_file_rules(level, effect, found);
        let plan = &level.request.plan;
        let contents: Vec<&Effect> = plan.contents_of(effect).collect();
        let is_glob = plan.is_partial(effect) && effect.path().is_some_and(has_wildcard);
        if contents.is_empty() && !is_glob {
            return;
        }
        let mut scratch = IndexScratch::default();
        if let Some(inner) = contents.first() {
            // A glob for what lies directly in a directory does not cover a directory that lies there.
            let names_it = |rule: &Rule| {
                let itself = effect.path().map(escape_glob);
                let is_it = |pattern: &Pattern| matches!(pattern, Pattern::Delete(glob) if Some(glob) == itself.as_ref());
                rule.patterns.iter().any(is_it)
            };
            self.find_rules(|ready| level.rule_applies(ready), inner, &mut scratch);
            found.retain(|no| {
                let rule = self.compiled_rule(*no).map(|ready| &ready.rule);
                rule.is_none_or(|rule| rule.verdict != Verdict::Allow || names_it(rule))
                    || scratch.found.contains(no)
            });
        }
        let restricts =
            |ready: &CompiledRule| ready.rule.verdict != Verdict::Allow && level.rule_applies(ready);
        for inner in contents {
            self.find_rules(|ready| restricts(ready) && !ready.rule.patterns.is_empty(), inner, &mut scratch);
            found.extend(&scratch.found);
        }
        if is_glob {
            let all = (0..).zip(self.rules()).map(|(no, _)| no);
            found.extend(all.filter(|no| {
                self.compiled_rule(*no)
                    .is_some_and(|ready| restricts(ready) && ready.rule.may_be_named_by(effect))
            }));
        }
        found.sort_unstable();
        found.dedup();
    }

    /// Adds the denies and asks of people about the settings file of a repository, if the effect is one setting in it. The built-in rules
    /// judge settings by name.
    fn add_settings_file_rules(
        &self,
        level: &SessionLevel<'_>,
        effect: &Effect,
        found: &mut Vec<RuleNumber>,
    ) {
        let Effect::Write { path } = effect else { return };
        let Some(file) = settings_file_of(path) else { return };
        let restricts = |ready: &CompiledRule| {
            let rule = &ready.rule;
            let is_of_people = rule.layer != Layer::Builtin && !rule.patterns.is_empty();
            is_of_people && rule.verdict != Verdict::Allow && level.rule_applies(ready)
        };
        let mut scratch = IndexScratch::default();
        self.find_rules(restricts, &Effect::Write { path: file.to_owned() }, &mut scratch);
        found.extend(&scratch.found);
        found.sort_unstable();
        found.dedup();
    }

    /// Returns the grounds on which one effect gets its verdict. Never empty.
    fn evaluate_effect(
        &self,
        level: &SessionLevel<'_>,
        effect: &Effect,
        found: &[RuleNumber],
    ) -> Vec<DecisionBasis> {
        let grounds = self.evaluate_by_rules(level, effect, found);
        let strictest = grounds.iter().map(|ground| self.verdict_of_basis(*ground)).max();
        if !level.effective_mode.read_only || strictest == Some(Verdict::Deny) {
            return grounds;
        }
        let allowed = strictest == Some(Verdict::Allow);
        // A rule that delegates would otherwise forbid, so it does not say that nothing changes.
        let built_in = |ground: &DecisionBasis| {
            matches!(ground, DecisionBasis::Rule(_))
                && self.rule_for(*ground).is_some_and(|rule| rule.layer == Layer::Builtin)
        };
        let changes_nothing = match effect {
            Effect::Read { .. } => true,
            _ if grounds == [DecisionBasis::Tentative] || grounds == [DecisionBasis::SessionTmp] => true,
            // Programs and hosts can do anything, so a rule must have allowed these.
            Effect::Run { .. } | Effect::Reach { .. } | Effect::Send { .. } => allowed,
            // `/dev/null` stores nothing. It is what the built-in rules allow to be written.
            Effect::Write { .. } | Effect::Delete { .. } => allowed && grounds.iter().all(built_in),
            Effect::Invoke { .. } => is_readonly_use(level.request.manifest, effect),
            Effect::Unconfined { .. } | Effect::Unknown { .. } => false,
        };
        if changes_nothing { grounds } else { vec![DecisionBasis::ReadOnlyMode] }
    }

    /// Returns the grounds on which one effect gets its verdict, before the mode applies.
    ///
    /// Every matching ask is a ground, not only the first one: a plain ask must not hide a firm one.
    fn evaluate_by_rules(
        &self,
        level: &SessionLevel<'_>,
        effect: &Effect,
        found: &[RuleNumber],
    ) -> Vec<DecisionBasis> {
        match effect {
            Effect::Unknown { .. } => {
                let own = self.undoable_basis(level, effect).unwrap_or(DecisionBasis::Unknown);
                return self.with_call_rules(own, found);
            }
            Effect::Unconfined { .. } => return self.with_call_rules(DecisionBasis::Unconfined, found),
            // A second spelling of a path would avoid every rule on the first. This is an error of the plan.
            _ if effect.path().is_some_and(|path| !is_resolved(path)) => {
                return vec![DecisionBasis::Unresolved];
            }
            _ => {}
        }
        let rules = || {
            found.iter().filter_map(|no| {
                let ready = self.compiled_rule(*no)?;
                let ground = match level.is_delegated(ready, effect) {
                    true => DecisionBasis::Delegated(*no),
                    false => DecisionBasis::Rule(*no),
                };
                Some((ground, &ready.rule))
            })
        };
        // A rule whose yes is remembered stands in for a missing rule.
        let remembering = rules().find(|(_, rule)| rule.remember).map(|(ground, _)| ground);
        let rules = || rules().filter(|(_, rule)| !rule.remember);
        let outside = self.is_outside(level.request.manifest, effect);
        let Some(strictest) = rules().map(|(ground, _)| self.verdict_of_basis(ground)).max() else {
            let readonly = level.reads_only && is_readonly_use(level.request.manifest, effect);
            return vec![match () {
                () if readonly => DecisionBasis::Readonly,
                () if outside => DecisionBasis::OutsideWorkspace,
                () if self.is_in_session_tmp(level, effect) => DecisionBasis::SessionTmp,
                () if self.is_tentative_inside(level, effect) => DecisionBasis::Tentative,
                () => {
                    let basis = self.undoable_basis(level, effect).or(remembering);
                    basis.unwrap_or(DecisionBasis::Default)
                }
            }];
        };
        let authority = rules().map(|(_, rule)| rule.layer.authority()).max().unwrap_or_default();
        let decides = |(ground, rule): &(DecisionBasis, &Rule)| {
            self.verdict_of_basis(*ground) == strictest
                && (strictest != Verdict::Allow || rule.layer.authority() == authority)
        };
        let mut grounds: Vec<DecisionBasis> = rules().filter(decides).map(|(ground, _)| ground).collect();
        // A mode may let the ask of a rule pass. That does not allow a place outside the workspace.
        let allows = |(ground, _): (DecisionBasis, &Rule)| self.verdict_of_basis(ground) == Verdict::Allow;
        if outside && strictest == Verdict::Ask && !rules().any(allows) {
            grounds.push(DecisionBasis::OutsideWorkspace);
        }
        grounds
    }

    /// Checks whether the effect is only one that a word may have, and is a run or in the workspace.
    fn is_in_session_tmp(&self, level: &SessionLevel<'_>, effect: &Effect) -> bool {
        level.effective_mode.mode != Mode::ConfirmAll && level.request.plan.stays_in_session_tmp(effect)
    }

    fn is_tentative_inside(&self, level: &SessionLevel<'_>, effect: &Effect) -> bool {
        let is_inside = match (effect, effect.path()) {
            (Effect::Run { .. }, _) => true,
            (_, Some(path)) => self.is_own(path),
            _ => false,
        };
        is_inside && level.effective_mode.mode != Mode::ConfirmAll && level.request.plan.is_tentative(effect)
    }

    /// Returns the default about undoable work, if it decides on this effect.
    fn undoable_basis(&self, level: &SessionLevel<'_>, effect: &Effect) -> Option<DecisionBasis> {
        let request = &level.request;
        let is_inside = match effect.path() {
            None => true,
            Some(path) => self.is_own(path),
        };
        // What cannot be undone is asked about as before, whatever its single effects are.
        let applies = is_inside
            && level.effective_mode.mode != Mode::ConfirmAll
            && !level.effective_mode.read_only
            && !request.plan.irreversible
            && request.stage.uses_undoable_default(effect);
        self.undoable_rule().filter(|_| applies).map(DecisionBasis::Undoable)
    }

    /// Checks whether a tool would access a file outside the workspace (P4). Commands are confined by the sandbox instead.
    fn is_outside(&self, manifest: &Manifest, effect: &Effect) -> bool {
        let (Some(workspace), Some(path)) = (self.workspace(), effect.path()) else { return false };
        manifest.permission_class != PermissionClass::Bash && !is_at_or_beneath(path, workspace)
    }

    /// Returns a built-in ask together with the asks of rules about whole calls, or only their denies.
    fn with_call_rules(&self, own: DecisionBasis, found: &[RuleNumber]) -> Vec<DecisionBasis> {
        let rules = || found.iter().map(|no| DecisionBasis::Rule(*no));
        let denies: Vec<DecisionBasis> =
            rules().filter(|ground| self.verdict_of_basis(*ground) == Verdict::Deny).collect();
        if denies.is_empty() { std::iter::once(own).chain(rules()).collect() } else { denies }
    }

    fn requires_challenge(&self, no: RuleNumber) -> bool {
        self.compiled_rule(no).is_some_and(|ready| ready.rule.challenge)
    }

    fn rule_for(&self, ground: DecisionBasis) -> Option<&Rule> {
        let (DecisionBasis::Rule(no) | DecisionBasis::Delegated(no) | DecisionBasis::Undoable(no)) = ground
        else {
            return None;
        };
        self.compiled_rule(no).map(|ready| &ready.rule)
    }

    /// Returns the verdict of a ground before the mode applies.
    fn verdict_of_basis(&self, ground: DecisionBasis) -> Verdict {
        match ground {
            DecisionBasis::Rule(_) => self.rule_for(ground).map_or(Verdict::Deny, |rule| rule.verdict),
            DecisionBasis::Unresolved | DecisionBasis::Forbidden(_) | DecisionBasis::ReadOnlyMode => {
                Verdict::Deny
            }
            DecisionBasis::Readonly
            | DecisionBasis::Delegated(_)
            | DecisionBasis::Undoable(_)
            | DecisionBasis::SessionTmp
            | DecisionBasis::Tentative => Verdict::Allow,
            _ => Verdict::Ask,
        }
    }

    fn to_reason(
        &self,
        (ground, effects): (DecisionBasis, Vec<u32>),
        level: &SessionLevel<'_>,
    ) -> DecisionReason {
        let mode = level.effective_mode.mode;
        let danger = match ground {
            DecisionBasis::Danger(place) | DecisionBasis::Forbidden(place) => {
                level.request.plan.dangers.get(place as usize)
            }
            _ => None,
        };
        let ready = match ground {
            DecisionBasis::Rule(no) | DecisionBasis::Delegated(no) | DecisionBasis::Undoable(no) => {
                self.compiled_rule(no)
            }
            _ => None,
        };
        let by_rule = ready.filter(|_| matches!(ground, DecisionBasis::Rule(_)));
        let cause = ground.cause().or_else(|| by_rule.and_then(|ready| ready.rule.cause()));
        let said = self.verdict_of_basis(ground);
        // The mode applies only to asks. A deny is not looked up, so no table can weaken it.
        let verdict = match (said, cause) {
            (Verdict::Ask, Some(cause)) => cause.verdict_in_mode(mode),
            (said, _) => said,
        };
        let mut why = match ready {
            Some(_) if matches!(ground, DecisionBasis::Delegated(_)) => ground.message().to_owned(),
            Some(ready) if ready.rule.reason.is_empty() => format!("the rule `{}` says so", ready.rule.id),
            Some(ready) => ready.rule.reason.clone(),
            None => danger.map_or_else(|| ground.message().to_owned(), |danger| danger.reason.clone()),
        };
        match verdict.cmp(&said) {
            Ordering::Less => why.push_str(&format!("; the mode `{}` allows it", mode.as_str())),
            Ordering::Equal => {}
            Ordering::Greater => {
                why.push_str(&format!("; the mode `{}` does not ask about it", mode.as_str()))
            }
        }
        DecisionReason {
            verdict,
            cause,
            rule: ready.map(|ready| ready.rule.id.clone()).or_else(|| danger.map(|danger| danger.id.clone())),
            origin: ready.map(|ready| ready.location.clone()),
            effects,
            message: why,
        }
    }
}

/// The ground on which an effect or a call gets its verdict. Effects with the same ground share one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecisionBasis {
    /// A rule applies.
    Rule(RuleNumber),
    /// The plan names a path that is not resolved, so it could be another one.
    Unresolved,
    /// The use of a tool of class readonly, which does only permitted reads (P6).
    Readonly,
    /// No rule covers the effect.
    Default,
    /// The effect is outside the workspace, and no rule allows that place.
    OutsideWorkspace,
    /// No rule covers the effect, which stays in the temporary directory of the session.
    SessionTmp,
    /// No rule covers the effect, which is only one that a word may have.
    Tentative,
    /// The effect could not be predicted.
    Unknown,
    /// The effect gives up a guarantee of the sandbox.
    Unconfined,
    /// The plan has no effects.
    Empty,
    /// The tool is sensitive, for one of three reasons.
    Sensitive(&'static str),
    /// The tool requires an approval.
    ToolNeedsApproval,
    /// The call cannot be undone.
    Irreversible,
    /// A danger of the call, by its position in the plan's list.
    Danger(u32),
    /// A danger of the call that is denied.
    Forbidden(u32),
    /// The mode asks for everything.
    Mode,
    /// The mode is read-only, and this may change something.
    ReadOnlyMode,
    /// A rule allows the delegation of this effect, and it was delegated.
    Delegated(RuleNumber),
    /// No rule covers the effect, and the default about undoable work allows it.
    Undoable(RuleNumber),
}

impl DecisionBasis {
    /// Returns the cause with which it asks. A rule has its own.
    const fn cause(self) -> Option<AskCause> {
        match self {
            Self::Rule(_) | Self::Unresolved | Self::Readonly | Self::Forbidden(_) => None,
            Self::SessionTmp | Self::Tentative => None,
            Self::ReadOnlyMode | Self::Delegated(_) | Self::Undoable(_) => None,
            Self::Default => Some(AskCause::Default),
            Self::OutsideWorkspace => Some(AskCause::OutsideWorkspace),
            Self::Unknown | Self::Empty => Some(AskCause::NotUnderstood),
            Self::Unconfined | Self::Danger(_) => Some(AskCause::Dangerous),
            Self::Sensitive(_) => Some(AskCause::Sensitive),
            Self::ToolNeedsApproval => Some(AskCause::ToolNeedsApproval),
            Self::Irreversible => Some(AskCause::Irreversible),
            Self::Mode => Some(AskCause::Mode),
        }
    }

    /// Returns the reason in words, without any words of the plan. A decision is on the record in clear text, where nothing can be
    /// forgotten.
    const fn message(self) -> &'static str {
        match self {
            Self::Unknown => "the effect could not be predicted",
            Self::Unconfined => "the call leaves the sandbox",
            Self::Rule(_) => "a rule says so",
            Self::Unresolved => "the plan names a path that is not absolute and resolved",
            Self::Readonly => "the class of the tool is read-only",
            Self::Default => "no rule matches",
            Self::SessionTmp => "only commands of this session see it",
            Self::Tentative => "nothing shows that the call does this, and no rule forbids it",
            Self::OutsideWorkspace => "the path is outside the workspace, and no rule allows it",
            Self::Empty => "the effects of the call are not known",
            Self::Sensitive(why) => why,
            Self::ToolNeedsApproval => "the tool requires an approval for this call",
            Self::Irreversible => "the call cannot be undone",
            Self::Danger(_) | Self::Forbidden(_) => "the call is dangerous",
            Self::Mode => "the mode asks for every call",
            Self::ReadOnlyMode => "the mode `read-only` allows no changes",
            Self::Delegated(_) => "the rule allows delegating this to the sub-agent",
            Self::Undoable(_) => "undoable work is allowed",
        }
    }
}

/// The result of an evaluation at one level.
struct LevelDecision {
    reasons: Vec<DecisionReason>,
    guarantees: Vec<String>,
    challenge: bool,
}

/// The result of evaluating the effects of a call.
#[derive(Default)]
struct EvaluatedCall {
    bases: Vec<(DecisionBasis, Vec<u32>)>,
    guarantees: Vec<String>,
    /// A rule that applies requires a challenge.
    challenge: bool,
    /// The call has no effect but reads.
    reads_only: bool,
    /// The call has effects, and each is allowed.
    all_allowed: bool,
    /// The call has effects, and each is allowed by a rule of the organisation, the user or the session.
    all_explicit: bool,
}

impl EvaluatedCall {
    fn add(&mut self, ground: DecisionBasis, effect: Option<u32>) {
        match self.bases.iter_mut().find(|(known, _)| *known == ground) {
            Some((_, effects)) => effects.extend(effect),
            None => self.bases.push((ground, effect.into_iter().collect())),
        }
    }

    /// Adds the grounds that apply to the call as a whole. They can only tighten.
    fn add_call_bases(&mut self, level: &SessionLevel<'_>) {
        let request = &level.request;
        let PolicyRequest { manifest, plan, .. } = request;
        if plan.effects.is_empty() {
            self.add(
                if level.effective_mode.read_only {
                    DecisionBasis::ReadOnlyMode
                } else {
                    DecisionBasis::Empty
                },
                None,
            );
        }
        if let Some(why) = self.sensitivity_reason(manifest) {
            self.add(DecisionBasis::Sensitive(why), None);
        }
        if request.tool_needs_approval || manifest.needs_approval == ApprovalRequirement::Always {
            self.add(DecisionBasis::ToolNeedsApproval, None);
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
        if level.effective_mode.mode == Mode::ConfirmAll {
            self.add(DecisionBasis::Mode, None);
        }
    }

    /// Returns the reason why the tool is treated as sensitive, unless rules explicitly allowed every effect. An undeclared tool is treated
    /// as sensitive, except for permitted reads (R10).
    fn sensitivity_reason(&self, manifest: &Manifest) -> Option<&'static str> {
        let permitted_reads = self.reads_only && self.all_allowed;
        let why = match (manifest.sensitive, manifest.permission_class) {
            (Some(true), _) => "the tool declares itself sensitive",
            _ if permitted_reads => return None,
            (None, _) => "the tool does not declare that it is not sensitive",
            (Some(false), PermissionClass::Undeclared) => "the tool does not declare its class",
            (Some(false), _) => return None,
        };
        (!self.all_explicit).then_some(why)
    }
}

/// Returns the standing approval that answers every remaining question, if there is one. Of several, it returns the one with the fewest
/// patterns.
fn covering_approval<'a>(
    request: &PolicyRequest<'a>,
    reasons: &[DecisionReason],
) -> Option<&'a StandingApprovalMatcher> {
    if request.standing_approvals.is_empty() {
        return None;
    }
    let asked = effects_to_cover(&request.plan.effects, reasons).ok()?;
    request
        .standing_approvals
        .iter()
        .filter(|leave| {
            leave.applies_to(&request.manifest.name, request.session, reasons, request.now)
                && leave.covers_all(&asked, request.plan)
        })
        .min_by_key(|leave| (leave.standing_approval().scope.len(), leave.standing_approval().id))
}
