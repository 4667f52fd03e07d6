//! The loop that drives a call. It performs the next task and records the result, waits, or settles the call.

use std::time::Duration;

use byleave_core::call::Call;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::id::CallId;
use byleave_core::outcome::Outcome;
use byleave_core::pipeline::{NextStep, RECORD_VERSION, Task, must_persist_before, next_step};
use byleave_core::question::Question;
use byleave_core::refusal::{Code, Refusal};

use crate::event::GateEvent;
use crate::gate::in_flight::ActiveCall;
use crate::gate::inner::GateInner;
use crate::gate::preflight::{approval_used_up_refusal, halted_refusal};
use crate::gate::questions;
use crate::gate::scheduler::QueuedCall;
use crate::gate::task_outcome::TaskOutcome;
use crate::gate::tasks::perform;
use crate::gate::working_record::WorkingRecord;
use crate::gate::{build_result, rehearse};
use crate::ledger::{AppendError, Interruption, LedgerError, StartBlockedError};
use crate::result::{CallOutcome, CallResult, CallStatus};

/// The number of retries to record the end of a call that ran, if the ledger fails.
const END_RETRIES: u32 = 6;

/// How far a call may be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriveUntil {
    /// Until it is settled.
    Settled,
    /// Until only the begin of the attempt is left.
    Ready,
}

/// Drives a call as far as possible: until it is settled, waits for a person, or is blocked by another call.
///
/// This is the only loop of the pipeline. All of its state is on the record. Steps that are not durable yet can be repeated.
pub(crate) async fn drive(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    driving: &ActiveCall,
    spot: &mut QueuedCall,
    until: DriveUntil,
) -> CallStatus {
    loop {
        let step = match next_step(&desk.record) {
            NextStep::Do(Task::Start(_))
                if until == DriveUntil::Ready && driving.cancelled_by().is_none() =>
            {
                stop_when_ready(parts, desk).await
            }
            NextStep::Do(task) => perform_step(parts, desk, driving, task).await,
            NextStep::Wait(question) => wait_for_answer(parts, desk, driving, spot, question).await,
            NextStep::Settle(outcome) => settle(parts, desk, outcome).await,
        };
        match step {
            Ok(()) => {}
            Err(DriveExit::Status(standing)) => return *standing,
            Err(DriveExit::Ledger(fault)) => return CallStatus::Settled(unrecorded_result(desk, &fault)),
        }
    }
}

/// The reason why the loop ends.
enum DriveExit {
    Status(Box<CallStatus>),
    Ledger(LedgerError),
}

impl From<CallStatus> for DriveExit {
    fn from(standing: CallStatus) -> Self {
        Self::Status(Box::new(standing))
    }
}

async fn perform_step(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    driving: &ActiveCall,
    task: Task,
) -> Result<(), DriveExit> {
    let (runs, runs_here) = match &task {
        Task::Execute { attempt, .. } => (true, desk.claimed_attempt == Some(*attempt)),
        _ => (false, false),
    };
    if let Some(by) = driving.cancelled_by()
        && !runs_here
        && desk.record.cancelled_by().is_none()
    {
        append_event(parts, desk, RecordEvent::Cancelled { actor: by })?;
        // The process that runs the attempt finds the cancellation on the record.
        return if runs { flush(parts, desk).await.map(|_| ()) } else { Ok(()) };
    }
    if must_persist_before(&desk.record, &task) && !desk.is_durable() && !flush(parts, desk).await? {
        return Ok(());
    }
    match perform(parts, desk, task).await {
        TaskOutcome::Event(fact) => append_event(parts, desk, fact),
        TaskOutcome::Retry => reload(parts, desk).await,
        TaskOutcome::RunningElsewhere => Err(CallStatus::RunningElsewhere { call: desk.call() }.into()),
        TaskOutcome::Blocked(by) => {
            // Only the receipt stays on the record. The call goes through the pipeline again when its turn comes.
            desk.rewind_to_received();
            flush(parts, desk).await?;
            Err(CallStatus::Blocked { call: desk.call(), blocked_by: by }.into())
        }
    }
}

/// Stops before the begin of the attempt, which is left to another process. Everything that process needs must be durable.
async fn stop_when_ready(parts: &GateInner, desk: &mut WorkingRecord) -> Result<(), DriveExit> {
    if !desk.is_durable() && !flush(parts, desk).await? {
        return Ok(());
    }
    Err(CallStatus::Ready { call: desk.call() }.into())
}

