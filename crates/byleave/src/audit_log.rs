//! The audit log: lists, verifies, exports and forgets records.

pub use byleave_core::admin_action::{AdminAction, AdminActionKind};
pub use byleave_gate::audit_log::export::{ExportedRecord, IncludeContents, export_records};
#[cfg(feature = "sqlite")]
pub use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
pub use byleave_gate::audit_log::{
    Anchor, AuditLog, CallFilter, CallItem, CallState, Cursor, EraseReport, IntegrityError, LogPosition,
    NewRecords, PageRequest, QuestionFilter, QuestionItem, StandingApprovalItem, StandingApprovalState,
    StoredCall, Verification,
};
