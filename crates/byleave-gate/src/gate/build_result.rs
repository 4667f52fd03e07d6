//! Builds the result for the caller from a settled record.

use byleave_core::decision::{AskCause, PolicyDecision, Verdict};
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::RecordEvent;
use byleave_core::id::CallId;
use byleave_core::outcome::{Outcome, Output};
use byleave_core::pattern::Pattern;
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::record::Record;
use byleave_core::refusal::{Code, Refusal};
use byleave_core::rehearsal::Rehearsal;
use byleave_core::review::ReviewOutcome;
use byleave_core::standing_approval::patterns_to_toml;
use serde_json::Value;

use crate::gate::inner::GateInner;
use crate::gate::task_outcome::content_refusal;
use crate::gate::truncate;
use crate::gate::working_record::WorkingRecord;
use crate::result::{CallOutcome, CallResult, Modification, ModifiedPart, Receipt};

/// The maximum number of denied effects that a refusal names.
const DENIED_NAMED_MAX: usize = 3;

/// Builds the result of a settled call.
pub(crate) async fn build_result(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    outcome: &Outcome,
) -> CallResult {
    let ledger = &*parts.ledger;
    let (call, limit) = (desk.call(), desk.resolved_tool().map_or(0, |terms| terms.limits.max_output_bytes));
    let handed = |output: &Output| {
        let mut output = output.clone();
        truncate::truncate_released(&mut output, limit, call, parts.settings.read_more_tool.as_deref());
        output
    };
    let ending = match outcome {
        Outcome::Completed { output } => desk
            .read_content::<Output>(ledger, *output)
            .await
            .map(|output| CallOutcome::Completed(handed(&output))),
        Outcome::Failed { output } => desk
            .read_content::<Output>(ledger, *output)
            .await
            .map(|output| CallOutcome::Failed(handed(&output))),
        Outcome::Answered { output } => desk
            .read_content::<Output>(ledger, *output)
            .await
            .map(|output| CallOutcome::Answered(handed(&output))),
        Outcome::DryRun { plan } => {
            desk.read_content::<Plan>(ledger, *plan).await.map(|plan| CallOutcome::DryRun((*plan).clone()))
        }
        Outcome::Withheld(refusal) => Ok(CallOutcome::Withheld(refusal.clone())),
        Outcome::Refused(refusal) if refusal.code == Code::OutsideWorkspace => {
            let plan = desk.plan(ledger).await.ok();
            let rule = plan.and_then(|plan| suggest_allow_rule(&plan, &desk.record));
            let why =
                rule.map_or_else(|| refusal.message.clone(), |rule| format!("{}; {rule}", refusal.message));
            Ok(CallOutcome::Refused(Refusal::new(refusal.code, why)))
        }
        Outcome::Refused(refusal) if refusal.code == Code::Denied => {
            let about = denied_effects(parts, desk).await;
            let why = match about {
                Some(about) => format!("{}; it is about: {about}", refusal.message),
                None => refusal.message.clone(),
            };
            Ok(CallOutcome::Refused(Refusal::new(refusal.code, why)))
        }
        Outcome::Refused(refusal) => Ok(CallOutcome::Refused(refusal.clone())),
        Outcome::Unknown(refusal) => Ok(CallOutcome::Unknown(refusal.clone())),
    };
    let arguments = desk.arguments(ledger).await.map(|arguments| (*arguments).clone()).unwrap_or_default();
    let tool = match (desk.resolved_tool(), desk.record.header()) {
        (Some(terms), _) => terms.tool.clone(),
        (None, Some(heading)) => heading.tool.clone(),
        (None, None) => String::new(),
    };
    CallResult {
        call: desk.call(),
        tool,
        arguments,
        outcome: ending.unwrap_or_else(|fault| unreadable(outcome, content_refusal(fault))),
        modifications: modifications(&desk.record),
        receipt: Some(Receipt { entries: desk.record.len(), head: desk.record.head() }),
    }
}

/// Returns the outcome of a settled call whose output cannot be read any more.
fn unreadable(outcome: &Outcome, refusal: Refusal) -> CallOutcome {
    match outcome {
        Outcome::Answered { .. } => CallOutcome::Refused(refusal),
        _ => CallOutcome::Withheld(refusal),
    }
}

