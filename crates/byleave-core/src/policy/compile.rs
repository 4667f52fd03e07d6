//! A compiled policy: rules that were checked and compiled, and the digest that is their version.

use std::collections::HashMap;

use super::condition::{CompiledCondition, NameGlob};
use super::index::{IndexScratch, PatternIndex, PatternIndexBuilder, RuleNumber};
use super::rule::{Layer, PolicyError, Rule, RuleError};
use crate::decision::Verdict;
use crate::digest::Digest;
use crate::effect::{Effect, is_at_or_beneath};
use crate::pattern::{MatchCertainty, Pattern, PatternError, PatternMatcher};

/// The version of the evaluation. It is raised when the same rules begin to mean something else, so that no earlier decision is reused.
const SEMANTICS_VERSION: &str = "6";

/// Compiled rules, ready for evaluation.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<CompiledRule>,
    index: PatternIndex,
    /// The rules about whole calls, which name no effect.
    call_rules: Vec<RuleNumber>,
    /// The rule that allows undoable work for which there is no other rule.
    undoable_rule: Option<RuleNumber>,
    workspace: Option<String>,
    /// The directory of the repository of the workspace, if it lies outside.
    repository: Option<String>,
    digest: Digest,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) rule: Rule,
    pub(super) location: String,
    except: Vec<PatternMatcher>,
    pub(super) condition: CompiledCondition,
    pub(super) delegate: Option<Delegation>,
}

/// The sub-agents to which an effect may be delegated that the rule forbids. For them it is an allow, and so needs proof.
#[derive(Debug)]
pub(super) struct Delegation {
    pub(super) to: NameGlob,
    patterns: Vec<PatternMatcher>,
    except: Vec<PatternMatcher>,
}

impl Delegation {
    fn new(rule: &Rule) -> Result<Option<Self>, PatternError> {
        let Some(to) = &rule.delegate else { return Ok(None) };
        let ready = |patterns: &[Pattern], sense| {
            patterns
                .iter()
                .map(|pattern| PatternMatcher::with_certainty(pattern.clone(), sense))
                .collect::<Result<_, _>>()
        };
        Ok(Some(Self {
            to: NameGlob::new(to)?,
            patterns: ready(&rule.patterns, MatchCertainty::Certain)?,
            except: exceptions(rule, MatchCertainty::Possible)?,
        }))
    }

    /// Checks whether the effect is surely one that may be delegated.
    pub(super) fn covers(&self, effect: &Effect) -> bool {
        let any = |matchers: &[PatternMatcher]| matchers.iter().any(|matcher| matcher.matches(effect));
        any(&self.patterns) && !any(&self.except)
    }
}

impl Policy {
    /// Checks and compiles the rules. Their order has no meaning.
    ///
    /// A rule of the organisation or the user replaces the built-in *ask* with the same id. It cannot replace any other rule: a user's rule
    /// with the id of an organisation's rule applies in addition to it.
    pub fn new(mut rules: Vec<Rule>) -> Result<Self, PolicyError> {
        let digest = policy_digest(&rules);
        rules.sort_by(|a, b| (a.layer, &a.id).cmp(&(b.layer, &b.id)));
        for rule in &rules {
            rule.check().map_err(|fault| rule.to_policy_error(fault))?;
        }
        for (one, other) in rules.iter().zip(rules.iter().skip(1)) {
            if (one.layer, &one.id) == (other.layer, &other.id) {
                return Err(one.to_policy_error(RuleError::DuplicateId(other.location())));
            }
        }
        let rules = apply_replacements(rules)?;
        let mut index = PatternIndexBuilder::default();
        let rules: Vec<CompiledRule> = (0..)
            .zip(rules)
            .map(|(no, rule)| compile_rule(rule, no, &mut index))
            .collect::<Result<_, _>>()?;
        let index = index.build().map_err(|error| PolicyError::TooLarge(error.to_string()))?;
        let about_calls = |ready: &CompiledRule| ready.rule.patterns.is_empty() && !ready.rule.undoable;
        let call_rules =
            (0..).zip(&rules).filter(|(_, ready)| about_calls(ready)).map(|(no, _)| no).collect();
        let undoable_rule = find_undoable_rule(&rules);
        Ok(Self { rules, index, call_rules, undoable_rule, workspace: None, repository: None, digest })
    }

