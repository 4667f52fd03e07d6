//! `byleave policy replay FILE`: shows what another personal file would have decided for every recorded call.

use std::path::Path;

use anyhow::Result;
use byleave_gate::core::decision::PolicyDecision;
use byleave_gate::replay::{PolicyReplay, ReplayError, VerdictChange};
use serde_json::{Value, json};

use super::recorded_calls::{self, PoliciesByDirectory};
use crate::active_policy::ActivePolicy;
use crate::app_context::AppContext;
use crate::call_display::{format_count, table};
use crate::console::{Console, one_line};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;

pub(super) async fn run(
    file: &Path,
    options: &ResolvedOptions,
    rules: &ActivePolicy<'_>,
    screen: &mut Console,
) -> Result<ExitStatus> {
    // Errors in the file are reported once with their lines, not for every call.
    rules.load_as_user(file)?;
    let house = AppContext::open_to_read(options, None)?;
    let (calls, unjudged) = recorded_calls::load_calls(&house, options).await?;
    let mut policies = PoliciesByDirectory::new(options, Some(file), Vec::new());
    let mut replay = PolicyReplay { skipped: unjudged, ..PolicyReplay::default() };
    for past in calls {
        match policies.for_directory(&past.header.cwd) {
            Ok(policy) => replay.add(past, policy),
            Err(why) => replay.skipped.push(past.to_unjudged(why)),
        }
    }
    let replayed = ReplayOutput { file, replay };
    if screen.json() {
        screen.value(&replayed.json());
    } else {
        replayed.show(screen);
    }
    Ok(ExitStatus::Completed)
}

struct ReplayOutput<'a> {
    file: &'a Path,
    replay: PolicyReplay,
}

impl ReplayOutput<'_> {
    fn show(&self, screen: &mut Console) {
        let file = one_line(&self.file.to_string_lossy());
        let replay = &self.replay;
        let judged = format_count(replay.evaluated, "call");
        screen.title(&format!("{judged} evaluated again with `{file}` instead of your own rules"));
        screen.line(&format!("{} would get the same verdict", replay.unchanged_count()));
        for ((before, now), count) in replay.transition_counts() {
            screen.line(&format!("{count} would be {} instead of {}", now.as_str(), before.as_str()));
        }
        if !replay.changes.is_empty() {
            screen.line("");
            let rows = replay.changes.iter().map(|VerdictChange { call: past, new_decision: now }| {
                let (rule, why) = by(now);
                let by = rule.map_or_else(|| why.clone(), |(rule, origin)| format!("`{rule}` ({origin})"));
                vec![
                    short(&past.call),
                    past.decision.verdict.as_str().to_owned(),
                    now.verdict.as_str().to_owned(),
                    one_line(&past.header.tool),
                    one_line(&by),
                    one_line(&past.summary),
                ]
            });
            table(screen, &["CALL", "BEFORE", "NOW", "TOOL", "BY", "WHAT"], &rows.collect::<Vec<_>>());
        }
        if !replay.skipped.is_empty() {
            screen.line("");
            screen.line(&format!(
                "{} cannot be evaluated again:",
                format_count(replay.skipped.len() as u64, "call")
            ));
            for ReplayError { call, tool, reason: why } in &replay.skipped {
                screen.line(&one_line(&format!("{} {tool}: cannot be evaluated again: {why}", short(call))));
            }
        }
    }

    fn json(&self) -> Value {
        let replay = &self.replay;
        let counts = replay.transition_counts().into_iter();
        let counts: Vec<Value> = counts
            .map(|((before, now), count)| json!({ "before": before.as_str(), "now": now.as_str(), "calls": count }))
            .collect();
        let changes: Vec<Value> = replay
            .changes
            .iter()
            .map(|VerdictChange { call: past, new_decision: now }| {
                let (rule, why) = by(now);
                json!({
                    "call": past.call,
                    "tool": past.header.tool,
                    "summary": past.summary,
                    "before": past.decision.verdict,
                    "now": now.verdict,
                    "rule": rule.as_ref().map(|(rule, _)| rule),
                    "origin": rule.as_ref().map(|(_, origin)| origin),
                    "message": why,
                })
            })
            .collect();
        let unjudged: Vec<Value> = replay
            .skipped
            .iter()
            .map(|ReplayError { call, tool, reason: why }| json!({ "call": call, "tool": tool, "reason": why }))
            .collect();
        json!({
            "file": self.file,
            "evaluated": replay.evaluated,
            "same": replay.unchanged_count(),
            "counts": counts,
            "changed": changes,
            "skipped": unjudged,
        })
    }
}

/// Returns the rule that decides now, its place, and the reason.
fn by(now: &PolicyDecision) -> (Option<(String, String)>, String) {
    let Some(reason) = now.decisive_reason() else { return (None, String::new()) };
    let origin = reason.origin.clone().unwrap_or_else(|| "danger".to_owned());
    (reason.rule.clone().map(|rule| (rule, origin)), reason.message.clone())
}
