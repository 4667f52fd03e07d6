//! The ledger: the authority over records. What it has taken is durable; two writers cannot take the same place.

pub mod conformance;
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

/// Keeps records. Every implementation must pass [`conformance`].
pub trait Ledger: Send + Sync + 'static {
    /// Who this ledger writes claims for. Alive until it is dropped, or its process dies.
    fn owner(&self) -> OwnerId;

    /// Reads a record back; `None` where nothing was ever written.
    fn load(&self, call: CallId) -> BoxFuture<'_, Result<Option<LoadedRecord>, LedgerError>>;

    /// Looks a call up that comes in, and at what else stands then, where that is to be seen in the same look.
    ///
    /// What is told counts for a moment only, as any answer of the ledger does.
    fn arrive<'a>(&'a self, comer: IncomingCall<'a>) -> BoxFuture<'a, Result<IncomingState, LedgerError>> {
        Box::pin(async move {
            let loaded = self.load(comer.call).await?;
            let lineage = match &loaded {
                Some(_) => Vec::new(),
                None => self.lineage(comer.tenant, comer.session).await?,
            };
            Ok(IncomingState { loaded, lineage, around: None })
        })
    }

    /// Appends lines, if the record is still as long as the batch says. All or nothing, and durable when it returns.
    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<(), AppendError>>;

    /// Reads a content back.
    fn content(&self, call: CallId, held: ContentRef) -> BoxFuture<'_, Result<Vec<u8>, ContentError>>;

    /// Writes `Interrupted` for an open attempt whose owner is gone. Nobody else may.
    ///
    /// An attempt of this ledger's own owner counts as gone too: who asks knows that it is not running here.
    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> BoxFuture<'_, Result<Interruption, LedgerError>>;

    /// An attempt that is on the record is about to be run here, and only now. What this cannot note does not run.
    ///
    /// A ledger whose owners die far from whoever finds out keeps a mark of it where the owner runs. Others need none.
    fn starting(&self, _call: CallId, _attempt: AttemptId) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Writes an act of an administrator down. In force when it returns.
    fn act(&self, act: AdminAction) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// The newest halt, where it has not been lifted.
    fn halted(&self, tenant: &TenantId) -> BoxFuture<'_, Result<Option<AdminAction>, LedgerError>>;

    /// The session as it was opened, and those above it, up to the top; empty where nobody opened it.
    ///
    /// It never changes once there is anything: an opening is refused where there is one, or where the parent was never
    /// opened. Only from verified acts; where one is missing or damaged, that is a fault and never a shorter list.
    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<SessionNode>, LedgerError>>;

    /// The leaves for a tool that were given, have not been revoked and have uses left. Only from verified entries.
    fn leaves(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> BoxFuture<'_, Result<Vec<Arc<StandingApproval>>, LedgerError>>;

    /// The call that a question belongs to.
    fn call_of(&self, question: QuestionId) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>>;

    /// A call of this session that a person was asked about, that has neither ended nor been settled since, and whose
    /// effects conflict with this plan.
    fn held_up_by(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
    ) -> BoxFuture<'_, Result<Option<CallId>, LedgerError>>;

    /// Calls that are not settled and can be driven on: all but those that wait for a person who still has time.
    fn drivable(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, LedgerError>>;
}

/// A call that comes in.
#[derive(Clone, Copy, Debug)]
pub struct IncomingCall<'a> {
    /// Its id.
    pub call: CallId,
    /// Whose book.
    pub tenant: &'a TenantId,
    /// The session.
    pub session: &'a SessionId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The time.
    pub now: Millis,
}

/// What stood when a call came in.
#[derive(Clone, Debug)]
pub struct IncomingState {
    /// Its record, where it has been here before.
    pub loaded: Option<LoadedRecord>,
    /// As [`Ledger::lineage`], where it has not.
    pub lineage: Vec<SessionNode>,
    /// What else was seen in the same look.
    pub around: Option<SessionContext>,
}

