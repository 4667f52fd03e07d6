//! A session: one place for many commands, made once.
//!
//! Its namespaces of users and network and what is mounted are shared by its commands; each has processes, terminals and
//! interprocess communication of its own, so that none of it is left when it is over. What stays from one command to the next is
//! the workspace and the temporary directories. A mask is lifted when somebody outside renames another file over what it covers, so before every command what is covered
//! is compared with what was covered, and the place is made anew if it differs.

use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::uplink::{self, Joined};
use super::{
    Ends, LaunchError, Process, RunAs, Running, ThisHost, Unserved, Uplink, carried, given, identity, inside,
    leash, null, ours, spawn,
};
use crate::confinement::Confinement;
use crate::net::doors::{Doors, Pass};
use crate::net::policy::Door;
use crate::net::serve::Serving;
use crate::net::transparent::Names;
use crate::plan::{Command, Plan, Wiring};
use crate::wire::REPORT_READY;

/// A place for many commands. When it is dropped, they all end.
#[derive(Debug)]
pub struct Session {
    confinement: Confinement,
    run_as: RunAs,
    parked: u32,
    network: Option<Shared>,
    place: Mutex<Place>,
}

/// The network of a session: what outlives its place.
#[derive(Debug)]
struct Shared {
    uplink: Uplink,
    wiring: Wiring,
    doors: Arc<Doors>,
    names: Arc<Names>,
}

/// The first process of a session, which starts those of its commands.
#[derive(Debug)]
struct Place {
    process: Process,
    requests: OwnedFd,
    covered: Vec<Option<(u64, u64)>>,
    /// What every command has in common.
    plan: Plan,
    /// Where its network is served: what serves it, and by what.
    serving: Option<(Serving, Uplink)>,
}

impl Session {
    /// Makes the place. So many first processes of commands wait ready in it; with none, each is started when it is asked for.
    /// One whose network is to be served is refused: see [`Session::open_through`].
    pub fn open(confinement: Confinement, run_as: RunAs, parked: u32) -> Result<Self, LaunchError> {
        if uplink::is_served(&confinement) {
            return Err(Unserved::NoUplink.into());
        }
        Self::with_network(confinement, run_as, parked, None)
    }

    /// Makes the place, as [`Session::open`] does. Where its network is [`Network::Proxied`](crate::confinement::Network), this
    /// serves it, and each command leads through a door of its own; its commands share one loopback.
    pub fn open_through(
        confinement: Confinement,
        run_as: RunAs,
        parked: u32,
        uplink: Uplink,
    ) -> Result<Self, LaunchError> {
        let shared = uplink::is_served(&confinement).then(|| {
            let (wiring, names) = (uplink.wiring(), Arc::default());
            Shared { uplink, wiring, doors: Doors::in_turn(), names }
        });
        Self::with_network(confinement, run_as, parked, shared)
    }

    fn with_network(
        confinement: Confinement,
        run_as: RunAs,
        parked: u32,
        network: Option<Shared>,
    ) -> Result<Self, LaunchError> {
        confinement.held_against(given)?;
        let place = Mutex::new(Place::new(&confinement, run_as, parked, network.as_ref())?);
        Ok(Self { confinement, run_as, parked, network, place })
    }

    /// Starts a command in it. Refused where the session's network is served: see [`Session::start_through`].
    ///
    /// What a command leaves running in the background ends with it. A server that is to be there for the next commands is
    /// started as a command of its own, and reached over the loopback until it is dropped or stopped; what it prints is taken
    /// by [`Running::finish`], which a thread of its own should wait in, or it stands still once its pipe is full.
    pub fn start(&self, command: &Command) -> Result<Running, LaunchError> {
        match self.network {
            Some(_) => Err(Unserved::NoUplink.into()),
            None => self.begin(command, None),
        }
    }

