//! The report about a call as text and as JSON: its parse, its effects, the matching rules, the decision and advice.

use std::cmp::Reverse;

use byleave_gate::core::decision::{AskCause, DecisionReason, Verdict};
use byleave_gate::core::effect::Effect;
use byleave_gate::core::policy::{BUILTIN_TOML, Layer, MatchedRule, Rule};
use serde_json::{Value, json};

use super::advice::suggestions;
use super::evaluation::CallExplanation;
use super::{quoting, tree};
use crate::call_display::{format_count, table};
use crate::console::{Console, Tone, one_line};

/// The number of reasons on the screen. `--json` has all of them.
const REASONS_MAX: usize = 4;

/// A matching rule, with the effects that it matches and those that it decides.
struct RuleMatch<'a> {
    rule: &'a Rule,
    about: Vec<u32>,
    decides: Vec<u32>,
}

impl CallExplanation<'_> {
    /// Returns the matching rules, strictest first.
    fn fitting(&self) -> Vec<RuleMatch<'_>> {
        let mut rules: Vec<RuleMatch<'_>> = Vec::new();
        for MatchedRule { effect, rule, decisive: decided } in &self.considered {
            let known = rules.iter().position(|known| std::ptr::eq(known.rule, *rule));
            let at = known.unwrap_or(rules.len());
            if known.is_none() {
                rules.push(RuleMatch { rule, about: Vec::new(), decides: Vec::new() });
            }
            if let Some(fitting) = rules.get_mut(at) {
                fitting.about.push(*effect);
                fitting.decides.extend(decided.then_some(*effect));
            }
        }
        rules.sort_by_key(|fitting| Reverse(fitting.rule.verdict));
        rules
    }

    pub(super) fn show(&self, screen: &mut Console) {
        for danger in &self.plan.dangers {
            let text = format!("{} (`{}`)", one_line(&danger.reason), one_line(&danger.id));
            let label = screen.painted(Tone::Bad, "dangerous:");
            screen.line(&format!("{label} {text}"));
        }
        if !self.plan.dangers.is_empty() {
            screen.line("");
        }
        for tree in self.trees {
            screen.title("How the command is parsed");
            for line in tree::lines(tree) {
                screen.line(&line);
            }
            screen.line("");
        }
        self.show_effects(screen);
        self.show_rules(screen);
        self.show_verdict(screen);
    }

    fn show_effects(&self, screen: &mut Console) {
        screen.title("Predicted effects");
        if self.plan.effects.is_empty() {
            screen.line("no effects are known");
        } else {
            let rows = self.rows();
            table(screen, &["", "VERDICT", "RULE", "EFFECT", "TARGET"], &rows);
        }
        screen.line("");
    }

    /// Returns one row for each effect. Several spellings of one run share a row.
    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut left: Vec<(u32, &Effect)> = (0..).zip(&self.plan.effects).collect();
        left.reverse();
        while let Some((place, effect)) = left.pop() {
            let reason = self.reason(place);
            let mut last = place;
            while let Some((next, other)) = left.last()
                && is_spelling(effect, other)
                && self.reason(*next) == reason
            {
                last = *next;
                left.pop();
            }
            let (number, target) = match last - place {
                0 => ((place + 1).to_string(), quoting::target(effect)),
                more => (
                    format!("{}-{}", place + 1, last + 1),
                    format!(
                        "{}  (and {})",
                        quoting::target(effect),
                        format_count(more.into(), "other spelling")
                    ),
                ),
            };
            let verdict = reason.map_or("", |reason| reason.verdict.as_str()).to_owned();
            let by =
                reason.and_then(|reason| reason.rule.as_deref()).map_or_else(|| "-".to_owned(), one_line);
            rows.push(vec![number, verdict, by, effect.kind().to_owned(), target]);
        }
        rows
    }

    fn show_rules(&self, screen: &mut Console) {
        let (fitting, all) = (self.fitting(), self.policy.rules().len());
        let rest = all.saturating_sub(fitting.len());
        screen.title("Matching rules");
        if fitting.is_empty() {
            screen.line(&format!("none of the {all} rules in force matches"));
        } else {
            let rows = fitting.iter().map(|RuleMatch { rule, about, decides }| {
                let decides = if decides.is_empty() {
                    "nothing: another rule does".to_owned()
                } else {
                    numbers(decides)
                };
                vec![
                    one_line(&rule.id),
                    rule.verdict.as_str().to_owned(),
                    numbers(about),
                    decides,
                    one_line(&rule_location(rule)),
                ]
            });
            table(screen, &["RULE", "VERDICT", "MATCHES", "DECIDES ON", "SOURCE"], &rows.collect::<Vec<_>>());
            match rest {
                0 => screen.line("there are no other rules in force"),
                1 => screen.line("the other rule in force does not match"),
                rest => screen.line(&format!("the other {rest} rules in force do not match")),
            }
        }
        screen.line("");
    }

    fn show_verdict(&self, screen: &mut Console) {
        screen.title(&format!("Verdict: {}", self.decision.verdict.as_str()));
        screen.line(match self.decision.verdict {
            Verdict::Allow if self.decision.challenge.is_some() => "no rule asks about the call",
            Verdict::Allow => "the call runs without a question",
            Verdict::Ask => "a person is asked first",
            Verdict::Deny => "the call does not run, and nobody is asked",
        });
        if self.decision.requires_checkpoint() {
            screen.line("it is a checkpoint: a person must release it in every mode");
        }
        if self.decision.challenge.is_some() {
            screen.line(
                "somebody must make the case against it first: the model of the agent, or the person who answers",
            );
        }
        let mut reasons: Vec<&DecisionReason> = self.decisive_reasons().collect();
        // A danger says the most.
        reasons.sort_by_key(|reason| reason.cause != Some(AskCause::Dangerous));
        for reason in reasons.iter().take(REASONS_MAX) {
            screen.line(&one_line(&self.because(reason)));
        }
        let more = reasons.len().saturating_sub(REASONS_MAX);
        if more > 0 {
            screen.line(&format!("and for {}", format_count(more as u64, "more reason")));
        }
        screen.line("");
        screen.title("How to change this");
        for line in suggestions(self) {
            screen.line(&line);
        }
    }

    fn because(&self, reason: &DecisionReason) -> String {
        let about = match reason.effects.as_slice() {
            [] => "the call as a whole".to_owned(),
            [effect] => format!("effect {}", effect + 1),
            effects => format!("effects {}", numbers(effects)),
        };
        match (self.rule(reason), &reason.rule) {
            (Some(rule), _) => {
                format!(
                    "because of {about}: rule `{}` ({}): {}",
                    rule.id,
                    rule_location(rule),
                    reason.message
                )
            }
            // What lets a call pass without a rule, as `undoable` does, is no danger.
            (None, Some(name)) if reason.verdict == Verdict::Allow => {
                format!("because of {about}: {} (`{name}`)", reason.message)
            }
            (None, Some(danger)) => format!("because of {about}: danger `{danger}`: {}", reason.message),
            (None, None) => format!("because of {about}: {}", reason.message),
        }
    }

    pub(super) fn json(&self) -> Value {
        let effects: Vec<Value> = (0..)
            .zip(&self.plan.effects)
            .map(|(place, effect)| {
                let rules = self.considered.iter().filter(|considered| considered.effect == place);
                let rules: Vec<Value> = rules.map(considered_json).collect();
                json!({ "effect": effect, "verdict": self.reason(place).map(|reason| reason.verdict), "rules": rules })
            })
            .collect();
        let fitting = self.fitting();
        let places: tree::EffectIndex<'_> = self.plan.effects.iter().zip(0..).collect();
        let winners: Vec<Value> = self
            .decisive_reasons()
            .map(|reason| {
                let place = self.rule(reason).map(rule_location);
                json!({ "rule": reason.rule, "written_in": place, "effects": reason.effects, "message": reason.message, "cause": reason.cause })
            })
            .collect();
        json!({
            "verdict": self.decision.verdict,
            "checkpoint": self.decision.requires_checkpoint(),
            "challenge": self.decision.challenge.is_some(),
            "because": winners,
            "trees": self.trees.iter().map(|tree| tree::value(tree, &places)).collect::<Vec<_>>(),
            "effects": effects,
            "dangers": self.plan.dangers,
            "reasons": self.decision.reasons,
            "rules_in_force": self.policy.rules().len(),
            "rules_that_fit": fitting.len(),
            "otherwise": suggestions(self),
        })
    }
}