/// What stood around a call when it came in.
#[derive(Clone, Debug)]
pub struct SessionContext {
    /// As [`Ledger::leaves`].
    pub leaves: Vec<Arc<StandingApproval>>,
    /// As [`Ledger::halted`].
    pub halt: Option<AdminAction>,
    /// Whether [`Ledger::held_up_by`] could find anyone.
    pub is_crowded: bool,
}

/// A record as it was read back, with its key. Without the key its contents are forgotten.
#[derive(Clone, Debug)]
pub struct LoadedRecord {
    /// The record.
    pub record: Record,
    /// Its key.
    pub key: Option<RecordKey>,
}

/// Lines to append to one record.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Whose record.
    pub call: CallId,
    /// How long the record must be.
    pub at_len: u32,
    /// What its last link must be.
    pub before: Digest,
    /// The lines.
    pub lines: Vec<ChainedEntry>,
    /// The same, as entries.
    pub entries: Vec<Entry>,
    /// Contents that the lines speak of.
    pub contents: Vec<RecordContent>,
    /// Its key, with the first lines of a record.
    pub key: Option<RecordKey>,
    /// What a list shows of the call; with secrets taken out.
    pub listing: CallSummary,
    /// Present where the last line leaves the call waiting for a person.
    pub waits: Option<PendingQuestion>,
    /// Present where the lines begin an attempt that is still open at their end.
    pub begins: Option<AttemptStart>,
    /// The call is settled with these lines.
    pub settles: bool,
}

/// A content that lines speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordContent {
    /// What the record keeps of it.
    pub held: ContentRef,
    /// The content itself.
    pub bytes: Vec<u8>,
}

/// What a list shows of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSummary {
    /// Whose book.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: String,
    /// The tool's own name, once known.
    pub tool: String,
    /// The word for it in the book.
    pub operation: String,
    /// What it would do, in a line.
    pub summary: String,
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingQuestion {
    /// The question.
    pub question: Question,
    /// What it would do; later calls of the session that conflict with it are held up, until it has ended or is settled.
    /// Empty for a held result.
    pub effects: Vec<Effect>,
}

/// An attempt that begins. The ledger refuses it, with a [`StartBlocked`], in the same step in which it would write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptStart {
    /// The attempt.
    pub attempt: AttemptId,
    /// It runs alone in its session.
    pub exclusive: bool,
    /// The leave it rests on, with how often that may be used.
    pub leave: Option<(StandingApprovalId, Option<u32>)>,
}

/// Why an attempt may not begin now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartBlocked {
    /// Everything is halted.
    #[error("everything is halted: {why}")]
    Halted {
        /// Why.
        why: String,
    },
    /// The leave has no use left, or was revoked.
    #[error("the leave has no use left, or was revoked")]
    LeaveSpent,
    /// Another call of the session runs alone.
    #[error("call {call} of the same session is running")]
    SessionBusy {
        /// Which.
        call: CallId,
        /// Its open attempt.
        attempt: AttemptId,
    },
}

/// What came of asking for an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// It is written down.
    Written,
    /// The owner lives; leave it alone.
    OwnerAlive,
    /// There is no such open attempt any more.
    NotOpen,
}

/// Why lines were not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Someone else appended first: load the record and walk again.
    #[error("the record has changed meanwhile")]
    Stale,
    /// The attempt may not begin now.
    #[error(transparent)]
    Hindered(#[from] StartBlocked),
    /// The ledger broke. Whether the lines were taken must be looked at.
    #[error(transparent)]
    Fault(#[from] LedgerError),
}

/// Why a content cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It was forgotten.
    #[error("the content was forgotten")]
    Forgotten,
    /// It is not there.
    #[error("the content is missing")]
    Missing,
    /// It is not what was written.
    #[error("the content is not what was written")]
    Changed,
    /// The ledger broke.
    #[error(transparent)]
    Fault(#[from] LedgerError),
}

/// The ledger broke.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct LedgerError {
    /// What could not be done, in words.
    pub what: String,
    /// What the system said.
    pub why: String,
}

impl LedgerError {
    /// A fault from something that did not work.
    pub fn new(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}
