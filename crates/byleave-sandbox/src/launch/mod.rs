//! The native launcher: a command in namespaces of its own, behind Landlock and a system call filter.
//!
//! Whatever fails before the command starts is an error, and the command has then not run. It must never run a command weaker
//! than it was asked for, and nothing of it is left when [`Running::finish`] returns.

mod alone;
mod bwrap;
mod carried;
mod error;
mod inside;
mod looked;
mod oci;
mod outcome;
mod session;
mod streams;
mod undertaker;
mod uplink;
mod watch;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};

pub(crate) use alone::{Scratch, start as start_alone};
pub use bwrap::Bwrap;
pub use error::LaunchError;
pub use inside::Inside;
pub use looked::Warm;
pub use oci::Oci;
pub use outcome::{Outcome, Printed, Status};
pub use session::Session;
pub use streams::Pipes;
pub use uplink::{Reached, Unserved, Uplink};

use crate::cgroup::{self, Account, Group};
use crate::confinement::Confinement;
use crate::guarantee::{Given, Guarantee};
use crate::limits::{Limit, Limits};
use crate::net::doors::Doors;
use crate::net::policy::Door;
use crate::plan::{Command, Host, Identity, Kind, Plan};
use crate::sys::{self, Stage};
use crate::tripwire::Tripwire;
use crate::wire::{Part, REPORT_TERMINAL};
use error::ours;
use inside::{Ended, Heard};
use streams::Streams;
use uplink::Joined;
use watch::Watch;

/// Who runs the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunAs {
    /// Whoever runs the launcher; root is refused.
    #[default]
    Caller,
    /// Another user, for a launcher that is root: it has to be one that owns what is writable.
    User(Identity),
}

/// Runs a command to its end.
pub fn run(confinement: &Confinement, command: &Command) -> Result<Outcome, LaunchError> {
    start(confinement, command, RunAs::Caller)?.finish()
}

/// How far the native launcher gives a guarantee to a command that runs as its caller.
pub fn given(guarantee: Guarantee) -> Given {
    given_as(RunAs::Caller, guarantee)
}

/// The limit on processes needs no cgroup: the kernel counts those of a user in a user namespace, which is one command's, or one
/// session's; in the latter the limit is one for all of its commands together, and its first processes count.
fn given_as(run_as: RunAs, guarantee: Guarantee) -> Given {
    let partly =
        |why: &str| Given::Partly(format!("every process is limited by itself, for want of a cgroup: {why}"));
    match (guarantee, run_as) {
        (Guarantee::MemoryLimited, RunAs::Caller) => match cgroup::here() {
            Ok(_) => Given::Fully,
            Err(absent) => partly(&absent.to_string()),
        },
        (Guarantee::MemoryLimited, RunAs::User(_)) => {
            partly("another user's processes cannot be born in one of ours")
        }
        (Guarantee::ReadsConfined, _) if sys::landlock_version() == 0 => {
            Given::Not("this kernel has no Landlock".into())
        }
        (Guarantee::WritesLockedTwice, _) if sys::landlock_version() == 0 => {
            Given::Not("mounts alone hold it, for want of Landlock".into())
        }
        _ => Given::Fully,
    }
}

fn has_groups(run_as: RunAs) -> bool {
    run_as == RunAs::Caller && cgroup::here().is_ok()
}

/// A cgroup for one command, where there are any.
fn group(run_as: RunAs, limits: &Limits) -> Result<Option<Group>, LaunchError> {
    match run_as {
        RunAs::Caller => match cgroup::here() {
            Ok(delegated) => delegated.group(limits).map(Some).map_err(ours("making a cgroup")),
            Err(_) => Ok(None),
        },
        RunAs::User(_) => Ok(None),
    }
}

/// Starts a command. One whose network is to be served is refused: see [`start_through`].
pub fn start(confinement: &Confinement, command: &Command, run_as: RunAs) -> Result<Running, LaunchError> {
    start_by(confinement, command, run_as, None, None)
}

/// Starts a command whose network, where it is [`Network::Proxied`](crate::confinement::Network::Proxied), leads through this
/// door and nowhere else. Whatever else its network is, the door stays shut.
pub fn start_through(
    confinement: &Confinement,
    command: &Command,
    run_as: RunAs,
    uplink: &Uplink,
    door: Door,
) -> Result<Running, LaunchError> {
    start_by(confinement, command, run_as, Some((uplink, door)), None)
}

