//! A session: one sandbox for many commands, built once.
//!
//! Its commands share the user and network namespaces and the mounts. Each has its own processes, terminals and IPC, so that
//! nothing of these is left when it has ended. The workspace, the temporary directories and the initially empty home directory
//! persist between commands.
//!
//! A mask is lost if a process outside renames another file over the covered one. So before every command the covered files are
//! compared with the earlier ones, and the sandbox is rebuilt if they differ. Commands that still run in the old one end with it.
//! The same happens when a new path must be hidden.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::network_bridge::{self, CommandNetwork};
use super::process::{InitProcess, spawn};
use super::running::{RunClock, RunningCommand};
use super::stdio::{ChildStdio, control_socket_pair, open_null};
use super::{
    LaunchError, NetworkBridge, NetworkServeError, RunAs, ThisHost, embedded_init, given_as, group,
    has_groups, identity, init_report, internal_error, scan,
};
use crate::cgroup::CommandCgroup;
use crate::confinement::Confinement;
use crate::net::egress::Egress;
use crate::net::proxy_server::ProxyServer;
use crate::net::session_router::{ProxyToken, SessionRouter};
use crate::net::transparent_proxy::NameAddressMap;
use crate::plan::{CommandSpec, LaunchPlan, NetworkPlan};
use crate::plan_format::REPORT_READY;
use crate::tripwire::Tripwire;
use crate::workspace_index::{DirectoryIndex, DynDirectoryIndex, ProtectedPaths};

/// A sandbox for many commands. Dropping it ends them all.
#[derive(Debug)]
pub struct SandboxSession {
    confinement: Confinement,
    run_as: RunAs,
    parked: u32,
    network: Option<SessionNetwork>,
    index: Arc<Mutex<DynDirectoryIndex>>,
    place: Mutex<SessionProcess>,
}

/// The network of a session, which outlives a rebuilt sandbox.
#[derive(Debug)]
struct SessionNetwork {
    uplink: NetworkBridge,
    wiring: NetworkPlan,
    doors: Arc<SessionRouter>,
    names: Arc<NameAddressMap>,
}

impl SessionNetwork {
    /// Creates it if the network of a confinement is proxied.
    fn for_confinement(confinement: &Confinement, uplink: NetworkBridge) -> Option<Self> {
        network_bridge::is_served(confinement).then(|| {
            let (wiring, names) = (uplink.network_plan(confinement), Arc::default());
            Self { uplink, wiring, doors: SessionRouter::by_running_call(), names }
        })
    }
}

/// The first process of a session, which starts those of its commands.
#[derive(Debug)]
struct SessionProcess {
    process: InitProcess,
    requests: OwnedFd,
    orders: OwnedFd,
    /// The cgroups of waiting processes, by the number of their order. `None` if there are no cgroups.
    ready: BTreeMap<u64, Option<CommandCgroup>>,
    ordered: u64,
    /// The confinement of its commands, with the paths that were marked when it was created.
    confinement: Confinement,
    marked: Arc<ProtectedPaths>,
    covered: Vec<Option<InodeIdentity>>,
    /// The part of the plan that all commands share.
    plan: LaunchPlan,
    /// The server of its network and the bridge, if the network is proxied.
    serving: Option<(ProxyServer, NetworkBridge)>,
}

impl SandboxSession {
    /// Builds the sandbox. This many first processes of commands wait ready in it. With zero, each is started on request. It
    /// refuses a proxied network: see [`SandboxSession::open_with_network`]. It also refuses copies, which are for a single command:
    /// see [`start`](super::start).
    pub fn open(confinement: Confinement, run_as: RunAs, parked: u32) -> Result<Self, LaunchError> {
        if network_bridge::is_served(&confinement) {
            return Err(NetworkServeError::NoBridge.into());
        }
        Self::open_with(confinement, run_as, parked, None)
    }

    /// Builds the sandbox, as [`SandboxSession::open`] does. If its network is [`Network::Proxied`](crate::confinement::Network),
    /// this bridge serves it, and each command has its own egress. The commands share one loopback.
    pub fn open_with_network(
        confinement: Confinement,
        run_as: RunAs,
        parked: u32,
        uplink: NetworkBridge,
    ) -> Result<Self, LaunchError> {
        let shared = SessionNetwork::for_confinement(&confinement, uplink);
        Self::open_with(confinement, run_as, parked, shared)
    }

