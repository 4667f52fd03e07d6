//! What is said between a worker and the office: one JSON text a frame. Plain data; nothing here decides.
//!
//! Contents and keys are in it, in the clear: whatever carries a wire between machines must be TLS.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use byleave::ledger::{
    Around, Arrival, Batch, Begins, Content, ContentFault, Hindrance, Interruption, LedgerFault, Listing,
    Loaded, Waits,
};
use byleave_core::act::Act;
use byleave_core::call::Millis;
use byleave_core::chain::{GENESIS, Line};
use byleave_core::digest::{Digest, Held, RecordKey};
use byleave_core::effect::Effect;
use byleave_core::entry::Entry;
use byleave_core::id::{AttemptId, CallId, LeaveId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_core::leave::Leave;
use byleave_core::question::Question;
use byleave_core::record::Record;
use byleave_core::session::Opening;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::crew::Skills;

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
pub struct Wire {
    /// What is said.
    pub say: mpsc::Sender<String>,
    /// What is heard; nothing more once the other end is gone.
    pub hear: mpsc::Receiver<String>,
}

impl Wire {
    /// The two ends of one.
    pub fn pair() -> (Self, Self) {
        let ((say, heard), (answer, hear)) = (mpsc::channel(WAITING_MAX), mpsc::channel(WAITING_MAX));
        (Self { say, hear }, Self { say: answer, hear: heard })
    }

    pub(crate) async fn say(&self, frame: &Frame) -> Result<(), Gone> {
        let text = serde_json::to_string(frame).map_err(|_| Gone)?;
        self.say.send(text).await.map_err(|_| Gone)
    }
}

/// The other end is gone.
#[derive(Debug)]
pub(crate) struct Gone;

/// One thing that is said.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Frame {
    /// A worker's first word.
    Hello(Hello),
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
        ask: Ask,
    },
    /// The office answers.
    Told {
        /// Which question.
        id: u64,
        /// What came of it.
        told: Result<Value, Trouble>,
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
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    /// Who it writes claims as.
    pub(crate) owner: OwnerId,
    /// What it can do, where it wants calls.
    #[serde(default)]
    pub(crate) skills: Option<Skills>,
    /// It takes nothing new.
    #[serde(default)]
    pub(crate) is_leaving: bool,
}

/// What a ledger is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Load { call: CallId },
    Arrive { call: CallId, tenant: TenantId, session: SessionId, tool: String, now: Millis },
    Append(Box<Append>),
    Content { call: CallId, held: Held },
    Interrupt { call: CallId, attempt: AttemptId, at: Millis },
    Act(Box<Act>),
    Halted { tenant: TenantId },
    Lineage { tenant: TenantId, session: SessionId },
    Leaves { tenant: TenantId, tool: String, now: Millis },
    CallOf { question: QuestionId },
    HeldUpBy { tenant: TenantId, session: SessionId, call: CallId, effects: Vec<Effect> },
    Drivable { now: Millis, limit: usize },
}

impl Ask {
    /// Whether it may have an effect, so that it is done once however often it is said.
    pub(crate) const fn has_effect(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Interrupt { .. } | Self::Act(_))
    }
}

/// Why there is no answer but this.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trouble {
    Stale,
    Halted { why: String },
    LeaveSpent,
    SessionBusy { call: CallId, attempt: AttemptId },
    Forgotten,
    Missing,
    Changed,
    Fault { what: String, why: String },
}

impl From<LedgerFault> for Trouble {
    fn from(LedgerFault { what, why }: LedgerFault) -> Self {
        Self::Fault { what, why }
    }
}

impl From<ContentFault> for Trouble {
    fn from(fault: ContentFault) -> Self {
        match fault {
            ContentFault::Forgotten => Self::Forgotten,
            ContentFault::Missing => Self::Missing,
            ContentFault::Changed => Self::Changed,
            ContentFault::Fault(fault) => fault.into(),
        }
    }
}

impl From<Hindrance> for Trouble {
    fn from(hindrance: Hindrance) -> Self {
        match hindrance {
            Hindrance::Halted { why } => Self::Halted { why },
            Hindrance::LeaveSpent => Self::LeaveSpent,
            Hindrance::SessionBusy { call, attempt } => Self::SessionBusy { call, attempt },
        }
    }
}

impl Trouble {
    /// The same where only a broken ledger is expected.
    pub(crate) fn into_fault(self) -> LedgerFault {
        match self {
            Self::Fault { what, why } => LedgerFault { what, why },
            other => LedgerFault::new("cannot make out what the office says", format!("{other:?}")),
        }
    }

    /// The same of a content.
    pub(crate) fn into_content_fault(self) -> ContentFault {
        match self {
            Self::Forgotten => ContentFault::Forgotten,
            Self::Missing => ContentFault::Missing,
            Self::Changed => ContentFault::Changed,
            other => other.into_fault().into(),
        }
    }
}

/// Bytes, as text.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Blob(pub(crate) Vec<u8>);

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // They may be a key or a content.
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD_NO_PAD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

fn key_said(key: &RecordKey) -> Blob {
    Blob(key.expose().to_vec())
}

fn key_heard(blob: Blob) -> Result<RecordKey, LedgerFault> {
    let bytes = blob.0.try_into();
    bytes.map(RecordKey::from_bytes).map_err(|_| unreadable("a key of another size"))
}

