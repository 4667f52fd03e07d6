//! The spans of a call, derived from its record. The same record gives the same spans in every process.
//!
//! The trace id is the id of the call, unless a client brought a trace of its own. The call itself is the span `execute_tool
//! NAME`, as in the conventions for GenAI. Below it are the decision, every rehearsal, every question and every run.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use byleave_gate::core::call::Millis;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::entry::{CallHeader, Entry, RecordEvent};
use byleave_gate::core::outcome::Outcome;
use byleave_gate::core::question::Answer;
use byleave_gate::core::record::Record;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, SpanId, TraceId};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::trace_parents::TraceParent;

pub(super) const CALL: &str = "execute_tool";
pub(super) const QUESTION: &str = "question";
/// The attributes with few enough values for metrics.
pub(super) const METRIC_ATTRIBUTES: [&str; 6] = [
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "error.type",
    "byleave.tenant",
    "byleave.outcome",
    "byleave.answer",
];

/// Returns the spans of a settled call; empty if the call is not settled.
pub(super) fn spans_for_record(record: &Record, parent: Option<TraceParent>) -> Vec<SpanData> {
    let (Some(heading), Some(outcome)) = (record.header(), record.outcome()) else { return Vec::new() };
    let entries = record.entries();
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Vec::new() };
    let making = CallSpanBuilder { record, parent };
    let mut spans = vec![making.call(heading, outcome, first.at, last.at)];
    for (place, entry) in entries.iter().enumerate() {
        let after = entries.get(place + 1..).unwrap_or_default();
        let before = entries.get(..place).unwrap_or_default();
        spans.extend(making.part(place, entry, before, after));
    }
    spans
}

struct CallSpanBuilder<'a> {
    record: &'a Record,
    /// The client's span that contains the call.
    parent: Option<TraceParent>,
}