    /// Adds a boundary: tools access files outside this directory only if a rule or a person allows it (P4).
    ///
    /// Without a workspace there is no boundary.
    #[must_use]
    pub fn with_workspace(self, workspace: Option<&str>) -> Self {
        let Some(workspace) = workspace else { return self };
        let parts = [self.digest.as_bytes().as_slice(), workspace.as_bytes()];
        let digest = Digest::compute_parts("byleave.policy.within", &parts);
        Self { workspace: Some(workspace.to_owned()), digest, ..self }
    }

    /// Adds the directory of the workspace's repository, if it lies outside of the workspace. Changes in it can be undone like those in the
    /// workspace.
    #[must_use]
    pub fn with_repository(self, directory: Option<&str>) -> Self {
        let Some(directory) = directory else { return self };
        let parts = [self.digest.as_bytes().as_slice(), directory.as_bytes()];
        let digest = Digest::compute_parts("byleave.policy.repository", &parts);
        Self { repository: Some(directory.to_owned()), digest, ..self }
    }

    /// Returns the directory of the workspace's repository, if it lies outside of the workspace.
    pub fn repository(&self) -> Option<&str> {
        self.repository.as_deref()
    }

    /// Checks whether a path is in the workspace, or in its repository. Without a workspace, none is.
    pub fn is_own(&self, path: &str) -> bool {
        let own = self.workspace.iter().chain(&self.repository);
        self.workspace.is_some() && own.into_iter().any(|directory| is_at_or_beneath(path, directory))
    }

    /// Returns the workspace directory, absolute and resolved.
    pub fn workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Returns the version of the policy. It changes if any rule changes, and does not depend on their order.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the rules in force, by layer and id.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter().map(|ready| &ready.rule)
    }

    /// Returns the rule that allows undoable work for which there is no other rule.
    pub(super) const fn undoable_rule(&self) -> Option<RuleNumber> {
        self.undoable_rule
    }

    pub(super) fn compiled_rule(&self, no: RuleNumber) -> Option<&CompiledRule> {
        self.rules.get(no as usize)
    }

    /// Returns whether some rule depends on the session or the agent of a call.
    pub fn depends_on_caller(&self) -> bool {
        self.rules.iter().any(|ready| ready.rule.when.depends_on_caller())
    }

    /// Returns whether some rule depends on the text that a session has read.
    pub fn depends_on_foreign_text(&self) -> bool {
        self.rules.iter().any(|ready| ready.rule.when.read_foreign.is_some())
    }

    /// Returns the rules about whole calls whose conditions hold, by layer and id.
    pub(super) fn matching_call_rules(
        &self,
        holds: impl Fn(&CompiledRule) -> bool,
    ) -> impl Iterator<Item = RuleNumber> {
        self.call_rules.iter().copied().filter(move |no| self.compiled_rule(*no).is_some_and(&holds))
    }

    /// Finds the rules that match the effect and whose conditions hold, by layer and id.
    pub(super) fn find_rules(
        &self,
        holds: impl Fn(&CompiledRule) -> bool,
        effect: &Effect,
        scratch: &mut IndexScratch,
    ) {
        self.index.find(effect, scratch);
        scratch.found.extend(&self.call_rules);
        scratch.found.sort_unstable();
        scratch.found.retain(|no| {
            self.compiled_rule(*no).is_some_and(|ready| {
                holds(ready) && !ready.except.iter().any(|matcher| matcher.matches(effect))
            })
        });
    }
}

