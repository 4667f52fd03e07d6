//! The messages between a worker and the server, one JSON text per frame. They are plain data; nothing here decides.
//!
//! They contain contents and keys in the clear. Every connection between machines must therefore use TLS.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
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
use byleave_gate::ledger::{
    AttemptStart, Batch, CallSummary, ContentError, IncomingState, Interruption, LedgerError, LoadedRecord,
    PendingQuestion, RecordContent, SessionContext, StartBlockedError,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::assignment::Capabilities;

/// The protocol version. It must be the same at both ends.
pub(crate) const PROTOCOL_VERSION: u32 = 2;
/// The maximum number of frames that wait in each direction. Further senders wait.
const WAITING_MAX: usize = 256;

/// The maximum time without a message from the peer, for long leases.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The minimum of that time, for short leases.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// Returns the maximum time without a message from the peer. Both ends use the same.
pub(crate) fn silence_timeout(lease: Duration) -> Duration {
    lease.clamp(SILENCE_MIN, SILENCE_MAX)
}

/// A connection as texts in both directions. Dropping it closes it.
#[derive(Debug)]
pub struct FrameChannel {
    /// Outgoing frames.
    pub sender: mpsc::Sender<String>,
    /// Incoming frames. The channel ends when the peer is gone.
    pub receiver: mpsc::Receiver<String>,
}

impl FrameChannel {
    /// Creates two connected ends.
    pub fn pair() -> (Self, Self) {
        let ((say, heard), (answer, hear)) = (mpsc::channel(WAITING_MAX), mpsc::channel(WAITING_MAX));
        (Self { sender: say, receiver: hear }, Self { sender: answer, receiver: heard })
    }

    pub(crate) async fn send_frame(&self, frame: &Frame) -> Result<(), Disconnected> {
        let text = serde_json::to_string(frame).map_err(|_| Disconnected)?;
        self.sender.send(text).await.map_err(|_| Disconnected)
    }
}

/// The peer is gone.
#[derive(Debug)]
pub(crate) struct Disconnected;

/// One message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Frame {
    /// The first message of a worker.
    Hello(WorkerHello),
    /// The first message of the server.
    Welcome {
        /// How long the worker may be away and keep its claims.
        lease_ms: u64,
        /// A new id for each start of a server. A new server does not know the requests to the one before.
        server_id: Uuid,
    },
    /// The server rejects the worker.
    Rejected {
        /// The reason.
        reason: String,
    },
    /// A request of a worker.
    Request {
        /// Identifies the answer. A repeated request has the same id.
        id: u64,
        request: LedgerRequest,
    },
    /// An answer of the server.
    Response {
        /// The id of the request.
        id: u64,
        /// The result.
        result: Result<Value, LedgerResponseError>,
    },
    /// The server offers a call. It may be offered again while it is driven; that is the same offer.
    Offer { call: CallId },
    /// A worker has driven an offered call as far as possible.
    Driven {
        call: CallId,
        /// The call that blocks it, if one does.
        blocked_by: Option<CallId>,
    },
    /// A worker accepts no new calls.
    Draining,
    /// A heartbeat of a worker, which the server returns immediately. Each end thus knows that the other is alive.
    Heartbeat {
        /// The sending time by the worker's own clock.
        at_ms: u64,
    },
}

/// The identity of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerHello {
    pub(crate) protocol: u32,
    /// The owner id under which it writes claims.
    pub(crate) owner: OwnerId,
    /// Its capabilities, if it accepts calls.
    #[serde(default)]
    pub(crate) capabilities: Option<Capabilities>,
    /// Whether it accepts no new calls.
    #[serde(default)]
    pub(crate) is_draining: bool,
}

/// A request to a ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerRequest {
    Load {
        call: CallId,
    },
    LookupIncoming {
        call: CallId,
        tenant: TenantId,
        session: SessionId,
        tool: String,
        now: Millis,
    },
    Append(Box<WireAppend>),
    Content {
        call: CallId,
        content_ref: ContentRef,
    },
    Interrupt {
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    },
    RecordAdminAction(Box<AdminAction>),
    ActiveHalt {
        tenant: TenantId,
    },
    Lineage {
        tenant: TenantId,
        session: SessionId,
    },
    StandingApprovals {
        tenant: TenantId,
        tool: String,
        now: Millis,
    },
    CallForQuestion {
        question: QuestionId,
    },
    BlockingCall {
        tenant: TenantId,
        session: SessionId,
        call: CallId,
        effects: Vec<Effect>,
        #[serde(default)]
        passed_over: Vec<CallId>,
    },
    LatestCompletedCall {
        tenant: TenantId,
        session: SessionId,
        tool: String,
    },
    ResumableCalls {
        now: Millis,
        limit: usize,
    },
}

