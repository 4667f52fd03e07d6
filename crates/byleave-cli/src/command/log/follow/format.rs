//! Formats events: one line for people, or one JSON object.

use byleave_gate::audit_log::export::describe_entry;
use byleave_gate::core::call::Millis;
use byleave_gate::core::entry::{Entry, RecordEvent};
use byleave_gate::core::question::Question;
use serde_json::{Value, json};

use super::call_tracker::{CallInfo, CallStage, CallTracker, TrackedCall, WatchEvent, format_decision};
use crate::console::{Console, Tone, escape_json, one_line, prose};
use crate::json_output;
use crate::short_ids::short;
use crate::time::{format_duration, format_local, now, precise};

/// Prints one event.
pub(super) fn print_event(screen: &mut Console, happening: &WatchEvent) {
    if screen.json() {
        screen.line(&escape_json(&value(happening).to_string()));
    } else if let Some((tone, line)) = line(happening) {
        let line = match tone {
            Some(tone) => screen.painted(tone, &line),
            None => line,
        };
        screen.line(&line);
    }
}

/// Prints the status of every open call.
pub(super) fn print_open_calls(screen: &mut Console, scene: &CallTracker) {
    let mut none = true;
    for act in scene.calls() {
        none = false;
        print_event(screen, &WatchEvent::AlreadyOpen(Box::new(act.clone())));
        if !screen.json() {
            for line in &act.tail {
                screen.line(&format!("  | {}", prose(line)));
            }
        }
    }
    if none && !screen.json() {
        screen.message("no call is in progress");
    }
}

/// Describes the stage of a call. Not escaped.
pub(super) fn format_stage(stage: &CallStage, now: Millis) -> String {
    let long = |since: &Millis| format_duration(now.saturating_sub(*since));
    match stage {
        CallStage::Open => "open".into(),
        CallStage::Rehearsing { since } => format!("rehearsing for {}", long(since)),
        CallStage::Waiting { since, .. } => format!("waits for a person for {}", long(since)),
        CallStage::Running { since } => format!("runs for {}", long(since)),
        CallStage::Settled { .. } => "settled".into(),
        CallStage::Damaged => "its record is damaged".into(),
    }
}

/// Describes the progress. Not escaped.
pub(super) fn progress(fraction: Option<f64>, detail: &str) -> String {
    match fraction {
        Some(fraction) => format!("{:.0} % {detail}", fraction.clamp(0.0, 1.0) * 100.0),
        None => detail.to_owned(),
    }
}

/// Returns how to answer a question.
pub(super) fn how_to_answer(question: &Question) -> String {
    let question = short(&question.id);
    format!(
        "`byleave inbox show {question}`, then `byleave inbox answer {question} yes`, or no, edit, standing-approval, abort"
    )
}

fn line(happening: &WatchEvent) -> Option<(Option<Tone>, String)> {
    let (tone, who, at, word, said) = match happening {
        WatchEvent::AlreadyOpen(act) => {
            let TrackedCall { info: who, stage: at_stage, .. } = &**act;
            let (tone, how) = match at_stage {
                CallStage::Waiting { question, .. } => {
                    (Some(Tone::Careful), format!(": answer with {}", how_to_answer(question)))
                }
                _ => (None, String::new()),
            };
            let live = act.live.as_ref().map(|live| progress(live.fraction, &live.detail));
            let live = live.filter(|live| !live.is_empty()).map(|live| format!(", {live}"));
            let said = format!(
                "{}{}{how}; {}",
                format_stage(at_stage, now()),
                live.unwrap_or_default(),
                format_caller(who)
            );
            (tone, who, who.opened_at, "ongoing", said)
        }
        WatchEvent::Entry { who, entry, duration_ms: took, .. } => {
            let (tone, word, said) = format_entry(who, entry, *took)?;
            (tone, who, entry.at, word, said)
        }
        WatchEvent::Progress { who, fraction, detail } => {
            (None, who, now(), "progress", progress(*fraction, detail))
        }
        WatchEvent::Output { who, line, skipped_bytes: left_out } => {
            let gap = if *left_out > 0 { format!("[{left_out} bytes not shown] ") } else { String::new() };
            (None, who, now(), "printed", format!("{gap}{line}"))
        }
        WatchEvent::Damaged { who, reason: why } => (Some(Tone::Bad), who, now(), "damaged", why.clone()),
    };
    let line = format!(
        "{}  {}  {}  {word:<10}  {}",
        format_local(at),
        short(&who.call),
        one_line(&who.tool),
        prose(&said)
    );
    Some((tone, line.trim_end().to_owned()))
}