/// Removes the built-in asks that a rule of the organisation or the user replaces.
fn apply_replacements(rules: Vec<Rule>) -> Result<Vec<Rule>, PolicyError> {
    let built_in = rules.iter().filter(|rule| rule.layer == Layer::Builtin);
    let built_in: HashMap<String, Verdict> = built_in.map(|rule| (rule.id.clone(), rule.verdict)).collect();
    let mut replaced = Vec::new();
    for rule in rules.iter().filter(|rule| matches!(rule.layer, Layer::Organisation | Layer::User)) {
        match built_in.get(&rule.id) {
            None => {}
            Some(Verdict::Ask) => replaced.push(rule.id.clone()),
            Some(verdict) => return Err(rule.to_policy_error(RuleError::NotReplaceable(*verdict))),
        }
    }
    let stays = |rule: &Rule| rule.layer != Layer::Builtin || !replaced.contains(&rule.id);
    Ok(rules.into_iter().filter(stays).collect())
}

fn compile_rule(
    rule: Rule,
    no: RuleNumber,
    index: &mut PatternIndexBuilder,
) -> Result<CompiledRule, PolicyError> {
    for pattern in &rule.patterns {
        index.add(pattern, rule.certainty(), no).map_err(|bad| rule.to_policy_error(bad))?;
    }
    let except = exceptions(&rule, rule.except_certainty()).map_err(|bad| rule.to_policy_error(bad))?;
    let condition = CompiledCondition::new(&rule.when).map_err(|bad| rule.to_policy_error(bad))?;
    let delegate = Delegation::new(&rule).map_err(|bad| rule.to_policy_error(bad))?;
    Ok(CompiledRule { location: rule.location(), except, condition, delegate, rule })
}

fn exceptions(rule: &Rule, sense: MatchCertainty) -> Result<Vec<PatternMatcher>, PatternError> {
    let matchers = rule.except.iter().map(|pattern| PatternMatcher::with_certainty(pattern.clone(), sense));
    matchers.map(|matcher| matcher.map(PatternMatcher::into_exception)).collect()
}

/// Returns the rule that allows undoable work. A layer that asks wins against every layer that allows.
fn find_undoable_rule(rules: &[CompiledRule]) -> Option<RuleNumber> {
    let all = || (0..).zip(rules).filter(|(_, ready)| ready.rule.undoable);
    let is_asked = all().any(|(_, ready)| ready.rule.verdict != Verdict::Allow);
    let highest = all().max_by_key(|(_, ready)| ready.rule.layer.authority());
    highest.filter(|_| !is_asked).map(|(no, _)| no)
}

fn policy_digest(rules: &[Rule]) -> Digest {
    let mut each: Vec<Digest> = rules.iter().map(rule_digest).collect();
    each.sort_unstable();
    let algebra = std::iter::once(SEMANTICS_VERSION.as_bytes());
    let parts: Vec<&[u8]> = algebra.chain(each.iter().map(|digest| digest.as_bytes().as_slice())).collect();
    Digest::compute_parts("byleave.policy", &parts)
}

