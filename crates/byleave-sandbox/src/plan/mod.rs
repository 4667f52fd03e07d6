//! Turns a confinement and a command into the exact steps of the first process inside.
//!
//! It reads the machine through [`HostInfo`] and has no side effects, so that the order of steps can be tested without
//! privileges.

mod encode;
mod landlock;
mod landlock_only;
mod mounts;
mod network;
mod overlays;
#[cfg(test)]
mod tests;

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

pub(crate) use landlock::TCP_SINCE;
pub use landlock::{LandlockRule, LandlockRuleset};
pub(crate) use landlock_only::TcpPorts;
pub(crate) use network::{NetworkPlan, PROXY_PORT, SYSTEM_AUTHORITIES};

use crate::confinement::{Confinement, Network};
use crate::limits::ResourceLimits;
use crate::plan_format::{MountOp, PlanPart};
use crate::seccomp::{self, Arch, JumpTooLongError};

/// A command: a program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program, then its arguments. A program without a slash is searched in the confinement's `PATH`.
    pub argv: Vec<OsString>,
    /// The content of its standard input, which is `/dev/null` if this is empty. For a terminal the content is typed, followed by
    /// the end of input.
    pub stdin: Vec<u8>,
    /// The size of its own terminal, in place of pipes. Output and errors are then one stream.
    pub terminal: Option<TerminalSize>,
    /// Whether the caller handles its standard streams, which it takes from the running command. Nothing of them is kept, and
    /// `stdin` is not used. It has no effect with a terminal, which can be taken anyway.
    pub caller_owns_streams: bool,
    /// Whether output and errors share one pipe and become one stream, in the order printed. It has no effect if the caller
    /// handles the streams, nor in a container, whose engine has a pipe for each.
    pub merge_output: bool,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// The number of lines.
    pub rows: u16,
    /// The number of characters in a line.
    pub columns: u16,
}

/// The user and the group that a command runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIdentity {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A file, a socket, or another kind.
    File,
}

/// The properties of the machine that a plan depends on.
pub trait HostInfo {
    /// Returns the kind of file at a path, without following a link at its end.
    fn kind(&self, path: &Path) -> Option<PathKind>;

    /// Returns the final target of a path, if it exists.
    fn target(&self, path: &Path) -> Option<PathBuf>;

    /// Returns the version of Landlock, or zero without Landlock.
    fn landlock(&self) -> u32;
}

/// The steps of the first process inside, in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPlan {
    /// The part of the plan that is carried out.
    pub part: PlanPart,
    /// In a session: the number of first processes of commands that wait ready.
    pub parked: u32,
    /// In a session: the part of the system call filter that its first process installs for all commands.
    pub shared_filter: Vec<u8>,
    /// The user that it runs as.
    pub identity: UserIdentity,
    /// Whether it has its own network.
    pub own_network: bool,
    /// The mounts, in order.
    pub mounts: Vec<MountOp<CString>>,
    /// The directory that the command starts in.
    pub cwd: CString,
    /// The candidate paths of the program. The first that can be run is used.
    pub programs: Vec<CString>,
    /// The arguments of the program, its name first.
    pub argv: Vec<CString>,
    /// The environment of the program.
    pub environment: Vec<CString>,
    /// The terminal of the program.
    pub terminal: Option<TerminalSize>,
    /// Limits: resource, soft limit, hard limit.
    pub limits: Vec<(u32, u64, u64)>,
    /// The Landlock rules. `None` if the kernel has no Landlock.
    pub landlock: Option<LandlockRuleset>,
    /// The system call filter, in the format of the kernel.
    pub filter: Vec<u8>,
}

