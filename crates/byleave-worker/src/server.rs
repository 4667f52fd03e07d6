//! Answers the requests of one worker, on the store of this server.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::effect::Plan;
use byleave_core::entry::RecordEvent;
use byleave_core::id::CallId;
use byleave_core::record::Record;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::ledger::{AppendError, Batch, IncomingCall, Ledger, LedgerError, LoadedRecord, invariants};
use lru::LruCache;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::assignment::{Capabilities, OfferedCall};
use crate::permissions::{Permissions, not_allowed_error};
use crate::protocol::{
    Disconnected, Frame, FrameChannel, LedgerRequest, LedgerResponseError, PROTOCOL_VERSION, WireAppend,
    WireIncomingState, WireInterruption, WireRecord, WorkerHello, silence_timeout,
};
use crate::registry::{RegistrationGuard, WorkerRegistry};

/// How long a worker may take to identify itself.
const HELLO: Duration = Duration::from_secs(10);
/// The number of requests of one worker that are handled at once. Further ones wait in the connection.
const AT_ONCE: usize = 64;
/// The number of calls that are remembered as visible to the worker.
const SEEN_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);
/// The number of records that are cached: more than a worker usually executes at once.
const RECORDS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);
/// How far the clock of a worker may be ahead.
const SKEW_MS: Millis = 60_000;

/// Answers a worker until its connection breaks.
pub async fn serve_worker(roster: &WorkerRegistry, rights: Permissions, mut wire: FrameChannel) {
    let hello = tokio::time::timeout(HELLO, wire.receiver.recv()).await;
    let said = hello.ok().flatten().and_then(|text| serde_json::from_str(&text).ok());
    let Some(Frame::Hello(WorkerHello { protocol, owner, capabilities: skills, is_draining: is_leaving })) =
        said
    else {
        return turn_away(&wire, "the first message of a worker must be `hello`").await;
    };
    if protocol != PROTOCOL_VERSION {
        let why = format!(
            "the worker uses protocol {protocol} and the server {PROTOCOL_VERSION}; install the same version on both"
        );
        return turn_away(&wire, &why).await;
    }
    if let Some(why) = skills.as_ref().and_then(Capabilities::problem) {
        return turn_away(&wire, why).await;
    }
    if let (Some(skills), Some(dir)) = (&skills, roster.dir())
        && skills.dir != dir
    {
        let why = format!(
            "the calls of this server work in `{dir}`, but this worker runs in `{}`; start the worker in the directory of the server",
            skills.dir
        );
        return turn_away(&wire, &why).await;
    }
    let (present, offers) = match roster.register((owner, skills), &rights) {
        Ok(entered) => entered,
        Err(fault) => return turn_away(&wire, &fault.to_string()).await,
    };
    if is_leaving {
        present.set_draining();
    }
    let lease_ms = u64::try_from(roster.lease().as_millis()).unwrap_or(u64::MAX);
    if wire.send_frame(&Frame::Welcome { lease_ms, server_id: roster.id() }).await.is_err() {
        return;
    }
    let (seen, records) = (LruCache::new(SEEN_MAX), LruCache::new(RECORDS_MAX));
    let desk =
        Arc::new(WorkerSession { present, rights, seen: Mutex::new(seen), records: Mutex::new(records) });
    let patience = silence_timeout(roster.lease());
    if let Err(Disconnected) = converse(&desk, wire, offers, patience).await {
        tracing::debug!(%owner, "the connection of a worker broke");
    }
}

async fn turn_away(wire: &FrameChannel, why: &str) {
    tracing::warn!(why, "rejected a worker");
    // The worker may be gone already.
    wire.send_frame(&Frame::Rejected { reason: why.to_owned() }).await.unwrap_or_default();
}