    /// Starts a command in it, whose network leads through this door. Where the session's network is not served, the door
    /// stays shut.
    pub fn start_through(&self, command: &Command, door: Door) -> Result<Running, LaunchError> {
        let Some(shared) = &self.network else { return self.begin(command, None) };
        shared.uplink.suits(&door)?;
        let pass = shared.doors.open(door).map_err(Unserved::from)?;
        let variables = shared.wiring.variables(&pass.proxy_url(uplink::proxy_at()));
        self.begin(command, Some((pass, variables)))
    }

    fn begin(
        &self,
        command: &Command,
        network: Option<(Pass, Vec<(&'static str, String)>)>,
    ) -> Result<Running, LaunchError> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if covered(&self.confinement) != place.covered {
            *place = Place::new(&self.confinement, self.run_as, self.parked, self.network.as_ref())?;
        }
        let mut plan = place.plan.with_command(&self.confinement, command)?;
        if let Some((_, variables)) = &network {
            plan = plan.with_variables(variables)?;
        }
        let ends = Ends::new(&plan, command, self.confinement.limits.output)?;
        let began = Instant::now();
        let pidfd = place.request(&ends, &plan)?;
        drop(place);
        let process = Process { pidfd, child: false, leash: None };
        let mut running = ends.running(process, plan, began, self.confinement.limits.wall);
        running.joined = network.map(|(pass, _)| Joined::Shared(pass));
        running.with_terminal()
    }
}

/// What the masks and protections cover, each by its own identity.
fn covered(confinement: &Confinement) -> Vec<Option<(u64, u64)>> {
    let one = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let files = &confinement.files;
    files.hidden.iter().chain(&files.protected).chain(&files.writable).map(one).collect()
}

impl Place {
    fn new(
        confinement: &Confinement,
        run_as: RunAs,
        parked: u32,
        network: Option<&Shared>,
    ) -> Result<Self, LaunchError> {
        let covered = covered(confinement);
        // The command of this plan is never started.
        let nothing = Command { argv: vec!["/".into()], ..Command::default() };
        let mut plan = Plan::new(confinement, &nothing, identity(run_as)?, &ThisHost)?;
        if let Some(shared) = network {
            plan = plan.with_wiring(&shared.wiring, &confinement.files, &ThisHost)?;
        }
        let plan = plan.for_session(parked);
        let written = carried::sealed(c"byleave-plan", &plan.encode())?;
        let (requests, inner) = leash()?;
        let null = null()?;
        let given = [null.as_fd(), null.as_fd(), null.as_fd(), written.as_fd(), inner.as_fd()];
        let pidfd = spawn(carried::program()?, given, plan.network_apart, run_as)?;
        drop(inner);
        let common = plan.clone().for_command();
        let process = Process { pidfd, child: true, leash: None };
        let mut place = Self { process, requests, covered, plan: common, serving: None };
        if let Some(Shared { uplink, doors, names, .. }) = network {
            let serving = uplink.join(&place.requests, &plan, names, Arc::clone(doors))?;
            place.serving = Some((serving, uplink.clone()));
        }
        place.answered(&plan)?;
        Ok(place)
    }

    fn request(&self, ends: &Ends, plan: &Plan) -> Result<OwnedFd, LaunchError> {
        let descriptors = ends.given();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(LaunchError::Garbled);
        }
        sendmsg(&self.requests, &[IoSlice::new(b"c")], &mut control, SendFlags::NOSIGNAL)
            .map_err(ours("asking the session for a command"))?;
        self.answered(plan)?.ok_or(LaunchError::Garbled)
    }

    /// The answer of the session's first process, with a descriptor if there is one.
    fn answered(&self, plan: &Plan) -> Result<Option<OwnedFd>, LaunchError> {
        match inside::heard(&self.requests, plan)? {
            Some(([REPORT_READY, ..], descriptor)) => Ok(descriptor),
            Some(_) => Err(LaunchError::Garbled),
            None => Err(LaunchError::Silent),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Best effort, and not the only one: its leash goes with this as well.
        if self.process.kill().is_ok() {
            self.process.reap().unwrap_or_default();
        }
        if let Some((serving, uplink)) = self.serving.take() {
            uplink.settle(serving);
        }
    }
}