/// Lines to append to a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) call: CallId,
    pub(crate) at_len: u32,
    pub(crate) before: Digest,
    /// As they are; their links are checked like everyone's.
    pub(crate) lines: Vec<Line>,
    pub(crate) contents: Vec<(Held, Blob)>,
    pub(crate) key: Option<Blob>,
    pub(crate) listing: Listed,
    pub(crate) waits: Option<(Question, Vec<Effect>)>,
    pub(crate) begins: Option<Begun>,
    pub(crate) settles: bool,
}

/// What a list shows of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) operation: String,
    pub(crate) summary: String,
}

/// An attempt that begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) attempt: AttemptId,
    pub(crate) exclusive: bool,
    pub(crate) leave: Option<(LeaveId, Option<u32>)>,
}

impl From<Batch> for Append {
    fn from(batch: Batch) -> Self {
        let Listing { tenant, session, agent, tool, operation, summary } = batch.listing;
        let begun = |begins: Begins| Begun {
            attempt: begins.attempt,
            exclusive: begins.exclusive,
            leave: begins.leave,
        };
        Self {
            call: batch.call,
            at_len: batch.at_len,
            before: batch.before,
            lines: batch.lines,
            contents: batch.contents.into_iter().map(|one| (one.held, Blob(one.bytes))).collect(),
            key: batch.key.as_ref().map(key_said),
            listing: Listed { tenant, session, agent, tool, operation, summary },
            waits: batch.waits.map(|waits| (waits.question, waits.effects)),
            begins: batch.begins.map(begun),
            settles: batch.settles,
        }
    }
}

impl Append {
    /// The batch that is meant, with the entries that its lines say: nobody is believed that they are others.
    pub(crate) fn into_batch(self) -> Result<Batch, LedgerFault> {
        let entries: Result<Vec<Entry>, _> =
            self.lines.iter().map(|line| serde_json::from_str(line.body())).collect();
        let Listed { tenant, session, agent, tool, operation, summary } = self.listing;
        let begins =
            |begun: Begun| Begins { attempt: begun.attempt, exclusive: begun.exclusive, leave: begun.leave };
        Ok(Batch {
            call: self.call,
            at_len: self.at_len,
            before: self.before,
            entries: entries.map_err(|error| unreadable(&error.to_string()))?,
            lines: self.lines,
            contents: self.contents.into_iter().map(|(held, Blob(bytes))| Content { held, bytes }).collect(),
            key: self.key.map(key_heard).transpose()?,
            listing: Listing { tenant, session, agent, tool, operation, summary },
            waits: self.waits.map(|(question, effects)| Waits { question, effects }),
            begins: self.begins.map(begins),
            settles: self.settles,
        })
    }
}

/// A record, read back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Read {
    bodies: Vec<String>,
    head: Digest,
    key: Option<Blob>,
}

impl Read {
    pub(crate) fn of(loaded: &Loaded) -> Result<Self, LedgerFault> {
        if let Some(damage) = loaded.record.damage() {
            return Err(LedgerFault::new("cannot pass a record on", damage));
        }
        let bodies: Result<Vec<String>, _> =
            loaded.record.entries().iter().map(serde_json::to_string).collect();
        Ok(Self {
            bodies: bodies.map_err(|error| LedgerFault::new("cannot pass a record on", error))?,
            head: loaded.record.head(),
            key: loaded.key.as_ref().map(key_said),
        })
    }

    fn lines(&self, call: CallId) -> Vec<Line> {
        let mut before = GENESIS;
        let linked = (0..).zip(&self.bodies).map(|(seq, body)| {
            let line = Line::linked(call, before, seq, body.clone());
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
    pub(crate) fn into_loaded(self, call: CallId) -> Result<Loaded, LedgerFault> {
        let lines = self.lines(call);
        if lines.last().map_or(GENESIS, Line::link) != self.head {
            return Err(unreadable("a record that ends otherwise than it should"));
        }
        Ok(Loaded { record: Record::read(call, &lines), key: self.key.map(key_heard).transpose()? })
    }
}

/// What stood when a call came in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Arrived {
    pub(crate) loaded: Option<Read>,
    pub(crate) lineage: Vec<Opening>,
    #[serde(default)]
    pub(crate) around: Option<Surroundings>,
}

/// What stood around a call when it came in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Surroundings {
    leaves: Vec<Leave>,
    halt: Option<Act>,
    is_crowded: bool,
}

impl From<Around> for Surroundings {
    fn from(Around { leaves, halt, is_crowded }: Around) -> Self {
        Self { leaves: leaves.iter().map(|leave| (**leave).clone()).collect(), halt, is_crowded }
    }
}

impl From<Surroundings> for Around {
    fn from(Surroundings { leaves, halt, is_crowded }: Surroundings) -> Self {
        Self { leaves: leaves.into_iter().map(Arc::new).collect(), halt, is_crowded }
    }
}

impl Arrived {
    pub(crate) fn of(arrival: Arrival) -> Result<Self, LedgerFault> {
        let loaded = arrival.loaded.as_ref().map(Read::of).transpose()?;
        Ok(Self { loaded, lineage: arrival.lineage, around: arrival.around.map(Surroundings::from) })
    }
}

/// What came of asking for an interruption.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Interrupted {
    Written,
    OwnerAlive,
    NotOpen,
}

impl From<Interruption> for Interrupted {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Written => Self::Written,
            Interruption::OwnerAlive => Self::OwnerAlive,
            Interruption::NotOpen => Self::NotOpen,
        }
    }
}

impl From<Interrupted> for Interruption {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Written => Self::Written,
            Interrupted::OwnerAlive => Self::OwnerAlive,
            Interrupted::NotOpen => Self::NotOpen,
        }
    }
}

fn unreadable(why: &str) -> LedgerFault {
    LedgerFault::new("cannot read what was said", why)
}
