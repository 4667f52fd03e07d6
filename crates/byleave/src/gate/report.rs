//! Reports: what the caller gets back, read off a settled record.

use byleave_core::effect::Plan;
use byleave_core::entry::Fact;
use byleave_core::id::CallId;
use byleave_core::leave::keys;
use byleave_core::outcome::{Outcome, Output};
use byleave_core::pattern::Pattern;
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::record::Record;
use byleave_core::refusal::{Code, Refusal};
use byleave_core::review::Said;
use byleave_core::ruling::Cause;
use serde_json::Value;

use crate::gate::cut;
use crate::gate::desk::Desk;
use crate::gate::footing::unreadable;
use crate::gate::parts::Parts;
use crate::result::{CallResult, Change, Changed, Ending, Receipt};

/// The result of a settled call.
pub(crate) async fn report(parts: &Parts, desk: &mut Desk, outcome: &Outcome) -> CallResult {
    let ledger = &*parts.ledger;
    let (call, limit) = (desk.call(), desk.terms().map_or(0, |terms| terms.limits.output_bytes));
    let handed = |output: &Output| {
        let mut output = output.clone();
        cut::handed(&mut output, limit, call, parts.settings.rest.as_deref());
        output
    };
    let ending = match outcome {
        Outcome::Completed { output } => {
            desk.read::<Output>(ledger, *output).await.map(|output| Ending::Completed(handed(&output)))
        }
        Outcome::Failed { output } => {
            desk.read::<Output>(ledger, *output).await.map(|output| Ending::Failed(handed(&output)))
        }
        Outcome::Rehearsed { plan } => {
            desk.read::<Plan>(ledger, *plan).await.map(|plan| Ending::Rehearsed((*plan).clone()))
        }
        Outcome::Withheld(refusal) => Ok(Ending::Withheld(refusal.clone())),
        Outcome::Refused(refusal) if refusal.code == Code::OutsideWorkspace => {
            let plan = desk.plan(ledger).await.ok();
            let rule = plan.and_then(|plan| allowing_rule(&plan, &desk.record));
            let why = rule.map_or_else(|| refusal.why.clone(), |rule| format!("{}; {rule}", refusal.why));
            Ok(Ending::Refused(Refusal::new(refusal.code, why)))
        }
        Outcome::Refused(refusal) => Ok(Ending::Refused(refusal.clone())),
        Outcome::Unknown(refusal) => Ok(Ending::Unknown(refusal.clone())),
    };
    let arguments = desk.arguments(ledger).await.map(|arguments| (*arguments).clone()).unwrap_or_default();
    let tool = match (desk.terms(), desk.record.heading()) {
        (Some(terms), _) => terms.tool.clone(),
        (None, Some(heading)) => heading.tool.clone(),
        (None, None) => String::new(),
    };
    CallResult {
        call: desk.call(),
        tool,
        arguments,
        // It ran, but what came of it cannot be read any more.
        ending: ending.unwrap_or_else(|fault| Ending::Withheld(unreadable(fault))),
        changes: changes(&desk.record),
        receipt: Some(Receipt { entries: desk.record.len(), head: desk.record.head() }),
    }
}

/// The rule that would allow what was refused outside the workspace. The record has no paths in clear, so it is told here.
fn allowing_rule(plan: &Plan, record: &Record) -> Option<String> {
    let ruling = record.draft()?.permitted()?.as_ref().ok()?;
    let outside = ruling.reasons.iter().filter(|reason| reason.cause == Some(Cause::Outside));
    let effects = outside.flat_map(|reason| &reason.effects).filter_map(|at| plan.effects.get(*at as usize));
    let patterns: Vec<Pattern> = effects.filter_map(Pattern::of_path).collect();
    let lines: Vec<String> = keys(&patterns).into_iter().map(|line| format!("`{line}`")).collect();
    Some(format!(
        "to allow it, write a rule into your policy file, a line each: `[[rule]]`, `verdict = \"allow\"`, {}",
        lines.join(", ")
    ))
}

/// A result without a record.
pub(crate) fn bare(call: CallId, tool: Option<&str>, ending: Ending) -> CallResult {
    let tool = tool.unwrap_or_default().to_owned();
    CallResult { call, tool, arguments: Value::Null, ending, changes: Vec::new(), receipt: None }
}

/// What was changed on the way, by whom and why.
fn changes(record: &Record) -> Vec<Change> {
    let mut changes = Vec::new();
    for entry in record.entries() {
        match &entry.fact {
            Fact::Reviewed(Ok(review)) | Fact::OutputReviewed(Ok(review)) => {
                let what = match &entry.fact {
                    Fact::Reviewed(_) => Changed::Arguments,
                    _ => Changed::Output,
                };
                let changed = review.notes.iter().filter(|note| note.said == Said::Changed);
                changes.extend(changed.map(|note| Change {
                    what,
                    by: format!("reviewer `{}`", note.reviewer),
                    why: note.why.clone(),
                }));
            }
            Fact::Answered(answered) => {
                let release =
                    record.question(answered.question).is_some_and(|q| q.kind == QuestionKind::Release);
                let edited = if release { Changed::Output } else { Changed::Arguments };
                let (what, why) = match &answered.answer {
                    Answer::Edit { note, .. } => (edited, note.clone()),
                    Answer::Yes { note: Some(note) } | Answer::Part { note: Some(note), .. } => {
                        (Changed::Nothing, Some(note.clone()))
                    }
                    _ => continue,
                };
                changes.push(Change { what, by: answered.by.name.clone(), why });
            }
            _ => {}
        }
    }
    changes
}
