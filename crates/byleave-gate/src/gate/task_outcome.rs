//! Helpers that all stages share: the pinned tool, contents from the ledger, and the possible outcomes of a task.

use std::sync::Arc;

use byleave_core::entry::RecordEvent;
use byleave_core::id::CallId;
use byleave_core::refusal::{Code, Refusal, StageResult};

use crate::catalog::CatalogEntry;
use crate::gate::inner::GateInner;
use crate::gate::working_record::WorkingRecord;
use crate::ledger::{ContentError, SessionContext};

/// The outcome of a task.
#[expect(
    clippy::large_enum_variant,
    reason = "destructured at once: a box would be an allocation for every entry"
)]
pub(crate) enum TaskOutcome {
    /// An event to record.
    Event(RecordEvent),
    /// Nothing yet, because another call of the session comes first.
    Blocked(CallId),
    /// Nothing in this process, because another process has the attempt.
    RunningElsewhere,
    /// The record has changed. Load and evaluate it again.
    Retry,
}

/// Returns the resolved tool, if its manifest is unchanged.
pub(crate) fn resolve_pinned(parts: &GateInner, desk: &WorkingRecord) -> StageResult<Arc<CatalogEntry>> {
    let terms = desk
        .resolved_tool()
        .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record has no resolved tool"))?;
    match parts.catalog.get(&terms.tool) {
        Ok(entry) if entry.digest() == terms.manifest => Ok(entry),
        Ok(_) => Err(Refusal::new(
            Code::ManifestChanged,
            format!(
                "the tool `{}` has changed since the call was evaluated; make the call again",
                terms.tool
            ),
        )),
        Err(unknown) => Err(Refusal::new(Code::ManifestChanged, unknown.to_string())),
    }
}

/// Returns the state that was read when the call arrived, if it is still fresh.
pub(crate) fn fresh_session_context<'a>(
    parts: &GateInner,
    desk: &'a WorkingRecord,
) -> Option<&'a SessionContext> {
    let seen = desk.snapshot.as_ref().filter(|seen| seen.is_fresh(parts.in_flight.epoch()))?;
    Some(&seen.session_context)
}

/// Converts a content error into a refusal.
pub(crate) fn content_refusal(fault: ContentError) -> Refusal {
    match fault {
        ContentError::Forgotten => Refusal::new(Code::Forgotten, "the contents of this call were forgotten"),
        ContentError::Missing | ContentError::Corrupted => Refusal::new(
            Code::ArgumentsChanged,
            format!("cannot use the stored contents of this call: {fault}"),
        ),
        ContentError::Ledger(fault) => Refusal::new(Code::NotRecorded, fault.to_string()),
    }
}
