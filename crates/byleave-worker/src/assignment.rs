//! The capabilities that workers declare, and the choice of the worker for a call.
//!
//! A session stays with one worker, because its files are on that worker's disk. The choice depends on the workers' names
//! alone, so that every server makes the same one. A worker that comes or goes moves only its own sessions. A worker that is
//! away for less than its lease keeps its sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use byleave_core::digest::Digest;
use byleave_core::id::{CallId, OwnerId, SessionId, TenantId};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// The maximum number of calls that a worker may declare to execute at once.
pub const MAX_CAPACITY: u32 = 1_024;

/// The maximum number of calls that wait for room at one worker. Further calls wait in the audit log and block no other call.
const WAITING_MAX: usize = 64;
const TOOLS_MAX: usize = 4_096;
const LABELS_MAX: usize = 64;

/// The capabilities that a worker declares when it connects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Its tools.
    pub tools: BTreeSet<String>,
    /// The number of calls that it executes at once.
    pub capacity: u32,
    /// The directory that its calls work in.
    pub dir: String,
    /// Labels that help people to distinguish workers.
    pub labels: BTreeSet<String>,
}

impl Capabilities {
    /// Returns the reason why these capabilities are invalid, if they are.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let long = |texts: &BTreeSet<String>, most: usize| texts.iter().any(|text| text.len() > most);
        match self {
            _ if self.tools.len() > TOOLS_MAX || long(&self.tools, 128) => {
                Some("the worker has too many tools, or tool names that are too long")
            }
            _ if self.labels.len() > LABELS_MAX || long(&self.labels, 64) => {
                Some("the worker has too many labels, or labels that are too long")
            }
            _ if self.dir.len() > 4_096 => Some("the directory of the worker is too long"),
            _ if !(1..=MAX_CAPACITY).contains(&self.capacity) => {
                Some("the capacity of a worker must be 1 to 1,024 calls")
            }
            _ => None,
        }
    }
}

/// A call that needs a worker.
#[derive(Clone, Copy, Debug)]
pub struct CallAssignment<'a> {
    /// The id of the call.
    pub call: CallId,
    /// The tenant of the call.
    pub tenant: &'a TenantId,
    /// The session, which stays with one worker.
    pub session: &'a SessionId,
    /// The tool that the worker should have.
    pub tool: &'a str,
    /// The directory that the worker must work in.
    pub dir: &'a str,
}

/// The outcome of an attempt to have a worker execute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchOutcome {
    /// The call was driven as far as possible.
    Driven {
        /// The call that blocks it, if one does.
        blocked_by: Option<CallId>,
    },
    /// No connected worker works in that directory.
    NoWorker,
    /// The call's worker is away, disconnected meanwhile, or has too many calls. The call may be tried again.
    WorkerUnavailable,
}

/// A worker as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// The worker's name.
    pub name: String,
    /// The owner id under which it writes claims.
    pub owner: OwnerId,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Whether it accepts no new calls.
    pub is_draining: bool,
    /// The number of offered calls that it has not finished driving.
    pub pending_calls: u32,
    /// Its capabilities.
    pub capabilities: Capabilities,
}

/// A call that is offered to a worker.
pub(crate) struct OfferedCall {
    pub(crate) call: CallId,
    /// Notified when the call was driven as far as possible, with the call that blocks it. Dropped if the outcome is unknown.
    pub(crate) on_driven: oneshot::Sender<Option<CallId>>,
}

/// The state of a known worker.
pub(crate) struct WorkerHandle {
    pub(crate) name: String,
    pub(crate) tenant: TenantId,
    pub(crate) capabilities: Capabilities,
    pub(crate) free_slots: Arc<Semaphore>,
    /// The channel for offers of its newest connection, while it is connected.
    pub(crate) offer_sender: Option<mpsc::Sender<OfferedCall>>,
    pub(crate) is_draining: bool,
    owner: OwnerId,
    /// Counts the calls that wait for room.
    pub(crate) waiters: Arc<()>,
}

impl WorkerHandle {
    pub(crate) fn new(owner: OwnerId, (tenant, name): (TenantId, String), skills: Capabilities) -> Self {
        let places = usize::try_from(skills.capacity.clamp(1, MAX_CAPACITY)).unwrap_or(1);
        let room = Arc::new(Semaphore::new(places));
        Self {
            name,
            tenant,
            capabilities: skills,
            free_slots: room,
            offer_sender: None,
            is_draining: false,
            owner,
            waiters: Arc::default(),
        }
    }