/// Describes an entry, if it is of interest to people.
pub(super) fn format_entry(
    who: &CallInfo,
    entry: &Entry,
    took: Option<Millis>,
) -> Option<(Option<Tone>, &'static str, String)> {
    let said = match &entry.event {
        RecordEvent::Received(_) => (None, "received", format_caller(who)),
        RecordEvent::PolicyEvaluated(Ok(ruling)) => (None, "decided", format_decision(ruling)),
        RecordEvent::RehearsalStarted { .. } => (None, "rehearsing", "on a copy".into()),
        RecordEvent::RehearsalFinished(_) => (None, "rehearsed", describe_entry(entry)),
        RecordEvent::Asked(Ok(question)) => {
            (Some(Tone::Careful), "WAITING", format!("answer with {}", how_to_answer(question)))
        }
        RecordEvent::Answered(answered) => (None, "answered", answered.description()),
        RecordEvent::Expired { .. } => (None, "expired", "nobody answered in time".into()),
        RecordEvent::ApproverFailed { .. } | RecordEvent::Cancelled { .. } => {
            (None, entry.event.kind(), describe_entry(entry))
        }
        RecordEvent::Started(Ok(_)) => (None, "runs", String::new()),
        RecordEvent::Interrupted { .. } => {
            (Some(Tone::Bad), "interrupted", "its process is gone; how far it got is unknown".into())
        }
        RecordEvent::Ended { .. } => (None, "ended", describe_entry(entry)),
        RecordEvent::Settled(outcome) => {
            let tone = outcome.refusal().is_some().then_some(Tone::Bad);
            let took = took.map(|took| format!(" in {}", precise(took))).unwrap_or_default();
            let word = outcome.as_str();
            let why = outcome.refusal().map(|refusal| format!(": {refusal}")).unwrap_or_default();
            (tone, "SETTLED", format!("{word}{took}{why}"))
        }
        // Intermediate steps. Their result is in the decision or the settlement.
        _ => return None,
    };
    Some(said)
}

/// Describes the agent, the session and the call. Not escaped.
pub(super) fn format_caller(who: &CallInfo) -> String {
    format!("by {} in session {}: {}", who.agent, who.session, who.summary)
}

fn value(happening: &WatchEvent) -> Value {
    match happening {
        WatchEvent::AlreadyOpen(act) => {
            let TrackedCall { info: who, stage: at_stage, verdict, live, tail, .. } = &**act;
            let (word, question) = match at_stage {
                CallStage::Open => ("open", None),
                CallStage::Rehearsing { .. } => ("rehearsing", None),
                CallStage::Waiting { question, .. } => ("waiting", Some(json_output::question(question))),
                CallStage::Running { .. } => ("running", None),
                CallStage::Settled { .. } => ("settled", None),
                CallStage::Damaged => ("damaged", None),
            };
            let progress =
                live.as_ref().map(|live| json!({ "fraction": live.fraction, "detail": live.detail }));
            with(
                who,
                "call",
                json!({
                    "agent": who.agent, "summary": who.summary, "opened_at": who.opened_at, "state": word,
                    "question": question, "verdict": verdict, "progress": progress, "tail": tail,
                }),
            )
        }
        WatchEvent::Entry { who, seq, entry, .. } => with(
            who,
            "entry",
            json!({
                "seq": seq, "at": entry.at, "entry_kind": entry.event.kind(), "description": describe_entry(entry), "entry": entry.event,
            }),
        ),
        WatchEvent::Progress { who, fraction, detail } => {
            with(who, "progress", json!({ "fraction": fraction, "detail": detail }))
        }
        WatchEvent::Output { who, line, skipped_bytes: left_out } => {
            with(who, "printed", json!({ "line": line, "left_out": left_out }))
        }
        WatchEvent::Damaged { who, reason: why } => with(who, "damaged", json!({ "reason": why })),
    }
}

/// Returns the common fields of all objects, and the additional fields of this one.
fn with(who: &CallInfo, event: &str, more: Value) -> Value {
    let mut value = json!({ "event": event, "call": who.call, "session": who.session, "tool": who.tool });
    if let (Value::Object(fields), Value::Object(more)) = (&mut value, more) {
        fields.extend(more);
    }
    value
}