    fn open_with(
        confinement: Confinement,
        run_as: RunAs,
        parked: u32,
        network: Option<SessionNetwork>,
    ) -> Result<Self, LaunchError> {
        if !confinement.files.copies.is_empty() {
            return Err(LaunchError::CopiesUnsupported(
                "in a session, because its commands share one sandbox",
            ));
        }
        confinement.check_enforcement(|guarantee| given_as(run_as, guarantee))?;
        let mut index = scan::index(&confinement.files, DirectoryIndex::new);
        let place =
            SessionProcess::new(&confinement, index.protected_paths()?, run_as, parked, network.as_ref())?;
        let (index, place) = (Arc::new(Mutex::new(index)), Mutex::new(place));
        Ok(Self { confinement, run_as, parked, network, index, place })
    }

    /// Starts a command in it. It is refused if the session's network is proxied: see [`SandboxSession::start_with_network`].
    ///
    /// Background processes of a command end with it. A server for later commands must be started as a separate command. It is
    /// reachable over the loopback until it is dropped or stopped. [`RunningCommand::finish`] takes its output and should wait in
    /// a separate thread. Otherwise the server blocks once its pipe is full.
    pub fn start(&self, command: &CommandSpec) -> Result<RunningCommand, LaunchError> {
        match self.network {
            Some(_) => Err(NetworkServeError::NoBridge.into()),
            None => self.begin(command, None),
        }
    }

    /// Starts a command in it, whose network goes through this egress. If the session's network is not proxied, the egress is not
    /// used.
    pub fn start_with_network(
        &self,
        command: &CommandSpec,
        door: Egress,
    ) -> Result<RunningCommand, LaunchError> {
        let Some(shared) = &self.network else { return self.begin(command, None) };
        let door = shared.uplink.prepare_egress(door)?;
        let pass = shared.doors.register_call(door).map_err(NetworkServeError::from)?;
        let variables = shared.wiring.variables(&pass.proxy_url(network_bridge::proxy_address()));
        self.begin(command, Some((pass, variables)))
    }

    fn begin(
        &self,
        command: &CommandSpec,
        network: Option<(ProxyToken, Vec<(&'static str, String)>)>,
    ) -> Result<RunningCommand, LaunchError> {
        let mut place = self.place.lock();
        let marked = self.index.lock().protected_paths()?;
        if marked != place.marked || covered(&place.confinement) != place.covered {
            *place = SessionProcess::new(
                &self.confinement,
                marked,
                self.run_as,
                self.parked,
                self.network.as_ref(),
            )?;
        }
        let tripwire = Tripwire::from_index(&self.index)?;
        let mut plan = place.plan.with_command(&self.confinement, command)?;
        if let Some((_, variables)) = &network {
            plan = plan.with_variables(variables)?;
        }
        let ends = ChildStdio::new(&plan, command, self.confinement.limits.output_bytes)?;
        let clock = RunClock::start(&self.confinement);
        let (pidfd, group) = if self.parked == 0 {
            let group = group(self.run_as, &self.confinement.limits)?;
            (place.request(&ends, group.as_ref(), &plan)?.0, group)
        } else {
            let (pidfd, number) = place.request(&ends, None, &plan)?;
            let group = place.ready.remove(&number).ok_or(LaunchError::InvalidReport)?;
            place.order(self.run_as)?;
            (pidfd, group)
        };
        drop(place);
        let process = InitProcess { pidfd, is_child: false, control_socket: None };
        let mut running = ends.into_running(process, group, plan, clock, tripwire);
        running.network = network.map(|(pass, _)| CommandNetwork::Shared(pass));
        running.with_terminal()
    }
}

/// The identity of a file: its device, its inode number, and its creation time, because a free number is soon reused.
type InodeIdentity = (u64, u64, Option<SystemTime>);

/// Returns the identities of the files that masks and protections cover.
fn covered(confinement: &Confinement) -> Vec<Option<InodeIdentity>> {
    // If the file system has no creation time, the change time is used, which changes at least as often.
    let changed = |found: &Metadata| {
        let since = Duration::new(found.ctime().try_into().ok()?, found.ctime_nsec().try_into().ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    };
    let one = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.created().ok().or_else(|| changed(&found))))
    };
    let place = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.created().ok()))
    };
    let files = &confinement.files;
    files.hidden.iter().chain(&files.protected).map(one).chain(files.writable.iter().map(place)).collect()
}

