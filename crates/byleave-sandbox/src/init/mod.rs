//! The first process inside: builds the sandbox by the plan, drops all privileges, starts the command and ends with it.
//!
//! It has no heap, no environment and no libc. It must never start the command unless every step before succeeded. It must never
//! outlive the launcher: when the control socket closes, it ends, and the kernel ends all other processes in its namespace.

mod fallback;
mod fmt;
mod network;
mod overlay;
mod session;
mod syscalls;
mod terminal;

use core::ffi::CStr;

use self::fmt::ShortText;
use crate::plan_format::{
    InitProcessStep, MountAccess, MountOp, PlanPart, PlanReader, REPORT_BYTES, REPORT_ENDED, REPORT_FAULT,
    REPORT_MOUNTS, REPORT_NOT_STARTED, REPORT_SOCKET, REPORT_TERMINAL, REQUEST_CONTINUE, REQUEST_PAUSE,
    SLOT_COUNT, SocketKind,
};
use crate::syscall::{
    CLOSE_RANGE_CLOEXEC, EINVAL, ENOENT, Errno, close, close_from, drop_capabilities, dup3, exit, prctl,
    set_blocked_signals,
};

/// The descriptor of the plan.
const PLAN: i32 = 3;
/// The descriptor of the control socket, which closes with the launcher and carries the reports.
const LEASH: i32 = 4;
/// The exit status of a process that failed before it started the command.
const EXIT_FAULT: usize = 125;

const PR_SET_DUMPABLE: usize = 4;
const PR_CAPBSET_DROP: usize = 24;
const PR_SET_SECUREBITS: usize = 28;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;
/// No capabilities for root, none by changing the user, none raised again; each setting is locked.
const SECUREBITS: usize = 0b1110_1111;

/// The failed step and the error number.
struct InitError {
    step: InitProcessStep,
    index: u32,
    errno: Errno,
}

fn at(step: InitProcessStep) -> impl Fn(Errno) -> InitError {
    move |errno| InitError { step, index: 0, errno }
}

const GARBLED: InitError = InitError { step: InitProcessStep::Read, index: 0, errno: EINVAL };

/// Runs all steps in order.
pub(crate) fn run() -> ! {
    let Err(fault) = live();
    run_fault(&fault)
}

fn run_fault(fault: &InitError) -> ! {
    report([REPORT_FAULT, fault.step as u32, fault.index, fault.errno.0.cast_unsigned()], 0);
    exit(EXIT_FAULT)
}

/// An enum without values: the function returns only with an error.
enum Never {}

fn live() -> Result<Never, InitError> {
    let plan = syscalls::map(PLAN).map_err(at(InitProcessStep::Read))?;
    close(PLAN).map_err(at(InitProcessStep::Read))?;
    let mut plan = PlanReader::new(plan);
    let part = plan.read_part().ok_or(GARBLED)?;
    if part != PlanPart::Command {
        // Resets signals for all processes that start from here on, because the launcher may ignore some.
        syscalls::default_signals().map_err(at(InitProcessStep::Start))?;
    }
    let parked = plan.read_u32().ok_or(GARBLED)?;
    let shared_filter = plan.bytes().ok_or(GARBLED)?;
    identity(&mut plan, part)?;
    mount_all(&mut plan)?;
    // In a session this applies to all of its commands. The session keeps its capabilities, and the commands cannot regain any.
    if matches!(part, PlanPart::Whole | PlanPart::Session) {
        bound().map_err(at(InitProcessStep::Capabilities))?;
    }
    if part == PlanPart::Session {
        // Each command installs the rest, because its first process still has mounts to do.
        syscalls::filter(shared_filter).map_err(at(InitProcessStep::Filter))?;
        return if parked == 0 { session::serve() } else { session::park(&plan) };
    }
    let command = InitCommand::read(&mut plan).ok_or(GARBLED)?;
    match part {
        PlanPart::Inner => return fallback::run_inner(&mut plan, &command),
        PlanPart::WithoutNamespaces => return fallback::run_without_namespaces(&mut plan, &command),
        PlanPart::Whole | PlanPart::Session | PlanPart::Command => {}
    }
    let mounts = syscalls::own_mounts().map_err(at(InitProcessStep::Start))?;
    harden(&mut plan, capabilities, syscalls::filter)?;
    // The counters of a shared network say nothing about this command.
    let unrouted = if part == PlanPart::Whole { network::count_unrouted } else { not_known };
    start(&command, mounts, unrouted)
}

