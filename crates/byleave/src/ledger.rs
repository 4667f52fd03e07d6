//! The ledger: the authority over records. What it has taken is durable; two writers cannot take the same place.

pub mod conformance;
pub mod floor;
pub mod memory;
pub mod owners;
pub mod starts;

use std::sync::Arc;

use byleave_core::act::Act;
use byleave_core::call::Millis;
use byleave_core::chain::Line;
use byleave_core::digest::{Digest, Held, RecordKey};
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::Entry;
use byleave_core::id::{AttemptId, CallId, LeaveId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_core::leave::Leave;
use byleave_core::question::Question;
use byleave_core::record::Record;
use byleave_core::session::Opening;

use crate::pending::Pending;

/// Keeps records. Every implementation must pass [`conformance`].
pub trait Ledger: Send + Sync + 'static {
    /// Who this ledger writes claims for. Alive until it is dropped, or its process dies.
    fn owner(&self) -> OwnerId;

    /// Reads a record back; `None` where nothing was ever written.
    fn load(&self, call: CallId) -> Pending<'_, Result<Option<Loaded>, LedgerFault>>;

    /// Looks a call up that comes in, and at what else stands then, where that is to be seen in the same look.
    ///
    /// What is told counts for a moment only, as any answer of the ledger does.
    fn arrive<'a>(&'a self, comer: Comer<'a>) -> Pending<'a, Result<Arrival, LedgerFault>> {
        Box::pin(async move {
            let loaded = self.load(comer.call).await?;
            let lineage = match &loaded {
                Some(_) => Vec::new(),
                None => self.lineage(comer.tenant, comer.session).await?,
            };
            Ok(Arrival { loaded, lineage, around: None })
        })
    }

    /// Appends lines, if the record is still as long as the batch says. All or nothing, and durable when it returns.
    fn append(&self, batch: Batch) -> Pending<'_, Result<(), AppendFault>>;

    /// Reads a content back.
    fn content(&self, call: CallId, held: Held) -> Pending<'_, Result<Vec<u8>, ContentFault>>;

    /// Writes `Interrupted` for an open attempt whose owner is gone. Nobody else may.
    ///
    /// An attempt of this ledger's own owner counts as gone too: who asks knows that it is not running here.
    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> Pending<'_, Result<Interruption, LedgerFault>>;

    /// An attempt that is on the record is about to be run here, and only now. What this cannot note does not run.
    ///
    /// A ledger whose owners die far from whoever finds out keeps a mark of it where the owner runs. Others need none.
    fn starting(&self, _call: CallId, _attempt: AttemptId) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Writes an act of an administrator down. In force when it returns.
    fn act(&self, act: Act) -> Pending<'_, Result<(), LedgerFault>>;

    /// The newest halt, where it has not been lifted.
    fn halted(&self, tenant: &TenantId) -> Pending<'_, Result<Option<Act>, LedgerFault>>;

    /// The session as it was opened, and those above it, up to the top; empty where nobody opened it.
    ///
    /// It never changes once there is anything: an opening is refused where there is one, or where the parent was never
    /// opened. Only from verified acts; where one is missing or damaged, that is a fault and never a shorter list.
    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Pending<'_, Result<Vec<Opening>, LedgerFault>>;

    /// The leaves for a tool that were given, have not been revoked and have uses left. Only from verified entries.
    fn leaves(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> Pending<'_, Result<Vec<Arc<Leave>>, LedgerFault>>;

    /// The call that a question belongs to.
    fn call_of(&self, question: QuestionId) -> Pending<'_, Result<Option<CallId>, LedgerFault>>;

    /// A call of this session that a person was asked about, that has neither ended nor been settled since, and whose
    /// effects conflict with this plan.
    fn held_up_by(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
    ) -> Pending<'_, Result<Option<CallId>, LedgerFault>>;

    /// Calls that are not settled and can be driven on: all but those that wait for a person who still has time.
    fn drivable(&self, now: Millis, limit: usize) -> Pending<'_, Result<Vec<CallId>, LedgerFault>>;
}

/// A call that comes in.
#[derive(Clone, Copy, Debug)]
pub struct Comer<'a> {
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
pub struct Arrival {
    /// Its record, where it has been here before.
    pub loaded: Option<Loaded>,
    /// As [`Ledger::lineage`], where it has not.
    pub lineage: Vec<Opening>,
    /// What else was seen in the same look.
    pub around: Option<Around>,
}

/// What stood around a call when it came in.
#[derive(Clone, Debug)]
pub struct Around {
    /// As [`Ledger::leaves`].
    pub leaves: Vec<Arc<Leave>>,
    /// As [`Ledger::halted`].
    pub halt: Option<Act>,
    /// Whether [`Ledger::held_up_by`] could find anyone.
    pub is_crowded: bool,
}

/// A record as it was read back, with its key. Without the key its contents are forgotten.
#[derive(Clone, Debug)]
pub struct Loaded {
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
    pub lines: Vec<Line>,
    /// The same, as entries.
    pub entries: Vec<Entry>,
    /// Contents that the lines speak of.
    pub contents: Vec<Content>,
    /// Its key, with the first lines of a record.
    pub key: Option<RecordKey>,
    /// What a list shows of the call; with secrets taken out.
    pub listing: Listing,
    /// Present where the last line leaves the call waiting for a person.
    pub waits: Option<Waits>,
    /// Present where the lines begin an attempt that is still open at their end.
    pub begins: Option<Begins>,
    /// The call is settled with these lines.
    pub settles: bool,
}

/// A content that lines speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// What the record keeps of it.
    pub held: Held,
    /// The content itself.
    pub bytes: Vec<u8>,
}

/// What a list shows of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
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
pub struct Waits {
    /// The question.
    pub question: Question,
    /// What it would do; later calls of the session that conflict with it are held up, until it has ended or is settled.
    /// Empty for a held result.
    pub effects: Vec<Effect>,
}

/// An attempt that begins. The ledger refuses it, with a [`Hindrance`], in the same step in which it would write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begins {
    /// The attempt.
    pub attempt: AttemptId,
    /// It runs alone in its session.
    pub exclusive: bool,
    /// The leave it rests on, with how often that may be used.
    pub leave: Option<(LeaveId, Option<u32>)>,
}

/// Why an attempt may not begin now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Hindrance {
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
pub enum AppendFault {
    /// Someone else appended first: load the record and walk again.
    #[error("the record has changed meanwhile")]
    Stale,
    /// The attempt may not begin now.
    #[error(transparent)]
    Hindered(#[from] Hindrance),
    /// The ledger broke. Whether the lines were taken must be looked at.
    #[error(transparent)]
    Fault(#[from] LedgerFault),
}

/// Why a content cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ContentFault {
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
    Fault(#[from] LedgerFault),
}

/// The ledger broke.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct LedgerFault {
    /// What could not be done, in words.
    pub what: String,
    /// What the system said.
    pub why: String,
}

impl LedgerFault {
    /// A fault from something that did not work.
    pub fn new(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}