async fn converse(
    desk: &Arc<WorkerSession>,
    mut wire: FrameChannel,
    mut offers: mpsc::Receiver<OfferedCall>,
    patience: Duration,
) -> Result<(), Disconnected> {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    // The calls that were offered over this connection. They are dropped with it.
    let mut offered: HashMap<CallId, oneshot::Sender<Option<CallId>>> = HashMap::new();
    let mut heard_at = Instant::now();
    loop {
        let text = tokio::select! {
            text = wire.receiver.recv() => text.ok_or(Disconnected)?,
            // Measured from the last received message, whatever was sent meanwhile.
            () = tokio::time::sleep_until(heard_at + patience) => return Err(Disconnected),
            Some(OfferedCall { call, on_driven: stood }) = offers.recv() => {
                desk.present.note_offered(call);
                offered.insert(call, stood);
                wire.send_frame(&Frame::Offer { call }).await?;
                continue;
            }
        };
        heard_at = Instant::now();
        match serde_json::from_str(&text) {
            Ok(Frame::Request { id, request: ask }) => {
                let place = Arc::clone(&room).acquire_owned().await.map_err(|_| Disconnected)?;
                let (desk, say) = (Arc::clone(desk), wire.sender.clone());
                // Completed even if the connection breaks, because an aborted request could have half an effect.
                tokio::spawn(async move {
                    let told = if ask.has_effect() {
                        desk.present.answers.get_or_compute(id, || desk.answer(ask)).await
                    } else {
                        desk.answer(ask).await
                    };
                    tell(&say, id, told).await;
                    drop(place);
                });
            }
            Ok(Frame::Driven { call, blocked_by: held_up_by }) => {
                if let Some(stood) = offered.remove(&call) {
                    // The waiter may be gone.
                    stood.send(held_up_by).unwrap_or_default();
                }
            }
            Ok(Frame::Draining) => desk.present.set_draining(),
            Ok(beat @ Frame::Heartbeat { .. }) => {
                if desk.present.is_sole_registry() {
                    wire.send_frame(&beat).await?;
                }
            }
            Ok(_) | Err(_) => {
                tracing::warn!("unexpected message from a worker");
                return Err(Disconnected);
            }
        }
    }
}

async fn tell(say: &mpsc::Sender<String>, id: u64, told: Result<Value, LedgerResponseError>) {
    match serde_json::to_string(&Frame::Response { id, result: told }) {
        // The worker repeats its request if it does not receive this.
        Ok(text) => say.send(text).await.unwrap_or_default(),
        Err(error) => tracing::error!(%error, "cannot encode a response"),
    }
}

/// The session of one worker.
struct WorkerSession {
    present: RegistrationGuard,
    rights: Permissions,
    /// The calls that it may see.
    seen: Mutex<LruCache<CallId, ()>>,
    /// Cached records. If the last chain digest of a record matches, the record need not be read again to check an append.
    records: Mutex<LruCache<CallId, Record>>,
}

impl WorkerSession {
    fn ledger(&self) -> &dyn Ledger {
        &*self.present.ledger
    }

    async fn answer(&self, ask: LedgerRequest) -> Result<Value, LedgerResponseError> {
        let ledger = self.ledger();
        match ask {
            LedgerRequest::Load { call } => {
                let loaded = self.load(call).await?;
                said(&loaded.as_ref().map(WireRecord::from_loaded).transpose()?)
            }
            LedgerRequest::LookupIncoming { call, tenant, session, tool, now } => {
                self.rights.check_tenant(&tenant)?;
                let comer = IncomingCall { call, tenant: &tenant, session: &session, tool: &tool, now };
                let arrival = ledger.lookup_incoming(comer).await?;
                if let Some(loaded) = &arrival.record {
                    self.note(call, loaded)?;
                }
                said(&WireIncomingState::from_arrival(arrival)?)
            }
            LedgerRequest::Append(append) => self.append(*append).await,
            LedgerRequest::Content { call, content_ref: held } => {
                self.may_see(call).await?;
                said(&crate::protocol::Base64Bytes(ledger.content(call, held).await?))
            }
            LedgerRequest::Interrupt { call, attempt, at } => {
                self.may_see(call).await?;
                let interrupted = ledger.interrupt(call, attempt, at).await?;
                self.present.notify_written(call);
                said(&WireInterruption::from(interrupted))
            }
            LedgerRequest::RecordAdminAction(act) => {
                let act = self.rights.check_admin_action(*act)?;
                said(&ledger.record_admin_action(act).await?)
            }
            LedgerRequest::ActiveHalt { tenant } => {
                self.rights.check_tenant(&tenant)?;
                said(&ledger.active_halt(&tenant).await?)
            }
            LedgerRequest::Lineage { tenant, session } => {
                self.rights.check_tenant(&tenant)?;
                said(&ledger.lineage(&tenant, &session).await?)
            }
            LedgerRequest::StandingApprovals { tenant, tool, now } => {
                self.rights.check_tenant(&tenant)?;
                let leaves = ledger.standing_approvals(&tenant, &tool, now).await?;
                said(&leaves.iter().map(|leave| &**leave).collect::<Vec<_>>())
            }
            LedgerRequest::CallForQuestion { question } => {
                let call = ledger.call_for_question(question).await?;
                match call {
                    Some(call) if self.may_see(call).await.is_err() => said(&None::<CallId>),
                    call => said(&call),
                }
            }
            LedgerRequest::BlockingCall { tenant, session, call, effects, passed_over } => {
                self.rights.check_tenant(&tenant)?;
                let plan = Plan { effects, ..Plan::default() };
                said(&ledger.blocking_call(&tenant, &session, call, &plan, &passed_over).await?)
            }
            LedgerRequest::LatestCompletedCall { tenant, session, tool } => {
                self.rights.check_tenant(&tenant)?;
                said(&ledger.latest_completed_call(&tenant, &session, &tool).await?)
            }
            LedgerRequest::ResumableCalls { now, limit } => {
                self.rights.check_may_list()?;
                said(&ledger.resumable_calls(now, limit).await?)
            }
        }
    }

