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
    reason = "taken apart at once: a box would be an allocation for every entry"
)]
pub(crate) enum TaskOutcome {
    /// An event to record.
    Fact(RecordEvent),
    /// Nothing yet, because another call of the session comes first.
    HeldUp(CallId),
    /// Nothing in this process, because another process has the attempt.
    Elsewhere,
    /// The record has changed. Load and evaluate it again.
    LookAgain,
}

/// Returns the resolved tool, if its manifest is unchanged.
pub(crate) fn pinned(parts: &GateInner, desk: &WorkingRecord) -> StageResult<Arc<CatalogEntry>> {
    let terms = desk.terms().ok_or_else(|| Refusal::new(Code::RecordBroken, "the call was not resolved"))?;
    match parts.catalog.get(&terms.tool) {
        Ok(entry) if entry.digest() == terms.manifest => Ok(entry),
        Ok(_) => Err(Refusal::new(
            Code::ManifestChanged,
            format!("the tool `{}` is not the one that was judged; make the call again", terms.tool),
        )),
        Err(unknown) => Err(Refusal::new(Code::ManifestChanged, unknown.to_string())),
    }
}

/// Returns the state that was read when the call arrived, if it is still fresh.
pub(crate) fn just_seen<'a>(parts: &GateInner, desk: &'a WorkingRecord) -> Option<&'a SessionContext> {
    let seen = desk.seen.as_ref().filter(|seen| seen.is_fresh(parts.bustle.stirs()))?;
    Some(&seen.around)
}

/// Converts a content error into a refusal.
pub(crate) fn unreadable(fault: ContentError) -> Refusal {
    match fault {
        ContentError::Forgotten => Refusal::new(Code::Forgotten, "the contents of this call were forgotten"),
        ContentError::Missing | ContentError::Changed => Refusal::new(
            Code::ArgumentsChanged,
            format!("the stored contents of this call cannot be used: {fault}"),
        ),
        ContentError::Fault(fault) => Refusal::new(Code::NotRecorded, fault.to_string()),
    }
}