/// Starts a command as [`start`] does, or [`start_through`] where there is something to start it through, and looks for what it must
/// not see or change only as far as that is not known already.
pub fn start_warm(
    confinement: &Confinement,
    command: &Command,
    run_as: RunAs,
    through: Option<(&Uplink, Door)>,
    warm: &Warm,
) -> Result<Running, LaunchError> {
    start_by(confinement, command, run_as, through, Some(warm))
}

fn start_by(
    confinement: &Confinement,
    command: &Command,
    run_as: RunAs,
    through: Option<(&Uplink, Door)>,
    warm: Option<&Warm>,
) -> Result<Running, LaunchError> {
    let identity = identity(run_as)?;
    confinement.held_against(|guarantee| given_as(run_as, guarantee))?;
    let through = match (uplink::is_served(confinement), through) {
        (false, _) => None,
        (true, None) => return Err(Unserved::NoUplink.into()),
        (true, Some((uplink, door))) => {
            uplink.suits(&door)?;
            Some((uplink, door))
        }
    };
    let (confinement, tripwire) = looked::once(confinement, warm)?;
    let plan = Plan::new(&confinement, command, identity, &ThisHost)?;
    let Some((uplink, door)) = through else {
        return begin(plan, &confinement, tripwire, command, run_as)?.with_terminal();
    };
    let wiring = uplink.wiring();
    let plan = plan
        .with_wiring(&wiring, &confinement.files, &ThisHost)?
        .with_variables(&wiring.variables(&format!("http://{}", uplink::proxy_at())))?;
    let mut running = begin(plan, &confinement, tripwire, command, run_as)?;
    let door = Arc::new(door);
    let serving =
        uplink.join(&running.leash, &running.plan, &Arc::default(), Doors::one(Arc::clone(&door)))?;
    running.joined = Some(Joined::Own { uplink: uplink.clone(), serving, door });
    running.with_terminal()
}

fn begin(
    plan: Plan,
    confinement: &Confinement,
    tripwire: Tripwire,
    command: &Command,
    run_as: RunAs,
) -> Result<Running, LaunchError> {
    let group = group(run_as, &confinement.limits)?;
    let plan = if group.is_some() { plan.in_group() } else { plan };
    let program = carried::program()?;
    let ends = Ends::new(&plan, command, confinement.limits.output)?;
    let clock = Clock::start(confinement);
    if let Some((kept_in, free)) = clock.watch.short_of_room() {
        let reserve = confinement.limits.reserve;
        return Err(LaunchError::NoRoom { kept_in: kept_in.to_path_buf(), free, reserve });
    }
    let pidfd = spawn(program, ends.given(), plan.network_apart, run_as, group.as_ref())?;
    let process = Process { pidfd, child: true, leash: None };
    Ok(ends.running(process, group, plan, clock, tripwire))
}

/// Both ends of everything between a command and us.
struct Ends {
    given: [OwnedFd; 5],
    leash: OwnedFd,
    streams: Streams,
}

impl Ends {
    fn new(plan: &Plan, command: &Command, kept_max: u64) -> Result<Self, LaunchError> {
        let written = carried::sealed(c"byleave-plan", &plan.encode())?;
        let (leash, inner) = leash()?;
        if command.terminal.is_some() {
            let null = || null().map(OwnedFd::from);
            let given = [null()?, null()?, null()?, written, inner];
            return Ok(Self { given, leash, streams: Streams::to_come(&command.stdin, kept_max) });
        }
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(ours("making a pipe"));
        let (from_stdout, stdout) = pipe()?;
        // Without a word to read there is nothing to read from: some programs take a pipe for what they are to work on.
        let (stdin, to_stdin) = match command.stdin.is_empty() && !command.carried_by_caller {
            true => (OwnedFd::from(null()?), None),
            false => pipe().map(|(stdin, to_stdin)| (stdin, Some(to_stdin)))?,
        };
        if command.together && !command.carried_by_caller {
            let stderr = stdout.try_clone().map_err(ours("copying a descriptor"))?;
            let streams = Streams::new(to_stdin, &command.stdin, [Some(from_stdout), None], kept_max)?;
            return Ok(Self { given: [stdin, stdout, stderr, written, inner], leash, streams });
        }
        let (from_stderr, stderr) = pipe()?;
        let streams = match to_stdin {
            Some(to_stdin) if command.carried_by_caller => {
                Streams::for_caller(to_stdin, [from_stdout, from_stderr])
            }
            to_stdin => {
                Streams::new(to_stdin, &command.stdin, [Some(from_stdout), Some(from_stderr)], kept_max)?
            }
        };
        // Programs take a pipe for what they are to read: `rg foo` would search that instead of the directory.
        let reads_nothing = command.stdin.is_empty() && !command.carried_by_caller;
        let nothing = || std::fs::File::open("/dev/null").map_err(ours("opening /dev/null"));
        let stdin = if reads_nothing { nothing()?.into() } else { stdin };
        Ok(Self { given: [stdin, stdout, stderr, written, inner], leash, streams })
    }