/// Checks whether two effects are the same run in another spelling.
fn is_spelling(one: &Effect, other: &Effect) -> bool {
    match (one, other) {
        (Effect::Run { program, argv }, Effect::Run { program: other, argv: words }) => {
            program == other && argv.first() == words.first() && argv.last() == words.last()
        }
        _ => false,
    }
}

fn considered_json(considered: &MatchedRule<'_>) -> Value {
    json!({
        "rule": considered.rule.id,
        "layer": considered.rule.layer,
        "verdict": considered.rule.verdict,
        "origin": considered.rule.origin,
        "written_in": rule_location(considered.rule),
        "decided": considered.decisive,
    })
}

/// Returns the place of a rule: layer, file and line. For a built-in rule it is the line in the output of `byleave policy
/// builtin`.
pub(super) fn rule_location(rule: &Rule) -> String {
    match (&rule.origin, rule.layer) {
        (Some(origin), layer) => format!("{layer}, {origin}"),
        (None, Layer::Builtin) => {
            let own = format!("id = \"{}\"", rule.id);
            match BUILTIN_TOML.lines().position(|line| line.trim() == own) {
                Some(line) => format!("built-in, builtin.toml:{}", line + 1),
                None => "built-in".to_owned(),
            }
        }
        (None, layer) => layer.to_string(),
    }
}

/// Formats effects by their numbers on the page.
fn numbers(effects: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = effects;
    while let Some((first, _)) = rest.split_first() {
        let run = rest.iter().zip(*first..).take_while(|(one, next)| *one == next).count();
        let last = first.saturating_add(u32::try_from(run).unwrap_or(1)).max(first.saturating_add(1));
        parts.push(if run > 2 { format!("{}-{last}", first + 1) } else { (first + 1).to_string() });
        rest = rest.get(if run > 2 { run } else { 1 }..).unwrap_or_default();
    }
    parts.join(", ")
}
