//! The plan: a confinement and a command turned into exactly what the first process inside will do, step by step.
//!
//! Looks at what is where through [`HostInfo`] and does nothing, so that its order can be tested without privileges.

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

pub use landlock::{LandlockRule, LandlockRuleset};
pub(crate) use network::{NetworkPlan, PROXY_PORT};

use crate::confinement::{Confinement, Network};
use crate::limits::ResourceLimits;
use crate::plan_format::{MountOp, PlanPart};
use crate::seccomp::{self, Arch, JumpTooLongError};

/// A command: a program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program, then what it is given. Without a slash, the program is looked for in the confinement's `PATH`.
    pub argv: Vec<OsString>,
    /// What it can read from its standard input, which is `/dev/null` if this is nothing. Into a terminal it is typed, and then its
    /// end.
    pub stdin: Vec<u8>,
    /// A terminal of its own in place of pipes: what it prints and what it prints as errors is then one.
    pub terminal: Option<TerminalSize>,
    /// Its standard streams are carried by the caller, who takes them from what is running: nothing is kept of them, and
    /// `stdin` is not given. Has no meaning for a terminal, which can be taken anyway.
    pub carried_by_caller: bool,
    /// What it prints and what it prints as errors goes through one pipe, in the order printed, and is then one. Has no meaning
    /// where the caller carries them, nor in a container, whose engine has a pipe for each.
    pub together: bool,
}

/// A terminal, by its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// How many lines.
    pub rows: u16,
    /// How many characters in a line.
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

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A file, a socket, or what else there is.
    File,
}

/// The machine as a plan needs to know it.
pub trait HostInfo {
    /// What is at a path, without following a link at its end.
    fn kind(&self, path: &Path) -> Option<PathKind>;

    /// Where a path leads in the end, if there is something.
    fn target(&self, path: &Path) -> Option<PathBuf>;

    /// The version of Landlock; zero without.
    fn landlock(&self) -> u32;
}

/// What the first process inside will do, in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPlan {
    /// How much of it is done.
    pub part: PlanPart,
    /// In a session: how many first processes of commands wait ready.
    pub parked: u32,
    /// In a session: what its first process takes of the system call filter, for all of its commands.
    pub shared_filter: Vec<u8>,
    /// Who it is.
    pub identity: UserIdentity,
    /// Whether it has a network of its own.
    pub network_apart: bool,
    /// What it mounts, in order.
    pub mounts: Vec<MountOp<CString>>,
    /// Where the command starts.
    pub cwd: CString,
    /// The places where the program may be; the first that can be run is.
    pub programs: Vec<CString>,
    /// What the program is given, its name first.
    pub argv: Vec<CString>,
    /// The environment of the program.
    pub environment: Vec<CString>,
    /// The terminal that it is given.
    pub terminal: Option<TerminalSize>,
    /// Limits: resource, value at which it is told, value that it cannot pass.
    pub limits: Vec<(u32, u64, u64)>,
    /// What may be done beneath which paths; `None` where the kernel has no Landlock.
    pub landlock: Option<LandlockRuleset>,
    /// The system call filter, as the kernel takes it.
    pub filter: Vec<u8>,
}

