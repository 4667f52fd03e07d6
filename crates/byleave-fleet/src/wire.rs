//! What is said between a ledger and the service, through the engine. Plain data; nothing here decides.
//!
//! The engine keeps what passes through it for a while. So there is no content in the clear here, and no key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use byleave_core::admin_action::AdminAction;
use byleave_core::call::Millis;
use byleave_core::digest::Digest;
use byleave_core::effect::Effect;
use byleave_core::id::{AttemptId, CallId, OwnerId, SessionId, StandingApprovalId, TenantId};
use byleave_core::session::SessionNode;
use byleave_core::standing_approval::StandingApproval;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::packing::Noted;

/// Bytes, as text on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blob(pub(crate) Vec<u8>);

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

/// Lines to append to a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Append {
    /// The ledger.
    pub(crate) ledger: String,
    /// Whose record.
    pub(crate) call: CallId,
    /// Names this very request: the same again is the same request, sent twice.
    pub(crate) token: Uuid,
    /// Who writes.
    pub(crate) owner: OwnerId,
    /// How long the record must be.
    pub(crate) at_len: u32,
    /// What its last link must be.
    pub(crate) before: Digest,
    /// What its last link will be.
    pub(crate) head: Digest,
    /// The lines; their links follow from them.
    pub(crate) bodies: Vec<String>,
    /// Whose book it is listed in.
    pub(crate) tenant: TenantId,
    /// The session it is listed in.
    pub(crate) session: SessionId,
    /// The wrapped key, with the first lines.
    pub(crate) key: Option<Blob>,
    /// The sealed contents; empty where there are none.
    pub(crate) contents: Blob,
    /// What it would do, where the last line asks a person.
    pub(crate) waits: Option<Vec<Effect>>,
    /// What begins and is still open at the end.
    pub(crate) begins: Option<Begins>,
    /// The call is settled with these lines.
    pub(crate) settles: bool,
    /// What a list shows of the call, where there is a book to list it.
    pub(crate) noted: Option<Noted>,
}

/// An attempt that begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Begins {
    /// The attempt.
    pub(crate) attempt: AttemptId,
    /// It runs alone in its session.
    pub(crate) exclusive: bool,
    /// The leave it rests on, with how often that may be used.
    pub(crate) leave: Option<(StandingApprovalId, Option<u32>)>,
}

impl From<byleave_gate::ledger::AttemptStart> for Begins {
    fn from(
        byleave_gate::ledger::AttemptStart { attempt, exclusive, standing_approval: leave }: byleave_gate::ledger::AttemptStart,
    ) -> Self {
        Self { attempt, exclusive, leave }
    }
}

impl From<Begins> for byleave_gate::ledger::AttemptStart {
    fn from(Begins { attempt, exclusive, leave }: Begins) -> Self {
        Self { attempt, exclusive, standing_approval: leave }
    }
}

/// What came of an append.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Appended {
    /// The lines are on the record.
    Taken,
    /// The record is not as long as it was taken to be, or ends otherwise.
    Stale,
    /// Everything is halted.
    Halted {
        /// Why.
        why: String,
    },
    /// The leave has no use left, or was revoked.
    LeaveSpent,
    /// Another call of the session runs alone.
    SessionBusy {
        /// Which.
        call: CallId,
        /// Its open attempt.
        attempt: AttemptId,
    },
    /// The batch is wrong in itself.
    Refused {
        /// Why.
        why: String,
    },
}

/// Where something of a call is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Found<T> {
    /// There was never such a call.
    Nowhere,
    /// In the engine.
    Here(T),
    /// The engine has given it up to the book.
    InBook,
}

/// A record as it lies in the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The wrapped key; absent where the contents were forgotten.
    pub(crate) key: Option<Blob>,
    /// The lines.
    pub(crate) bodies: Vec<String>,
    /// The link of the last line.
    pub(crate) head: Digest,
}

/// The contents of a record as they lie in the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// The wrapped key; absent where the contents were forgotten.
    pub(crate) key: Option<Blob>,
    /// What was sealed together, with the place of the lines that it came with.
    pub(crate) sealed: Vec<(u32, Blob)>,
}

/// An attempt whose owner is gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Interrupt {
    /// The ledger.
    pub(crate) ledger: String,
    /// Whose.
    pub(crate) call: CallId,
    /// Which.
    pub(crate) attempt: AttemptId,
    /// When that was found.
    pub(crate) at: Millis,
}