/// The error for a confinement that cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A path is not absolute, or contains `.` or `..`.
    #[error("cannot confine to `{}`: the path is not absolute and resolved; resolve it first", .0.display())]
    Unresolved(PathBuf),
    /// A path is a symbolic link.
    #[error("cannot confine to `{}`: the path is a symbolic link; name its target", .0.display())]
    Link(PathBuf),
    /// A required path does not exist.
    #[error("cannot confine to `{}`: there is no such directory or file", .0.display())]
    Missing(PathBuf),
    /// A writable path would show the home directory, which must be hidden.
    #[error("cannot let the command write `{}`: it contains the home directory, which is hidden; name a directory below the home directory", .0.display())]
    ShowsHome(PathBuf),
    /// A writable path would show all mounts.
    #[error("cannot let the command write `{}`: it contains files that the sandbox itself needs; name a directory below it", .0.display())]
    ShowsAllMounts(PathBuf),
    /// Too many writable paths and toolchains.
    #[error(
        "cannot confine the command: more than {0} paths below the home directory are writable or readable; name their parent directories"
    )]
    TooMany(usize),
    /// A copy of a path that is not writable, or that has no mount point.
    #[error("cannot run on a copy of `{root}`: {why}", root = .0.display(), why = .1)]
    InvalidCopy(PathBuf, &'static str),
    /// The layers or files of a copy could be reached inside.
    #[error("cannot keep a copy in `{}`: the command could reach the copy there; use a directory that is hidden from the command", .0.display())]
    CopyVisible(PathBuf),
    /// A path that cannot be passed to a container engine.
    #[error("cannot confine to `{}` in a container: the name has a comma, a quotation mark or a line break; rename the file", .0.display())]
    NotExpressible(PathBuf),
    /// A zero byte in a path, an argument or the environment.
    #[error("cannot run the command: a zero byte in {0}")]
    ZeroByte(&'static str),
    /// There is no command.
    #[error("cannot run the command: the command is empty")]
    Empty,
    /// The system call filter cannot be compiled.
    #[error(transparent)]
    Filter(#[from] JumpTooLongError),
}

impl LaunchPlan {
    /// Creates the plan for a command in a confinement on this host.
    pub fn new(
        confinement: &Confinement,
        command: &CommandSpec,
        identity: UserIdentity,
        host: &impl HostInfo,
    ) -> Result<Self, PlanError> {
        let files = &confinement.files;
        let network_apart = confinement.network != Network::Host;
        let scratch_bytes = confinement.limits.tmp_bytes;
        let mounts = mounts::mount_program(files, scratch_bytes, network_apart, host)?;
        if host.kind(&files.cwd) != Some(PathKind::Directory) {
            return Err(PlanError::Missing(files.cwd.clone()));
        }
        let variable = |(name, value): (&String, &String)| text(format!("{name}={value}"), "the environment");
        Ok(Self {
            part: PlanPart::Whole,
            parked: 0,
            shared_filter: Vec::new(),
            identity,
            own_network: network_apart,
            mounts,
            cwd: text(&files.cwd, "the working directory")?,
            programs: programs(confinement, command)?,
            argv: arguments(command)?,
            environment: confinement.environment.iter().map(variable).collect::<Result<_, _>>()?,
            terminal: command.terminal,
            limits: resources(&confinement.limits),
            landlock: landlock::rules(files, host)?,
            filter: filter_here()?,
        })
    }
}

impl LaunchPlan {
    /// Adapts this plan to a command in a cgroup, which limits memory and processes better. A cgroup limits used memory instead
    /// of reserved memory, and the command alone instead of all processes of the user in a session.
    pub(crate) fn for_cgroup(mut self) -> Self {
        self.limits.retain(|(resource, ..)| ![DATA, PROCESSES].contains(resource));
        self
    }

    /// Returns the part of this plan that builds the sandbox of a session.
    pub(crate) fn for_session(mut self, parked: u32) -> Result<Self, PlanError> {
        self.part = PlanPart::Session;
        self.parked = parked;
        [self.shared_filter, self.filter] =
            seccomp::compile_for_session(Arch::CURRENT)?.map(|part| part.to_bytes());
        Ok(self)
    }

    /// Returns the part of this plan for a command in an existing sandbox. The command sees only its own processes and terminals.
    pub(crate) fn for_command(mut self) -> Self {
        self.part = PlanPart::Command;
        self.shared_filter.clear();
        self.mounts = mounts::command_mounts();
        self
    }

    /// Returns the rest of this plan if another program builds the sandbox, and the mounts for that program.
    pub(crate) fn for_inner(mut self) -> (Self, Vec<MountOp<CString>>) {
        self.part = PlanPart::Inner;
        let mounts = std::mem::take(&mut self.mounts);
        (self, mounts)
    }

    /// Returns this plan with another command.
    pub(crate) fn with_command(
        &self,
        confinement: &Confinement,
        command: &CommandSpec,
    ) -> Result<Self, PlanError> {
        let (programs, argv) = (programs(confinement, command)?, arguments(command)?);
        Ok(Self { programs, argv, terminal: command.terminal, ..self.clone() })
    }

    /// Sets these variables in the environment, and replaces existing ones.
    pub(crate) fn with_variables(mut self, variables: &[(&str, String)]) -> Result<Self, PlanError> {
        for (name, value) in variables {
            let begin = format!("{name}=");
            self.environment.retain(|one| !one.to_bytes().starts_with(begin.as_bytes()));
            self.environment.push(text(begin + value, "the environment")?);
        }
        Ok(self)
    }
}

fn arguments(command: &CommandSpec) -> Result<Vec<CString>, PlanError> {
    command.argv.iter().map(|argument| text(argument, "an argument")).collect()
}

fn programs(confinement: &Confinement, command: &CommandSpec) -> Result<Vec<CString>, PlanError> {
    let what = "the name of the program";
    let program = command.argv.first().ok_or(PlanError::Empty)?;
    let search = confinement.environment.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    if program.is_empty() {
        return Err(PlanError::Empty);
    }
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![text(program, what)?]);
    }
    // An empty or relative entry would mean the working directory, which the command can write.
    let absolute = search.split(':').map(Path::new).filter(|directory| directory.is_absolute());
    absolute.map(|directory| text(directory.join(program), what)).collect()
}

