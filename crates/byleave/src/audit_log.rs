//! The book: all records, to be listed, verified, exported and, where someone asks for it, forgotten.
//!
//! A book is read through projections, which are for finding things. It must never take a permission, an answer or an
//! outcome from them: those count only from the lines of a record that verifies.

pub mod admin_records;
pub mod anchor_file;
pub mod approval_usage;
pub mod batch_encoding;
pub mod conformance;
pub mod encryption;
pub mod export;
pub mod index_fields;
pub mod segment;
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

/// All records: listed, verified, exported. Every implementation must pass [`conformance`].
pub trait AuditLog: Send + Sync + 'static {
    /// Lists calls, the newest first.
    fn calls(
        &self,
        filter: CallFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<CallItem>, LedgerError>>;

    /// Which calls were written on after a place in the book, the oldest first, from at most so many appends.
    ///
    /// For those who watch: without a place it only says where the book ends, and it never costs more than what is new.
    fn written(&self, after: Option<Cursor>, limit: usize) -> BoxFuture<'_, Result<NewRecords, LedgerError>>;

    /// Lists open questions, the newest first.
    fn questions(
        &self,
        filter: QuestionFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Vec<QuestionItem>, LedgerError>>;

    /// Reads one call back with its lines; `None` where there is no such call.
    fn record(&self, call: CallId) -> BoxFuture<'_, Result<Option<StoredCall>, LedgerError>>;

    /// The contents of a call, as far as they can still be read. Empty once forgotten.
    fn contents(&self, call: CallId) -> BoxFuture<'_, Result<Vec<RecordContent>, LedgerError>>;

    /// Lists the leaves that were given, the newest first: those that stand, and those that no longer do.
    ///
    /// Only from verified entries: what merely stands in a projection is not a leave.
    fn leaves_given(
        &self,
        tenant: &TenantId,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<StandingApprovalItem>, LedgerError>>;

    /// All acts of administrators, the oldest first.
    fn acts(&self) -> BoxFuture<'_, Result<Vec<AdminAction>, LedgerError>>;

    /// Checks everything that is written, and names the first place that is not as it was written.
    fn verify(&self) -> BoxFuture<'_, Result<Verification, LedgerError>>;

    /// Destroys the key of a call, so that its contents are gone for good, and writes down who did that.
    fn forget(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> BoxFuture<'_, Result<Option<EraseReport>, LedgerError>>;

    /// Throws every projection away and makes it again from the lines.
    fn rebuild(&self) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Signs everything that is not yet sealed, and moves the anchor. Returns how many segments that took.
    fn seal(&self) -> BoxFuture<'_, Result<u64, LedgerError>>;

    /// The anchor: what the newest segment was when it was last sealed.
    fn anchor(&self) -> BoxFuture<'_, Result<Option<Anchor>, LedgerError>>;
}

/// Which part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// At most so many.
    pub limit: usize,
    /// Only what comes after this item of the list before.
    pub after: Option<Cursor>,
}

impl PageRequest {
    /// The first so many.
    pub const fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub i64);

/// What was written after a place in the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecords {
    /// Where that ends: what is asked for the next time comes after it.
    pub upto: Cursor,
    /// The calls whose records grew, each once.
    pub calls: Vec<CallId>,
}

/// Which calls to list. Everything that is set must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of this tool.
    pub tool: Option<String>,
    /// Of this agent, as lists name it; a sub-agent is also found by its own name alone.
    pub agent: Option<String>,
    /// In this state.
    pub state: Option<CallState>,
    /// With this outcome, in a word.
    pub outcome: Option<String>,
    /// Refused with this code.
    pub code: Option<String>,
    /// With this text in its summary; small and capital letters of ASCII are the same.
    pub text: Option<String>,
    /// Only calls that a person was asked about.
    pub asked: bool,
    /// Received then or later.
    pub since: Option<Millis>,
    /// Received before then.
    pub until: Option<Millis>,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallState {
    /// Can be driven on.
    Open,
    /// Waits for a person.
    Waiting,
    /// Has its outcome.
    Settled,
    /// Its record is damaged.
    Damaged,
}

impl CallState {
    /// The state in a word.
    pub const fn word(self) -> &'static str {
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
    /// Which.
    pub call: CallId,
    /// Where it stands in the list.
    pub cursor: Cursor,
    /// What it is.
    pub listing: CallSummary,
    /// How far it has come.
    pub state: CallState,
    /// What came of it, in a word.
    pub outcome: Option<String>,
    /// The refusal's code, where it was refused.
    pub code: Option<String>,
    /// When it came in.
    pub opened_at: Millis,
    /// When something was last written on its record.
    pub changed_at: Millis,
}

/// Which questions to list. Everything that is set must fit.
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
    /// Which.
    pub question: QuestionId,
    /// Where it stands in the list.
    pub cursor: Cursor,
    /// What it is about.
    pub kind: QuestionKind,
    /// The call it belongs to.
    pub call: CallId,
    /// What that call is.
    pub listing: CallSummary,
    /// When it was asked.
    pub asked_at: Millis,
    /// Nobody can answer it after that.
    pub expires_at: Millis,
}