/// What a call owes the book.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Owed {
    /// The place of the first line.
    pub(crate) from: u32,
    /// The link of the line before it.
    pub(crate) before: Digest,
    /// The wrapped key, with the first lines of a record; absent where the contents were forgotten.
    pub(crate) key: Option<Blob>,
    /// The lines of each append, with the sealed contents that they came with.
    pub(crate) appends: Vec<(Vec<String>, Blob)>,
    /// Whose book it is listed in.
    pub(crate) tenant: TenantId,
    /// The session it is listed in.
    pub(crate) session: SessionId,
    /// The agent it is listed with.
    pub(crate) agent: String,
    /// What else a list shows of it.
    pub(crate) noted: Noted,
    /// The length and the last link of the record, where it is settled and ends with these lines.
    pub(crate) settles: Option<(u32, Digest)>,
}

impl Owed {
    /// The place after the last line.
    pub(crate) fn upto(&self) -> u32 {
        let lines: usize = self.appends.iter().map(|(bodies, _)| bodies.len()).sum();
        self.from.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX))
    }

    /// How large it is.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |(bodies, contents): &(Vec<String>, Blob)| {
            bodies.iter().map(String::len).sum::<usize>().saturating_add(contents.0.len())
        };
        self.appends.iter().map(bytes).sum()
    }
}

/// The book has lines of a call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Acknowledged {
    /// The place of the first.
    pub(crate) from: u32,
    /// The place after the last.
    pub(crate) upto: u32,
    /// The call is settled, and the book has given back all of its record.
    pub(crate) whole: bool,
}

/// A call owes the book lines.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Owing {
    /// Which.
    pub(crate) call: CallId,
    /// When the first of them was written.
    pub(crate) since: Millis,
}

/// How far the book is behind, by one lane.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Behind {
    /// So many calls and acts owe it something.
    pub(crate) waiting: u64,
    /// When the oldest of that was written.
    pub(crate) since: Option<Millis>,
    /// What it has refused, and why.
    pub(crate) refused: Vec<String>,
}

/// An act, for the tenant that it is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NewAct {
    /// The ledger.
    pub(crate) ledger: String,
    /// The act.
    pub(crate) act: AdminAction,
    /// There is a book that must have it.
    pub(crate) book: bool,
}

/// Who has come in, of one tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Looking {
    /// The tenant.
    pub(crate) tenant: TenantId,
    /// The sessions.
    pub(crate) sessions: Vec<SessionId>,
}

/// What stands for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Looked {
    /// The newest halt, where it has not been lifted.
    pub(crate) halt: Option<AdminAction>,
    /// Each session with those above it.
    pub(crate) lineages: Vec<Vec<SessionNode>>,
}

/// Whom a call holds up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hold {
    /// The session.
    pub(crate) session: SessionId,
    /// Which call.
    pub(crate) call: CallId,
    /// Those who come into conflict with this, about which a person was asked; nobody any more where it is absent.
    pub(crate) effects: Option<Vec<Effect>>,
}

/// Who wants to run alone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// Which call.
    pub(crate) call: CallId,
    /// Its attempt.
    pub(crate) attempt: AttemptId,
}

/// What wants to pass those who wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Passing {
    /// The session.
    pub(crate) session: SessionId,
    /// Which call.
    pub(crate) call: CallId,
    /// What it would do.
    pub(crate) effects: Vec<Effect>,
    /// The calls that do not hold it up. A gateway of an older version does not send them.
    #[serde(default)]
    pub(crate) passed_over: Vec<CallId>,
}

/// Uses of a leave.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Uses {
    /// How many.
    pub(crate) more: u32,
    /// How many there may be, as far as the asker knows.
    pub(crate) asked_max: Option<u32>,
}

/// A leave with where it is listed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Given {
    /// The key of the list.
    pub(crate) list: String,
    /// The leave.
    pub(crate) leave: StandingApproval,
}

/// Which calls are listed as unsettled.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Relist {
    /// Not any more.
    pub(crate) drop: Option<String>,
    /// From now on.
    pub(crate) add: Option<String>,
}

/// A call that begins something.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// The ledger.
    pub(crate) ledger: String,
    /// Whose call.
    pub(crate) tenant: TenantId,
    /// How it is listed from now on.
    pub(crate) relist: Relist,
}

/// Which of the unsettled calls are asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Due {
    /// Those that wait for a person no longer than until then.
    pub(crate) now: Millis,
    /// So many of the oldest.
    pub(crate) limit: usize,
}

/// Which call is meant.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct CallName {
    /// The call.
    pub(crate) call: CallId,
}

/// Who wants to be the gateway of a fleet, or to stay it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Candidate {
    /// Another for each process.
    pub(crate) id: Uuid,
    /// The same for all processes of one state directory, of which one runs at a time.
    pub(crate) place: Uuid,
    /// In whose place, where that one is known to be gone.
    pub(crate) over: Option<Holder>,
}

/// Who is the gateway of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Another for each process.
    pub(crate) id: Uuid,
    /// The same for all processes of one state directory.
    pub(crate) place: Uuid,
    /// Grows for as long as it is there.
    pub(crate) beat: u64,
}