impl CallSpanBuilder<'_> {
    fn call(&self, heading: &CallHeader, outcome: &Outcome, from: Millis, to: Millis) -> SpanData {
        // The name of an unknown tool is arbitrary text of a model, and is left out.
        let tool =
            self.record.resolved_tool().and_then(|step| step.as_ref().ok()).map(|terms| terms.tool.clone());
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", CALL),
            KeyValue::new("gen_ai.tool.call.id", self.record.call().to_string()),
            KeyValue::new("gen_ai.tool.type", "function"),
            KeyValue::new("gen_ai.agent.name", heading.agent.to_string()),
            KeyValue::new("gen_ai.conversation.id", heading.session.to_string()),
            KeyValue::new("byleave.tenant", heading.tenant.to_string()),
            KeyValue::new("byleave.outcome", outcome.as_str()),
        ];
        attributes.extend(tool.clone().map(|tool| KeyValue::new("gen_ai.tool.name", tool)));
        let error = match outcome {
            Outcome::Completed { .. } | Outcome::DryRun { .. } | Outcome::Answered { .. } => None,
            Outcome::Failed { .. } => Some("failed"),
            Outcome::Withheld(why) | Outcome::Refused(why) | Outcome::Unknown(why) => Some(why.code.as_str()),
        };
        attributes.extend(error.map(|error| KeyValue::new("error.type", error)));
        let name = tool.map_or_else(|| CALL.into(), |tool| format!("{CALL} {tool}").into());
        let span = self.span(name, None, (from, to), attributes);
        SpanData { status: error.map_or(Status::Unset, Status::error), ..span }
    }

    /// Returns the span that begins with this entry, or that is this entry.
    fn part(&self, place: usize, entry: &Entry, before: &[Entry], after: &[Entry]) -> Option<SpanData> {
        // A part without an end on the record ended with the call.
        let until = |ends: &dyn Fn(&RecordEvent) -> bool| {
            let end = after.iter().find(|entry| ends(&entry.event)).or(after.last());
            end.map_or(entry.at, |end| end.at)
        };
        let part = |name, from, to, attributes| Some(self.span(name, Some(place), (from, to), attributes));
        match &entry.event {
            RecordEvent::PolicyEvaluated(step) => {
                let word = match step {
                    Ok(ruling) => ruling.verdict.as_str(),
                    Err(refusal) => refusal.code.as_str(),
                };
                // A decision is about the incoming draft, or about a draft that a review or an answer created.
                let drafts = |fact: &RecordEvent| {
                    matches!(
                        fact,
                        RecordEvent::Received(_)
                            | RecordEvent::Reviewed(_)
                            | RecordEvent::Answered(_)
                            | RecordEvent::RehearsalCopyMissing { .. }
                    )
                };
                let from = before.iter().rfind(|entry| drafts(&entry.event)).map_or(entry.at, |from| from.at);
                part("decision".into(), from, entry.at, vec![KeyValue::new("byleave.verdict", word)])
            }
            RecordEvent::RehearsalStarted { .. } => part(
                "rehearsal".into(),
                entry.at,
                until(&|fact| matches!(fact, RecordEvent::RehearsalFinished(_))),
                Vec::new(),
            ),
            RecordEvent::Asked(Ok(question)) => {
                let closes = |fact: &RecordEvent| match fact {
                    RecordEvent::Answered(answered) => answered.question == question.id,
                    RecordEvent::Expired { question: id }
                    | RecordEvent::ApproverFailed { question: id, .. } => *id == question.id,
                    RecordEvent::Cancelled { .. } => true,
                    _ => false,
                };
                let closing = after.iter().find(|entry| closes(&entry.event));
                let word = closing.map_or("none", |entry| answer(&entry.event));
                let attributes = vec![
                    KeyValue::new("byleave.question.id", question.id.to_string()),
                    KeyValue::new("byleave.answer", word),
                ];
                part(QUESTION.into(), entry.at, until(&closes), attributes)
            }
            RecordEvent::Started(Ok(_)) => {
                let ends = |fact: &RecordEvent| {
                    matches!(fact, RecordEvent::Ended { .. } | RecordEvent::Interrupted { .. })
                };
                part("run".into(), entry.at, until(&ends), Vec::new())
            }
            _ => None,
        }
    }

    fn span(
        &self,
        name: Cow<'static, str>,
        place: Option<usize>,
        (from, to): (Millis, Millis),
        attributes: Vec<KeyValue>,
    ) -> SpanData {
        let call = *self.record.call().as_bytes();
        let id = |place: Option<usize>| {
            let place = place.map_or_else(Vec::new, |place| place.to_be_bytes().to_vec());
            let digest = Digest::compute_parts("byleave.server.span", &[&call, &place]);
            let mut bytes = [0_u8; 8];
            bytes.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
            SpanId::from_bytes(bytes)
        };
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        SpanData {
            span_context: SpanContext::new(
                self.parent.map_or(TraceId::from_bytes(call), |parent| parent.trace),
                id(place),
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: match (place, self.parent) {
                (Some(_), _) => id(None),
                (None, Some(parent)) => parent.span,
                (None, None) => SpanId::INVALID,
            },
            parent_span_is_remote: place.is_none() && self.parent.is_some(),
            span_kind: SpanKind::Internal,
            name,
            start_time: at(from),
            // The clocks of the writers may differ.
            end_time: at(to.max(from)),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }
}

/// Returns how a question was closed, in one word.
const fn answer(fact: &RecordEvent) -> &'static str {
    match fact {
        RecordEvent::Answered(answered) => match &answered.answer {
            Answer::Yes { .. } => "yes",
            Answer::No { .. } => "no",
            Answer::Edit { .. } => "edit",
            Answer::Partial { .. } => "partial",
            Answer::StandingApproval(_) => "standing-approval",
            Answer::Result { .. } => "result",
            Answer::Abort => "abort",
        },
        RecordEvent::Expired { .. } => "expired",
        RecordEvent::Cancelled { .. } => "cancelled",
        _ => "approver-failed",
    }
}
