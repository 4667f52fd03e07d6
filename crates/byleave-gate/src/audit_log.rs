//! The audit log: lists, verifies, exports and, on request, erases records.
//!
//! Lists come from projections, which only serve to find things. An audit log must never take a permission, an answer or
//! an outcome from a projection. Those are valid only from the entries of a record that verifies.

pub mod admin_records;
pub mod anchor_file;
pub mod approval_usage;
pub mod batch_encoding;
pub mod encryption;
pub mod export;
pub mod index_fields;
pub mod segment;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::fmt;

use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{AdminActionId, CallId, QuestionId, SessionId, TenantId};
use byleave_core::question::{ApproverIdentity, QuestionKind};
use byleave_core::record::Record;
use byleave_core::standing_approval::StandingApproval;
use serde::{Deserialize, Serialize};

use crate::boxed::BoxFuture;
use crate::ledger::{CallSummary, LedgerError, RecordContent};

/// All records, to list, verify and export. Every implementation must pass the suite of the crate `byleave-conformance`.
pub trait AuditLog: Send + Sync + 'static {
    /// Lists calls, the newest first.
    fn calls(
        &self,
        filter: CallFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<CallItem>, LedgerError>>;

    /// Returns the calls written to after a position in the audit log, the oldest first, from at most `limit` appends.
    ///
    /// It is meant for watchers. Without a position it only returns the end of the log. Its cost depends only on what is new.
    fn records_since(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<NewRecords, LedgerError>>;

    /// Lists open questions, the newest first.
    fn questions(
        &self,
        filter: QuestionFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<QuestionItem>, LedgerError>>;

    /// Reads one call with its entries. Returns `None` if the call does not exist.
    fn record(&self, call: CallId) -> BoxFuture<'_, Result<Option<StoredCall>, LedgerError>>;

    /// Returns the contents of a call, as far as they can still be read. The list is empty once the call is erased.
    fn contents(&self, call: CallId) -> BoxFuture<'_, Result<Vec<RecordContent>, LedgerError>>;

    /// Lists all standing approvals, the newest first, whether or not they are still valid.
    ///
    /// It takes them only from verified entries, because a row in a projection is not a standing approval.
    fn list_standing_approvals(
        &self,
        tenant: &TenantId,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<StandingApprovalItem>, LedgerError>>;

    /// Returns all admin actions, the oldest first.
    fn admin_actions(&self) -> BoxFuture<'_, Result<Vec<AdminAction>, LedgerError>>;

    /// Checks everything that is written and names the first position that was altered.
    fn verify(&self) -> BoxFuture<'_, Result<Verification, LedgerError>>;

    /// Destroys the key of a call, so that its contents are permanently unreadable, and records who did so.
    fn forget(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> BoxFuture<'_, Result<Option<EraseReport>, LedgerError>>;

    /// Deletes every projection and builds it again from the entries.
    fn rebuild(&self) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Signs everything that is not yet sealed and moves the anchor. Returns the number of new segments.
    fn seal(&self) -> BoxFuture<'_, Result<u64, LedgerError>>;

    /// Returns the anchor: the identity of the newest segment when it was last sealed.
    fn anchor(&self) -> BoxFuture<'_, Result<Option<Anchor>, LedgerError>>;
}

/// The part of a list to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The maximum number of items.
    pub limit: usize,
    /// Only items after this position in the list.
    pub after: Option<Cursor>,
}

impl PageRequest {
    /// Returns a request for the first `limit` items.
    pub const fn with_limit(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// A position in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub i64);

/// The calls written to after a position in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecords {
    /// The end of this part. The next request starts after it.
    pub cursor: Cursor,
    /// The calls whose records grew, each listed once.
    pub calls: Vec<CallId>,
}

/// A filter for calls. Every field that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of this tool.
    pub tool: Option<String>,
    /// Of this agent, by its listed name. A sub-agent is also found by its own name alone.
    pub agent: Option<String>,
    /// In this state.
    pub state: Option<CallState>,
    /// With this outcome, as a single word.
    pub outcome: Option<String>,
    /// Refused with this code.
    pub code: Option<String>,
    /// With this text in its summary, ignoring ASCII case.
    pub text: Option<String>,
    /// Only calls that a person was asked about.
    pub asked_only: bool,
    /// Received at this time or later.
    pub since: Option<Millis>,
    /// Received before this time.
    pub until: Option<Millis>,
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallState {
    /// It can continue.
    Open,
    /// It waits for a person.
    Waiting,
    /// It has its outcome.
    Settled,
    /// Its record is damaged.
    Damaged,
}

impl CallState {
    /// Returns the state as a single word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Waiting => "waiting",
            Self::Settled => "settled",
            Self::Damaged => "damaged",
        }
    }
}

/// One call of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallItem {
    /// The id of the call.
    pub call: CallId,
    /// Its position in the list.
    pub cursor: Cursor,
    /// The summary shown in lists.
    pub call_summary: CallSummary,
    /// Its progress.
    pub state: CallState,
    /// Its outcome, as a single word.
    pub outcome: Option<String>,
    /// The code of the refusal, if it was refused.
    pub code: Option<String>,
    /// When it was received.
    pub opened_at: Millis,
    /// When its record was last written to.
    pub changed_at: Millis,
}

/// A filter for questions. Every field that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of this kind.
    pub kind: Option<QuestionKind>,
}