fn rule_digest(rule: &Rule) -> Digest {
    match serde_json::to_vec(rule) {
        Ok(text) => Digest::compute_parts("byleave.rule", &[&text]),
        // A rule consists of strings and flags, so it always serializes.
        Err(error) => Digest::compute_parts("byleave.rule.unwritable", &[error.to_string().as_bytes()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use Verdict::{Allow, Ask, Deny};

    fn globs(globs: &[&str]) -> Vec<Pattern> {
        globs.iter().map(|glob| Pattern::Write((*glob).into())).collect()
    }

    #[test]
    fn a_bad_rule_is_named_with_its_place() {
        let base =
            Rule { origin: Some("r.toml:3".into()), ..Rule::new("x", Layer::User, Ask, globs(&["/w/a"])) };
        let check = |change: &dyn Fn(&mut Rule), wanted: &str| {
            let mut bad = base.clone();
            change(&mut bad);
            let told = Policy::new(vec![bad]).unwrap_err().to_string();
            assert!(told.contains("r.toml:3") && told.contains(wanted), "{told}");
        };
        check(&|rule| rule.patterns.clear(), "rule `x`");
        check(&|rule| rule.patterns.clear(), "matches nothing");
        check(&|rule| rule.patterns.push(Pattern::Read("[".into())), "glob `[`");
        check(&|rule| rule.patterns.push(Pattern::Reach("http://x".into())), "host `http://x`");
        check(&|rule| rule.patterns.push(Pattern::Run(vec![])), "must begin with a program");
        check(&|rule| rule.except.push(Pattern::Write("[".into())), "glob `[`");
        check(&|rule| rule.except.push(Pattern::Read("/w".into())), "excepts a kind");
        check(&|rule| rule.id.clear(), "no id");
        check(&|rule| (rule.firm, rule.verdict) = (true, Deny), "`firm`");
        check(&|rule| (rule.dangerous, rule.verdict) = (true, Deny), "`dangerous`");
        check(&|rule| (rule.dangerous, rule.verdict) = (true, Allow), "`dangerous`");
        check(&|rule| (rule.dangerous, rule.firm) = (true, true), "already firm");
        check(&|rule| rule.remember = true, "about hosts");
        let host = || vec![Pattern::Reach("h.example".into())];
        check(&|rule| (rule.remember, rule.patterns, rule.verdict) = (true, host(), Allow), "`remember`");
        check(
            &|rule| (rule.remember, rule.patterns, rule.firm) = (true, host(), true),
            "cannot be remembered",
        );
        check(
            &|rule| (rule.remember, rule.patterns, rule.layer) = (true, host(), Layer::Project),
            "a project",
        );
        check(&|rule| rule.guarantees.push("network off".into()), "guarantees");
        // req: P8
        check(&|rule| (rule.layer, rule.verdict) = (Layer::Project, Allow), "only `deny` and `ask`");
        let mut twin = base.clone();
        twin.origin = Some("r.toml:9".into());
        let told = Policy::new(vec![base.clone(), twin.clone()]).unwrap_err().to_string();
        assert!(told.contains("r.toml:3") && told.contains("r.toml:9"), "{told}");
        twin.layer = Layer::Project;
        assert!(Policy::new(vec![base, twin]).is_ok(), "an id is unique within its layer");
    }

    #[test]
    fn the_version_sees_every_change_and_no_order() {
        let base = Rule::new("x", Layer::User, Ask, globs(&["/w/a"]));
        let second = Rule::new("y", Layer::User, Deny, globs(&["/w/b"]));
        let version = |rules: &[Rule]| Policy::new(rules.to_vec()).unwrap().digest();
        let first = version(&[base.clone(), second.clone()]);
        assert_eq!(first, version(&[second.clone(), base.clone()]));
        assert_ne!(first, version(std::slice::from_ref(&second)));
        let changes: &[&dyn Fn(&mut Rule)] = &[
            &|rule| rule.id.push('x'),
            &|rule| rule.layer = Layer::Session,
            &|rule| rule.verdict = Allow,
            &|rule| rule.patterns = globs(&["/w/c"]),
            &|rule| rule.patterns = vec![Pattern::Read("/w/a".into())],
            &|rule| rule.except = globs(&["/w/c"]),
            &|rule| rule.when.sensitive = Some(true),
            &|rule| rule.firm = true,
            &|rule| rule.dangerous = true,
            &|rule| (rule.verdict, rule.guarantees) = (Allow, vec!["g".into()]),
            &|rule| rule.reason.push('x'),
            &|rule| rule.origin = Some("r.toml:3".into()),
        ];
        let mut seen = vec![first];
        for change in changes {
            let mut other = base.clone();
            change(&mut other);
            let version = version(&[other, second.clone()]);
            assert!(!seen.contains(&version));
            seen.push(version);
        }
    }
}
