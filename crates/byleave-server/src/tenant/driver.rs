//! Drives calls in tasks of this server, each call in one task at a time.

use std::sync::Arc;
use std::time::Duration;

use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::call::Call;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::{AgentId, CallId};
use byleave_gate::core::pipeline::{NextStep, next_step};
use byleave_gate::ledger::LedgerError;
use byleave_gate::result::CallStatus;
use byleave_gate::review::Opinion;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::worker_dispatch::to_job;
use super::{DrivenCall, Tenant};
use crate::client_tools::is_client_tool;

/// How long a blocked call is left alone.
const BEHIND: Duration = Duration::from_secs(1);

/// How long to wait for the end of a call that only needs a read or write, even if its client does not wait.
const ENDING: Duration = Duration::from_secs(5);

/// The status of a call as a client sees it.
#[derive(Clone, Debug)]
pub(crate) enum ClientCallStatus {
    /// The status from the gate.
    Status(Box<CallStatus>),
    /// The call is being driven here.
    Running,
}

/// The reason why a call was not started.
#[derive(Debug)]
pub(crate) enum StartError {
    /// Too many calls are driven.
    Busy,
    /// The same id is in use for another call.
    IdReused,
    /// The ledger failed.
    Ledger(LedgerError),
    /// There is no such call.
    Missing,
    /// The task that drove it failed.
    TaskFailed,
}

impl From<LedgerError> for StartError {
    fn from(fault: LedgerError) -> Self {
        Self::Ledger(fault)
    }
}

/// Returns the digest of a call's body.
fn body_of(call: &Call) -> Digest {
    let parts = serde_json::to_vec(call).unwrap_or_default();
    Digest::compute_parts("byleave.server.body", &[&parts])
}

impl Tenant {
    /// Accepts a call and drives it, with the opinion of its client's own reviewer about the arguments.
    pub(crate) fn submit(
        self: &Arc<Self>,
        call: Call,
        said: Option<Opinion<Value>>,
    ) -> Result<(), StartError> {
        let (id, came) = (call.id, (body_of(&call), call.agent.clone()));
        self.start(id, Some(came), move |tenancy| async move { tenancy.accept_call(call, said).await })
    }

    /// Continues a call that is in the audit log.
    pub(crate) fn resume_call(self: &Arc<Self>, id: CallId) -> Result<(), StartError> {
        self.start(id, None, move |tenancy| async move { tenancy.resume(id).await })
    }

    /// Checks whether a call would start soon. A known call is not new, and is not rejected.
    pub(crate) async fn has_room(&self, call: &Call) -> Result<bool, LedgerError> {
        let is_full = self.room.available_permits() == 0
            || self
                .workers
                .as_ref()
                .is_some_and(|crew| !is_client_tool(&call.tool) && crew.has_too_many_waiters(&to_job(call)));
        Ok(!is_full || self.is_driven(call.id) || self.record(call.id).await?.is_some())
    }

    fn driven_now(&self, id: CallId) -> Option<watch::Receiver<Option<CallStatus>>> {
        let driven = self.driven.lock();
        driven.get(&id).map(|driven| driven.stood.clone())
    }

    /// Returns the agent of a call that is driven here. The call may not be in the audit log yet.
    pub(crate) fn caller_of(&self, id: CallId) -> Option<AgentId> {
        let driven = self.driven.lock();
        driven.get(&id).and_then(|driven| driven.came.as_ref()).map(|(_, agent)| agent.clone())
    }

    pub(crate) fn is_driven(&self, id: CallId) -> bool {
        self.driven.lock().contains_key(&id)
    }

    pub(super) fn start<F>(
        self: &Arc<Self>,
        id: CallId,
        came: Option<(Digest, AgentId)>,
        work: impl FnOnce(Arc<Self>) -> F + Send + 'static,
    ) -> Result<(), StartError>
    where
        F: Future<Output = CallStatus> + Send,
    {
        let mut driven = self.driven.lock();
        // For a call that is continued from the audit log, its body is unknown here. The gate then decides whether this is
        // the same call.
        if let Some(known) = driven.get(&id).filter(|known| known.came.is_some() || came.is_none()) {
            return match (&known.came, &came) {
                (Some(theirs), Some(ours)) if theirs != ours => Err(StartError::IdReused),
                _ => Ok(()),
            };
        }
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else { return Err(StartError::Busy) };
        let (tell, stood) = watch::channel(None);
        let task = Uuid::now_v7();
        driven.insert(id, DrivenCall { task, came, stood });
        drop(driven);
        let tenancy = Arc::clone(self);
        let mut working = DriveGuard { tenancy: Arc::clone(self), id, task, moved: true };
        self.tasks.spawn(async move {
            let standing = work(tenancy).await;
            working.moved = matches!(standing, CallStatus::Settled(_) | CallStatus::Waiting { .. });
            // Released first: a client that learns the outcome may make the next call immediately, and must find room.
            drop(place);
            tell.send_replace(Some(standing));
            drop(working);
        });
        Ok(())
    }

