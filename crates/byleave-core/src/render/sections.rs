//! The sections of a question, in our words.

use serde_json::Value;

use crate::challenge::ChallengeVerdict;
use crate::decision::{AskCause, DecisionReason, Verdict};
use crate::digest::canonical_json;
use crate::effect::BindingState;
use crate::question::QuestionKind;
use crate::question_view::{QuestionView, RehearsalView};
use crate::review::ReviewOutcome;
use crate::session::{EffectiveMode, SessionNode};

use super::effect;
use super::line::LineRole;
use super::writer::{RenderingBuilder, WARNING_GUTTER, format_count};
use super::{change, value};

/// Writes the question itself.
pub(super) fn write_title(page: &mut RenderingBuilder, sheet: &QuestionView) {
    let tool = page.quote(&sheet.resolved_tool.tool);
    let text = match sheet.question.kind {
        QuestionKind::Approval => format!("May this call of {tool} run?"),
        QuestionKind::Checkpoint => {
            format!(
                "CHECKPOINT: may this call of {tool} run? Checkpoints ask in every mode and need a deliberate yes"
            )
        }
        QuestionKind::Release => {
            format!("May the model see this result of {tool}? The call has run; its result is held")
        }
    };
    page.push_heading(LineRole::Title, &text);
    if let [own, parent, ..] = sheet.lineage.as_slice() {
        let named = |page: &mut RenderingBuilder, opening: &SessionNode| match own.agent == parent.agent {
            true => page.quote(opening.session.as_str()),
            false => page.quote(opening.agent.as_str()),
        };
        let (own, parent) = (named(page, own), named(page, parent));
        page.push_heading(LineRole::Title, &format!("Asked by sub-agent {own} of {parent}"));
    }
}

/// Writes the effects, their targets, and whether they can be undone.
pub(super) fn write_effects(page: &mut RenderingBuilder, sheet: &QuestionView) {
    let verb = match sheet.question.kind {
        QuestionKind::Release => "Planned effects",
        QuestionKind::Approval | QuestionKind::Checkpoint if sheet.rehearsal.is_some() => {
            "Predicted effects, from the arguments alone"
        }
        QuestionKind::Approval | QuestionKind::Checkpoint => "Predicted effects",
    };
    effect::write_effects(page, verb, &sheet.plan.effects);
    if sheet.plan.irreversible {
        page.push_line(LineRole::Warning, WARNING_GUTTER, "CANNOT BE UNDONE");
    } else if sheet.plan.read_only {
        page.push_line(LineRole::Effect, "  ", "only reads: there is nothing to undo");
    } else {
        let stands = matches!(&sheet.rehearsal, Some(RehearsalView::Ran { rehearsal, .. }) if rehearsal.is_committable());
        let undo = if stands { "can be undone" } else { "not marked as impossible to undo" };
        page.push_line(LineRole::Effect, "  ", undo);
    }
    for given in &sheet.plan.data {
        let tool = page.quote(&given.tool);
        let text = format!("the tool is given the data that call {} of {tool} returned", given.call);
        page.push_line(LineRole::Effect, "  ", &text);
    }
    if sheet.resolved_tool.destructive {
        page.push_line(LineRole::Warning, WARNING_GUTTER, "the tool declares itself destructive");
    }
    if sheet.resolved_tool.read_only {
        let changes = sheet.plan.effects.iter().any(effect::changes_something);
        if changes {
            page.warn("the tool declares itself read-only, but its plan does more");
        } else {
            page.push_line(LineRole::Effect, "  ", "the tool declares itself read-only");
        }
    }
}

/// Writes why it asks.
pub(super) fn write_reasons(page: &mut RenderingBuilder, sheet: &QuestionView) {
    page.push_heading(LineRole::Heading, "Why Byleave asks");
    let line = match (sheet.resolved_tool.checkpoint, sheet.question.kind) {
        (true, _) => Some("the tool needs a checkpoint in every mode; no standing approval can release it"),
        (false, QuestionKind::Checkpoint) => {
            Some("a rule needs a checkpoint in every mode; no standing approval can release it")
        }
        (false, _) => None,
    };
    if let Some(line) = line {
        page.push_line(LineRole::Reason, "  ", line);
    }
    if sheet.needs_challenge() {
        page.push_line(
            LineRole::Reason,
            "  ",
            "a yes needs the case against the call, in your words: what it assumes, how it could fail, why it is right",
        );
    }
    if sheet.question.kind == QuestionKind::Release {
        page.push_line(LineRole::Reason, "  ", "a reviewer holds the result; the notes below say why");
    }
    let mut reasons: Vec<&DecisionReason> = sheet.decision.reasons.iter().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
    for reason in reasons {
        write_reason(page, reason);
    }
    for guarantee in &sheet.decision.guarantees {
        let guarantee = page.quote(guarantee);
        page.push_line(LineRole::Reason, "  ", &format!("allowed only with the guarantee {guarantee}"));
    }
}

