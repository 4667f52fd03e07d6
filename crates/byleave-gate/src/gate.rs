//! The one object that an application holds, and the only entry point for calls (E1).

mod admin;
mod answer_error;
mod build_result;
mod builder;
mod driver;
mod earlier_data;
mod execute;
mod explain;
mod in_flight;
mod inner;
mod ledger_snapshot;
mod observe;
mod open_session;
mod person_result;
mod policy_check;
mod preflight;
mod questions;
mod rehearse;
mod run_context;
mod scheduler;
mod session;
mod supervise;
mod task_outcome;
mod tasks;
mod telemetry;
mod truncate;
mod working_record;

use std::sync::Arc;
use std::time::Instant;

use byleave_core::call::Call;
use byleave_core::entry::RecordEvent;
use byleave_core::id::{CallId, QuestionId, SessionId, TenantId};
use byleave_core::pipeline::{NextStep, next_step};
use byleave_core::policy::Policy;
use byleave_core::question_view::QuestionView;
use byleave_core::refusal::Code;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::broadcast;
use tracing::{Instrument as _, Span};

pub use crate::gate::answer_error::AnswerError;
pub use crate::gate::questions::SubmittedAnswer;
pub use builder::{BuildError, GateBuilder};
pub use explain::Explanation;
pub use inner::{SkipCall, UnattendedCall};
pub use open_session::OpenSessionError;
pub(crate) use policy_check::predicted_stage;
pub use session::Session;

use crate::catalog::Catalog;
use crate::event::{CallEvents, GateEvent};
use crate::gate::driver::{DriveUntil, drive, unknown_call_result, unopened_result};
use crate::gate::in_flight::ActiveCall;
use crate::gate::inner::{GateInner, new_record_key};
use crate::gate::ledger_snapshot::LedgerSnapshot;
use crate::gate::scheduler::QueuedCall;
use crate::gate::working_record::WorkingRecord;
use crate::ledger::{AppendError, ContentError, IncomingCall, IncomingState, LedgerError};
use crate::result::{CallOutcome, CallResult, CallStatus};

/// A gate between agents and tools. Clones are cheap and share one gate.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<GateInner>,
}

impl Gate {
    /// Returns a builder for a gate.
    pub fn builder() -> GateBuilder {
        GateBuilder::default()
    }

    /// Returns a handle to make calls in this session: `gate.session("name").call("tool", json!({ .. })).await`.
    pub fn session(&self, name: impl Into<String>) -> Session {
        Session::new(self.clone(), name.into())
    }

    /// Returns the registered tools.
    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    /// Puts another policy in force. A call that was approved under a looser policy is refused when it would begin.
    pub fn set_policy(&self, policy: Policy) {
        self.inner.policy.store(Arc::new(policy));
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.policy.load_full()
    }

    /// Returns whether any reviewer reads results before they are released.
    pub fn has_output_reviewers(&self) -> bool {
        !self.inner.reviewers.has_no_output_reviewers()
    }

    /// Subscribes to progress and to every entry from now on. An entry is sent once it is durable.
    pub fn subscribe(&self) -> broadcast::Receiver<GateEvent> {
        self.inner.events.subscribe()
    }

    /// Subscribes to the events of one call, from now on.
    pub fn follow(&self, call: CallId) -> CallEvents {
        self.inner.events.follow(call)
    }

    /// Drives a call until it is settled, however long a person takes. Always returns a result (E1).
    pub async fn settle(&self, call: Call) -> CallResult {
        let id = call.id;
        // Held until the end, so that a cancellation finds this call between two drives too.
        let place = self.inner.in_flight.register(id);
        let (mut standing, mut len) = self.submit(call, DriveUntil::Settled).await;
        loop {
            if let CallStatus::Settled(result) = standing {
                return result;
            }
            let other = self.blocking_call(&standing).await;
            self.wait_for_change(&place, len, other).await;
            (standing, len) = self.continue_call(id, DriveUntil::Settled).await;
        }
    }