/// Returns zero for a counter that is unknown.
const fn not_known() -> u32 {
    0
}

/// Drops all privileges.
fn harden(
    plan: &mut PlanReader<'_>,
    capabilities: fn() -> Result<(), Errno>,
    filter: fn(&[u8]) -> Result<(), Errno>,
) -> Result<(), InitError> {
    // The order matters. Limits are set while there are capabilities for them. Capabilities are dropped before the filter, which
    // allows everything that dropping needs. `no_new_privs` comes before Landlock and the filter, because the kernel requires it
    // of unprivileged processes.
    limits(plan)?;
    capabilities().map_err(at(InitProcessStep::Capabilities))?;
    prctl(PR_SET_NO_NEW_PRIVS, [1, 0, 0, 0]).map_err(at(InitProcessStep::NoNewPrivileges))?;
    landlock(plan)?;
    filter(plan.bytes().ok_or(GARBLED)?).map_err(at(InitProcessStep::Filter))?;
    // From here on no process inside can inspect this one, although it has the same user id.
    prctl(PR_SET_DUMPABLE, [0; 4]).map_err(at(InitProcessStep::Dumpable)).map(drop)
}

/// Maps one user and one group, each to itself.
fn identity(plan: &mut PlanReader<'_>, part: PlanPart) -> Result<(), InitError> {
    let fault = at(InitProcessStep::Identity);
    let uid = plan.read_number().ok_or(GARBLED)?;
    let gid = plan.read_number().ok_or(GARBLED)?;
    if !matches!(part, PlanPart::Whole | PlanPart::Session) {
        return Ok(());
    }
    syscalls::write_file(c"/proc/self/setgroups", b"deny").map_err(&fault)?;
    for (path, id) in [(c"/proc/self/gid_map", gid), (c"/proc/self/uid_map", uid)] {
        let mut map = ShortText::new();
        map.number(id).byte(b' ').number(id).byte(b' ').number(1);
        syscalls::write_file(path, map.bytes()).map_err(&fault)?;
    }
    Ok(())
}

fn mount_all(plan: &mut PlanReader<'_>) -> Result<(), InitError> {
    let mut held = [-1i32; SLOT_COUNT];
    let mut left_out = 0u32;
    for index in 0..plan.read_u32().ok_or(GARBLED)? {
        let op = plan.read_op().ok_or(GARBLED)?;
        let fault = |errno| InitError { step: InitProcessStep::Mount, index, errno };
        if left_out > 0 {
            left_out -= 1;
            continue;
        }
        match op {
            MountOp::SkipIfMissing { path } if !syscalls::exists(path).map_err(fault)? => left_out = 2,
            MountOp::SkipIfMissing { .. } => {}
            op => mount(&op, &mut held).map_err(fault)?,
        }
    }
    Ok(())
}