impl LedgerRequest {
    /// Checks whether the request may have an effect, so that it must be executed once however often it is repeated.
    pub(crate) const fn has_effect(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Interrupt { .. } | Self::RecordAdminAction(_))
    }
}

/// The reason why a request failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerResponseError {
    Stale,
    Halted { reason: String },
    ApprovalUsedUp,
    SessionBusy { call: CallId, attempt: AttemptId },
    Forgotten,
    Missing,
    Corrupted,
    Ledger { operation: String, reason: String },
}

impl From<LedgerError> for LedgerResponseError {
    fn from(LedgerError { operation: what, reason: why }: LedgerError) -> Self {
        Self::Ledger { operation: what, reason: why }
    }
}

impl From<ContentError> for LedgerResponseError {
    fn from(fault: ContentError) -> Self {
        match fault {
            ContentError::Forgotten => Self::Forgotten,
            ContentError::Missing => Self::Missing,
            ContentError::Corrupted => Self::Corrupted,
            ContentError::Ledger(fault) => fault.into(),
        }
    }
}

impl From<StartBlockedError> for LedgerResponseError {
    fn from(hindrance: StartBlockedError) -> Self {
        match hindrance {
            StartBlockedError::Halted { why } => Self::Halted { reason: why },
            StartBlockedError::ApprovalUsedUp => Self::ApprovalUsedUp,
            StartBlockedError::SessionBusy { call, attempt } => Self::SessionBusy { call, attempt },
        }
    }
}

impl LedgerResponseError {
    /// Converts to a [`LedgerError`], for requests where nothing else is expected.
    pub(crate) fn into_ledger_error(self) -> LedgerError {
        match self {
            Self::Ledger { operation: what, reason: why } => LedgerError { operation: what, reason: why },
            other => LedgerError::new("unexpected response from the server", format!("{other:?}")),
        }
    }

    /// Converts to a [`ContentError`].
    pub(crate) fn into_content_error(self) -> ContentError {
        match self {
            Self::Forgotten => ContentError::Forgotten,
            Self::Missing => ContentError::Missing,
            Self::Corrupted => ContentError::Corrupted,
            other => other.into_ledger_error().into(),
        }
    }
}

/// Bytes as Base64 text.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Base64Bytes(pub(crate) Vec<u8>);

impl std::fmt::Debug for Base64Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The bytes may be a key or contents.
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
    bytes.map(RecordKey::from_bytes).map_err(|_| unreadable("a key has the wrong size"))
}

/// Entries to append to a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireAppend {
    pub(crate) call: CallId,
    pub(crate) expected_len: u32,
    pub(crate) prev_link: Digest,
    /// The entries as stored. Their chain digests are checked like all others.
    pub(crate) chained_entries: Vec<ChainedEntry>,
    pub(crate) contents: Vec<(ContentRef, Base64Bytes)>,
    pub(crate) key: Option<Base64Bytes>,
    pub(crate) call_summary: WireCallSummary,
    pub(crate) pending_question: Option<(Question, Vec<Effect>)>,
    pub(crate) attempt_start: Option<WireAttemptStart>,
    pub(crate) is_final: bool,
}

/// The list data of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireCallSummary {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) operation: String,
    pub(crate) summary: String,
}

/// The start of an attempt.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WireAttemptStart {
    pub(crate) attempt: AttemptId,
    pub(crate) exclusive: bool,
    pub(crate) standing_approval: Option<(StandingApprovalId, Option<u32>)>,
}

impl From<Batch> for WireAppend {
    fn from(batch: Batch) -> Self {
        let CallSummary { tenant, session, agent, tool, operation, summary } = batch.call_summary;
        let begun = |begins: AttemptStart| WireAttemptStart {
            attempt: begins.attempt,
            exclusive: begins.exclusive,
            standing_approval: begins.standing_approval,
        };
        Self {
            call: batch.call,
            expected_len: batch.expected_len,
            prev_link: batch.prev_link,
            chained_entries: batch.chained_entries,
            contents: batch
                .contents
                .into_iter()
                .map(|one| (one.content_ref, Base64Bytes(one.bytes)))
                .collect(),
            key: batch.key.as_ref().map(key_said),
            call_summary: WireCallSummary { tenant, session, agent, tool, operation, summary },
            pending_question: batch.pending_question.map(|waits| (waits.question, waits.effects)),
            attempt_start: batch.attempt_start.map(begun),
            is_final: batch.is_final,
        }
    }
}