    /// Settles the calls of one turn. Concurrency-safe calls run concurrently, all others alone and in order (E4).
    ///
    /// Results are in the order of the calls. If a person aborts one call, all unsettled calls of the turn are stopped.
    pub async fn settle_all(&self, calls: Vec<Call>) -> Vec<CallResult> {
        // Enters all calls at once, so that a call that is stopped before it begins never begins.
        let all = self.inner.in_flight.register_turn(calls.iter().map(|call| call.id));
        // A call that is aborted in this process stops the others before it is settled. This covers calls that another process settled.
        let stop_others_if_aborted = |place: usize, result: &CallResult| {
            if result.outcome.refusal().is_some_and(|refusal| refusal.code == Code::Aborted)
                && let Some(aborted) = all.get(place)
            {
                aborted.stop_turn_siblings();
            }
        };
        let indexed = calls
            .into_iter()
            .enumerate()
            .map(|(place, call)| async move { (place, self.settle(call).await) });
        let mut running: FuturesUnordered<_> = FuturesUnordered::new();
        // Pushed in order and first polled in order. That fixes their order within the session.
        let mut places = Vec::new();
        for call in indexed {
            let mut call = Box::pin(call);
            match futures::poll!(&mut call) {
                std::task::Poll::Ready(done) => {
                    stop_others_if_aborted(done.0, &done.1);
                    places.push(done);
                }
                std::task::Poll::Pending => running.push(call),
            }
        }
        while let Some(done) = running.next().await {
            stop_others_if_aborted(done.0, &done.1);
            places.push(done);
        }
        places.sort_by_key(|(place, _)| *place);
        places.into_iter().map(|(_, result)| result).collect()
    }

