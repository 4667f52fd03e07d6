//! `byleave policy suggest`: suggests rules that would have avoided questions that were always answered yes.
//!
//! It is careful by construction. It suggests nothing for dangerous or irreversible effects, or for calls that were not
//! understood. No suggestion covers a call whose question was not answered yes. None is broader than the common leading words, or
//! the one directory, of the approved calls. Every suggestion is tested together with the rules in force. It is shown only if
//! both would have allowed at least two calls that were asked about, and if it loosens nothing else.

mod draft;

use anyhow::Result;
use byleave_gate::core::decision::{AskCause, Verdict};
use byleave_gate::core::id::CallId;
use byleave_gate::core::pattern::PatternMatcher;
use byleave_gate::core::policy::{Layer, Rule, RuleFile, SkipExamples, load_rules};
use byleave_gate::recorded_calls::PastQuestion;
use byleave_gate::replay::ReplayableCall;
use serde_json::{Value, json};

use self::draft::{APPROVED_MIN, PathGrouping, RuleDraft, drafts, needed};
use super::recorded_calls::{self, PoliciesByDirectory};
use crate::active_policy::ActivePolicy;
use crate::app_context::AppContext;
use crate::call_display::format_count;
use crate::console::{Console, one_line};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;

/// A tested rule.
struct RuleSuggestion {
    rule: Rule,
    toml: String,
    /// The calls whose questions it would have avoided.
    spares: Vec<(CallId, String)>,
    /// Calls without a question that do what was approved in others.
    also: Vec<(CallId, String)>,
}

pub(super) async fn run(
    options: &ResolvedOptions,
    rules: &ActivePolicy<'_>,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    let (calls, unjudged) = recorded_calls::load_calls(&house, options).await?;
    let mut now = PoliciesByDirectory::new(options, None, Vec::new());
    let mut approved: Vec<&ReplayableCall> =
        calls.iter().filter(|past| is_spareable(past, &mut now)).collect();
    let mut taken = rules.load()?.policy.rules().map(|rule| rule.id.clone()).collect();
    let mut suggestions: Vec<RuleSuggestion> = Vec::new();
    // The same file repeatedly gives a rule about that file. Only the rest may give a rule about a directory.
    for alike in [PathGrouping::Path, PathGrouping::Directory] {
        for draft in drafts(&approved, alike, &mut taken) {
            if !covers_a_no(&draft, &calls) {
                suggestions.extend(tried(&draft, &calls, &mut now, options, rules));
            }
        }
        let spared = |past: &ReplayableCall| {
            suggestions.iter().any(|one| one.spares.iter().any(|(call, _)| *call == past.call))
        };
        approved.retain(|past| !spared(past));
    }
    suggestions.sort_by_key(|suggestion| std::cmp::Reverse(suggestion.spares.len()));
    if screen.json() {
        screen.value(&json!({
            "approved_at_least": APPROVED_MIN,
            "suggestions": suggestions.iter().map(RuleSuggestion::json).collect::<Vec<_>>(),
            "skipped": unjudged.len(),
        }));
        return Ok(ExitStatus::Completed);
    }
    for suggestion in &suggestions {
        suggestion.show(screen);
    }
    tell(&suggestions, unjudged.len(), options, screen);
    Ok(ExitStatus::Completed)
}

fn tell(suggestions: &[RuleSuggestion], unjudged: usize, options: &ResolvedOptions, screen: &mut Console) {
    if unjudged > 0 {
        screen.message(&format!(
            "ignored {} of the audit log that cannot be evaluated again",
            format_count(unjudged as u64, "call")
        ));
    }
    if suggestions.is_empty() {
        screen.message(&format!(
            "nothing to suggest: no question about the same thing was answered yes at least {APPROVED_MIN} times, and never otherwise"
        ));
        return;
    }
    let own = options
        .config
        .as_deref()
        .map_or_else(|| "your policy file".to_owned(), |dir| format!("{dir}/policy.toml"));
    screen.hint(&format!(
        "review the rules, then add those that you want to `{own}`; `byleave policy check FILE` checks it, \
         `byleave policy replay FILE` shows what it changes"
    ));
}

/// The agent names under which `byleave undo` and `byleave rehearse` make calls.
const TYPED: [&str; 2] = ["undo", "rehearse"];