    /// What the first process inside has, in the order of its numbers.
    fn given(&self) -> [BorrowedFd<'_>; 5] {
        self.given.each_ref().map(AsFd::as_fd)
    }

    /// Closes the ends that are not ours, so that the end of the output is the command's.
    fn running(
        self,
        process: Process,
        group: Option<Group>,
        plan: Plan,
        clock: Clock,
        tripwire: Tripwire,
    ) -> Running {
        let Self { given, leash, streams } = self;
        drop(given);
        Running {
            process,
            group,
            leash,
            streams,
            plan,
            clock,
            tripwire,
            joined: None,
            over: false,
            scratch: None,
        }
    }
}

/// When a command began, and what it may use up from there.
#[derive(Debug)]
struct Clock {
    began: Instant,
    limits: Limits,
    watch: Watch,
}

impl Clock {
    fn start(confinement: &Confinement) -> Self {
        let (limits, began) = (confinement.limits, Instant::now());
        Self { began, limits, watch: Watch::new(&limits, &confinement.files, began) }
    }
}

fn null() -> Result<std::fs::File, LaunchError> {
    std::fs::File::options().read(true).write(true).open("/dev/null").map_err(ours("opening /dev/null"))
}

fn leash() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(ours("making the leash"))
}

/// The first process inside, by its descriptor.
#[derive(Debug)]
struct Process {
    pidfd: OwnedFd,
    /// Whether it is our child, and leaves something to be waited for.
    child: bool,
    /// Where killing it would not end what it started: its leash, by which it ends everything itself.
    leash: Option<OwnedFd>,
}

impl Process {
    /// Ends it, and with it everything that it started. That it has ended already is no error.
    fn kill(&self) -> Result<(), LaunchError> {
        kill(self.pidfd.as_fd(), self.leash.as_ref())
    }

    /// Waits until it has ended, and with it everything in its namespace.
    fn wait(&self) -> Result<(), LaunchError> {
        loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], None) {
                Err(rustix::io::Errno::INTR) => {}
                waited => return waited.map(drop).map_err(ours("waiting for the command")),
            }
        }
    }

    /// Waits, and leaves nothing of it.
    fn reap(&self) -> Result<(), LaunchError> {
        if !self.child {
            return self.wait();
        }
        let error = io::Error::from_raw_os_error;
        sys::reap(&self.pidfd).map_err(|errno| ours("waiting for the sandbox")(error(errno)))
    }
}