/// Returns the system call filter, compiled once.
fn filter_here() -> Result<Vec<u8>, JumpTooLongError> {
    static COMPILED: OnceLock<Result<Vec<u8>, JumpTooLongError>> = OnceLock::new();
    COMPILED.get_or_init(|| Ok(seccomp::compile(Arch::CURRENT)?.to_bytes())).clone()
}

/// The kernel's number for the limit on writable memory of a process.
const DATA: u32 = 2;
/// The kernel's number for the limit on processes per user.
const PROCESSES: u32 = 6;

/// Returns the limits per process or per user, with the kernel's numbers.
fn resources(limits: &ResourceLimits) -> Vec<(u32, u64, u64)> {
    const CPU: u32 = 0;
    const FILE: u32 = 1;
    const CORE: u32 = 4;
    const DESCRIPTORS: u32 = 7;
    const LOCKED: u32 = 8;
    const QUEUES: u32 = 12;
    let cpu = limits.cpu_time.as_secs().max(1);
    let fixed = |resource, value| (resource, value, value);
    vec![
        // The launcher measures all processes together and normally acts first. This applies if it is late.
        (CPU, cpu.saturating_add(2), cpu.saturating_add(3)),
        fixed(FILE, limits.file_bytes),
        fixed(DATA, limits.memory_bytes),
        fixed(CORE, 0),
        // The limit includes the first process inside.
        fixed(PROCESSES, u64::from(limits.pids) + 1),
        fixed(DESCRIPTORS, 4096),
        fixed(LOCKED, 64 << 10),
        fixed(QUEUES, 0),
    ]
}

fn text(text: impl Into<OsString>, what: &'static str) -> Result<CString, PlanError> {
    CString::new(text.into().into_vec()).map_err(|_| PlanError::ZeroByte(what))
}

fn path_text(path: &Path) -> Result<CString, PlanError> {
    text(path, "a path")
}

/// Refuses a path that is not absolute or contains `.` or `..`.
pub(crate) fn check_resolved(path: &Path) -> Result<(), PlanError> {
    let plain = |component| matches!(component, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(plain) {
        Ok(())
    } else {
        Err(PlanError::Unresolved(path.to_path_buf()))
    }
}