impl SessionProcess {
    fn new(
        confinement: &Confinement,
        marked: Arc<ProtectedPaths>,
        run_as: RunAs,
        parked: u32,
        network: Option<&SessionNetwork>,
    ) -> Result<Self, LaunchError> {
        let confinement = scan::with_protected_paths(confinement, &marked);
        let covered = covered(&confinement);
        // The command of this plan is never started.
        let nothing = CommandSpec { argv: vec!["/".into()], ..CommandSpec::default() };
        let mut plan = LaunchPlan::new(&confinement, &nothing, identity(run_as)?, &ThisHost)?;
        if let Some(shared) = network {
            plan = plan.with_network_plan(&shared.wiring, &confinement.files, &ThisHost)?;
        }
        let plan = plan.for_session(parked)?;
        let plan = if has_groups(run_as) { plan.for_cgroup() } else { plan };
        let written = embedded_init::sealed_memfd(c"byleave-plan", &plan.encode())?;
        let (requests, inner) = control_socket_pair()?;
        let null = open_null()?;
        let (orders, taken) = control_socket_pair()?;
        let given = [taken.as_fd(), null.as_fd(), null.as_fd(), written.as_fd(), inner.as_fd()];
        // It has no cgroup of its own. It is our process, never grows, and outlives every command.
        let pidfd = spawn(
            embedded_init::init_program()?,
            given,
            plan.own_network,
            (run_as, &confinement.files),
            None,
        )?;
        drop((inner, taken));
        let common = plan.clone().for_command();
        let process = InitProcess { pidfd, is_child: true, control_socket: None };
        let mut place = Self {
            process,
            requests,
            orders,
            ready: BTreeMap::new(),
            ordered: 0,
            confinement,
            marked,
            covered,
            plan: common,
            serving: None,
        };
        if let Some(SessionNetwork { uplink, doors, names, .. }) = network {
            let serving = uplink.serve_command(&place.requests, &plan, names, Arc::clone(doors))?;
            place.serving = Some((serving, uplink.clone()));
        }
        place.answered(&plan)?;
        for _ in 0..parked {
            place.order(run_as)?;
        }
        Ok(place)
    }

    /// Orders another first process of a command to be prepared.
    fn order(&mut self, run_as: RunAs) -> Result<(), LaunchError> {
        let group = group(run_as, &self.confinement.limits)?;
        self.ordered += 1;
        send(&self.orders, self.ordered, group.as_ref().map(AsFd::as_fd).as_slice())?;
        self.ready.insert(self.ordered, group);
        Ok(())
    }

    /// Requests a command. Returns its first process, and the number of its order, if it was ordered.
    fn request(
        &self,
        ends: &ChildStdio,
        group: Option<&CommandCgroup>,
        plan: &LaunchPlan,
    ) -> Result<(OwnedFd, u64), LaunchError> {
        let mut descriptors = ends.child_descriptors().to_vec();
        descriptors.extend(group.map(AsFd::as_fd));
        send(&self.requests, 0, &descriptors)?;
        let (process, number) = self.answered(plan)?;
        Ok((process.ok_or(LaunchError::InvalidReport)?, number))
    }

    /// Reads the answer of a first process: a descriptor, if any, and the number of its order.
    fn answered(&self, plan: &LaunchPlan) -> Result<(Option<OwnedFd>, u64), LaunchError> {
        match init_report::read_message(&self.requests, plan)? {
            Some(heard) if heard.words.first() == Some(&REPORT_READY) => Ok((heard.descriptor, heard.number)),
            Some(_) => Err(LaunchError::InvalidReport),
            None => Err(LaunchError::NoResponse),
        }
    }
}

/// Sends a number with descriptors.
fn send(to: &OwnedFd, number: u64, descriptors: &[BorrowedFd<'_>]) -> Result<(), LaunchError> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(6))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(LaunchError::InvalidReport);
    }
    sendmsg(to, &[IoSlice::new(&number.to_ne_bytes())], &mut control, SendFlags::NOSIGNAL)
        .map(drop)
        .map_err(internal_error("asking the session to start a command"))
}

impl Drop for SessionProcess {
    fn drop(&mut self) {
        // Best effort, with a fallback: the control socket closes with this as well.
        if self.process.kill().is_ok() {
            self.process.reap().unwrap_or_default();
        }
        if let Some((serving, uplink)) = self.serving.take() {
            uplink.close_server(serving);
        }
    }
}