pub(crate) fn identity(run_as: RunAs) -> Result<Identity, LaunchError> {
    let caller =
        Identity { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    match run_as {
        RunAs::Caller if caller.uid == 0 => Err(LaunchError::Root),
        RunAs::User(identity) if identity.uid == 0 || identity.gid == 0 => Err(LaunchError::Root),
        RunAs::Caller => Ok(caller),
        RunAs::User(identity) => Ok(identity),
    }
}

fn spawn(
    program: BorrowedFd<'_>,
    descriptors: [BorrowedFd<'_>; 5],
    network_apart: bool,
    run_as: RunAs,
    group: Option<&Group>,
) -> Result<OwnedFd, LaunchError> {
    let group = group.map(AsFd::as_fd);
    spawn_as(run_as, || sys::spawn(program, descriptors, network_apart, group))
}

/// Starts something as this user.
fn spawn_as(
    run_as: RunAs,
    spawn: impl FnOnce() -> Result<OwnedFd, (Stage, i32)> + Send,
) -> Result<OwnedFd, LaunchError> {
    let spawned = match run_as {
        RunAs::Caller => spawn(),
        // The kernel keeps the user of each thread by itself.
        RunAs::User(identity) => std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                sys::change_thread_user(identity).map_err(|errno| (Stage::Capabilities, errno))?;
                spawn()
            });
            thread.join().unwrap_or(Err((Stage::Clone, 11)))
        }),
    };
    spawned.map_err(|(stage, errno)| {
        let error = io::Error::from_raw_os_error(errno);
        match stage {
            Stage::Clone => LaunchError::Namespaces(error),
            Stage::Capabilities => LaunchError::Child { doing: "taking its user and its powers", error },
            Stage::Descriptors => LaunchError::Child { doing: "putting its descriptors in place", error },
            Stage::Exec => LaunchError::Child { doing: "running the first process inside", error },
        }
    })
}

/// A command that is running. When this is dropped, the command and everything that it started end.
#[derive(Debug)]
pub struct Running {
    process: Process,
    group: Option<Group>,
    leash: OwnedFd,
    streams: Streams,
    plan: Plan,
    clock: Clock,
    tripwire: Tripwire,
    /// Ends after the processes: what they leave waiting is theirs alone.
    joined: Option<Joined>,
    over: bool,
    /// Gone when the command is.
    scratch: Option<Scratch>,
}

/// Ends a command from another thread.
#[derive(Debug)]
pub struct Stopper {
    pidfd: OwnedFd,
    leash: Option<OwnedFd>,
}

impl Stopper {
    /// Kills the command and everything that it started. That it has ended already is no error.
    pub fn stop(&self) -> Result<(), LaunchError> {
        kill(self.pidfd.as_fd(), self.leash.as_ref())
    }
}

fn kill(pidfd: BorrowedFd<'_>, leash: Option<&OwnedFd>) -> Result<(), LaunchError> {
    let ended = match leash {
        // What it reports can still be read.
        Some(leash) => match shutdown(leash, Shutdown::Write) {
            Err(rustix::io::Errno::NOTCONN) => Ok(()),
            cut => cut,
        },
        None => pidfd_send_signal(pidfd, Signal::KILL),
    };
    match ended {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(ours("killing the command")(errno)),
    }
}

impl Running {
    /// Takes the terminal that was made inside, where one was asked for.
    fn with_terminal(mut self) -> Result<Self, LaunchError> {
        if self.plan.terminal.is_none() {
            return Ok(self);
        }
        match inside::heard(&self.leash, &self.plan)? {
            Some(Heard { words: [REPORT_TERMINAL, ..], descriptor: Some(terminal), .. }) => {
                self.streams.terminal(terminal)?;
            }
            Some(_) => return Err(LaunchError::Garbled),
            None => return Err(LaunchError::NoTerminal),
        }
        Ok(self)
    }

    /// The outer end of the command's terminal, for who carries its bytes himself, such as to a person's own. Nothing is then
    /// typed into it, and nothing that it shows is in the outcome. When the last copy of it is closed, the command is hung up.
    pub fn take_terminal(&mut self) -> Result<Option<OwnedFd>, LaunchError> {
        self.streams.take_terminal()
    }

    /// The ends of the command's standard streams, where the caller carries them.
    pub fn take_pipes(&mut self) -> Option<Pipes> {
        self.streams.take_pipes()
    }

    /// Passes on what the command prints, as it comes, instead of keeping it: none of it is then in the outcome, and no limit holds
    /// for it. It is called by the thread that waits in [`Running::finish`], and the command stands still as long as it takes.
    /// Of two pipes, what is read first comes first.
    pub fn pass_on(&mut self, to: impl FnMut(&[u8]) + Send + Sync + 'static) {
        self.streams.pass_on(Box::new(to));
    }

    /// Something to end the command by, from another thread.
    pub fn stopper(&self) -> Result<Stopper, LaunchError> {
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(ours("copying a descriptor"));
        let leash = self.process.leash.as_ref().map(copy).transpose()?;
        Ok(Stopper { pidfd: copy(&self.process.pidfd)?, leash })
    }

