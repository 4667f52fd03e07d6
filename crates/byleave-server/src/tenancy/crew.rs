//! Calls that workers drive. Here they come in, are answered and are looked at; nothing of them ever runs here.

use byleave::clock::{Clock as _, SystemClock};
use byleave::core::call::Call;
use byleave::core::id::CallId;
use byleave::core::walk::{Next, Task, next};
use byleave::ledger::Interruption;
use byleave::result::Standing;
use byleave_worker::{Drove, Job, Roster};
use tokio::sync::broadcast::error::RecvError;

use super::Tenancy;

/// A call as workers are chosen for it.
pub(super) fn job_of(call: &Call) -> Job<'_> {
    Job { call: call.id, tenant: &call.tenant, session: &call.session, tool: &call.tool, dir: &call.cwd }
}

impl Tenancy {
    /// Takes a call in, for whoever of the crew drives it.
    pub(super) async fn taken_in_for(&self, crew: &Roster, call: &Call) -> Standing {
        match self.gate.take_in(call).await {
            Ok(()) => self.driven_by(crew, call.id).await,
            Err(result) => Standing::Settled(*result),
        }
    }

    /// Has a call driven to where it stands.
    pub(super) async fn driven_by(&self, crew: &Roster, id: CallId) -> Standing {
        let mut seen_len = None;
        loop {
            // What cannot be seen, or is over, the gate says in its own words. It drives nothing that is for workers.
            let Ok(Some(record)) = self.record(id).await else { return self.gate.prepare_again(id).await };
            let Some(heading) = record.heading().filter(|_| record.settled().is_none()) else {
                return self.gate.prepare_again(id).await;
            };
            let next = next(&record);
            if let Next::Wait(question) = &next
                && SystemClock.now() < question.expires_at
            {
                return Standing::Waiting { call: id, question: question.clone() };
            }
            if seen_len.replace(record.len()) == Some(record.len()) {
                return Standing::RunningElsewhere { call: id };
            }
            let terms = record.resolved().and_then(|terms| terms.as_ref().ok());
            let job = Job {
                call: id,
                tenant: &heading.tenant,
                session: &heading.session,
                tool: terms.map_or(&heading.tool, |terms| &terms.tool),
                dir: &heading.cwd,
            };
            match (crew.drive(job).await, next) {
                (Drove::Stood { held_up_by: Some(by) }, _) => return Standing::HeldUp { call: id, by },
                (Drove::Stood { held_up_by: None }, _) => {}
                // Nothing is left to be done but to say so: that it is over, or that nobody answered in time.
                (_, Next::Settle(_) | Next::Wait(_)) => return self.gate.prepare_again(id).await,
                // Who ran it may be gone for good. If so it is written down, which runs nothing.
                (_, Next::Do(Task::Execute { attempt, .. })) => {
                    let now = SystemClock.now();
                    if !matches!(self.ledger.interrupt(id, attempt, now).await, Ok(Interruption::Written)) {
                        return Standing::RunningElsewhere { call: id };
                    }
                }
                (drove, Next::Do(_)) => {
                    tracing::debug!(call = %id, ?drove, "nobody drives a call yet");
                    return Standing::RunningElsewhere { call: id };
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
