//! Advice on how to get another verdict. It says so if there is no way.

use byleave_gate::core::decision::{AskCause, DecisionReason, Verdict};
use byleave_gate::core::effect::{Effect, UNKNOWN_HOST};
use byleave_gate::core::pattern::escape_glob;
use byleave_gate::core::policy::Layer;

use super::evaluation::CallExplanation;
use super::quoting::quoted;
use crate::console::one_line;

/// Returns the advice, line by line. Never empty.
pub(super) fn suggestions(explained: &CallExplanation<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    let own = one_line(explained.own_file.as_deref().unwrap_or("your own policy file"));
    match explained.decision.verdict {
        Verdict::Allow => {
            add(format!(
                "to be asked, or to refuse it: write a rule with `ask` or `deny` in `{own}`; the stricter rule wins"
            ));
        }
        Verdict::Deny => {
            let built_in = |reason: &&DecisionReason| {
                explained.rule(reason).is_some_and(|rule| rule.layer == Layer::Builtin)
            };
            let names =
                explained.decisive_reasons().filter(built_in).filter_map(|reason| reason.rule.as_deref());
            let names: Vec<String> = names.map(|name| format!("`{}`", one_line(name))).collect();
            if !names.is_empty() {
                add(format!(
                    "built-in denies cannot be disabled ({}): omit that part, or do it yourself, outside the agent",
                    names.join(", ")
                ));
            }
            for reason in explained.decisive_reasons().filter(|reason| !built_in(reason)) {
                denied(explained, reason, &own).into_iter().for_each(&mut add);
            }
        }
        Verdict::Ask => {
            for reason in explained.decisive_reasons() {
                asked(explained, reason, &own).into_iter().for_each(&mut add);
            }
        }
    }
    lines
}

fn denied(explained: &CallExplanation<'_>, reason: &DecisionReason, own: &str) -> Vec<String> {
    if reason.cause == Some(AskCause::OutsideWorkspace) {
        let asked = "in the mode `confirm-sensitive` a person is asked: choose it with `--mode`".to_owned();
        return allowing(explained, reason, own).into_iter().chain([asked]).collect();
    }
    let line = match (explained.rule(reason), &reason.rule) {
        (Some(rule), _) => {
            let origin = rule.origin.as_deref().unwrap_or("its file");
            format!(
                "change or remove the rule `{}` in `{}`; `byleave policy check FILE` checks the file",
                one_line(&rule.id),
                one_line(origin)
            )
        }
        (None, Some(danger)) => {
            format!(
                "`{}` is always denied: do it yourself, outside the agent, if you are sure",
                one_line(danger)
            )
        }
        (None, None) => "write paths so that they can be resolved".to_owned(),
    };
    vec![line]
}

fn asked(explained: &CallExplanation<'_>, reason: &DecisionReason, own: &str) -> Vec<String> {
    let rule = explained.rule(reason);
    let always = |reason: &DecisionReason| {
        let always = matches!(
            reason.cause,
            Some(AskCause::NotUnderstood | AskCause::Dangerous | AskCause::Irreversible)
        );
        always && explained.rule(reason).is_none()
    };
    // A rule would not help if another reason always asks.
    if explained.decisive_reasons().any(always) && !always(reason) {
        return Vec::new();
    }
    let line = match (reason.cause, rule) {
        (Some(AskCause::Default | AskCause::OutsideWorkspace), _) => return allowing(explained, reason, own),
        (Some(AskCause::NotUnderstood), _) => {
            "no rule can allow an unknown effect: write the command so that its effects are clear (see NOT KNOWN above)".to_owned()
        }
        (Some(AskCause::Dangerous | AskCause::Irreversible), None) => {
            "byleave asks about dangerous effects every time: no rule and no standing approval changes that".to_owned()
        }
        (_, Some(rule)) if rule.layer == Layer::Builtin => {
            format!("a rule with the id `{}` in `{own}` replaces the built-in one", one_line(&rule.id))
        }
        (_, Some(rule)) => {
            let origin = rule.origin.as_deref().unwrap_or("its file");
            format!("change or remove the rule `{}` in `{}`", one_line(&rule.id), one_line(origin))
        }
        (Some(AskCause::Sensitive), None) => {
            format!("the tool is treated as sensitive: byleave does not ask if rules in `{own}` allow every one \
                of its effects")
        }
        (Some(AskCause::Mode), None) => "the mode asks about everything: choose another with `--mode`".to_owned(),
        _ => "this tool needs a person's approval for each call".to_owned(),
    };
    vec![line]
}

/// Suggests a rule that allows an effect that no rule covers, as narrow as possible.
fn allowing(explained: &CallExplanation<'_>, reason: &DecisionReason, own: &str) -> Vec<String> {
    let effects = reason.effects.iter().filter_map(|place| explained.plan.effects.get(*place as usize));
    let mut kinds: Vec<(&'static str, Vec<String>)> = Vec::new();
    for effect in effects {
        let pattern = match effect {
            Effect::Run { argv, .. } => match argv.first() {
                Some(name) if !name.contains('…') => leading(argv),
                _ => continue,
            },
            Effect::Read { path } | Effect::Write { path } | Effect::Delete { path } => escape_glob(path),
            Effect::Reach { host, .. } | Effect::Send { host, .. } if host == UNKNOWN_HOST => continue,
            Effect::Reach { host, .. } | Effect::Send { host, .. } => host.clone(),
            Effect::Invoke { tool } => tool.clone(),
            Effect::Unconfined { .. } | Effect::Unknown { .. } => continue,
        };
        match kinds.iter_mut().find(|(kind, _)| *kind == effect.kind()) {
            Some((_, patterns)) if patterns.contains(&pattern) => {}
            Some((_, patterns)) => patterns.push(pattern),
            None => kinds.push((effect.kind(), vec![pattern])),
        }
    }
    if kinds.is_empty() {
        return Vec::new();
    }
    let wish = match reason.verdict {
        Verdict::Deny => "to have it run",
        Verdict::Ask | Verdict::Allow => "to avoid the question",
    };
    let mut lines = vec![format!("{wish}, allow the effects that no rule matches, in `{own}`:")];
    lines.push("    [[rule]]".to_owned());
    lines.push("    verdict = \"allow\"".to_owned());
    for (kind, patterns) in kinds {
        let patterns: Vec<String> =
            patterns.iter().map(|pattern| one_line(&format!("{pattern:?}"))).collect();
        lines.push(format!("    {kind} = [{}]", patterns.join(", ")));
    }
    lines
}

/// Returns the program, with its sub-command if it has one.
fn leading(argv: &[String]) -> String {
    let plain = |word: &&String| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    };
    argv.iter()
        .take(1)
        .chain(argv.iter().skip(1).take(1).filter(plain))
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}