/// Suggests the rule that would allow a call that was refused because of files outside the workspace.
///
/// The suggestion is added here, because the record has no paths in clear text.
fn suggest_allow_rule(plan: &Plan, record: &Record) -> Option<String> {
    let ruling = record.draft()?.decision()?.as_ref().ok()?;
    let outside = ruling.reasons.iter().filter(|reason| reason.cause == Some(AskCause::OutsideWorkspace));
    let effects = outside.flat_map(|reason| &reason.effects).filter_map(|at| plan.effects.get(*at as usize));
    let patterns: Vec<Pattern> = effects.filter_map(Pattern::for_path).collect();
    let lines: Vec<String> =
        patterns_to_toml(&patterns).into_iter().map(|line| format!("`{line}`")).collect();
    Some(format!(
        "to allow it, add a rule to your policy file, with these lines: `[[rule]]`, `verdict = \"allow\"`, {}",
        lines.join(", ")
    ))
}

/// Names the effects that were denied. They are added here, because the record has no words of the call in clear text.
async fn denied_effects(parts: &GateInner, desk: &mut WorkingRecord) -> Option<String> {
    let ledger = &*parts.ledger;
    let draft = desk.record.draft()?;
    let observed = draft.rehearsal_summary().cloned();
    let denied = |decision: &PolicyDecision| -> Vec<u32> {
        let reasons = decision.reasons.iter().filter(|reason| reason.verdict == Verdict::Deny);
        reasons.flat_map(|reason| reason.effects.iter().copied()).collect()
    };
    let predicted = denied(draft.decision()?.as_ref().ok()?);
    let (places, plan) = match observed {
        Some(summary) if predicted.is_empty() => {
            let rehearsal = desk.read_content::<Rehearsal>(ledger, summary.rehearsal).await.ok()?;
            (denied(&summary.decision?), rehearsal.observed_plan())
        }
        _ => (predicted, (*desk.plan(ledger).await.ok()?).clone()),
    };
    let mut effects: Vec<String> =
        places.iter().filter_map(|at| plan.effects.get(*at as usize)).map(Effect::to_string).collect();
    effects.dedup();
    let more = effects.len().saturating_sub(DENIED_NAMED_MAX);
    effects.truncate(DENIED_NAMED_MAX);
    effects.extend((more > 0).then(|| format!("{more} more")));
    (!effects.is_empty()).then(|| effects.join(", "))
}

/// Builds a result without a record.
pub(crate) fn bare_result(call: CallId, tool: Option<&str>, ending: CallOutcome) -> CallResult {
    let tool = tool.unwrap_or_default().to_owned();
    CallResult {
        call,
        tool,
        arguments: Value::Null,
        outcome: ending,
        modifications: Vec::new(),
        receipt: None,
    }
}

/// Lists the modifications of arguments and output, with author and reason.
fn modifications(record: &Record) -> Vec<Modification> {
    let mut changes = Vec::new();
    for entry in record.entries() {
        match &entry.event {
            RecordEvent::Reviewed(Ok(review)) | RecordEvent::OutputReviewed(Ok(review)) => {
                let what = match &entry.event {
                    RecordEvent::Reviewed(_) => ModifiedPart::Arguments,
                    _ => ModifiedPart::Output,
                };
                let changed = review.notes.iter().filter(|note| note.outcome == ReviewOutcome::Changed);
                changes.extend(changed.map(|note| Modification {
                    part: what,
                    author: format!("reviewer `{}`", note.reviewer),
                    reason: note.reason.clone(),
                }));
            }
            RecordEvent::Answered(answered) => {
                let release =
                    record.question(answered.question).is_some_and(|q| q.kind == QuestionKind::Release);
                let edited = if release { ModifiedPart::Output } else { ModifiedPart::Arguments };
                let (what, why) = match &answered.answer {
                    Answer::Edit { note, .. } => (edited, note.clone()),
                    Answer::Result { .. } => (ModifiedPart::Execution, None),
                    Answer::Yes { note: Some(note) } | Answer::Partial { note: Some(note), .. } => {
                        (ModifiedPart::NoteOnly, Some(note.clone()))
                    }
                    _ => continue,
                };
                changes.push(Modification {
                    part: what,
                    author: answered.approver.name.clone(),
                    reason: why,
                });
            }
            _ => {}
        }
    }
    changes
}
