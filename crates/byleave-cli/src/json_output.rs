//! The JSON of `--json`: stable shapes, exact values. A field may be added; none changes its meaning.
//!
//! Standard output has one value, also after an error: an object whose only field is `error`. Only `explain --batch`,
//! `agent run` and `log follow` print one value per line. With `sandbox exec` standard output belongs to the command.

use byleave_gate::audit_log::{CallItem, QuestionItem, StandingApprovalItem, Verification};
use byleave_gate::core::call::Millis;
use byleave_gate::core::question::Question;
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::provider_formats::result_json;
use byleave_gate::result::{CallOutcome, CallResult, CallStatus, ModifiedPart};
use serde_json::{Map, Value, json};

use crate::exit_status::ExitStatus;

/// Returns an error and its hint. Nothing else is on standard output then.
pub(crate) fn error(what: &str, hint: Option<&str>, status: ExitStatus) -> Value {
    json!({ "error": { "message": what, "hint": hint, "exit": status.code() } })
}

/// Returns the status of a call. A settled call has at least the fields that models are sent (L2).
pub(crate) fn status(standing: &CallStatus) -> Value {
    match standing {
        CallStatus::Settled(result) => settled(result),
        CallStatus::Waiting { call, question } => {
            json!({ "call": call, "outcome": "waiting", "question": self::question(question) })
        }
        CallStatus::Blocked { call, blocked_by: by } => {
            json!({ "call": call, "outcome": "blocked", "blocking_call": by })
        }
        CallStatus::RunningElsewhere { call } => json!({ "call": call, "outcome": "running" }),
        CallStatus::Ready { call } => json!({ "call": call, "outcome": "ready" }),
    }
}

fn settled(result: &CallResult) -> Value {
    let report = result.to_report();
    let mut fields = Map::new();
    fields.insert("call".into(), json!(result.call));
    fields.insert("outcome".into(), json!(result.outcome.as_str()));
    if let Value::Object(plain) = result_json(&report) {
        fields.extend(plain);
    }
    fields.insert("code".into(), json!(result.outcome.refusal().map(|refusal| refusal.code)));
    if let Some(cause) = result.outcome.refusal().and_then(|refusal| refusal.cause) {
        fields.insert("cause".into(), json!(cause));
    }
    fields.insert("arguments".into(), result.arguments.clone());
    fields.insert("data".into(), json!(report.data));
    let undoable = is_undoable(result);
    fields.insert("undoable".into(), json!(undoable));
    fields.insert("undo".into(), json!(undoable.then(|| format!("byleave undo {}", result.call))));
    if let CallOutcome::DryRun(plan) = &result.outcome {
        fields.insert("effects".into(), json!(plan.effects));
    }
    let changes = result.modifications.iter().map(|change| {
        let what = match change.part {
            ModifiedPart::Arguments => "arguments",
            ModifiedPart::Output => "output",
            ModifiedPart::NoteOnly => "nothing",
            ModifiedPart::Execution => "execution",
        };
        json!({ "kind": what, "actor": change.author, "reason": change.reason })
    });
    fields.insert("changes".into(), changes.collect());
    let receipt = result.receipt.map(|receipt| json!({ "entries": receipt.entries, "head": receipt.head }));
    fields.insert("receipt".into(), json!(receipt));
    Value::Object(fields)
}

/// Checks whether the changes of a call can be undone.
pub(crate) fn is_undoable(result: &CallResult) -> bool {
    match &result.outcome {
        CallOutcome::Completed(output) | CallOutcome::Failed(output) => output.undo.is_some(),
        _ => false,
    }
}

/// Returns a question, with the digest that an answer repeats.
pub(crate) fn question(question: &Question) -> Value {
    json!({
        "id": question.id,
        "kind": question.kind,
        "digest": question.digest(),
        "expires_at": question.expires_at,
    })
}

/// Returns an open question for a list.
pub(crate) fn question_item(item: &QuestionItem) -> Value {
    json!({
        "question": item.question,
        "kind": item.kind,
        "call": item.call,
        "session": item.call_summary.session,
        "agent": item.call_summary.agent,
        "tool": item.call_summary.tool,
        "operation": item.call_summary.operation,
        "summary": item.call_summary.summary,
        "asked_at": item.asked_at,
        "expires_at": item.expires_at,
    })
}

/// Returns a call for a list.
pub(crate) fn call_item(item: &CallItem) -> Value {
    json!({
        "call": item.call,
        "session": item.call_summary.session,
        "agent": item.call_summary.agent,
        "tool": item.call_summary.tool,
        "operation": item.call_summary.operation,
        "summary": item.call_summary.summary,
        "state": item.state,
        "outcome": item.outcome,
        "code": item.code,
        "opened_at": item.opened_at,
        "changed_at": item.changed_at,
    })
}

/// Returns a standing approval, with its equivalent rule.
pub(crate) fn standing_approval(leave: &StandingApproval, now: Millis) -> Value {
    json!({
        "id": leave.id,
        "tool": leave.tool,
        "scope": leave.scope.iter().map(crate::approval_scope::format).collect::<Vec<_>>(),
        "session": leave.session,
        "expires_at": leave.expires_at,
        "max_uses": leave.max_uses,
        "rule": leave.to_rule_toml(now),
    })
}

/// Returns a standing approval for a list.
pub(crate) fn standing_approval_item(item: &StandingApprovalItem, now: Millis) -> Value {
    json!({
        "standing_approval": item.standing_approval.id,
        "state": item.state,
        "tool": item.standing_approval.tool,
        "scope": item.standing_approval.scope.iter().map(crate::approval_scope::format).collect::<Vec<_>>(),
        "session": item.standing_approval.session,
        "expires_at": item.standing_approval.expires_at,
        "uses": item.uses,
        "max_uses": item.standing_approval.max_uses,
        "approver": item.approver.name,
        "granted_at": item.granted_at,
        "call": item.call,
        "rule": item.standing_approval.to_rule_toml(now),
    })
}

/// Returns the result of verifying the audit log.
pub(crate) fn verification(found: &Verification) -> Value {
    let flaw = found.integrity_error.as_ref();
    json!({
        "intact": found.is_intact(),
        "records": found.records,
        "entries": found.entries,
        "admin_actions": found.admin_actions,
        "segments": found.segments,
        "unsealed": found.unsealed,
        "anchor": found.anchor,
        "integrity_error": flaw.map(|flaw| json!({ "position": flaw.position.to_string(), "reason": flaw.reason })),
    })
}