/// One open question of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionItem {
    /// The id of the question.
    pub question: QuestionId,
    /// Its position in the list.
    pub cursor: Cursor,
    /// The kind of question.
    pub kind: QuestionKind,
    /// The call it belongs to.
    pub call: CallId,
    /// The summary of that call.
    pub call_summary: CallSummary,
    /// When it was asked.
    pub asked_at: Millis,
    /// Nobody can answer it after this time.
    pub expires_at: Millis,
}

/// One standing approval of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingApprovalItem {
    /// The standing approval, as in the answer that gave it.
    pub standing_approval: StandingApproval,
    /// The call whose question was answered with it.
    pub call: CallId,
    /// The approver who gave it.
    pub approver: ApproverIdentity,
    /// When it was given.
    pub granted_at: Millis,
    /// How often it was used.
    pub uses: u32,
    /// Whether it is still valid.
    pub state: StandingApprovalState,
}

/// The validity of a standing approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandingApprovalState {
    /// It is valid.
    Active,
    /// Its time is over.
    Expired,
    /// It has no uses left.
    UsedUp,
    /// Someone revoked it.
    Revoked,
}

impl StandingApprovalState {
    /// Returns the state as a single word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::UsedUp => "used-up",
            Self::Revoked => "revoked",
        }
    }
}

/// One call as stored in the audit log.
#[derive(Clone, Debug)]
pub struct StoredCall {
    /// The record, read and checked.
    pub record: Record,
    /// Its entries as they are stored.
    pub chained_entries: Vec<ChainedEntry>,
    /// The summary shown in lists.
    pub call_summary: Option<CallSummary>,
    /// Whether its key was destroyed.
    pub forgotten: bool,
}

/// The result of erasing a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EraseReport {
    /// The admin action recorded in the audit log.
    pub action: AdminAction,
    /// Whether no copy of the key is left in the files of the audit log. If `false`, another process was reading: erase again later.
    pub key_wiped: bool,
}

/// The identity of the newest segment when it was last sealed. Kept outside the audit log, it reveals a restored old copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The number of the segment, from 1.
    pub number: u64,
    /// Its digest.
    pub digest: Digest,
    /// The public key of its signature, in hexadecimal.
    pub public_key: String,
}

/// The result of verifying the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// How many records were checked.
    pub records: u64,
    /// How many entries they have.
    pub entries: u64,
    /// How many admin actions were checked.
    pub admin_actions: u64,
    /// How many segments were checked.
    pub segments: u64,
    /// How many entries and admin actions are not yet sealed.
    pub unsealed: u64,
    /// The anchor that the audit log was compared with. Without one, a restored old copy is not detected.
    pub anchor: Option<Anchor>,
    /// The first position that was altered.
    pub integrity_error: Option<IntegrityError>,
}

impl Verification {
    /// Checks whether nothing was altered.
    pub const fn is_intact(&self) -> bool {
        self.integrity_error.is_none()
    }
}

/// A position in the audit log that was altered, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityError {
    /// The position.
    pub position: LogPosition,
    /// The error found there.
    pub reason: String,
}

impl fmt::Display for IntegrityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.reason)
    }
}

/// A position in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPosition {
    /// An entry of a record.
    Entry {
        /// The call of the record.
        call: CallId,
        /// The number of the entry, from 0.
        seq: u32,
    },
    /// The key of a record.
    Key {
        /// The call of the record.
        call: CallId,
    },
    /// A content of a record.
    Content {
        /// The call of the record.
        call: CallId,
        /// The number of the entry that the contents are stored with.
        seq: u32,
    },
    /// An admin action.
    AdminAction {
        /// The id of the admin action.
        action: AdminActionId,
    },
    /// A segment.
    Segment {
        /// The number of the segment, from 1.
        number: u64,
    },
    /// The anchor.
    Anchor,
    /// The file as a whole.
    File,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { call, seq } => write!(f, "record {call}, entry {seq}"),
            Self::Key { call } => write!(f, "record {call}, key"),
            Self::Content { call, seq } => write!(f, "record {call}, contents of entry {seq}"),
            Self::AdminAction { action: act } => write!(f, "admin action {act}"),
            Self::Segment { number } => write!(f, "segment {number}"),
            Self::Anchor => f.write_str("anchor"),
            Self::File => f.write_str("file"),
        }
    }
}
