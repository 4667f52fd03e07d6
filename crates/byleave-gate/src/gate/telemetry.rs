//! Spans and metrics. Each call has one span, which carries verdict, changes and refusal (A2).

use byleave_core::call::Call;
use byleave_core::id::CallId;
use byleave_core::record::Record;
use metrics::{counter, histogram};
use tracing::Span;
use tracing::field::{Empty, display};

use crate::result::CallStatus;

/// Creates the span of an incoming call.
pub(crate) fn call_span(call: &Call) -> Span {
    tracing::info_span!(
        "call", call = %call.id, session = %call.session, agent = %call.agent, tool = call.tool,
        verdict = Empty, changes = Empty, outcome = Empty, refusal = Empty,
    )
}

/// Creates the span of a resumed call.
pub(crate) fn resumed_span(call: CallId) -> Span {
    tracing::info_span!(
        "call", call = %call, tool = Empty, verdict = Empty, changes = Empty, outcome = Empty, refusal = Empty,
    )
}

/// Records the status of the call in its span and in the metrics.
pub(crate) fn record_status(span: &Span, standing: &CallStatus, record: &Record, took_ms: u64) {
    if let Some(Ok(ruling)) = record.draft().and_then(|draft| draft.decision()) {
        span.record("verdict", display(format_args!("{:?}", ruling.verdict)));
    }
    let CallStatus::Settled(result) = standing else {
        let word = match standing {
            CallStatus::Waiting { .. } => "waiting",
            CallStatus::Ready { .. } => "ready",
            CallStatus::RunningElsewhere { .. } => "running-elsewhere",
            _ => "blocked",
        };
        span.record("outcome", word);
        counter!("byleave_stops_total", "where" => word).increment(1);
        return;
    };
    span.record("changes", result.modifications.len());
    span.record("outcome", result.outcome.as_str());
    let code = result.outcome.refusal().map(|refusal| refusal.code.as_str());
    if let Some(code) = code {
        span.record("refusal", code);
        counter!("byleave_refusals_total", "code" => code).increment(1);
    }
    counter!("byleave_calls_total", "outcome" => result.outcome.as_str()).increment(1);
    histogram!("byleave_call_ms").record(u32::try_from(took_ms).unwrap_or(u32::MAX));
    tracing::info!(outcome = result.outcome.as_str(), refusal = code, "call settled");
}