    async fn append(&self, append: WireAppend) -> Result<Value, LedgerResponseError> {
        let (call, batch) = (append.call, append.into_batch()?);
        self.rights.check_append(&batch)?;
        let grown = match self.rights {
            Permissions::All => None,
            Permissions::Worker { .. } => Some(self.may_write(&batch).await?),
        };
        match self.ledger().append(batch).await {
            Ok(()) => {
                if let Some(record) = grown.filter(|record| record.outcome().is_none()) {
                    self.records.lock().put(call, record);
                }
                self.remember(call);
                self.present.notify_written(call);
                said(&())
            }
            Err(AppendError::Stale) => Err(LedgerResponseError::Stale),
            Err(AppendError::StartBlocked(hindrance)) => Err(hindrance.into()),
            Err(AppendError::Ledger(fault)) => Err(fault.into()),
        }
    }

    /// Checks whether a worker may write this batch. It must have been offered the call or have claimed it, and the record
    /// must admit the entries. It must not end an attempt of another owner, or a question before its time. Returns the record
    /// as it is then.
    async fn may_write(&self, batch: &Batch) -> Result<Record, LedgerResponseError> {
        let is_before =
            |record: &Record| (record.len(), record.head()) == (batch.expected_len, batch.prev_link);
        let known = self.records.lock().pop(&batch.call);
        let mut record = match known.filter(is_before) {
            Some(record) => record,
            None => {
                let loaded = self.load(batch.call).await?.map(|loaded| loaded.record);
                loaded.filter(is_before).ok_or(LedgerResponseError::Stale)?
            }
        };
        let is_mine = |record: &Record| {
            invariants::open_attempt(record).is_some_and(|(_, owner)| owner == self.present.owner)
        };
        if !is_mine(&record) && !self.present.was_offered(batch.call) {
            return Err(not_allowed_error("write to a call that was not offered to it").into());
        }
        for entry in &batch.entries {
            match &entry.event {
                RecordEvent::Ended { .. } if !is_mine(&record) => {
                    return Err(not_allowed_error("end an attempt of another worker").into());
                }
                // Clocks differ a little.
                RecordEvent::Expired { question } => {
                    let until =
                        record.question(*question).map_or(Millis::MAX, |question| question.expires_at);
                    if until > SystemClock.now().saturating_add(SKEW_MS) {
                        return Err(not_allowed_error("expire a question early").into());
                    }
                }
                _ => {}
            }
            let misplaced = |why| LedgerError::new("cannot append to this record", why);
            record.push(entry.clone()).map_err(misplaced)?;
        }
        Ok(record)
    }

    async fn load(&self, call: CallId) -> Result<Option<LoadedRecord>, LedgerError> {
        let loaded = self.ledger().load(call).await?;
        if let Some(loaded) = &loaded {
            self.note(call, loaded)?;
        }
        Ok(loaded)
    }

    /// Checks whether the worker may see a call. It may look up a call that does not exist.
    async fn may_see(&self, call: CallId) -> Result<(), LedgerError> {
        if self.rights == Permissions::All {
            return Ok(());
        }
        if self.seen.lock().get(&call).is_some() {
            return Ok(());
        }
        self.load(call).await.map(|_| ())
    }

    fn note(&self, call: CallId, loaded: &LoadedRecord) -> Result<(), LedgerError> {
        match loaded.record.header() {
            Some(heading) => self.rights.check_tenant(&heading.tenant)?,
            // The tenant of such a call is unknown.
            None if self.rights != Permissions::All => {
                return Err(LedgerError::new("cannot show a call", "the record has no first entry"));
            }
            None => return Ok(()),
        }
        self.remember(call);
        Ok(())
    }

    fn remember(&self, call: CallId) {
        self.seen.lock().put(call, ());
    }
}

fn said(value: &impl Serialize) -> Result<Value, LedgerResponseError> {
    serde_json::to_value(value).map_err(|error| LedgerError::new("cannot encode a response", error).into())
}
