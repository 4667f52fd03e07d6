//! Calls that workers drive. Here they come in, are answered and are looked at; nothing of them ever runs here.

use byleave::clock::{Clock as _, SystemClock};
use byleave::core::call::Call;
use byleave::core::id::CallId;
use byleave::core::pipeline::{NextStep, Task, next};
use byleave::ledger::Interruption;
use byleave::result::CallStatus;
use byleave_worker::{CallAssignment, DispatchOutcome, WorkerRegistry};
use tokio::sync::broadcast::error::RecvError;

use super::Tenant;

/// A call as workers are chosen for it.
pub(super) fn job_of(call: &Call) -> CallAssignment<'_> {
    CallAssignment {
        call: call.id,
        tenant: &call.tenant,
        session: &call.session,
        tool: &call.tool,
        dir: &call.cwd,
    }
}

impl Tenant {
    /// Takes a call in, for whoever of the crew drives it.
    pub(super) async fn taken_in_for(&self, crew: &WorkerRegistry, call: &Call) -> CallStatus {
        match self.gate.take_in(call).await {
            Ok(()) => self.driven_by(crew, call.id).await,
            Err(result) => CallStatus::Settled(*result),
        }
    }

    /// Has a call driven to where it stands.
    pub(super) async fn driven_by(&self, crew: &WorkerRegistry, id: CallId) -> CallStatus {
        let mut seen_len = None;
        loop {
            // What cannot be seen, or is over, the gate says in its own words. It drives nothing that is for workers.
            let Ok(Some(record)) = self.record(id).await else { return self.gate.prepare_again(id).await };
            let Some(heading) = record.heading().filter(|_| record.settled().is_none()) else {
                return self.gate.prepare_again(id).await;
            };
            let next = next(&record);
            if let NextStep::Wait(question) = &next
                && SystemClock.now() < question.expires_at
            {
                return CallStatus::Waiting { call: id, question: question.clone() };
            }
            if seen_len.replace(record.len()) == Some(record.len()) {
                return CallStatus::RunningElsewhere { call: id };
            }
            let terms = record.resolved().and_then(|terms| terms.as_ref().ok());
            let job = CallAssignment {
                call: id,
                tenant: &heading.tenant,
                session: &heading.session,
                tool: terms.map_or(&heading.tool, |terms| &terms.tool),
                dir: &heading.cwd,
            };
            match (crew.drive(job).await, next) {
                (DispatchOutcome::Stood { held_up_by: Some(by) }, _) => {
                    return CallStatus::HeldUp { call: id, by };
                }
                (DispatchOutcome::Stood { held_up_by: None }, _) => {}
                // Nothing is left to be done but to say so: that it is over, or that nobody answered in time.
                (_, NextStep::Settle(_) | NextStep::Wait(_)) => return self.gate.prepare_again(id).await,
                // Who ran it may be gone for good. If so it is written down, which runs nothing.
                (_, NextStep::Do(Task::Execute { attempt, .. })) => {
                    let now = SystemClock.now();
                    if !matches!(self.ledger.interrupt(id, attempt, now).await, Ok(Interruption::Written)) {
                        return CallStatus::RunningElsewhere { call: id };
                    }
                }
                (drove, NextStep::Do(_)) => {
                    tracing::debug!(call = %id, ?drove, "nobody drives a call yet");
                    return CallStatus::RunningElsewhere { call: id };
                }
            }
        }
    }

    /// Hears what workers write, and who comes.
    pub(super) async fn hear_crew(&self) {
        let Some(crew) = &self.crew else { return std::future::pending().await };
        let mut written = crew.subscribe();
        loop {
            tokio::select! {
                heard = written.recv() => match heard {
                    Ok(call) => self.looks.stir(call),
                    Err(RecvError::Lagged(_)) => self.looks.stir_all(),
                    Err(RecvError::Closed) => return std::future::pending().await,
                },
                () = crew.until_someone_comes() => self.wake.notify_one(),
            }
        }
    }
}
