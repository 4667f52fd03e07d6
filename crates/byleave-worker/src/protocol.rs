//! What is said between a worker and the office: one JSON text a frame. Plain data; nothing here decides.
//!
//! Contents and keys are in it, in the clear: whatever carries a wire between machines must be TLS.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use byleave::ledger::{
    AttemptStart, Batch, CallSummary, ContentError, IncomingState, Interruption, LedgerError, LoadedRecord,
    PendingQuestion, RecordContent, SessionContext, StartBlocked,
};
use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::digest::{ContentRef, Digest, RecordKey};
use byleave_core::effect::Effect;
use byleave_core::entry::Entry;
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId, TenantId};
use byleave_core::question::Question;
use byleave_core::record::Record;
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::StandingApproval;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::assignment::Capabilities;

/// Which way of speaking this is. Both ends must have the same.
pub(crate) const PROTOCOL: u32 = 1;
/// How many frames wait at most in either direction; who says more waits.
const WAITING_MAX: usize = 256;

/// How long the other end may say nothing at all, however long the lease.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// However short it is.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// How long the other end may say nothing at all. Both go by the same.
pub(crate) fn patience(lease: Duration) -> Duration {
    lease.clamp(SILENCE_MIN, SILENCE_MAX)
}

/// A connection, as texts in both directions. It is closed by letting go of it.
#[derive(Debug)]
pub struct FrameChannel {
    /// What is said.
    pub say: mpsc::Sender<String>,
    /// What is heard; nothing more once the other end is gone.
    pub hear: mpsc::Receiver<String>,
}

impl FrameChannel {
    /// The two ends of one.
    pub fn pair() -> (Self, Self) {
        let ((say, heard), (answer, hear)) = (mpsc::channel(WAITING_MAX), mpsc::channel(WAITING_MAX));
        (Self { say, hear }, Self { say: answer, hear: heard })
    }

    pub(crate) async fn say(&self, frame: &Frame) -> Result<(), Disconnected> {
        let text = serde_json::to_string(frame).map_err(|_| Disconnected)?;
        self.say.send(text).await.map_err(|_| Disconnected)
    }
}

/// The other end is gone.
#[derive(Debug)]
pub(crate) struct Disconnected;

/// One thing that is said.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Frame {
    /// A worker's first word.
    Hello(WorkerHello),
    /// The office's.
    Welcome {
        /// How long the worker may be away and keep its claims.
        lease_ms: u64,
        /// Another each time that an office begins: it knows nothing of what was said to the one before.
        office: Uuid,
    },
    /// The office turns the worker away.
    Unwelcome {
        /// Why.
        why: String,
    },
    /// A worker asks.
    Ask {
        /// By which the answer is known; said again, it is the same question.
        id: u64,
        /// What.
        ask: LedgerRequest,
    },
    /// The office answers.
    Told {
        /// Which question.
        id: u64,
        /// What came of it.
        told: Result<Value, LedgerResponseError>,
    },
    /// The office offers a call. It may be offered again while it is driven, and is the same offer.
    Offer {
        /// Which.
        call: CallId,
    },
    /// A worker has driven a call that it was offered to where it stands.
    Stood {
        /// Which.
        call: CallId,
        /// Behind which, where it stands behind another.
        held_up_by: Option<CallId>,
    },
    /// A worker takes nothing new.
    Leaving,
    /// A worker is alive, and the office says so back at once: so each knows that the other is.
    Beat {
        /// When the worker said it, by a clock of its own.
        at_ms: u64,
    },
}

/// Who a worker is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerHello {
    pub(crate) protocol: u32,
    /// Who it writes claims as.
    pub(crate) owner: OwnerId,
    /// What it can do, where it wants calls.
    #[serde(default)]
    pub(crate) skills: Option<Capabilities>,
    /// It takes nothing new.
    #[serde(default)]
    pub(crate) is_leaving: bool,
}

/// What a ledger is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerRequest {
    Load { call: CallId },
    Arrive { call: CallId, tenant: TenantId, session: SessionId, tool: String, now: Millis },
    Append(Box<WireAppend>),
    Content { call: CallId, held: ContentRef },
    Interrupt { call: CallId, attempt: AttemptId, at: Millis },
    Act(Box<AdminAction>),
    Halted { tenant: TenantId },
    Lineage { tenant: TenantId, session: SessionId },
    Leaves { tenant: TenantId, tool: String, now: Millis },
    CallOf { question: QuestionId },
    HeldUpBy { tenant: TenantId, session: SessionId, call: CallId, effects: Vec<Effect> },
    Drivable { now: Millis, limit: usize },
}