impl WireAppend {
    /// Returns the batch, with entries parsed from their stored text. The sender's own view of the entries is not trusted.
    pub(crate) fn into_batch(self) -> Result<Batch, LedgerError> {
        let entries: Result<Vec<Entry>, _> =
            self.chained_entries.iter().map(|line| serde_json::from_str(line.body())).collect();
        let WireCallSummary { tenant, session, agent, tool, operation, summary } = self.call_summary;
        let begins = |begun: WireAttemptStart| AttemptStart {
            attempt: begun.attempt,
            exclusive: begun.exclusive,
            standing_approval: begun.standing_approval,
        };
        Ok(Batch {
            call: self.call,
            expected_len: self.expected_len,
            prev_link: self.prev_link,
            entries: entries.map_err(|error| unreadable(&error.to_string()))?,
            chained_entries: self.chained_entries,
            contents: self
                .contents
                .into_iter()
                .map(|(held, Base64Bytes(bytes))| RecordContent { content_ref: held, bytes })
                .collect(),
            key: self.key.map(key_heard).transpose()?,
            call_summary: CallSummary { tenant, session, agent, tool, operation, summary },
            pending_question: self
                .pending_question
                .map(|(question, effects)| PendingQuestion { question, effects }),
            attempt_start: self.attempt_start.map(begins),
            is_final: self.is_final,
        })
    }
}

/// A record that was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireRecord {
    bodies: Vec<String>,
    head: Digest,
    key: Option<Base64Bytes>,
}

impl WireRecord {
    pub(crate) fn from_loaded(loaded: &LoadedRecord) -> Result<Self, LedgerError> {
        if let Some(damage) = loaded.record.damage() {
            return Err(LedgerError::new("cannot send a record", damage));
        }
        let bodies: Result<Vec<String>, _> =
            loaded.record.entries().iter().map(serde_json::to_string).collect();
        Ok(Self {
            bodies: bodies.map_err(|error| LedgerError::new("cannot send a record", error))?,
            head: loaded.record.head(),
            key: loaded.key.as_ref().map(key_said),
        })
    }

    fn lines(&self, call: CallId) -> Vec<ChainedEntry> {
        let mut before = GENESIS;
        let linked = (0..).zip(&self.bodies).map(|(seq, body)| {
            let line = ChainedEntry::new(call, before, seq, body.clone());
            before = line.link();
            line
        });
        linked.collect()
    }

    /// Returns the chain digests of its entries.
    pub(crate) fn links(&self, call: CallId) -> impl Iterator<Item = Digest> {
        self.lines(call).into_iter().map(|line| line.link())
    }

    /// Returns the record. It must be the one that was requested.
    pub(crate) fn into_loaded_record(self, call: CallId) -> Result<LoadedRecord, LedgerError> {
        let lines = self.lines(call);
        if lines.last().map_or(GENESIS, ChainedEntry::link) != self.head {
            return Err(unreadable("the last link of a record does not match"));
        }
        Ok(LoadedRecord {
            record: Record::from_stored_entries(call, &lines),
            key: self.key.map(key_heard).transpose()?,
        })
    }
}

/// The state that an incoming call found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireIncomingState {
    pub(crate) record: Option<WireRecord>,
    pub(crate) lineage: Vec<SessionNode>,
    #[serde(default)]
    pub(crate) session_context: Option<WireSessionContext>,
}

/// The session context that an incoming call found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireSessionContext {
    leaves: Vec<StandingApproval>,
    halt: Option<AdminAction>,
    is_crowded: bool,
}

impl From<SessionContext> for WireSessionContext {
    fn from(
        SessionContext { standing_approvals: leaves, halt, has_pending_calls: is_crowded }: SessionContext,
    ) -> Self {
        Self { leaves: leaves.iter().map(|leave| (**leave).clone()).collect(), halt, is_crowded }
    }
}

impl From<WireSessionContext> for SessionContext {
    fn from(WireSessionContext { leaves, halt, is_crowded }: WireSessionContext) -> Self {
        Self {
            standing_approvals: leaves.into_iter().map(Arc::new).collect(),
            halt,
            has_pending_calls: is_crowded,
        }
    }
}

impl WireIncomingState {
    pub(crate) fn from_arrival(arrival: IncomingState) -> Result<Self, LedgerError> {
        let loaded = arrival.record.as_ref().map(WireRecord::from_loaded).transpose()?;
        Ok(Self {
            record: loaded,
            lineage: arrival.lineage,
            session_context: arrival.session_context.map(WireSessionContext::from),
        })
    }
}

/// The outcome of a request for an interruption.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireInterruption {
    Recorded,
    OwnerAlive,
    NotOpen,
}

impl From<Interruption> for WireInterruption {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Recorded => Self::Recorded,
            Interruption::OwnerAlive => Self::OwnerAlive,
            Interruption::NotOpen => Self::NotOpen,
        }
    }
}

impl From<WireInterruption> for Interruption {
    fn from(interrupted: WireInterruption) -> Self {
        match interrupted {
            WireInterruption::Recorded => Self::Recorded,
            WireInterruption::OwnerAlive => Self::OwnerAlive,
            WireInterruption::NotOpen => Self::NotOpen,
        }
    }
}

fn unreadable(why: &str) -> LedgerError {
    LedgerError::new("cannot read a message", why)
}
