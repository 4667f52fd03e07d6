//! The crew: what workers can do by their own word, and which of them drives a call.
//!
//! A session stays with one worker, for what it has written is on that worker's disk. Which one, follows from their names alone, so
//! that every office says the same, and so that one who comes or goes moves no session but those that come or go with it. Who is
//! away for less than its lease is waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use byleave_core::digest::Digest;
use byleave_core::id::{CallId, OwnerId, SessionId, TenantId};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// How many calls a worker may say that it drives at once.
pub const CAPACITY_MAX: u32 = 1_024;

/// How many calls wait for room at one worker; those beyond that wait in the book, and hold up nobody.
const WAITING_MAX: usize = 64;
const TOOLS_MAX: usize = 4_096;
const LABELS_MAX: usize = 64;

/// What a worker says of itself when it comes in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The tools that it has.
    pub tools: BTreeSet<String>,
    /// How many calls it drives at once.
    pub capacity: u32,
    /// The directory that its calls work in.
    pub dir: String,
    /// For people to tell workers apart.
    pub labels: BTreeSet<String>,
}

impl Capabilities {
    /// What is wrong with them, where anything is.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        let long = |texts: &BTreeSet<String>, most: usize| texts.iter().any(|text| text.len() > most);
        match self {
            _ if self.tools.len() > TOOLS_MAX || long(&self.tools, 128) => {
                Some("it has too many tools, or too long names")
            }
            _ if self.labels.len() > LABELS_MAX || long(&self.labels, 64) => {
                Some("it has too many or too long labels")
            }
            _ if self.dir.len() > 4_096 => Some("its directory is too long"),
            _ if !(1..=CAPACITY_MAX).contains(&self.capacity) => {
                Some("it drives at least one call at once, and at most 1,024")
            }
            _ => None,
        }
    }
}

/// A call that somebody is to drive.
#[derive(Clone, Copy, Debug)]
pub struct CallAssignment<'a> {
    /// The call.
    pub call: CallId,
    /// Whose it is.
    pub tenant: &'a TenantId,
    /// Which stays with one worker.
    pub session: &'a SessionId,
    /// Which the worker should have.
    pub tool: &'a str,
    /// Where the worker must work.
    pub dir: &'a str,
}

/// What came of looking for somebody to drive a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchOutcome {
    /// It was driven to where it stands now.
    Stood {
        /// Behind which, where it stands behind another.
        held_up_by: Option<CallId>,
    },
    /// No worker is here who works there.
    Nobody,
    /// Whose it is, is away, went away meanwhile, or has too many to do. It may be tried again.
    Away,
}

/// A worker, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Its name.
    pub name: String,
    /// Whom it writes claims as.
    pub owner: OwnerId,
    /// Whether it is here.
    pub is_here: bool,
    /// Whether it takes nothing new.
    pub is_leaving: bool,
    /// How many calls were offered to it that it has not driven to where they stand.
    pub busy: u32,
    /// What it can do.
    pub skills: Capabilities,
}

/// A call that is offered to a worker.
pub(crate) struct OfferedCall {
    pub(crate) call: CallId,
    /// Told when it stands, and behind which other; dropped when that is not known.
    pub(crate) stood: oneshot::Sender<Option<CallId>>,
}

/// What there is of a worker while it is known.
pub(crate) struct WorkerHandle {
    pub(crate) name: String,
    pub(crate) tenant: TenantId,
    pub(crate) skills: Capabilities,
    pub(crate) room: Arc<Semaphore>,
    /// Where its newest wire takes offers, while it is here.
    pub(crate) line: Option<mpsc::Sender<OfferedCall>>,
    pub(crate) is_leaving: bool,
    owner: OwnerId,
    /// Those who wait for room.
    pub(crate) waiting: Arc<()>,
}

impl WorkerHandle {
    pub(crate) fn new(owner: OwnerId, (tenant, name): (TenantId, String), skills: Capabilities) -> Self {
        let places = usize::try_from(skills.capacity.clamp(1, CAPACITY_MAX)).unwrap_or(1);
        let room = Arc::new(Semaphore::new(places));
        Self { name, tenant, skills, room, line: None, is_leaving: false, owner, waiting: Arc::default() }
    }

    /// Whether it works for this tenant in this directory.
    fn works_there(&self, job: &CallAssignment<'_>) -> bool {
        self.tenant == *job.tenant && self.skills.dir == job.dir
    }

    pub(crate) fn is_crowded(&self) -> bool {
        Arc::strong_count(&self.waiting) > WAITING_MAX
    }

    pub(crate) fn busy(&self) -> u32 {
        let places = self.skills.capacity.clamp(1, CAPACITY_MAX);
        places.saturating_sub(u32::try_from(self.room.available_permits()).unwrap_or(u32::MAX))
    }
}

/// How much a session is this worker's: it is whose this is highest.
fn weight(job: &CallAssignment<'_>, name: &str) -> Digest {
    let parts = [job.tenant.as_str(), job.session.as_str(), name].map(str::as_bytes);
    Digest::of_parts("byleave.worker.session", &parts)
}

/// Whose a call is: of who has the tool, and where nobody has it of everybody, for somebody must say so.
///
/// A name that is here under two owners is one worker, and the newest counts: the other is left from before.
pub(crate) fn choose<'a>(
    hands: impl Iterator<Item = &'a WorkerHandle> + Clone,
    job: &CallAssignment<'_>,
) -> Option<&'a WorkerHandle> {
    let there = hands.filter(|hand| hand.works_there(job) && !(hand.is_leaving && hand.line.is_none()));
    let able = there.clone().filter(|hand| hand.skills.tools.contains(job.tool));
    let rank = |hand: &&WorkerHandle| {
        (*weight(job, &hand.name).as_bytes(), hand.line.is_some() && !hand.is_leaving, hand.owner)
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
            sessions.iter().map(|session| choose(hands.iter(), &job(session)).unwrap().name.clone()).collect()
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
        hands.iter_mut().skip(1).for_each(|hand| hand.skills.tools.clear());
        assert_eq!(choose(hands.iter(), &job).unwrap().name, "w0");
        assert!(
            choose(hands.iter(), &CallAssignment { tool: "other", ..job }).is_some(),
            "somebody says that there is none"
        );
        for job in [CallAssignment { dir: "/x", ..job }, CallAssignment { tenant: &other, ..job }] {
            assert!(choose(hands.iter(), &job).is_none(), "{job:?}");
        }
    }
}