async fn wait_for_answer(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    driving: &ActiveCall,
    spot: &mut QueuedCall,
    question: Question,
) -> Result<(), DriveExit> {
    if !flush(parts, desk).await? {
        return Ok(());
    }
    if parts.now() >= question.expires_at {
        return append_event(parts, desk, RecordEvent::Expired { question: question.id });
    }
    if let Some(by) = driving.cancelled_by() {
        return append_event(parts, desk, RecordEvent::Cancelled { actor: by });
    }
    // While a person decides, only calls that conflict with this one wait.
    spot.release();
    let (call, len) = (desk.call(), desk.durable_len());
    let closing = tokio::select! {
        biased;
        () = driving.cancel.cancelled() => return Ok(()),
        closing = questions::ask(parts, desk, &question) => Some(closing),
        () = wait_for_growth(parts, driving, call, len) => None,
    };
    match closing {
        None => reload(parts, desk).await?,
        Some(None) => return Err(CallStatus::Waiting { call: desk.call(), question }.into()),
        Some(Some(events)) => {
            events.into_iter().try_for_each(|event| append_event(parts, desk, event))?;
            // An answer is made durable before it is used. If another writer was faster, that answer is used.
            flush(parts, desk).await?;
        }
    }
    // A call that does not run needs no turn. It must not wait behind calls that an abort would stop.
    if matches!(next_step(&desk.record), NextStep::Do(_)) && desk.record.person_result().is_none() {
        tokio::select! {
            biased;
            () = spot.wait_for_turn() => {}
            () = driving.cancel.cancelled() => {}
        }
    }
    Ok(())
}

/// Waits until the record has grown, in this process or in another.
async fn wait_for_growth(parts: &GateInner, driving: &ActiveCall, call: CallId, len: u32) {
    loop {
        tokio::select! {
            () = driving.wait_longer_than(len) => return,
            () = parts.wait_poll_interval() => {}
        }
        if let Ok(Some(loaded)) = parts.ledger.load(call).await
            && loaded.record.len() > len
        {
            return;
        }
    }
}

async fn settle(parts: &GateInner, desk: &mut WorkingRecord, outcome: Outcome) -> Result<(), DriveExit> {
    // Records of another pipeline version are left to a program that knows that version.
    let ours = desk.record.header().is_some_and(|heading| heading.record_version == RECORD_VERSION);
    if ours && desk.record.outcome().is_none() && desk.record.damage().is_none() {
        // Must happen before the call is settled, because a call that waits for this one begins right after that.
        if outcome.refusal().is_some_and(|refusal| refusal.code == Code::Aborted)
            && let Some(driving) = parts.in_flight.find(desk.call())
        {
            driving.stop_turn_siblings();
        }
        append_event(parts, desk, RecordEvent::Settled(outcome.clone()))?;
        if !flush(parts, desk).await? {
            return Ok(());
        }
        questions::remember_decline(parts, desk).await;
    }
    rehearse::drop_copy(parts, desk).await;
    Err(CallStatus::Settled(build_result::build_result(parts, desk, &outcome).await).into())
}

fn append_event(parts: &GateInner, desk: &mut WorkingRecord, fact: RecordEvent) -> Result<(), DriveExit> {
    let kind = fact.kind();
    desk.append_event(parts.now(), fact).map_err(|misplaced| {
        DriveExit::Ledger(LedgerError::new(format!("cannot append `{kind}` to the record"), misplaced))
    })
}

/// Makes everything durable. Returns `false` if that failed and the pipeline must evaluate the record again.
async fn flush(parts: &GateInner, desk: &mut WorkingRecord) -> Result<bool, DriveExit> {
    let first = desk.durable_len();
    let stirs = !desk.affects_only_this_call();
    let mut tries = 0;
    loop {
        match desk.flush(&*parts.ledger).await {
            Ok(()) => {
                if stirs {
                    parts.in_flight.bump_epoch();
                }
                emit_entries(parts, desk, first).await;
                return Ok(true);
            }
            // Another writer appended first. The end of an attempt that ran here is appended after it. All other steps are repeated.
            Err(AppendError::Stale) => {
                reload(parts, desk).await?;
                return Ok(false);
            }
            Err(AppendError::StartBlocked(hindrance)) => {
                handle_blocked_start(parts, desk, hindrance).await?;
                return Ok(false);
            }
            // The end of an attempt that ran must be recorded, so the append is retried.
            Err(AppendError::Ledger(fault)) if desk.has_unrecorded_run && tries < END_RETRIES => {
                tries += 1;
                tracing::warn!(call = %desk.call(), %fault, "cannot record the end of a call; retrying");
                tokio::time::sleep((parts.settings.poll_interval / 10).saturating_mul(1 << tries)).await;
            }
            Err(AppendError::Ledger(fault)) => return Err(DriveExit::Ledger(fault)),
        }
    }
}

