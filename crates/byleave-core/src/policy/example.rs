//! Examples: what a rule covers and does not cover, in the author's words, checked when the rule is read.
//!
//! Paths, hosts and tools are checked here. Commands are parsed by an [`ExampleChecker`] that the caller passes in. If commands cannot be
//! parsed, their examples are reported as unchecked, never skipped silently.

use std::cell::OnceCell;

use super::builtin::builtin_rules;
use super::compile::Policy;
use super::condition::RuleCondition;
use super::path_variables::PathVariables;
use super::request::PolicyRequest;
use super::rule::{Example, Rule};
use crate::decision::Verdict;
use crate::effect::{Effect, Plan};
use crate::id::{AgentId, SessionId};
use crate::manifest::{Manifest, PermissionClass};
use crate::pattern::{Pattern, PatternMatcher};

/// A parser for the commands that are examples of `run` rules.
pub trait ExampleChecker {
    /// Returns the plan of the command, or `None` if commands cannot be parsed.
    fn plan(&self, command: &str) -> Option<Plan>;
}

/// A checker that parses no commands. Their examples are reported as unchecked.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkipExamples;

impl ExampleChecker for SkipExamples {
    fn plan(&self, _command: &str) -> Option<Plan> {
        None
    }
}

/// An example that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncheckedExample {
    /// The id of its rule.
    pub rule: String,
    /// The example.
    pub example: Example,
}

/// The result of checking one example.
pub(super) enum ExampleResult {
    /// The example is as the rule says.
    Passed,
    /// The example is not as the rule says, with the reason.
    Failed(String),
    /// The example cannot be parsed.
    Skipped,
}

/// A rule with valid patterns, compiled to check its examples.
pub(super) struct RuleUnderTest<'a> {
    rule: &'a Rule,
    places: &'a PathVariables<'a>,
    patterns: Vec<PatternMatcher>,
    except: Vec<PatternMatcher>,
    /// The rule together with the built-in ones, created when the first command is evaluated.
    with_builtin: OnceCell<Option<Policy>>,
}

impl<'a> RuleUnderTest<'a> {
    pub(super) fn new(rule: &'a Rule, places: &'a PathVariables<'a>) -> Self {
        let ready = |patterns: &[Pattern], sense| {
            let matchers =
                patterns.iter().map(|pattern| PatternMatcher::with_certainty(pattern.clone(), sense));
            matchers.filter_map(Result::ok).collect()
        };
        let patterns = ready(&rule.patterns, rule.certainty());
        let except = ready(&rule.except, rule.except_certainty());
        Self { rule, places, patterns, except, with_builtin: OnceCell::new() }
    }

    /// Checks one example.
    pub(super) fn check(
        &self,
        example: &Example,
        wanted: bool,
        examples: &dyn ExampleChecker,
    ) -> ExampleResult {
        let fits = match parse_example(self.rule, &example.text) {
            ParsedExample::Command(command) => match examples.plan(command) {
                Some(plan) => self.covers_command(&plan),
                None => return ExampleResult::Skipped,
            },
            ParsedExample::Effects(effects) => Some(effects.iter().any(|effect| self.matches(effect))),
        };
        let told = |text: &str| ExampleResult::Failed(text.to_owned());
        match (fits, wanted) {
            (None, _) => told("the example cannot be evaluated under this rule"),
            (Some(true), true) | (Some(false), false) => ExampleResult::Passed,
            (Some(false), true) => told("the rule does not match it"),
            (Some(true), false) => told("the rule matches it"),
        }
    }

    fn matches(&self, effect: &Effect) -> bool {
        let any = |matchers: &[PatternMatcher]| matchers.iter().any(|matcher| matcher.matches(effect));
        any(&self.patterns) && !any(&self.except)
    }

    /// Checks whether a command is covered. An allow must allow it together with the built-in rules. Another rule must match some part of
    /// it.
    fn covers_command(&self, plan: &Plan) -> Option<bool> {
        let Self { rule, places, .. } = self;
        if rule.verdict != Verdict::Allow {
            return Some(plan.effects.iter().any(|effect| self.matches(effect)));
        }
        let policy = self.with_builtin.get_or_init(|| {
            let mut rules = builtin_rules(places).ok()?;
            rules.retain(|other| other.id != rule.id);
            rules.push(Rule { when: RuleCondition::default(), ..(*rule).clone() });
            Some(Policy::new(rules).ok()?.with_workspace(places.workspace))
        });
        let policy = policy.as_ref()?;
        let mut manifest = Manifest::new("example", "", serde_json::Value::Null);
        (manifest.permission_class, manifest.sensitive) = (PermissionClass::Bash, Some(false));
        let (session, agent) = (SessionId::new("example").ok()?, AgentId::new("example").ok()?);
        let request = PolicyRequest::new(&manifest, plan, &session, &agent);
        Some(policy.evaluate(&request).verdict == Verdict::Allow)
    }
}

enum ParsedExample<'a> {
    Command(&'a str),
    Effects(Vec<Effect>),
}

/// Returns the meaning of an example: by its explicit kind, else a command if the rule has run patterns, else every kind that the rule has.
fn parse_example<'a>(rule: &Rule, text: &'a str) -> ParsedExample<'a> {
    let kinds = ["run", "read", "write", "delete", "reach", "send", "invoke"];
    if let Some((kind, target)) = text.split_once(':')
        && kinds.contains(&kind)
    {
        let target = target.trim_start();
        return match kind {
            "run" => ParsedExample::Command(target),
            kind => ParsedExample::Effects(parse_effect(kind, target).into_iter().collect()),
        };
    }
    if rule.patterns.iter().any(|pattern| pattern.kind() == "run") {
        return ParsedExample::Command(text);
    }
    let mut effects: Vec<Effect> =
        rule.patterns.iter().filter_map(|pattern| parse_effect(pattern.kind(), text)).collect();
    effects.dedup();
    ParsedExample::Effects(effects)
}

fn parse_effect(kind: &str, target: &str) -> Option<Effect> {
    let text = target.to_owned();
    Some(match kind {
        "read" => Effect::Read { path: text },
        "write" => Effect::Write { path: text },
        "delete" => Effect::Delete { path: text },
        "reach" => Effect::Reach { host: text, port: 443 },
        "send" => Effect::Send { host: text, port: 443 },
        "invoke" => Effect::Invoke { tool: text },
        _ => return None,
    })
}