    /// Settles a call from synchronous code (E8). It may be called from any thread.
    pub fn settle_blocking(&self, call: Call) -> CallResult {
        let (id, tool) = (call.id, call.tool.clone());
        let gate = self.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(gate.settle(call)))
        });
        let why = match thread.join() {
            Ok(Ok(result)) => return result,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the thread that ran the call panicked".into(),
        };
        let refusal = byleave_core::refusal::Refusal::new(Code::EndNotRecorded, why);
        build_result::bare_result(id, Some(&tool), CallOutcome::Unknown(refusal))
    }

    /// Drives a call as far as possible now: until it is settled, waits for a person, or is blocked by another call.
    ///
    /// A waiting call uses no resources. [`Gate::answer`] and [`Gate::resume`] continue it, in any process and at any time.
    pub async fn advance(&self, call: Call) -> CallStatus {
        self.submit(call, DriveUntil::Settled).await.0
    }

    /// Accepts a call without driving it. On success its receipt is durable, and any process can drive it with [`Gate::resume`].
    ///
    /// It serves callers that must report acceptance to a client before the call is settled. The error is the refusal of a call that
    /// could not be recorded.
    pub async fn accept(&self, call: &Call) -> Result<(), Box<CallResult>> {
        let mut desk = self.open_record(call).await?;
        if desk.is_durable() {
            return Ok(());
        }
        match self.flush(&mut desk).await {
            Ok(()) => Ok(()),
            // Another writer was first, with the same call or with another.
            Err(AppendError::Stale) => self.open_record(call).await.map(drop),
            Err(fault) => Err(Box::new(unopened_result(call, Code::NotRecorded, fault.to_string()))),
        }
    }

    /// Continues a call that is already recorded.
    pub async fn resume(&self, call: CallId) -> CallStatus {
        self.continue_call(call, DriveUntil::Settled).await.0
    }

    /// Drives a call as [`Gate::advance`] does, but never begins it. If only that is left, it returns [`CallStatus::Ready`].
    ///
    /// By then the call is evaluated, reviewed, rehearsed, asked about and answered, and all of this is durable. [`Gate::resume`] begins
    /// the call in any process, after the same last check as for every call.
    pub async fn prepare(&self, call: Call) -> CallStatus {
        self.submit(call, DriveUntil::Ready).await.0
    }

    /// Continues a call that is already recorded, but never begins it.
    pub async fn prepare_existing(&self, call: CallId) -> CallStatus {
        self.continue_call(call, DriveUntil::Ready).await.0
    }

    /// Waits until an unsettled call may continue: its record has grown, or it is time to check again.
    ///
    /// It serves callers that do not let [`Gate::settle`] wait. [`Gate::resume`] then returns the status.
    pub async fn wait_for_progress(&self, standing: &CallStatus) {
        if matches!(standing, CallStatus::Settled(_)) {
            return;
        }
        let other = self.blocking_call(standing).await;
        let place = self.inner.in_flight.register(standing.call());
        self.wait_for_change(&place, place.seen_len(), other).await;
    }

    /// Continues every recorded call that can be driven: answered, expired, interrupted or unfinished.
    pub async fn resume_all(&self) -> Result<Vec<CallStatus>, LedgerError> {
        let mut standings = Vec::new();
        let mut seen = std::collections::HashSet::new();
        loop {
            let calls = self.inner.ledger.resumable_calls(self.inner.now(), 1_000).await?;
            let fresh: Vec<CallId> = calls.into_iter().filter(|call| seen.insert(*call)).collect();
            if fresh.is_empty() {
                return Ok(standings);
            }
            for call in fresh {
                standings.push(self.resume(call).await);
            }
        }
    }

    /// Sets the challenger of later calls, in place of an earlier one.
    pub fn set_challenger(&self, challenger: impl crate::challenge::Challenger) {
        *self.inner.challenger.write() = Some(Arc::new(challenger));
    }

    /// Submits an answer to an open question. Returns its call, which can then be resumed.
    pub async fn answer(&self, given: SubmittedAnswer) -> Result<CallId, AnswerError> {
        let call = questions::call_for_question(&self.inner, given.question).await?;
        // Another writer may append between the read and the write. In that case, try again.
        for _ in 0..3 {
            let mut desk =
                self.load_record(call).await?.ok_or(AnswerError::UnknownQuestion(given.question))?;
            let asked = desk.record.question(given.question).cloned();
            let asked = asked.ok_or(AnswerError::UnknownQuestion(given.question))?;
            if given.digest != asked.digest() {
                return Err(AnswerError::Mismatch);
            }
            if desk.record.header().is_some_and(|heading| questions::is_caller(heading, &given.approver.name))
            {
                return Err(AnswerError::SelfAnswer);
            }
            questions::check_release(&asked, &given)?;
            let declined =
                questions::decline_entry(&self.inner, &mut desk, &asked, &given.reply, &given.approver.name)
                    .await;
            let remembered = questions::remembered_hosts(&self.inner, &mut desk, &asked, &given.reply).await;
            let reply = (given.reply.clone(), remembered);
            let events = questions::answer_events(&mut desk, &asked, reply, given.approver.clone())?;
            for event in events {
                desk.append_event(self.inner.now(), event)?;
            }
            match self.flush(&mut desk).await {
                Ok(()) => {
                    declined
                        .into_iter()
                        .for_each(|(what, why)| self.inner.in_flight.declined().put(what, why));
                    return Ok(call);
                }
                Err(AppendError::Stale) => {}
                Err(fault) => return Err(AnswerError::NotRecorded(fault.to_string())),
            }
        }
        Err(AnswerError::QuestionClosed)
    }

    /// Returns everything that a person must see to answer an open question, with unredacted contents.
    pub async fn question_view(&self, question: QuestionId) -> Result<QuestionView, AnswerError> {
        let call = questions::call_for_question(&self.inner, question).await?;
        let mut desk = self.load_record(call).await?.ok_or(AnswerError::UnknownQuestion(question))?;
        let NextStep::Wait(open) = next_step(&desk.record) else { return Err(AnswerError::QuestionClosed) };
        if open.id != question {
            return Err(AnswerError::QuestionClosed);
        }
        questions::question_view(&self.inner, &mut desk, &open)
            .await
            .map_err(|fault: ContentError| AnswerError::InvalidAnswer(fault.to_string()))
    }

    /// Cancels a call. A running call is stopped and a waiting call is refused. A settled call does not change.
    pub async fn cancel(&self, call: CallId, by: &str) -> Result<(), LedgerError> {
        if let Some(driving) = self.inner.in_flight.find(call) {
            driving.stop(by);
            return Ok(());
        }
        for _ in 0..3 {
            let Some(mut desk) = self.load_record(call).await? else { return Ok(()) };
            if desk.append_event(self.inner.now(), RecordEvent::Cancelled { actor: by.to_owned() }).is_err() {
                return Ok(());
            }
            match self.flush(&mut desk).await {
                Ok(()) => {
                    self.resume(call).await;
                    return Ok(());
                }
                Err(AppendError::Stale) => {}
                Err(fault) => return Err(LedgerError::new("cannot cancel the call", fault)),
            }
        }
        Err(LedgerError::new("cannot cancel the call", "other writers keep appending to its record"))
    }

    async fn submit(&self, call: Call, until: DriveUntil) -> (CallStatus, u32) {
        let span = telemetry::call_span(&call);
        let driving = self.inner.in_flight.register(call.id);
        let stood = async {
            let _wheel = driving.drive_lock.lock().await;
            // Queues the call before any lookup, so that calls keep their order however long a lookup takes.
            let mut spot = self.queued_call(&call.tenant, &call.session, &call.tool);
            spot.enqueue().await;
            match self.open_record(&call).await {
                Ok(mut desk) => self.wait_and_drive(&mut desk, &driving, (spot, until), &span).await,
                Err(result) => (CallStatus::Settled(*result), 0),
            }
        };
        let stood = stood.instrument(span.clone()).await;
        self.resume_orphans();
        stood
    }

    async fn continue_call(&self, call: CallId, until: DriveUntil) -> (CallStatus, u32) {
        let span = telemetry::resumed_span(call);
        let driving = self.inner.in_flight.register(call);
        let stood = async {
            let _wheel = driving.drive_lock.lock().await;
            match self.load_record(call).await {
                // A gate with another catalog does not know the tool. If it reported the tool as gone, it would settle a call that another
                // process can run.
                Ok(Some(desk)) if self.is_skipped(&desk) => {
                    (CallStatus::RunningElsewhere { call }, desk.durable_len())
                }
                Ok(Some(mut desk)) => match desk.record.header() {
                    Some(heading) => {
                        let spot = self.queued_call(&heading.tenant, &heading.session, &heading.tool);
                        self.wait_and_drive(&mut desk, &driving, (spot, until), &span).await
                    }
                    None => (CallStatus::Settled(unknown_call_result(call)), 0),
                },
                Ok(None) => (CallStatus::Settled(unknown_call_result(call)), 0),
                Err(fault) => {
                    let refusal =
                        byleave_core::refusal::Refusal::new(Code::EndNotRecorded, fault.to_string());
                    (
                        CallStatus::Settled(build_result::bare_result(
                            call,
                            None,
                            CallOutcome::Unknown(refusal),
                        )),
                        0,
                    )
                }
            }
        };
        stood.instrument(span.clone()).await
    }

    /// Returns whether this gate must not drive an unsettled call: others drive it, or its tool was never registered here.
    fn is_skipped(&self, desk: &WorkingRecord) -> bool {
        // Any gate can record that a call was refused or is over.
        match next_step(&desk.record) {
            NextStep::Settle(_) => return false,
            NextStep::Wait(question) if question.expires_at <= self.inner.now() => return false,
            NextStep::Wait(_) | NextStep::Do(_) => {}
        }
        let known =
            |terms: &byleave_core::entry::ResolvedTool| self.inner.catalog.was_ever_registered(&terms.tool);
        let left = self.inner.skip_calls.as_ref().zip(desk.record.header());
        left.is_some_and(|(others, heading)| others(heading))
            || desk.resolved_tool().is_some_and(|terms| !known(terms))
    }

    /// Opens the record of an incoming call: a new record, or the existing record of the same call.
    async fn open_record(&self, call: &Call) -> Result<WorkingRecord, Box<CallResult>> {
        let refuse = |code, why: String| Err(Box::new(unopened_result(call, code, why)));
        let stirs = self.inner.in_flight.epoch();
        let tool = self.inner.catalog.get(&call.tool);
        let tool = tool.as_ref().map_or(call.tool.as_str(), |entry| entry.name());
        let (tenant, session, now) = (&call.tenant, &call.session, self.inner.now());
        let arrival = self
            .inner
            .ledger
            .lookup_incoming(IncomingCall { call: call.id, tenant, session, tool, now })
            .await;
        let IncomingState { record: loaded, lineage, session_context: around } = match arrival {
            Ok(arrival) => arrival,
            Err(fault) => return refuse(Code::NotRecorded, fault.to_string()),
        };
        let at = Instant::now();
        let desk = loaded.map(|loaded| WorkingRecord::from_record(loaded.record, loaded.key));
        let mut desk = match desk {
            Some(desk) => match desk.is_same_call(call) {
                Some(true) => desk,
                Some(false) => {
                    return refuse(
                        Code::CallReused,
                        format!("the id {} was already used for another call", call.id),
                    );
                }
                None => return refuse(Code::Forgotten, "the contents of this call were forgotten".into()),
            },
            None => {
                let key = match new_record_key() {
                    Ok(key) => key,
                    Err(error) => {
                        return refuse(
                            Code::NotRecorded,
                            format!("cannot create a record key: no random numbers: {error}"),
                        );
                    }
                };
                match WorkingRecord::new(call, lineage, key, now) {
                    Ok(desk) => desk,
                    Err(misplaced) => return refuse(Code::RecordBroken, misplaced.to_string()),
                }
            }
        };
        desk.snapshot = around.map(|around| LedgerSnapshot { session_context: around, at, epoch: stirs });
        Ok(desk)
    }

    async fn load_record(&self, call: CallId) -> Result<Option<WorkingRecord>, LedgerError> {
        let loaded = self.inner.ledger.load(call).await?;
        Ok(loaded.map(|loaded| WorkingRecord::from_record(loaded.record, loaded.key)))
    }

    fn queued_call(&self, tenant: &TenantId, session: &SessionId, tool: &str) -> QueuedCall {
        let alone = self.inner.settings.max_concurrent <= 1;
        let safe = self.inner.catalog.get(tool).is_ok_and(|tool| tool.manifest().concurrency_safe);
        self.inner.scheduler.queued_call(tenant, session, safe && !alone)
    }

    /// Waits for the call's turn in its session, and drives it.
    async fn wait_and_drive(
        &self,
        desk: &mut WorkingRecord,
        driving: &ActiveCall,
        (mut spot, until): (QueuedCall, DriveUntil),
        span: &Span,
    ) -> (CallStatus, u32) {
        // A call that needs no driving needs no turn. A waiting question must not block other calls.
        if matches!(next_step(&desk.record), NextStep::Wait(_) | NextStep::Settle(_)) {
            spot.release();
        } else {
            tokio::select! {
                biased;
                () = spot.wait_for_turn() => {}
                () = driving.cancel.cancelled() => {}
            }
        }
        let started = self.inner.now();
        let standing = drive(&self.inner, desk, driving, &mut spot, until).await;
        drop(spot);
        telemetry::record_status(span, &standing, &desk.record, self.inner.now().saturating_sub(started));
        (standing, desk.durable_len())
    }

    async fn flush(&self, desk: &mut WorkingRecord) -> Result<(), AppendError> {
        let first = desk.durable_len();
        desk.flush(&*self.inner.ledger).await?;
        self.inner.in_flight.bump_epoch();
        driver::emit_entries(&self.inner, desk, first).await;
        Ok(())
    }

    /// Waits until this record or the blocking call's record grows, the call is cancelled, or the poll interval has passed.
    async fn wait_for_change(&self, driving: &ActiveCall, len: u32, other: Option<CallId>) {
        // A cancellation that was already handled must not end the wait.
        let is_running = !driving.cancel.is_cancelled();
        let theirs = other.map(|other| self.inner.in_flight.register(other));
        let other_grows = async {
            match &theirs {
                Some(theirs) => theirs.wait_for_growth().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.inner.wait_poll_interval() => {}
            () = driving.cancel.cancelled(), if is_running => {}
            () = driving.wait_longer_than(len) => {}
            () = other_grows => {}
        }
    }

    /// Returns the call that blocks this one, if there is one, and continues that call if nobody drives it.
    async fn blocking_call(&self, standing: &CallStatus) -> Option<CallId> {
        match standing {
            CallStatus::Blocked { blocked_by: by, .. } => {
                self.resume_blocking_call(*by).await;
                Some(*by)
            }
            CallStatus::Settled(_)
            | CallStatus::Waiting { .. }
            | CallStatus::RunningElsewhere { .. }
            | CallStatus::Ready { .. } => None,
        }
    }

    /// Continues a call that blocks another one, if it has a task to perform and nobody drives it here.
    async fn resume_blocking_call(&self, call: CallId) {
        let is_driven = self.inner.in_flight.find(call).is_some();
        if !is_driven
            && let Ok(Some(desk)) = self.load_record(call).await
            && matches!(next_step(&desk.record), NextStep::Do(_))
        {
            self.continue_call(call, DriveUntil::Settled).await;
        }
    }

    /// Continues calls of dead processes that blocked other calls.
    fn resume_orphans(&self) {
        while let Some(orphan) = self.inner.in_flight.take_orphan() {
            let gate = self.clone();
            tokio::spawn(async move {
                gate.continue_call(orphan, DriveUntil::Settled).await;
            });
        }
    }
}