/// Why there is no plan for a confinement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A path is not absolute, or has `.` or `..` in it.
    #[error("cannot confine to `{}`: the path is not absolute and resolved; resolve it first", .0.display())]
    Unresolved(PathBuf),
    /// A path is a symbolic link.
    #[error("cannot confine to `{}`: it is a symbolic link; name what it leads to", .0.display())]
    Link(PathBuf),
    /// Something that has to be there is not.
    #[error("cannot confine to `{}`: there is no such directory or file", .0.display())]
    Missing(PathBuf),
    /// A writable path would show the home directory, which is to be hidden.
    #[error("cannot let the command write `{}`: the home directory lies in it, and is hidden; name a directory beneath the home directory", .0.display())]
    ShowsHome(PathBuf),
    /// A writable path would show all that is mounted.
    #[error("cannot let the command write `{}`: it holds what the sandbox itself stands on; name a directory beneath it", .0.display())]
    TooMuch(PathBuf),
    /// Too many writable paths and toolchains.
    #[error(
        "cannot confine the command: more than {0} paths are writable or readable beneath the home directory; name those above them"
    )]
    TooMany(usize),
    /// A copy of something that cannot be written anyway, or for which there is no place.
    #[error("cannot run on a copy of `{root}`: {why}", root = .0.display(), why = .1)]
    NoCopy(PathBuf, &'static str),
    /// What a copy is made of could be reached inside.
    #[error("cannot keep a copy in `{}`: the command could reach it there; keep it in a directory that is hidden from it", .0.display())]
    CopyShown(PathBuf),
    /// A path that cannot be told to a container engine.
    #[error("cannot confine to `{}` in a container: a comma, a quotation mark or a line break in its name; rename it", .0.display())]
    Unspeakable(PathBuf),
    /// A zero byte in a path, an argument or the environment.
    #[error("cannot run the command: a zero byte in {0}")]
    ZeroByte(&'static str),
    /// There is no command.
    #[error("cannot run the command: it is empty")]
    Empty,
    /// The system call filter cannot be compiled.
    #[error(transparent)]
    Filter(#[from] JumpTooLongError),
}

impl LaunchPlan {
    /// The plan for a command in a confinement on this host.
    pub fn new(
        confinement: &Confinement,
        command: &CommandSpec,
        identity: UserIdentity,
        host: &impl HostInfo,
    ) -> Result<Self, PlanError> {
        let files = &confinement.files;
        let network_apart = confinement.network != Network::Host;
        let scratch_bytes = confinement.limits.tmp;
        let mounts = mounts::program(files, scratch_bytes, network_apart, host)?;
        if host.kind(&files.cwd) != Some(PathKind::Directory) {
            return Err(PlanError::Missing(files.cwd.clone()));
        }
        let variable = |(name, value): (&String, &String)| text(format!("{name}={value}"), "the environment");
        Ok(Self {
            part: PlanPart::Whole,
            parked: 0,
            shared_filter: Vec::new(),
            identity,
            network_apart,
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
    /// This plan for a command in a cgroup, which limits memory and processes better: by what is used, not by what is reserved,
    /// and of the command alone, not of all that the user has in a session.
    pub(crate) fn in_group(mut self) -> Self {
        self.limits.retain(|(resource, ..)| ![DATA, PROCESSES].contains(resource));
        self
    }

    /// Of this plan, what makes the place that a session's commands run in.
    pub(crate) fn for_session(mut self, parked: u32) -> Result<Self, PlanError> {
        self.part = PlanPart::Session;
        self.parked = parked;
        [self.shared_filter, self.filter] = seccomp::compile_shared(Arch::HERE)?.map(|part| part.bytes());
        Ok(self)
    }

    /// Of this plan, what is left to do for a command where the place stands: the processes and terminals that it sees are its
    /// own.
    pub(crate) fn for_command(mut self) -> Self {
        self.part = PlanPart::Command;
        self.shared_filter.clear();
        self.mounts = mounts::of_a_command();
        self
    }

    /// Of this plan, what is left to do where another program has made the place; and what that program has to mount.
    pub(crate) fn for_inner(mut self) -> (Self, Vec<MountOp<CString>>) {
        self.part = PlanPart::Inner;
        let mounts = std::mem::take(&mut self.mounts);
        (self, mounts)
    }

    /// This plan with another command.
    pub(crate) fn with_command(
        &self,
        confinement: &Confinement,
        command: &CommandSpec,
    ) -> Result<Self, PlanError> {
        let (programs, argv) = (programs(confinement, command)?, arguments(command)?);
        Ok(Self { programs, argv, terminal: command.terminal, ..self.clone() })
    }

    /// This plan with these variables in the environment, whatever stood there by their names.
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

/// The system call filter, compiled once.
fn filter_here() -> Result<Vec<u8>, JumpTooLongError> {
    static COMPILED: OnceLock<Result<Vec<u8>, JumpTooLongError>> = OnceLock::new();
    COMPILED.get_or_init(|| Ok(seccomp::compile(Arch::HERE)?.bytes())).clone()
}

/// The kernel's number for the limit on what a process can write to.
const DATA: u32 = 2;
/// The kernel's number for the limit on processes, which it counts for each user.
const PROCESSES: u32 = 6;

/// Limits that the kernel keeps for each process or for each user, by its own numbers.
fn resources(limits: &ResourceLimits) -> Vec<(u32, u64, u64)> {
    const CPU: u32 = 0;
    const FILE: u32 = 1;
    const CORE: u32 = 4;
    const DESCRIPTORS: u32 = 7;
    const LOCKED: u32 = 8;
    const QUEUES: u32 = 12;
    let cpu = limits.cpu.as_secs().max(1);
    let fixed = |resource, value| (resource, value, value);
    vec![
        // The launcher counts all processes together, and comes first; this is for when it is late.
        (CPU, cpu.saturating_add(2), cpu.saturating_add(3)),
        fixed(FILE, limits.file),
        fixed(DATA, limits.memory),
        fixed(CORE, 0),
        // The first process inside counts as well.
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

/// Refuses a path that does not say plainly where it leads.
pub(crate) fn resolved(path: &Path) -> Result<(), PlanError> {
    let plain = |component| matches!(component, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(plain) {
        Ok(())
    } else {
        Err(PlanError::Unresolved(path.to_path_buf()))
    }
}