impl LedgerRequest {
    /// Whether it may have an effect, so that it is done once however often it is said.
    pub(crate) const fn has_effect(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Interrupt { .. } | Self::Act(_))
    }
}

/// Why there is no answer but this.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerResponseError {
    Stale,
    Halted { why: String },
    LeaveSpent,
    SessionBusy { call: CallId, attempt: AttemptId },
    Forgotten,
    Missing,
    Changed,
    Fault { what: String, why: String },
}

impl From<LedgerError> for LedgerResponseError {
    fn from(LedgerError { what, why }: LedgerError) -> Self {
        Self::Fault { what, why }
    }
}

impl From<ContentError> for LedgerResponseError {
    fn from(fault: ContentError) -> Self {
        match fault {
            ContentError::Forgotten => Self::Forgotten,
            ContentError::Missing => Self::Missing,
            ContentError::Changed => Self::Changed,
            ContentError::Fault(fault) => fault.into(),
        }
    }
}

impl From<StartBlocked> for LedgerResponseError {
    fn from(hindrance: StartBlocked) -> Self {
        match hindrance {
            StartBlocked::Halted { why } => Self::Halted { why },
            StartBlocked::LeaveSpent => Self::LeaveSpent,
            StartBlocked::SessionBusy { call, attempt } => Self::SessionBusy { call, attempt },
        }
    }
}

impl LedgerResponseError {
    /// The same where only a broken ledger is expected.
    pub(crate) fn into_fault(self) -> LedgerError {
        match self {
            Self::Fault { what, why } => LedgerError { what, why },
            other => LedgerError::new("cannot make out what the office says", format!("{other:?}")),
        }
    }

    /// The same of a content.
    pub(crate) fn into_content_fault(self) -> ContentError {
        match self {
            Self::Forgotten => ContentError::Forgotten,
            Self::Missing => ContentError::Missing,
            Self::Changed => ContentError::Changed,
            other => other.into_fault().into(),
        }
    }
}

/// Bytes, as text.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Base64Bytes(pub(crate) Vec<u8>);

impl std::fmt::Debug for Base64Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // They may be a key or a content.
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD_NO_PAD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

fn key_said(key: &RecordKey) -> Base64Bytes {
    Base64Bytes(key.expose().to_vec())
}

fn key_heard(blob: Base64Bytes) -> Result<RecordKey, LedgerError> {
    let bytes = blob.0.try_into();
    bytes.map(RecordKey::from_bytes).map_err(|_| unreadable("a key of another size"))
}

/// Lines to append to a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireAppend {
    pub(crate) call: CallId,
    pub(crate) at_len: u32,
    pub(crate) before: Digest,
    /// As they are; their links are checked like everyone's.
    pub(crate) lines: Vec<ChainedEntry>,
    pub(crate) contents: Vec<(ContentRef, Base64Bytes)>,
    pub(crate) key: Option<Base64Bytes>,
    pub(crate) listing: WireCallSummary,
    pub(crate) waits: Option<(Question, Vec<Effect>)>,
    pub(crate) begins: Option<WireAttemptStart>,
    pub(crate) settles: bool,
}

/// What a list shows of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireCallSummary {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) operation: String,
    pub(crate) summary: String,
}

/// An attempt that begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WireAttemptStart {
    pub(crate) attempt: AttemptId,
    pub(crate) exclusive: bool,
    pub(crate) leave: Option<(StandingApprovalId, Option<u32>)>,
}

impl From<Batch> for WireAppend {
    fn from(batch: Batch) -> Self {
        let CallSummary { tenant, session, agent, tool, operation, summary } = batch.listing;
        let begun = |begins: AttemptStart| WireAttemptStart {
            attempt: begins.attempt,
            exclusive: begins.exclusive,
            leave: begins.leave,
        };
        Self {
            call: batch.call,
            at_len: batch.at_len,
            before: batch.before,
            lines: batch.lines,
            contents: batch.contents.into_iter().map(|one| (one.held, Base64Bytes(one.bytes))).collect(),
            key: batch.key.as_ref().map(key_said),
            listing: WireCallSummary { tenant, session, agent, tool, operation, summary },
            waits: batch.waits.map(|waits| (waits.question, waits.effects)),
            begins: batch.begins.map(begun),
            settles: batch.settles,
        }
    }
}