/// One leave of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingApprovalItem {
    /// The leave, as the answer that gave it says.
    pub leave: StandingApproval,
    /// The call whose question was answered with it.
    pub call: CallId,
    /// Who gave it.
    pub by: ApproverIdentity,
    /// When.
    pub given_at: Millis,
    /// How often it was used.
    pub uses: u32,
    /// Whether it still counts.
    pub state: StandingApprovalState,
}

/// Whether a leave still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StandingApprovalState {
    /// It counts.
    Standing,
    /// Its time is over.
    Expired,
    /// It was used as often as it may be.
    Spent,
    /// Someone revoked it.
    Revoked,
}

impl StandingApprovalState {
    /// The state in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Standing => "standing",
            Self::Expired => "expired",
            Self::Spent => "spent",
            Self::Revoked => "revoked",
        }
    }
}

/// One call as the book keeps it.
#[derive(Clone, Debug)]
pub struct StoredCall {
    /// The record, read and checked.
    pub record: Record,
    /// Its lines as they are stored.
    pub lines: Vec<ChainedEntry>,
    /// What a list shows of it.
    pub listing: Option<CallSummary>,
    /// Its key was destroyed.
    pub forgotten: bool,
}

/// What forgetting a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EraseReport {
    /// The act that stands in the book.
    pub act: AdminAction,
    /// No copy of the key is left in the files of the book. Where not, another process was reading; forget again later.
    pub scrubbed: bool,
}

/// What the newest segment was when it was last sealed; kept outside the book, it shows an old copy put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The number of the segment, from 1.
    pub number: u64,
    /// Its digest.
    pub digest: Digest,
    /// The public key it is signed with, in hexadecimal.
    pub key: String,
}

/// What came of checking the book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// How many records were checked.
    pub records: u64,
    /// How many lines they have.
    pub lines: u64,
    /// How many acts were checked.
    pub acts: u64,
    /// How many segments were checked.
    pub segments: u64,
    /// How many lines and acts are not yet sealed.
    pub unsealed: u64,
    /// The anchor the book was held against; without one an old copy put back does not show.
    pub anchor: Option<Anchor>,
    /// The first place that is not as it was written.
    pub flaw: Option<IntegrityError>,
}

impl Verification {
    /// Whether everything is as it was written.
    pub const fn is_sound(&self) -> bool {
        self.flaw.is_none()
    }
}

/// A place in the book that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityError {
    /// Where.
    pub place: LogPosition,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for IntegrityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

/// A place in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPosition {
    /// A line of a record.
    Line {
        /// Whose.
        call: CallId,
        /// Which, from 0.
        seq: u32,
    },
    /// The key of a record.
    Key {
        /// Whose.
        call: CallId,
    },
    /// A content of a record.
    Content {
        /// Whose.
        call: CallId,
        /// In the contents stored with this line.
        seq: u32,
    },
    /// An act.
    Act {
        /// Which.
        act: AdminActionId,
    },
    /// A segment.
    Segment {
        /// Which, from 1.
        number: u64,
    },
    /// The anchor.
    Anchor,
    /// The file as such.
    File,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { call, seq } => write!(f, "record {call}, line {seq}"),
            Self::Key { call } => write!(f, "record {call}, key"),
            Self::Content { call, seq } => write!(f, "record {call}, contents of line {seq}"),
            Self::Act { act } => write!(f, "act {act}"),
            Self::Segment { number } => write!(f, "segment {number}"),
            Self::Anchor => f.write_str("anchor"),
            Self::File => f.write_str("file"),
        }
    }
}