fn mount(op: &MountOp<&CStr>, held: &mut [i32; SLOT_COUNT]) -> Result<(), Errno> {
    let mut hold = |slot: u32, mount: i32| match held.get_mut(slot as usize) {
        Some(hand) => {
            *hand = mount;
            Ok(())
        }
        None => Err(EINVAL),
    };
    match *op {
        MountOp::MakePrivate => syscalls::make_private(),
        MountOp::CloneTree { slot, path, depth, access } => {
            hold(slot, syscalls::clone_tree(path, depth, access)?)
        }
        MountOp::Layer { slot, path } => hold(slot, syscalls::open_path(path)?),
        MountOp::Overlay { slot, first, lowers, .. } => {
            let first = first as usize;
            let layers = held.get(first..first + 2 + lowers as usize).ok_or(EINVAL)?;
            let overlay = overlay::mount(layers)?;
            layers.iter().try_for_each(|layer| close(*layer))?;
            *held.get_mut(slot as usize).ok_or(EINVAL)? = overlay;
            Ok(())
        }
        // The condition has already been evaluated.
        MountOp::SkipIfMissing { .. } => Ok(()),
        MountOp::Seal => syscalls::seal(),
        MountOp::Scratch { slot, bytes, inodes, mode, access } => {
            let (mut size, mut count, mut octal) = (ShortText::new(), ShortText::new(), ShortText::new());
            size.number(bytes);
            count.number(inodes);
            octal.octal(u64::from(mode));
            let options = [
                (c"size", Some(size.text())),
                (c"nr_inodes", Some(count.text())),
                (c"mode", Some(octal.text())),
            ];
            hold(slot, syscalls::new_mount(c"tmpfs", &options, access)?)
        }
        MountOp::Terminals { slot } => hold(slot, syscalls::mount_devpts()?),
        MountOp::Processes { slot } => hold(slot, syscalls::new_mount(c"proc", &[], MountAccess::Write)?),
        MountOp::Attach { slot, path, missing } => {
            let mount = held.get(slot as usize).copied().ok_or(EINVAL)?;
            syscalls::attach(mount, path, missing)
        }
        MountOp::Link { path, to } => syscalls::link(path, to),
        MountOp::Write { path, text } => syscalls::write_file(path, text.to_bytes()),
        MountOp::File { path, text } => syscalls::new_file(path, text.to_bytes()),
        MountOp::Loopback => network::loopback_up(),
        MountOp::Route => network::route_names(),
        MountOp::OfferSocket { socket, port } => {
            let told = [REPORT_SOCKET, socket as u32, u32::from(port), 0];
            let made = match network::open_socket(socket, port) {
                Err(_) if matches!(socket, SocketKind::Loopback6 | SocketKind::Connector6) => {
                    // This machine has no IPv6.
                    syscalls::send_message(LEASH, &message(told, 0));
                    return Ok(());
                }
                made => made?,
            };
            syscalls::send_with_descriptor(LEASH, &message(told, 0), made);
            // From here on only the launcher holds the socket, so no process inside can accept on it.
            close(made)
        }
        MountOp::WaitForReady => network::wait_for_ready(LEASH),
        MountOp::Hostname { name } => syscalls::hostname(name),
    }
}

fn limits(plan: &mut PlanReader<'_>) -> Result<(), InitError> {
    for index in 0..plan.read_u32().ok_or(GARBLED)? {
        let resource = plan.read_u32().ok_or(GARBLED)?;
        let (soft, hard) = (plan.read_number().ok_or(GARBLED)?, plan.read_number().ok_or(GARBLED)?);
        syscalls::limit(resource, soft, hard).map_err(|errno| InitError {
            step: InitProcessStep::Limits,
            index,
            errno,
        })?;
    }
    Ok(())
}

