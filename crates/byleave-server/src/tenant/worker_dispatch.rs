//! Calls that workers execute. This server accepts, answers and shows them, and must never run any part of them.

use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::call::Call;
use byleave_gate::core::id::CallId;
use byleave_gate::core::pipeline::{NextStep, Task, next_step};
use byleave_gate::ledger::Interruption;
use byleave_gate::result::CallStatus;
use byleave_worker::{CallAssignment, DispatchOutcome, WorkerRegistry};
use tokio::sync::broadcast::error::RecvError;

use super::Tenant;

/// Returns the properties by which a worker is chosen for a call.
pub(super) fn to_job(call: &Call) -> CallAssignment<'_> {
    CallAssignment {
        call: call.id,
        tenant: &call.tenant,
        session: &call.session,
        tool: &call.tool,
        dir: &call.cwd,
    }
}

impl Tenant {
    /// Accepts a call for one of the workers.
    pub(super) async fn accept_for_workers(&self, crew: &WorkerRegistry, call: &Call) -> CallStatus {
        match self.gate.accept(call).await {
            Ok(()) => self.drive_by_workers(crew, call.id).await,
            Err(result) => CallStatus::Settled(*result),
        }
    }

    /// Has a worker drive a call as far as possible.
    pub(super) async fn drive_by_workers(&self, crew: &WorkerRegistry, id: CallId) -> CallStatus {
        let mut seen_len = None;
        loop {
            // The gate reports unreadable and settled calls. It drives no call that is for workers.
            let Ok(Some(record)) = self.record(id).await else { return self.gate.prepare_existing(id).await };
            let Some(heading) = record.header().filter(|_| record.outcome().is_none()) else {
                return self.gate.prepare_existing(id).await;
            };
            let next = next_step(&record);
            if let NextStep::Wait(question) = &next
                && SystemClock.now() < question.expires_at
            {
                return CallStatus::Waiting { call: id, question: question.clone() };
            }
            if seen_len.replace(record.len()) == Some(record.len()) {
                return CallStatus::RunningElsewhere { call: id };
            }
            let terms = record.resolved_tool().and_then(|terms| terms.as_ref().ok());
            let job = CallAssignment {
                call: id,
                tenant: &heading.tenant,
                session: &heading.session,
                tool: terms.map_or(&heading.tool, |terms| &terms.tool),
                dir: &heading.cwd,
            };
            match (crew.drive(job).await, next) {
                (DispatchOutcome::Driven { blocked_by: Some(by) }, _) => {
                    return CallStatus::Blocked { call: id, blocked_by: by };
                }
                (DispatchOutcome::Driven { blocked_by: None }, _) => {}
                // Only the end remains to be recorded: the call is settled, or its question was not answered in time.
                (_, NextStep::Settle(_) | NextStep::Wait(_)) => return self.gate.prepare_existing(id).await,
                // The worker that ran it may be gone for good. The gate then records that, and runs nothing.
                (_, NextStep::Do(Task::Execute { attempt, .. })) => {
                    let now = SystemClock.now();
                    if !matches!(self.ledger.interrupt(id, attempt, now).await, Ok(Interruption::Recorded)) {
                        return CallStatus::RunningElsewhere { call: id };
                    }
                }
                (drove, NextStep::Do(_)) => {
                    tracing::debug!(call = %id, ?drove, "no worker executes the call yet");
                    return CallStatus::RunningElsewhere { call: id };
                }
            }
        }
    }

    /// Listens to entries of workers, and to new workers.
    pub(super) async fn watch_workers(&self) {
        let Some(crew) = &self.workers else { return std::future::pending().await };
        let mut written = crew.subscribe();
        loop {
            tokio::select! {
                heard = written.recv() => match heard {
                    Ok(call) => self.watchers.notify(call),
                    Err(RecvError::Lagged(_)) => self.watchers.notify_all(),
                    Err(RecvError::Closed) => return std::future::pending().await,
                },
                () = crew.wait_for_worker() => self.wake.notify_one(),
            }
        }
    }
}
