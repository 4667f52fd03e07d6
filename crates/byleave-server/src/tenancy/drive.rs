//! Driving calls on: in tasks of our own, each call in one at a time.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use byleave::clock::{Clock as _, SystemClock};
use byleave::core::call::Call;
use byleave::core::digest::Digest;
use byleave::core::id::{AgentId, CallId};
use byleave::core::walk::{Next, next};
use byleave::ledger::LedgerFault;
use byleave::result::Standing;
use byleave::review::Opinion;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::crew::job_of;
use super::{Driven, Tenancy};
use crate::own_tools::is_own;

/// How long a call that stands behind others is left alone.
const BEHIND: Duration = Duration::from_secs(1);

/// How long the end of a call is waited for that needs only to be written or read, though its client waits for nothing.
const ENDING: Duration = Duration::from_secs(5);

/// How far a call has come, as a client sees it.
#[derive(Clone, Debug)]
pub(crate) enum Stood {
    /// As the gate says.
    At(Box<Standing>),
    /// It is being driven here.
    Running,
}

/// Why a call was not taken up.
#[derive(Debug)]
pub(crate) enum Unstarted {
    /// Too many are driven.
    Busy,
    /// The same id is in use for another call.
    Other,
    /// The ledger broke.
    Fault(LedgerFault),
    /// There is no such call.
    Missing,
    /// The task that drove it broke.
    Broke,
}

impl From<LedgerFault> for Unstarted {
    fn from(fault: LedgerFault) -> Self {
        Self::Fault(fault)
    }
}

/// What a call carries, in a digest.
fn body_of(call: &Call) -> Digest {
    let parts = serde_json::to_vec(call).unwrap_or_default();
    Digest::of_parts("byleave.server.body", &[&parts])
}

impl Tenancy {
    /// Takes a call in and drives it, with what its maker's own reviewer said of the arguments.
    pub(crate) fn submit(
        self: &Arc<Self>,
        call: Call,
        said: Option<Opinion<Value>>,
    ) -> Result<(), Unstarted> {
        let (id, came) = (call.id, (body_of(&call), call.agent.clone()));
        self.start(id, Some(came), move |tenancy| async move { tenancy.taken_in(call, said).await })
    }

    /// Drives a call on that is in the book.
    pub(crate) fn go_on(self: &Arc<Self>, id: CallId) -> Result<(), Unstarted> {
        self.start(id, None, move |tenancy| async move { tenancy.resumed(id).await })
    }

    /// Whether a call would be taken up soon. One that is known is not new, and is not turned away.
    pub(crate) async fn has_room(&self, call: &Call) -> Result<bool, LedgerFault> {
        let is_full = self.room.available_permits() == 0
            || self.crew.as_ref().is_some_and(|crew| !is_own(&call.tool) && crew.is_crowded(&job_of(call)));
        Ok(!is_full || self.is_driven(call.id) || self.record(call.id).await?.is_some())
    }

    fn driven_now(&self, id: CallId) -> Option<watch::Receiver<Option<Standing>>> {
        let driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        driven.get(&id).map(|driven| driven.stood.clone())
    }

    /// Who made a call that is driven here; it may not be in the book yet.
    pub(crate) fn made_by(&self, id: CallId) -> Option<AgentId> {
        let driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        driven.get(&id).and_then(|driven| driven.came.as_ref()).map(|(_, agent)| agent.clone())
    }