/// Clears the bounding set, so that no further capability can be gained.
fn bound() -> Result<(), Errno> {
    // The kernel returns an error after the last capability that it knows.
    let mut capability = 0;
    loop {
        match prctl(PR_CAPBSET_DROP, [capability, 0, 0, 0]) {
            Ok(_) => capability += 1,
            Err(EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn capabilities() -> Result<(), Errno> {
    prctl(PR_CAP_AMBIENT, [PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0])?;
    prctl(PR_SET_SECUREBITS, [SECUREBITS, 0, 0, 0])?;
    drop_capabilities()
}

fn landlock(plan: &mut PlanReader<'_>) -> Result<(), InitError> {
    let size = plan.read_number().ok_or(GARBLED)?;
    let attr = [
        plan.read_number().ok_or(GARBLED)?,
        plan.read_number().ok_or(GARBLED)?,
        plan.read_number().ok_or(GARBLED)?,
    ];
    let rules = plan.read_u32().ok_or(GARBLED)?;
    let fault = at(InitProcessStep::Landlock);
    if size == 0 {
        // The number of ports, of which there are none either.
        return plan.read_u32().map(drop).ok_or(GARBLED);
    }
    let size = usize::try_from(size).map_err(|_| GARBLED)?;
    let ruleset = syscalls::landlock_ruleset(&attr, size).map_err(&fault)?;
    for index in 0..rules {
        let (path, access) = (plan.text().ok_or(GARBLED)?, plan.read_number().ok_or(GARBLED)?);
        match syscalls::landlock_rule(ruleset, path, access) {
            // A rule only allows. What is gone meanwhile needs none.
            Ok(()) | Err(ENOENT) => {}
            Err(errno) => {
                return Err(InitError { step: InitProcessStep::Landlock, index: index + 1, errno });
            }
        }
    }
    for _ in 0..plan.read_u32().ok_or(GARBLED)? {
        let (port, access) = (plan.read_number().ok_or(GARBLED)?, plan.read_number().ok_or(GARBLED)?);
        syscalls::landlock_port(ruleset, port, access).map_err(&fault)?;
    }
    syscalls::landlock_enter(ruleset).map_err(&fault)
}

/// The command to start, as encoded in the plan.
struct InitCommand<'a> {
    cwd: &'a CStr,
    programs: CStringArray<'a>,
    arguments: CStringArray<'a>,
    environment: CStringArray<'a>,
    /// The rows and columns of its terminal; zero without one.
    terminal: u32,
}

/// Strings in the format of the kernel: addresses, and a null at the end.
struct CStringArray<'a> {
    addresses: &'a [usize],
}

impl<'a> CStringArray<'a> {
    fn read(plan: &mut PlanReader<'a>) -> Option<Self> {
        let count = usize::try_from(plan.read_number()?).ok()?;
        let addresses = syscalls::allocate_words(count.checked_add(1)?).ok()?;
        for address in addresses.iter_mut().take(count) {
            *address = plan.text()?.as_ptr() as usize;
        }
        Some(Self { addresses })
    }

    fn each(&self) -> impl Iterator<Item = &'a CStr> {
        self.addresses.iter().filter(|address| **address != 0).map(|address| {
            // SAFETY: the address of a string in the plan, which stays mapped.
            unsafe { CStr::from_ptr(core::ptr::with_exposed_provenance(*address)) }
        })
    }
}

impl<'a> InitCommand<'a> {
    fn read(plan: &mut PlanReader<'a>) -> Option<Self> {
        Some(Self {
            cwd: plan.text()?,
            programs: CStringArray::read(plan)?,
            arguments: CStringArray::read(plan)?,
            environment: CStringArray::read(plan)?,
            terminal: plan.read_u32()?,
        })
    }
}

/// Starts the command as the second process, because signals to a first process are ignored by default, and ends with it.
fn start(command: &InitCommand<'_>, mounts: i32, unrouted: fn() -> u32) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    set_blocked_signals(u64::MAX).map_err(&fault)?;
    let children = syscalls::child_signals().map_err(&fault)?;
    let terminal = match command.terminal {
        0 => None,
        size => Some(open_terminal(size).map_err(at(InitProcessStep::Terminal))?),
    };
    // Unmounting takes the kernel long, and nothing needs to wait for it. The mounts are kept until the launcher releases them.
    // This comes after the terminal, for which the launcher waits.
    syscalls::send_with_descriptor(LEASH, &message([REPORT_MOUNTS, 0, 0, 0], 0), mounts);
    close(mounts).map_err(&fault)?;
    let mut stack = syscalls::ChildStack::uninit();
    let mut beginning = CommandStart { command, terminal };
    // We do not wait for it as after `vfork`, because during a slow exec we would miss the end of the launcher.
    // SAFETY: this function never returns once there is a child. From here on only the child uses the stack and its input. The
    // plan, which both read, is never written.
    let started = unsafe { syscalls::fork_in_memory(&mut stack, begin_command, (&raw mut beginning).cast()) };
    // The namespace and all of its processes end with us, but the remaining processes must be counted first.
    let Err(fault) = attend(started.map_err(&fault)?, terminal, children, end_namespace, (true, unrouted));
    run_fault(&fault)
}

/// Ends every other process of the namespace. Returns how many there were, except for those that their parent reaped first.
fn end_namespace() -> u32 {
    let mut ended = 0u32;
    // A killed process can start nothing more, and becomes our child at the latest when its parent ends. A second round covers
    // processes that joined from outside meanwhile. There are no further rounds, because we cannot wait for a process whose
    // parent is outside.
    for _ in 0..2 {
        if syscalls::kill(-1).is_err() {
            break;
        }
        while syscalls::wait_for_child() {
            ended = ended.saturating_add(1);
        }
    }
    ended
}

/// Waits for the command, and ends with it or with the launcher. Before that, `end_all` ends the processes that the command
/// started, and returns how many there were. `may_pause` says that this process may signal nothing but those.
fn attend(
    started: usize,
    terminal: Option<i32>,
    children: i32,
    end_all: impl Fn() -> u32,
    (may_pause, unrouted): (bool, fn() -> u32),
) -> Result<Never, InitError> {
    let fault = at(InitProcessStep::Start);
    if let Some(terminal) = terminal {
        close(terminal).map_err(&fault)?;
    }
    // The output must end when the command and its children have closed it, not when we do.
    let null = syscalls::open_null().map_err(&fault)?;
    for standard in 0..3 {
        dup3(null, standard, 0).map_err(&fault)?;
    }
    let (mut micros, mut over) = (0u64, None);
    loop {
        // Reaps all that have ended by now, so that none of them is counted as left behind.
        while let Some((pid, status, used)) = syscalls::reap() {
            micros = micros.saturating_add(used);
            if pid == started {
                over = Some(status);
            }
        }
        if let Some(status) = over {
            let survivors = end_all();
            report([REPORT_ENDED, survivors, unrouted(), status.cast_unsigned()], micros);
            exit(0);
        }
        // The launcher writes nothing more by now, except for this. Any other event on the control socket is its end.
        if syscalls::wait_for_either(children, LEASH).map_err(&fault)? {
            let is_paused = match syscalls::read_byte(LEASH) {
                Some(REQUEST_PAUSE) if may_pause => true,
                Some(REQUEST_CONTINUE) if may_pause => false,
                _ => {
                    end_all();
                    exit(EXIT_FAULT);
                }
            };
            // Without a process there is nothing to do.
            syscalls::pause_all(is_paused).unwrap_or_default();
        }
        syscalls::drain(children);
    }
}

/// The input of the command's process.
struct CommandStart<'a> {
    command: &'a InitCommand<'a>,
    terminal: Option<i32>,
}