/// Writes the complete arguments.
pub(super) fn write_arguments(page: &mut RenderingBuilder, sheet: &QuestionView) {
    write_value(page, "Arguments, in full", &sheet.arguments);
    match &sheet.arguments {
        Value::Object(map) if map.is_empty() => page.warn("the call has no arguments"),
        Value::Null => page.warn("the call has no arguments"),
        _ => {}
    }
    if !value::is_too_deep(&sheet.arguments) && looks_truncated(&sheet.arguments) {
        page.warn("the arguments look truncated");
    }
}

/// Writes the changes since the model's first draft.
pub(super) fn write_changes(page: &mut RenderingBuilder, sheet: &QuestionView) {
    let Some(first) = &sheet.first_arguments else { return };
    page.push_heading(LineRole::Heading, "Changes by a reviewer or a person since the model's draft");
    if value::is_too_deep(first) || value::is_too_deep(&sheet.arguments) {
        return page.mark_incomplete("the arguments are nested too deep");
    }
    if *first == sheet.arguments {
        page.push_line(LineRole::Change, "  ", "changed back to the model's draft");
        return;
    }
    change::write_changes(page, first, &sheet.arguments);
}

/// Writes the agent's case against its own call.
pub(super) fn write_challenge(page: &mut RenderingBuilder, sheet: &QuestionView) {
    let Some(challenge) = &sheet.challenge else { return };
    page.push_heading(LineRole::Heading, "The agent's own challenge to this call");
    let verdict = match challenge.verdict {
        ChallengeVerdict::Proceed => "verdict: proceed",
        ChallengeVerdict::Stop => "verdict: STOP",
    };
    page.push_line(LineRole::Challenge, "  ", verdict);
    let why = std::slice::from_ref(&challenge.reason);
    let parts = [
        ("because", why),
        ("assumptions", challenge.assumptions.as_slice()),
        ("ways it could fail", challenge.failure_scenarios.as_slice()),
    ];
    for (label, texts) in parts {
        page.push_line(LineRole::Challenge, "  ", &format!("{label}:"));
        for text in texts {
            value::write_text(page, LineRole::Challenge, text);
        }
    }
}

/// Writes the notes of the reviewers.
pub(super) fn write_review_notes(page: &mut RenderingBuilder, sheet: &QuestionView) {
    if sheet.notes.is_empty() {
        return;
    }
    page.push_heading(LineRole::Heading, "Reviewer notes");
    for note in &sheet.notes {
        let said = match note.outcome {
            ReviewOutcome::Pass => "has no objection",
            ReviewOutcome::Changed => "made a change",
            ReviewOutcome::Held => "asks for a person to look",
        };
        let cached = if note.cached { " (cached for the same content)" } else { "" };
        let who = page.quote(&note.reviewer);
        page.push_line(LineRole::Review, "  ", &format!("{who} {said}{cached}"));
        if let Some(why) = &note.reason {
            value::write_text(page, LineRole::Review, why);
        }
    }
}

/// Writes the complete held result.
pub(super) fn write_output(page: &mut RenderingBuilder, sheet: &QuestionView) {
    let Some(output) = &sheet.output else {
        return page.mark_incomplete("the held result is missing");
    };
    let failed = if output.is_error { "; the tool reported a failure" } else { "" };
    let took = output.execution_time_ms;
    page.push_heading(LineRole::Heading, &format!("The held result, in full (took {took} ms{failed})"));
    if output.truncated {
        page.push_line(
            LineRole::Warning,
            WARNING_GUTTER,
            "the tool's output was longer; only this part was kept",
        );
    }
    page.push_line(LineRole::Content, "  ", &format!("text: {}", value::measure(&output.text)));
    value::write_text(page, LineRole::Content, &output.text);
    if let Some(error) = &output.error {
        page.push_line(LineRole::Content, "  ", &format!("error: {}", value::measure(error)));
        value::write_text(page, LineRole::Content, error);
    }
    if let Some(data) = &output.data {
        write_value(page, "Structured data", data);
    }
    if let Some(undo) = &output.undo {
        write_value(page, "How to undo it, according to the tool", undo);
    }
}

/// Writes the model's own words, after the facts.
pub(super) fn write_model_reason(page: &mut RenderingBuilder, sheet: &QuestionView) {
    let Some(reason) = &sheet.reason else { return };
    page.push_heading(LineRole::Heading, "The model's own explanation (not verified)");
    value::write_text(page, LineRole::Model, reason);
}