    /// Returns the status of a call, and waits for it at most until this time. Continues the call if possible.
    pub(crate) async fn wait_for_status(
        self: &Arc<Self>,
        id: CallId,
        until: Instant,
    ) -> Result<ClientCallStatus, StartError> {
        let mut followed = None;
        loop {
            let stood = self.look(id, until).await?;
            let is_final = match &stood {
                ClientCallStatus::Running => true,
                ClientCallStatus::Status(standing) => {
                    matches!(**standing, CallStatus::Settled(_) | CallStatus::Ready { .. })
                }
            };
            if is_final || Instant::now() >= until {
                return Ok(stood);
            }
            // Most calls are settled at the first check. A new follower checks once more before it waits.
            let Some((_, grown)) = &mut followed else {
                let look = self.watchers.watch(id);
                let grown = look.subscribe();
                followed = Some((look, grown));
                continue;
            };
            tokio::select! {
                changed = grown.changed() => drop(changed),
                () = tokio::time::sleep_until(until.min(Instant::now() + BEHIND)) => {}
            }
        }
    }

    /// Returns the status of a call once it waits for a person or is settled; `None` if that takes longer or cannot be read.
    pub(crate) async fn wait_for_question_or_result(
        self: &Arc<Self>,
        id: CallId,
        until: Instant,
    ) -> Option<ClientCallStatus> {
        match self.look(id, until).await {
            Ok(stood @ ClientCallStatus::Status(_)) => Some(stood),
            Ok(ClientCallStatus::Running) | Err(_) => None,
        }
    }

    async fn look(self: &Arc<Self>, id: CallId, mut until: Instant) -> Result<ClientCallStatus, StartError> {
        let mut is_ending = false;
        loop {
            let driven = self.driven_until(id, until).await;
            let is_running = matches!(driven, Some(Ok(ClientCallStatus::Running)));
            if let Some(stood) = driven
                && (is_ending || !is_running)
            {
                return stood;
            }
            let Some(record) = self.record(id).await? else {
                return if is_running { Ok(ClientCallStatus::Running) } else { Err(StartError::Missing) };
            };
            match next_step(&record) {
                NextStep::Wait(question) if SystemClock.now() < question.expires_at => {
                    return Ok(ClientCallStatus::Status(Box::new(CallStatus::Waiting {
                        call: id,
                        question,
                    })));
                }
                NextStep::Settle(_) if !is_ending => {
                    is_ending = true;
                    until = until.max(Instant::now() + ENDING);
                }
                _ if is_running => return Ok(ClientCallStatus::Running),
                NextStep::Wait(_) | NextStep::Do(_) | NextStep::Settle(_) => {}
            }
            self.resume_call(id)?;
        }
    }

    /// Waits for the status of a call that is driven here, at most until this time; `None` if it is not driven.
    async fn driven_until(&self, id: CallId, until: Instant) -> Option<Result<ClientCallStatus, StartError>> {
        let mut stood = self.driven_now(id)?;
        Some(match tokio::time::timeout_at(until, stood.wait_for(Option::is_some)).await {
            Err(_) => Ok(ClientCallStatus::Running),
            Ok(Ok(standing)) => (*standing)
                .clone()
                .map(|standing| ClientCallStatus::Status(Box::new(standing)))
                .ok_or(StartError::TaskFailed),
            Ok(Err(_)) => Err(StartError::TaskFailed),
        })
    }
}

/// Marks a call as driven, until it is dropped on any path.
struct DriveGuard {
    tenancy: Arc<Tenant>,
    id: CallId,
    task: Uuid,
    /// Whether the call did more than wait behind others, so that other calls may continue.
    moved: bool,
}

impl Drop for DriveGuard {
    fn drop(&mut self) {
        let mut driven = self.tenancy.driven.lock();
        if driven.get(&self.id).is_some_and(|known| known.task == self.task) {
            driven.remove(&self.id);
        }
        drop(driven);
        if self.moved {
            self.tenancy.wake.notify_one();
            self.tenancy.watchers.notify(self.id);
        }
    }
}