    pub(crate) fn is_driven(&self, id: CallId) -> bool {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&id)
    }

    pub(super) fn start<F>(
        self: &Arc<Self>,
        id: CallId,
        came: Option<(Digest, AgentId)>,
        work: impl FnOnce(Arc<Self>) -> F + Send + 'static,
    ) -> Result<(), Unstarted>
    where
        F: Future<Output = Standing> + Send,
    {
        let mut driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        // What is driven on from the book was looked up by nobody here: the gate then says whether this is the same call.
        if let Some(known) = driven.get(&id).filter(|known| known.came.is_some() || came.is_none()) {
            return match (&known.came, &came) {
                (Some(theirs), Some(ours)) if theirs != ours => Err(Unstarted::Other),
                _ => Ok(()),
            };
        }
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else { return Err(Unstarted::Busy) };
        let (tell, stood) = watch::channel(None);
        let task = Uuid::now_v7();
        driven.insert(id, Driven { task, came, stood });
        drop(driven);
        let tenancy = Arc::clone(self);
        let mut working = Working { tenancy: Arc::clone(self), id, task, moved: true };
        self.tasks.spawn(async move {
            let standing = work(tenancy).await;
            working.moved = matches!(standing, Standing::Settled(_) | Standing::Waiting { .. });
            // First of all: who hears of it may make the next call at once, and must find room.
            drop(place);
            tell.send_replace(Some(standing));
            drop(working);
        });
        Ok(())
    }

    /// How a call stands, which is waited for until then at most. What can be driven on is.
    pub(crate) async fn stands(self: &Arc<Self>, id: CallId, until: Instant) -> Result<Stood, Unstarted> {
        let mut followed = None;
        loop {
            let stood = self.look(id, until).await?;
            let is_final = match &stood {
                Stood::Running => true,
                Stood::At(standing) => {
                    matches!(**standing, Standing::Settled(_) | Standing::Ready { .. })
                }
            };
            if is_final || Instant::now() >= until {
                return Ok(stood);
            }
            // Most calls are settled at the first look. Whoever begins to follow one looks once more before they wait.
            let Some((_, grown)) = &mut followed else {
                let look = self.looks.of(id);
                let grown = look.grown();
                followed = Some((look, grown));
                continue;
            };
            tokio::select! {
                changed = grown.changed() => drop(changed),
                () = tokio::time::sleep_until(until.min(Instant::now() + BEHIND)) => {}
            }
        }
    }

    /// How a call stands once it waits for a person or is settled; nothing where that takes longer, or cannot be seen.
    pub(crate) async fn until_asked_or_settled(
        self: &Arc<Self>,
        id: CallId,
        until: Instant,
    ) -> Option<Stood> {
        match self.look(id, until).await {
            Ok(stood @ Stood::At(_)) => Some(stood),
            Ok(Stood::Running) | Err(_) => None,
        }
    }

    async fn look(self: &Arc<Self>, id: CallId, mut until: Instant) -> Result<Stood, Unstarted> {
        let mut is_ending = false;
        loop {
            let driven = self.driven_until(id, until).await;
            let is_running = matches!(driven, Some(Ok(Stood::Running)));
            if let Some(stood) = driven
                && (is_ending || !is_running)
            {
                return stood;
            }
            let Some(record) = self.record(id).await? else {
                return if is_running { Ok(Stood::Running) } else { Err(Unstarted::Missing) };
            };
            match next(&record) {
                Next::Wait(question) if SystemClock.now() < question.expires_at => {
                    return Ok(Stood::At(Box::new(Standing::Waiting { call: id, question })));
                }
                Next::Settle(_) if !is_ending => {
                    is_ending = true;
                    until = until.max(Instant::now() + ENDING);
                }
                _ if is_running => return Ok(Stood::Running),
                Next::Wait(_) | Next::Do(_) | Next::Settle(_) => {}
            }
            self.go_on(id)?;
        }
    }

    /// How a call stands that is driven here, when that is known, and at the latest then; nothing where nobody drives it.
    async fn driven_until(&self, id: CallId, until: Instant) -> Option<Result<Stood, Unstarted>> {
        let mut stood = self.driven_now(id)?;
        Some(match tokio::time::timeout_at(until, stood.wait_for(Option::is_some)).await {
            Err(_) => Ok(Stood::Running),
            Ok(Ok(standing)) => {
                (*standing).clone().map(|standing| Stood::At(Box::new(standing))).ok_or(Unstarted::Broke)
            }
            Ok(Err(_)) => Err(Unstarted::Broke),
        })
    }
}

/// A call being driven; forgotten when it no longer is, however that ends.
struct Working {
    tenancy: Arc<Tenancy>,
    id: CallId,
    task: Uuid,
    /// It did not merely stand back, so others may go on.
    moved: bool,
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut driven = self.tenancy.driven.lock().unwrap_or_else(PoisonError::into_inner);
        if driven.get(&self.id).is_some_and(|known| known.task == self.task) {
            driven.remove(&self.id);
        }
        drop(driven);
        if self.moved {
            self.tenancy.wake.notify_one();
            self.tenancy.looks.stir(self.id);
        }
    }
}