/// Checks whether a rule could have avoided all questions of the call, each was answered yes, and it would still be asked today.
fn is_spareable(past: &ReplayableCall, now: &mut PoliciesByDirectory<'_>) -> bool {
    let rule_would_do = |asked: &PastQuestion| {
        let mut causes = asked.decision.causes().into_iter();
        let harmless = asked.plan.dangers.is_empty() && !asked.plan.irreversible;
        harmless && causes.all(|cause| cause.is_no_rule() || cause == AskCause::Sensitive)
    };
    // People answered these calls by typing them.
    if TYPED.contains(&past.header.agent.as_str()) {
        return false;
    }
    let yes = past.questions.iter().all(|asked| asked.is_approved() && rule_would_do(asked));
    let asks =
        now.for_directory(&past.header.cwd).is_ok_and(|policy| past.evaluate(policy).verdict == Verdict::Ask);
    !past.questions.is_empty() && yes && asks
}

/// Checks whether the rule covers any effect that was asked about and not simply approved.
fn covers_a_no(draft: &RuleDraft, calls: &[ReplayableCall]) -> bool {
    let matchers: Option<Vec<PatternMatcher>> =
        draft.patterns.iter().map(|pattern| PatternMatcher::new(pattern.clone()).ok()).collect();
    let Some(matchers) = matchers else { return true };
    let refused = calls.iter().flat_map(|past| &past.questions).filter(|asked| !asked.is_approved());
    let mut effects = refused.flat_map(|asked| needed(&asked.plan, &asked.decision));
    effects.any(|effect| matchers.iter().any(|matcher| matcher.matches(effect)))
}

/// Returns the draft as a suggestion, if it does what it is for and nothing else.
fn tried(
    draft: &RuleDraft,
    calls: &[ReplayableCall],
    now: &mut PoliciesByDirectory<'_>,
    options: &ResolvedOptions,
    rules: &ActivePolicy<'_>,
) -> Option<RuleSuggestion> {
    let toml = draft.toml();
    let file = RuleFile { name: "suggestion", layer: Layer::User, text: &toml };
    let rule = load_rules(&file, &rules.places(), &SkipExamples).ok()?.rules.pop()?;
    let mut then = PoliciesByDirectory::new(options, None, vec![rule.clone()]);
    let (mut spares, mut also) = (Vec::new(), Vec::new());
    for past in calls {
        let (Ok(before), Ok(after)) =
            (now.for_directory(&past.header.cwd), then.for_directory(&past.header.cwd))
        else {
            continue;
        };
        let (before, after) = (past.evaluate(before).verdict, past.evaluate(after).verdict);
        if after >= before {
            continue;
        }
        let one = (past.call, past.summary.clone());
        if draft.calls.contains(&past.call) && after == Verdict::Allow {
            spares.push(one);
        } else if past.questions.is_empty() && draft.has_all_of(&needed(&past.plan, &past.decision)) {
            // Nobody was asked about it, but the very same was approved elsewhere.
            also.push(one);
        } else {
            return None;
        }
    }
    (spares.len() >= APPROVED_MIN).then_some(RuleSuggestion { rule, toml, spares, also })
}

impl RuleSuggestion {
    fn show(&self, screen: &mut Console) {
        let count = format_count(self.spares.len() as u64, "question");
        screen.line(&format!("# would have avoided {count}, each answered yes:"));
        for (call, summary) in &self.spares {
            screen.line(&one_line(&format!("#   {} {summary}", short(call))));
        }
        for (call, summary) in &self.also {
            screen.line(&one_line(&format!("#   {} {summary} (nobody could be asked)", short(call))));
        }
        screen.line(self.toml.trim_end());
        screen.line("");
    }

    fn json(&self) -> Value {
        let calls = |calls: &[(CallId, String)]| -> Vec<Value> {
            calls.iter().map(|(call, summary)| json!({ "call": call, "summary": summary })).collect()
        };
        json!({
            "id": self.rule.id,
            "about": self.rule.patterns,
            "toml": self.toml,
            "count": self.spares.len(),
            "calls": calls(&self.spares),
            "nobody_was_asked": calls(&self.also),
        })
    }
}