    /// What finds out what the command plants, for who does not wait for its end: afterwards it is looked for in any case.
    pub fn tripwire(&self) -> Tripwire {
        self.tripwire.clone()
    }

    /// Waits until the command and everything that it started have ended, or the time is over.
    pub fn finish(mut self) -> Result<Outcome, LaunchError> {
        let killed_for = self.carry()?;
        if killed_for.is_some() {
            self.kill()?;
            self.streams.carry(self.process.pidfd.as_fd(), None)?;
        }
        self.process.reap()?;
        self.over = true;
        let planted = self.tripwire.spring()?;
        let wall = self.clock.began.elapsed();
        let network = self.joined.take().map(Joined::close).unwrap_or_default();
        let account = self.group.take().map(Group::end).transpose().map_err(ours("ending a cgroup"))?;
        let Ended { status, cpu: waited_cpu, survivors, unrouted } =
            inside::reports(&self.leash, &self.plan)?.unwrap_or_else(|| {
                // Killed, by us or by somebody who may: the first process had no time to say so.
                let status = Status::Signalled(Signal::KILL.as_raw());
                Ended { status, cpu: Duration::ZERO, survivors: 0, unrouted: None }
            });
        let has_own_network = self.plan.network_apart && self.plan.part == Part::Whole;
        let unrouted = unrouted.filter(|_| has_own_network);
        let Account { memory, pids, cpu } =
            account.unwrap_or(Account { cpu: waited_cpu, ..Account::default() });
        let cpu = cpu.max(self.clock.watch.cpu_used());
        let ended_by = match status {
            _ if killed_for.is_some() => killed_for,
            _ if memory => Some(Limit::Memory),
            // Anybody can send that signal.
            Status::Signalled(signal) if signal == Signal::XCPU.as_raw() && cpu >= self.clock.limits.cpu => {
                Some(Limit::Cpu)
            }
            _ => None,
        };
        let [stdout, stderr] = self.streams.printed();
        let told = |is_reached: bool, limit| is_reached.then_some(limit).into_iter();
        let grew = self.clock.watch.grew().filter(|limit| killed_for != Some(*limit));
        let reached = told(pids, Limit::Pids).chain(grew);
        let reached = reached.chain(told(stdout.dropped + stderr.dropped > 0, Limit::Output)).collect();
        Ok(Outcome {
            status,
            ended_by,
            reached,
            planted,
            stdout,
            stderr,
            wall,
            cpu,
            network,
            unrouted,
            survivors,
        })
    }

    /// Carries what goes in and comes out until everything has ended, or a limit has been passed: which.
    fn carry(&mut self) -> Result<Option<Limit>, LaunchError> {
        let deadline = self.clock.began.checked_add(self.clock.limits.wall);
        loop {
            let next = self.clock.watch.next();
            let until = deadline.map_or(next, |deadline| deadline.min(next));
            if self.streams.carry(self.process.pidfd.as_fd(), Some(until))? {
                return Ok(None);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(Some(Limit::Wall));
            }
            let passed = self.clock.watch.look(self.process.pidfd.as_fd(), self.group.as_ref());
            if passed.is_some() {
                return Ok(passed);
            }
        }
    }

    fn kill(&self) -> Result<(), LaunchError> {
        if let Some(group) = &self.group {
            group.kill().map_err(ours("killing what is in a cgroup"))?;
        }
        self.process.kill()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Best effort, and not the only one: the leash goes with this as well.
        if !self.over && self.kill().is_ok() {
            self.process.reap().unwrap_or_default();
            // Nobody is left to be told.
            self.tripwire.spring().unwrap_or_default();
        }
        self.joined.take().map(Joined::close);
    }
}

/// The machine that this runs on.
struct ThisHost;

impl Host for ThisHost {
    fn target(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn kind(&self, path: &Path) -> Option<Kind> {
        let kind = std::fs::symlink_metadata(path).ok()?.file_type();
        Some(match () {
            () if kind.is_dir() => Kind::Directory,
            () if kind.is_symlink() => Kind::Link,
            () => Kind::File,
        })
    }

    fn landlock(&self) -> u32 {
        sys::landlock_version()
    }
}
