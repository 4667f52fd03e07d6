//! What every stage stands on: the tool that was pinned, contents read back, and what a task may come to.

use std::sync::Arc;

use byleave_core::entry::RecordEvent;
use byleave_core::id::CallId;
use byleave_core::refusal::{Code, Refusal, StageResult};

use crate::catalog::CatalogEntry;
use crate::gate::inner::GateInner;
use crate::gate::working_record::WorkingRecord;
use crate::ledger::{ContentError, SessionContext};

/// What came of a task.
#[expect(
    clippy::large_enum_variant,
    reason = "taken apart at once: a box would be an allocation for every entry"
)]
pub(crate) enum TaskOutcome {
    /// To be written down.
    Fact(RecordEvent),
    /// Nothing yet: another call of the session comes first.
    HeldUp(CallId),
    /// Nothing here: another process is at it.
    Elsewhere,
    /// The record has moved on: look again.
    LookAgain,
}

/// The tool that was resolved, if it is still the very same.
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

/// What was seen when the call came in, if that still counts.
pub(crate) fn just_seen<'a>(parts: &GateInner, desk: &'a WorkingRecord) -> Option<&'a SessionContext> {
    let seen = desk.seen.as_ref().filter(|seen| seen.is_fresh(parts.bustle.stirs()))?;
    Some(&seen.around)
}

/// A content that cannot be had, as a refusal.
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
