//! The ledger: the store that the gate appends to.

pub use byleave_core::call::Millis;
pub use byleave_core::digest::{ContentRef, Digest, RecordKey};
pub use byleave_core::entry::Entry;
pub use byleave_core::hash_chain::ChainedEntry;
pub use byleave_core::id::{AttemptId, OwnerId, QuestionId, StandingApprovalId};
pub use byleave_core::record::Record;
pub use byleave_core::session::SessionNode;
pub use byleave_gate::ledger::memory::MemoryLedger;
pub use byleave_gate::ledger::{
    AppendError, AttemptStart, Batch, CallSummary, ContentError, IncomingCall, IncomingState, Interruption,
    Ledger, LedgerError, LoadedRecord, PendingQuestion, RecordContent, SessionContext, StartBlockedError,
};