/// Writes ids, digests and times.
pub(super) fn write_details(page: &mut RenderingBuilder, sheet: &QuestionView) {
    page.push_heading(LineRole::Heading, "Details");
    let digest = sheet.question.digest();
    let rows = [
        ("agent", page.quote(sheet.agent.as_str())),
        ("session", page.quote(sheet.session.as_str())),
        ("directory", page.quote(&sheet.cwd)),
        ("operation", page.quote(&sheet.resolved_tool.operation)),
        ("mode", EffectiveMode::new(sheet.mode, &sheet.lineage).description()),
        ("call", sheet.call.to_string()),
        ("draft", sheet.draft.to_string()),
        ("question", sheet.question.id.to_string()),
        ("digest", format!("{}  ({digest})", digest.short_hex())),
        ("binds", sheet.question.binding.to_string()),
        ("manifest", sheet.resolved_tool.manifest.to_string()),
        ("policy", sheet.decision.policy.to_string()),
    ];
    for (label, text) in rows {
        page.push_line(LineRole::Detail, "  ", &format!("{label:<10} {text}"));
    }
    let expires = sheet.question.expires_at;
    page.push_line(LineRole::Expiry, "  ", &format!("expires    {expires} (milliseconds since 1970)"));
    for bound in &sheet.plan.bindings {
        let path = page.quote(&bound.path);
        let state = match &bound.state {
            BindingState::Missing => "does not exist".to_owned(),
            BindingState::Content(digest) => format!("has the content {}", digest.short_hex()),
            BindingState::Directory { device, inode } => format!("is the directory {device}:{inode}"),
            BindingState::Listener { program } => format!("is served by {}", page.quote(program)),
        };
        page.push_line(LineRole::Detail, "  ", &format!("valid only while {path} {state}"));
    }
}

fn write_value(page: &mut RenderingBuilder, heading: &str, content: &Value) {
    if value::is_too_deep(content) {
        page.push_heading(LineRole::Heading, heading);
        return page.mark_incomplete("values are nested too deep");
    }
    let size = format_count(canonical_json(content).len(), "byte", "bytes");
    page.push_heading(LineRole::Heading, &format!("{heading} ({size} of JSON)"));
    value::write_value(page, LineRole::Content, content);
}

fn write_reason(page: &mut RenderingBuilder, reason: &DecisionReason) {
    let mut text = match (reason.verdict, reason.cause) {
        (Verdict::Allow, _) => "allowed".to_owned(),
        (Verdict::Deny, _) => "DENIED".to_owned(),
        (Verdict::Ask, None) => "asks".to_owned(),
        (Verdict::Ask, Some(cause)) => format!("asks, because {}", cause_text(cause)),
    };
    if let Some(rule) = &reason.rule {
        text.push_str(&format!("; rule {}", page.quote(rule)));
    }
    if let Some(origin) = &reason.origin {
        text.push_str(&format!("; from {}", page.quote(origin)));
    }
    if !reason.effects.is_empty() {
        let places: Vec<String> =
            reason.effects.iter().map(|place| (u64::from(*place) + 1).to_string()).collect();
        let word = if places.len() == 1 { "effect" } else { "effects" };
        text.push_str(&format!("; about {word} {}", places.join(", ")));
    }
    page.push_line(LineRole::Reason, "  ", &text);
    if reason.message.contains('\n') {
        value::write_text(page, LineRole::Reason, &reason.message);
    } else if !reason.message.is_empty() {
        let why = page.quote(&reason.message);
        page.push_line(LineRole::Reason, "      ", &why);
    }
}

/// Returns a cause in plain words.
const fn cause_text(cause: AskCause) -> &'static str {
    match cause {
        AskCause::Rule => "a rule says so",
        AskCause::FirmRule => "a rule says so, and no standing approval may answer",
        AskCause::Checkpoint => "a rule makes it a checkpoint",
        AskCause::Default => "no rule matches",
        AskCause::OutsideWorkspace => "the path is outside the workspace, and no rule allows it",
        AskCause::Sensitive => "the tool is sensitive, or does not declare that it is not",
        AskCause::ToolNeedsApproval => "the tool requires an approval",
        AskCause::Reviewer => "a reviewer asks for a person to look",
        AskCause::Dangerous => "the call could do great harm",
        AskCause::Irreversible => "the call cannot be undone",
        AskCause::NotUnderstood => "its effects could not be predicted",
        AskCause::Mode => "the mode asks for everything",
    }
}

/// Checks whether some text says how much was cut from it: `…(+1060 chars)`. The value that contains it is not complete.
pub fn is_truncated(value: &Value) -> bool {
    has_mark(value, &["…(+", "… (+", "...(+"])
}

/// Checks whether some text carries a mark that other programs leave at a cut: `…(+1060 chars)`, `[truncated]`.
fn looks_truncated(value: &Value) -> bool {
    is_truncated(value) || has_mark(value, &["...[truncated", "…[truncated", "[truncated]", "<truncated>"])
}

/// Checks whether one of these marks is in some text of the value, at any depth.
fn has_mark(value: &Value, marks: &[&str]) -> bool {
    match value {
        Value::String(text) => marks.iter().any(|mark| text.contains(mark)),
        Value::Array(items) => items.iter().any(|item| has_mark(item, marks)),
        Value::Object(map) => map.values().any(|item| has_mark(item, marks)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