    /// Checks whether it works for this tenant in this directory.
    fn works_there(&self, job: &CallAssignment<'_>) -> bool {
        self.tenant == *job.tenant && self.capabilities.dir == job.dir
    }

    pub(crate) fn has_too_many_waiters(&self) -> bool {
        Arc::strong_count(&self.waiters) > WAITING_MAX
    }

    pub(crate) fn pending_calls(&self) -> u32 {
        let places = self.capabilities.capacity.clamp(1, MAX_CAPACITY);
        places.saturating_sub(u32::try_from(self.free_slots.available_permits()).unwrap_or(u32::MAX))
    }
}

/// Returns the rendezvous weight of a worker for a session. The worker with the highest weight gets the session.
fn weight(job: &CallAssignment<'_>, name: &str) -> Digest {
    let parts = [job.tenant.as_str(), job.session.as_str(), name].map(str::as_bytes);
    Digest::compute_parts("byleave.worker.session", &parts)
}

/// Picks the worker for a call by rendezvous hashing among workers that have the tool. If none has it, picks among all
/// workers, so that one of them can report the missing tool.
///
/// A name that is connected under two owners is one worker. The newest owner is used, because the other is left over from
/// before.
pub(crate) fn choose_worker<'a>(
    hands: impl Iterator<Item = &'a WorkerHandle> + Clone,
    job: &CallAssignment<'_>,
) -> Option<&'a WorkerHandle> {
    let there =
        hands.filter(|hand| hand.works_there(job) && !(hand.is_draining && hand.offer_sender.is_none()));
    let able = there.clone().filter(|hand| hand.capabilities.tools.contains(job.tool));
    let rank = |hand: &&WorkerHandle| {
        (*weight(job, &hand.name).as_bytes(), hand.offer_sender.is_some() && !hand.is_draining, hand.owner)
    };
    able.max_by_key(rank).or_else(|| there.max_by_key(rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hand(name: &str) -> WorkerHandle {
        let tools = BTreeSet::from(["note".to_owned()]);
        let skills = Capabilities { tools, capacity: 1, dir: "/w".into(), labels: BTreeSet::new() };
        WorkerHandle::new(
            OwnerId::new(uuid::Uuid::now_v7()),
            (TenantId::new("t").unwrap(), name.to_owned()),
            skills,
        )
    }

    #[test]
    fn a_session_moves_only_with_the_worker_that_it_is_with() {
        let tenant = TenantId::new("t").unwrap();
        let mut hands: Vec<WorkerHandle> = (0..5).map(|number| hand(&format!("w{number}"))).collect();
        let sessions: Vec<SessionId> =
            (0..200).map(|number| SessionId::new(format!("s{number}")).unwrap()).collect();
        let whose = |hands: &[WorkerHandle]| -> Vec<String> {
            let job = |session| CallAssignment {
                call: CallId::new(uuid::Uuid::nil()),
                tenant: &tenant,
                session,
                tool: "note",
                dir: "/w",
            };
            sessions
                .iter()
                .map(|session| choose_worker(hands.iter(), &job(session)).unwrap().name.clone())
                .collect()
        };
        let before = whose(&hands);
        let gone = hands.remove(2).name;
        let after = whose(&hands);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || *before == gone, "{before} {after}");
        }
        assert!(hands.iter().all(|hand| after.iter().filter(|name| **name == hand.name).count() > 20));
    }

    #[test]
    fn who_has_the_tool_gets_a_call_and_only_in_that_directory_for_that_tenant() {
        let (tenant, session) = (TenantId::new("t").unwrap(), SessionId::new("s").unwrap());
        let job = CallAssignment {
            call: CallId::new(uuid::Uuid::nil()),
            tenant: &tenant,
            session: &session,
            tool: "note",
            dir: "/w",
        };
        let other = TenantId::new("u").unwrap();
        let mut hands: Vec<WorkerHandle> = (0..9).map(|number| hand(&format!("w{number}"))).collect();
        hands.iter_mut().skip(1).for_each(|hand| hand.capabilities.tools.clear());
        assert_eq!(choose_worker(hands.iter(), &job).unwrap().name, "w0");
        assert!(
            choose_worker(hands.iter(), &CallAssignment { tool: "other", ..job }).is_some(),
            "somebody says that there is none"
        );
        for job in [CallAssignment { dir: "/x", ..job }, CallAssignment { tenant: &other, ..job }] {
            assert!(choose_worker(hands.iter(), &job).is_none(), "{job:?}");
        }
    }
}