/// Runs in the child, on its own stack and in our memory.
extern "C" fn begin_command(told: *mut u8) -> ! {
    // SAFETY: the pointer that `start` passed, which stays valid as long as its process.
    let CommandStart { command, terminal } = unsafe { &*told.cast::<CommandStart<'_>>() };
    let Err(errno) = become_command(command, *terminal);
    report([REPORT_NOT_STARTED, 0, 0, errno.0.cast_unsigned()], 0);
    exit(127)
}

/// Creates a terminal in the sandbox's own terminal file system, passes its outer end out, and keeps the inner one.
fn open_terminal(size: u32) -> Result<i32, Errno> {
    let (outer, inner) = terminal::open(size)?;
    syscalls::send_with_descriptor(LEASH, &message([REPORT_TERMINAL, 0, 0, 0], 0), outer);
    close(outer)?;
    Ok(inner)
}

fn become_command(command: &InitCommand<'_>, terminal: Option<i32>) -> Result<Never, Errno> {
    syscalls::new_session()?;
    if let Some(terminal) = terminal {
        terminal::control(terminal)?;
        for standard in 0..3 {
            dup3(terminal, standard, 0)?;
        }
    }
    syscalls::change_directory(command.cwd)?;
    set_blocked_signals(0)?;
    // Marked, not closed, because the control socket still carries the report if the command cannot be started.
    close_from(3, CLOSE_RANGE_CLOEXEC)?;
    let (argv, envp) = (command.arguments.addresses.as_ptr(), command.environment.addresses.as_ptr());
    let mut refused = ENOENT;
    for program in command.programs.each() {
        // SAFETY: both arrays end with the null that `CStringArray::read` left room for.
        match unsafe { syscalls::exec(program, argv, envp) } {
            ENOENT => {}
            errno => refused = errno,
        }
    }
    Err(refused)
}

fn report(words: [u32; 4], number: u64) {
    syscalls::send_message(LEASH, &message(words, number));
}

fn message(words: [u32; 4], number: u64) -> [u8; REPORT_BYTES] {
    let mut message = [0u8; REPORT_BYTES];
    let (head, tail) = message.split_at_mut(16);
    for (place, word) in head.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    tail.copy_from_slice(&number.to_le_bytes());
    message
}