async fn reload(parts: &GateInner, desk: &mut WorkingRecord) -> Result<(), DriveExit> {
    match parts.ledger.load(desk.call()).await {
        Ok(Some(loaded)) if desk.is_same_record(&loaded) => {
            desk.rebase_on(loaded);
            Ok(())
        }
        Ok(Some(_)) => Err(CallStatus::Settled(reused_result(desk)).into()),
        Ok(None) => {
            desk.rewind();
            Ok(())
        }
        Err(fault) => Err(DriveExit::Ledger(fault)),
    }
}

/// Handles an attempt that may not begin now: records a refusal, or steps back and tries again.
async fn handle_blocked_start(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    hindrance: StartBlockedError,
) -> Result<(), DriveExit> {
    let refusal = match hindrance {
        StartBlockedError::Halted { why } => halted_refusal(&why),
        StartBlockedError::ApprovalUsedUp => {
            // No durable step depends on the standing approval yet, so the plan is evaluated again without it.
            if desk.durable_len() <= 1 {
                desk.rewind_to_received();
                return Ok(());
            }
            approval_used_up_refusal()
        }
        StartBlockedError::SessionBusy { call, attempt } => {
            match parts.ledger.interrupt(call, attempt, parts.now()).await {
                Ok(Interruption::OwnerAlive) => tokio::time::sleep(Duration::from_millis(2)).await,
                Ok(Interruption::Recorded) => parts.in_flight.add_orphan(call),
                Ok(Interruption::NotOpen) => {}
                Err(fault) => return Err(DriveExit::Ledger(fault)),
            }
            // The call is planned again with the other call's changes, unless a person has already seen the plan.
            if desk.durable_len() <= 1 {
                desk.rewind_to_received();
            } else {
                desk.withdraw_claim();
            }
            return Ok(());
        }
    };
    desk.withdraw_claim();
    append_event(parts, desk, RecordEvent::Started(Err(refusal)))
}

/// Notifies waiters and subscribers of the entries that are now durable.
pub(crate) async fn emit_entries(parts: &GateInner, desk: &mut WorkingRecord, first: u32) {
    parts.in_flight.notify(desk.call(), desk.durable_len());
    if !parts.events.has_listeners() {
        return;
    }
    let entries: Vec<Entry> = desk.record.entries().iter().skip(first as usize).cloned().collect();
    let facts: Vec<RecordEvent> = entries.iter().map(|entry| entry.event.clone()).collect();
    let call = desk.call();
    let events =
        (first..).zip(entries).map(|(seq, entry)| GateEvent::Entry { call, seq, entry: entry.into() });
    parts.events.emit(events);
    if let Some(event) = questions::approval_event(parts, desk, &facts).await {
        parts.events.emit([event]);
    }
}

/// Builds the result after a ledger failure: refused if nothing has run, otherwise unknown. It is never completed.
fn unrecorded_result(desk: &WorkingRecord, fault: &LedgerError) -> CallResult {
    tracing::error!(call = %desk.call(), %fault, "cannot record a call");
    let ending = if desk.may_have_run() {
        CallOutcome::Unknown(Refusal::new(
            Code::EndNotRecorded,
            format!("the call ran, but its end could not be recorded: {fault}"),
        ))
    } else {
        CallOutcome::Refused(Refusal::new(
            Code::NotRecorded,
            format!("the call could not be recorded, so it did not run: {fault}"),
        ))
    };
    build_result::bare_result(desk.call(), desk.record.header().map(|heading| heading.tool.as_str()), ending)
}

/// Builds the result for a call whose id was already used for another call.
fn reused_result(desk: &WorkingRecord) -> CallResult {
    let refusal =
        Refusal::new(Code::CallReused, format!("the id {} was already used for another call", desk.call()));
    let tool = desk.record.header().map(|heading| heading.tool.as_str());
    build_result::bare_result(desk.call(), tool, CallOutcome::Refused(refusal))
}

/// Builds the result for a call that was never recorded.
pub(crate) fn unopened_result(call: &Call, code: Code, why: String) -> CallResult {
    build_result::bare_result(call.id, Some(&call.tool), CallOutcome::Refused(Refusal::new(code, why)))
}

/// Builds the result for a call that has no record.
pub(crate) fn unknown_call_result(call: CallId) -> CallResult {
    let refusal = Refusal::new(Code::NotRecorded, format!("there is no call {call} in the audit log"));
    build_result::bare_result(call, None, CallOutcome::Refused(refusal))
}