impl WireAppend {
    /// The batch that is meant, with the entries that its lines say: nobody is believed that they are others.
    pub(crate) fn into_batch(self) -> Result<Batch, LedgerError> {
        let entries: Result<Vec<Entry>, _> =
            self.lines.iter().map(|line| serde_json::from_str(line.body())).collect();
        let WireCallSummary { tenant, session, agent, tool, operation, summary } = self.listing;
        let begins = |begun: WireAttemptStart| AttemptStart {
            attempt: begun.attempt,
            exclusive: begun.exclusive,
            leave: begun.leave,
        };
        Ok(Batch {
            call: self.call,
            at_len: self.at_len,
            before: self.before,
            entries: entries.map_err(|error| unreadable(&error.to_string()))?,
            lines: self.lines,
            contents: self
                .contents
                .into_iter()
                .map(|(held, Base64Bytes(bytes))| RecordContent { held, bytes })
                .collect(),
            key: self.key.map(key_heard).transpose()?,
            listing: CallSummary { tenant, session, agent, tool, operation, summary },
            waits: self.waits.map(|(question, effects)| PendingQuestion { question, effects }),
            begins: self.begins.map(begins),
            settles: self.settles,
        })
    }
}

/// A record, read back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireRecord {
    bodies: Vec<String>,
    head: Digest,
    key: Option<Base64Bytes>,
}

impl WireRecord {
    pub(crate) fn of(loaded: &LoadedRecord) -> Result<Self, LedgerError> {
        if let Some(damage) = loaded.record.damage() {
            return Err(LedgerError::new("cannot pass a record on", damage));
        }
        let bodies: Result<Vec<String>, _> =
            loaded.record.entries().iter().map(serde_json::to_string).collect();
        Ok(Self {
            bodies: bodies.map_err(|error| LedgerError::new("cannot pass a record on", error))?,
            head: loaded.record.head(),
            key: loaded.key.as_ref().map(key_said),
        })
    }

    fn lines(&self, call: CallId) -> Vec<ChainedEntry> {
        let mut before = GENESIS;
        let linked = (0..).zip(&self.bodies).map(|(seq, body)| {
            let line = ChainedEntry::linked(call, before, seq, body.clone());
            before = line.link();
            line
        });
        linked.collect()
    }

    /// The links of its lines.
    pub(crate) fn links(&self, call: CallId) -> impl Iterator<Item = Digest> {
        self.lines(call).into_iter().map(|line| line.link())
    }

    /// The record, which must be the very one that was read.
    pub(crate) fn into_loaded(self, call: CallId) -> Result<LoadedRecord, LedgerError> {
        let lines = self.lines(call);
        if lines.last().map_or(GENESIS, ChainedEntry::link) != self.head {
            return Err(unreadable("a record that ends otherwise than it should"));
        }
        Ok(LoadedRecord { record: Record::read(call, &lines), key: self.key.map(key_heard).transpose()? })
    }
}

/// What stood when a call came in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireIncomingState {
    pub(crate) loaded: Option<WireRecord>,
    pub(crate) lineage: Vec<SessionNode>,
    #[serde(default)]
    pub(crate) around: Option<WireSessionContext>,
}

/// What stood around a call when it came in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireSessionContext {
    leaves: Vec<StandingApproval>,
    halt: Option<AdminAction>,
    is_crowded: bool,
}

impl From<SessionContext> for WireSessionContext {
    fn from(SessionContext { leaves, halt, is_crowded }: SessionContext) -> Self {
        Self { leaves: leaves.iter().map(|leave| (**leave).clone()).collect(), halt, is_crowded }
    }
}

impl From<WireSessionContext> for SessionContext {
    fn from(WireSessionContext { leaves, halt, is_crowded }: WireSessionContext) -> Self {
        Self { leaves: leaves.into_iter().map(Arc::new).collect(), halt, is_crowded }
    }
}

impl WireIncomingState {
    pub(crate) fn of(arrival: IncomingState) -> Result<Self, LedgerError> {
        let loaded = arrival.loaded.as_ref().map(WireRecord::of).transpose()?;
        Ok(Self { loaded, lineage: arrival.lineage, around: arrival.around.map(WireSessionContext::from) })
    }
}

/// What came of asking for an interruption.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireInterruption {
    Written,
    OwnerAlive,
    NotOpen,
}

impl From<Interruption> for WireInterruption {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Written => Self::Written,
            Interruption::OwnerAlive => Self::OwnerAlive,
            Interruption::NotOpen => Self::NotOpen,
        }
    }
}

impl From<WireInterruption> for Interruption {
    fn from(interrupted: WireInterruption) -> Self {
        match interrupted {
            WireInterruption::Written => Self::Written,
            WireInterruption::OwnerAlive => Self::OwnerAlive,
            WireInterruption::NotOpen => Self::NotOpen,
        }
    }
}

fn unreadable(why: &str) -> LedgerError {
    LedgerError::new("cannot read what was said", why)
}
