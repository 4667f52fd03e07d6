//! The trait of a store that appends entries to records.
//!
//! A ledger is the authority over records. Appended entries are durable. Two writers can never append at the same place of a record.

pub mod invariants;
pub mod memory;
pub mod owner_locks;
pub mod start_markers;

use std::sync::Arc;

use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::digest::{ContentRef, Digest, RecordKey};
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::Entry;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId, TenantId};
use byleave_core::question::Question;
use byleave_core::record::Record;
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::StandingApproval;

use crate::boxed::BoxFuture;

/// A store of records. Every implementation must pass the suite of the crate `byleave-conformance`.
pub trait Ledger: Send + Sync + 'static {
    /// Returns the owner of the claims that this ledger writes. It is alive until the ledger is dropped or its process dies.
    fn owner(&self) -> OwnerId;

    /// Loads a record, or `None` if nothing was ever written.
    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>>;

    /// Looks up an incoming call and, if cheap, the session state that is needed to evaluate it.
    ///
    /// The returned state is valid for a moment only, as any answer of the ledger is.
    fn lookup_incoming<'a>(
        &'a self,
        comer: IncomingCall<'a>,
    ) -> BoxFuture<'a, Result<IncomingState, LedgerError>> {
        Box::pin(async move {
            let loaded = self.load(comer.call).await?;
            let lineage = match &loaded {
                Some(_) => Vec::new(),
                None => self.lineage(comer.tenant, comer.session).await?,
            };
            Ok(IncomingState { record: loaded, lineage, session_context: None })
        })
    }

    /// Appends entries if the record still has the length that the batch states. Atomic, and durable on return.
    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>>;

    /// Reads the bytes of a content.
    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>>;

    /// Writes `Interrupted` for an open attempt whose owner is dead. No other code may write it.
    ///
    /// An attempt of this ledger's own owner is also treated as dead, because the caller knows that it is not running here.
    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>>;

    /// Notes that this process is about to run an attempt whose claim is on the record. The attempt must not run if this fails.
    ///
    /// A ledger keeps a mark where the owner runs if others find out about its death from afar. Other ledgers need no mark.
    fn mark_started(&self, _call: CallId, _attempt: AttemptId) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Records an admin action. The action is in force on return.
    fn record_admin_action(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Returns the newest halt, unless it was lifted.
    fn active_halt(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>>;

    /// Returns the session as it was opened and its ancestors, up to the root. The list is empty if the session was never opened.
    ///
    /// A list that is not empty never changes. A ledger refuses to open a session twice, or under a parent that was never opened.
    /// The list comes from verified admin actions only. If one is missing or damaged, this is an error and never a shorter list.
    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>>;

    /// Returns the standing approvals for a tool that are not revoked and have uses left. Reads only verified entries.
    fn standing_approvals(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>>;

    /// Returns the call that a question belongs to.
    fn call_for_question(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>>;

    /// Returns a call of this session that blocks this plan, if there is one, and none of those in `passed_over`.
    ///
    /// Such a call has asked a person, has neither ended nor been settled since, and has effects that conflict with this plan.
    fn blocking_call(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
        passed_over: &[CallId],
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>>;

    /// Returns the newest call of a tool in this session that has completed. `tool` is the tool's own name.
    ///
    /// The newest is the one that was received last. This only finds the call; its record is authoritative. A ledger that cannot find
    /// it returns an error, so that a tool that wants data does not run without it.
    fn latest_completed_call(
        &self,
        _tenant: &TenantId,
        _session: &SessionId,
        _tool: &str,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>> {
        let fault =
            LedgerError::new("cannot find the data of earlier calls", "this ledger does not support it");
        Box::pin(std::future::ready(Err(fault)))
    }

    /// Checks whether this session has read text of strangers, itself or through a sub-agent: an attempt ended with
    /// [`ExecutionEnd::read_foreign`](byleave_core::outcome::ExecutionEnd). A ledger that cannot tell says yes.
    fn has_read_foreign(
        &self,
        _tenant: &TenantId,
        _session: &SessionId,
    ) -> BoxFuture<'_, Result<bool, LedgerError>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Returns unsettled calls that can be driven on: all except those that wait for a person who still has time.
    fn resumable_calls(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>>;
}

/// An incoming call.
#[derive(Clone, Copy, Debug)]
pub struct IncomingCall<'a> {
    /// The id of the call.
    pub call: CallId,
    /// The tenant whose audit log records the call.
    pub tenant: &'a TenantId,
    /// The session.
    pub session: &'a SessionId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The time.
    pub now: Millis,
}

/// The state of the ledger when a call arrived.
#[derive(Clone, Debug)]
pub struct IncomingState {
    /// The record of the call, if it was received before.
    pub record: Option<LoadedRecord>,
    /// The result of [`Ledger::lineage`] if the call is new.
    pub lineage: Vec<SessionNode>,
    /// Other state that the same lookup returned.
    pub session_context: Option<SessionContext>,
}

/// The state of the session and its tenant when a call arrived.
#[derive(Clone, Debug)]
pub struct SessionContext {
    /// The result of [`Ledger::standing_approvals`].
    pub standing_approvals: Vec<Arc<StandingApproval>>,
    /// The result of [`Ledger::active_halt`].
    pub halt: Option<AdminAction>,
    /// Whether [`Ledger::blocking_call`] could return a call.
    pub has_pending_calls: bool,
}

/// A record and its key, as loaded from the store. Without the key, the contents of the record are forgotten.
#[derive(Clone, Debug)]
pub struct LoadedRecord {
    /// The record.
    pub record: Record,
    /// The key of the record.
    pub key: Option<RecordKey>,
}

/// The entries to append to one record.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The call whose record is written.
    pub call: CallId,
    /// The length that the record must have.
    pub expected_len: u32,
    /// The link that the last line of the record must have.
    pub prev_link: Digest,
    /// The lines.
    pub chained_entries: Vec<ChainedEntry>,
    /// The same lines as entries.
    pub entries: Vec<Entry>,
    /// The contents that the lines refer to.
    pub contents: Vec<RecordContent>,
    /// The key of the record, present with its first lines.
    pub key: Option<RecordKey>,
    /// The summary of the call for lists, with secrets removed.
    pub call_summary: CallSummary,
    /// Present if the call waits for a person after the last line.
    pub pending_question: Option<PendingQuestion>,
    /// Present if the lines begin an attempt that is still open after the last line.
    pub attempt_start: Option<AttemptStart>,
    /// Whether these lines settle the call.
    pub is_final: bool,
}

/// A content that lines refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordContent {
    /// The reference that the record keeps.
    pub content_ref: ContentRef,
    /// The content itself.
    pub bytes: Vec<u8>,
}

/// The summary of a call for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSummary {
    /// The tenant whose audit log records the call.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: String,
    /// The tool's own name, once known.
    pub tool: String,
    /// The word for the operation in the audit log.
    pub operation: String,
    /// The planned effects in one line.
    pub summary: String,
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingQuestion {
    /// The question.
    pub question: Question,
    /// The planned effects. Later calls of the session that conflict with them are blocked until this call has ended or is settled.
    /// Empty for a held result.
    pub effects: Vec<Effect>,
}

/// An attempt that begins. The ledger refuses it with a [`StartBlockedError`], in the same transaction that would write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptStart {
    /// The attempt.
    pub attempt: AttemptId,
    /// Whether the attempt must run alone in its session.
    pub exclusive: bool,
    /// The standing approval that the attempt uses, with its maximum number of uses.
    pub standing_approval: Option<(StandingApprovalId, Option<u32>)>,
}

/// The reason why an attempt may not begin now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartBlockedError {
    /// A halt is in force.
    #[error("everything is halted: {why}")]
    Halted {
        /// The reason of the halt.
        why: String,
    },
    /// The standing approval has no uses left, or was revoked.
    #[error("the standing approval has no uses left, or was revoked")]
    ApprovalUsedUp,
    /// Another call of the session runs alone.
    #[error("call {call} of the same session is running")]
    SessionBusy {
        /// The running call.
        call: CallId,
        /// Its open attempt.
        attempt: AttemptId,
    },
}

/// The result of [`Ledger::interrupt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The interruption was recorded.
    Recorded,
    /// The owner is alive. The attempt was left unchanged.
    OwnerAlive,
    /// The attempt is not open any more.
    NotOpen,
}

/// The reason why lines were not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another writer appended first. Load the record and run the pipeline again.
    #[error("another writer has changed the record")]
    Stale,
    /// The attempt may not begin now.
    #[error(transparent)]
    StartBlocked(#[from] StartBlockedError),
    /// The ledger failed. The caller must check whether the lines were appended.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The reason why a content cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The content was forgotten.
    #[error("the content was forgotten")]
    Forgotten,
    /// The content is missing.
    #[error("the content is missing")]
    Missing,
    /// The content differs from the recorded one.
    #[error("the content was changed after it was recorded")]
    Corrupted,
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// An error of the store behind a ledger.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {reason}")]
pub struct LedgerError {
    /// The operation that failed, in words.
    pub operation: String,
    /// The error of the system.
    pub reason: String,
}

impl LedgerError {
    /// Creates an error for a failed operation.
    pub fn new(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self { operation: what.into(), reason: why.to_string() }
    }
}
