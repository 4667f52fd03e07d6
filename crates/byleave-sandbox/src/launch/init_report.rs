//! Decodes the reports of the first process inside, and describes them for people.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::{CommandStatus, LaunchError, internal_error, unmount_thread};
use crate::plan::LaunchPlan;
use crate::plan_format::{
    InitProcessStep, MountOp, REPORT_BYTES, REPORT_ENDED, REPORT_FAULT, REPORT_MOUNTS, REPORT_NOT_STARTED,
};

/// The step at which the first process inside failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitFailure {
    /// The step.
    pub step: Option<InitProcessStep>,
    /// The mount at which it failed.
    pub mount: Option<MountOp<CString>>,
}

impl fmt::Display for InitFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = match self.step {
            None | Some(InitProcessStep::Read) => "reading the plan",
            Some(InitProcessStep::Identity) => "mapping the user",
            Some(InitProcessStep::Mount) => return mount_told(self.mount.as_ref(), f),
            Some(InitProcessStep::Limits) => "setting limits",
            Some(InitProcessStep::Capabilities) => "dropping capabilities",
            Some(InitProcessStep::NoNewPrivileges) => "setting no_new_privs",
            Some(InitProcessStep::Landlock) => "applying Landlock",
            Some(InitProcessStep::Filter) => "installing the system call filter",
            Some(InitProcessStep::Dumpable) => "making the process memory unreadable",
            Some(InitProcessStep::Terminal) => "creating a terminal",
            Some(InitProcessStep::Start) => "starting the command",
        };
        f.write_str(told)
    }
}

fn mount_told(mount: Option<&MountOp<CString>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match mount {
        None => f.write_str("mounting"),
        Some(MountOp::MakePrivate) => f.write_str("making mounts private"),
        Some(MountOp::CloneTree { path, .. }) => write!(f, "opening the mount `{}`", path.to_string_lossy()),
        Some(MountOp::Layer { path, .. }) => {
            write!(f, "opening the layer `{}`", path.to_string_lossy())
        }
        Some(MountOp::Overlay { root, .. }) => write!(f, "mounting a copy of `{}`", root.to_string_lossy()),
        Some(MountOp::SkipIfMissing { path }) => write!(f, "checking `{}`", path.to_string_lossy()),
        Some(MountOp::Seal) => f.write_str("making everything read-only"),
        Some(MountOp::Scratch { .. }) => f.write_str("mounting an empty file system"),
        Some(MountOp::Terminals { .. }) => f.write_str("mounting /dev/pts"),
        Some(MountOp::Processes { .. }) => f.write_str("mounting /proc"),
        Some(MountOp::Attach { path, .. }) => write!(f, "mounting at `{}`", path.to_string_lossy()),
        Some(MountOp::Link { path, .. }) => write!(f, "creating the link `{}`", path.to_string_lossy()),
        Some(MountOp::Write { path, .. }) => write!(f, "writing `{}`", path.to_string_lossy()),
        Some(MountOp::File { path, .. }) => write!(f, "creating `{}`", path.to_string_lossy()),
        Some(MountOp::Loopback) => f.write_str("starting the loopback"),
        Some(MountOp::Route) => f.write_str("routing the addresses of names to the loopback"),
        Some(MountOp::OfferSocket { port, .. }) => {
            write!(f, "creating a socket for port {port} in the sandbox network")
        }
        Some(MountOp::WaitForReady) => f.write_str("waiting until the sandbox network is served"),
        Some(MountOp::Hostname { .. }) => f.write_str("setting the host name"),
    }
}

/// The end of a command, as the first process inside reports it.
pub(super) struct CommandEnd {
    pub(super) status: CommandStatus,
    pub(super) cpu: Duration,
    pub(super) survivors: u32,
    /// How many packets had no route, in the whole network that it is in. `None` if unknown.
    pub(super) unrouted: Option<u64>,
}

/// Reads the reports. `None` if the process was killed before it could report.
pub(super) fn read_end_report(leash: &OwnedFd, plan: &LaunchPlan) -> Result<Option<CommandEnd>, LaunchError> {
    let mut ended = None;
    loop {
        // All reports are there, because the writer has ended.
        let Some(heard) = next(leash)? else { return Ok(ended) };
        let [kind, step, index, errno] = heard.words;
        let errno = errno.cast_signed();
        match kind {
            REPORT_FAULT => return Err(fault(step, index, errno, plan)),
            REPORT_NOT_STARTED => {
                let status = CommandStatus::NotStarted(errno);
                ended = Some(CommandEnd { status, cpu: Duration::ZERO, survivors: 0, unrouted: None });
            }
            REPORT_MOUNTS => heard.descriptor.into_iter().for_each(unmount_thread::close_mounts),
            // A report of a process that did not become the command is ignored.
            REPORT_ENDED if ended.is_none() => {
                let cpu = Duration::from_micros(heard.number);
                let unrouted = index.checked_sub(1).map(u64::from);
                ended = Some(CommandEnd { status: status(errno), cpu, survivors: step, unrouted });
            }
            _ => {}
        }
    }
}

/// A message from inside.
pub(super) struct InitMessage {
    /// The kind, and three numbers.
    pub(super) words: [u32; 4],
    /// Another number, which may be large.
    pub(super) number: u64,
    /// The attached descriptor.
    pub(super) descriptor: Option<OwnedFd>,
}

/// Waits for the next message from inside. `None` if none comes. A reported failure is an error.
pub(super) fn read_message(leash: &OwnedFd, plan: &LaunchPlan) -> Result<Option<InitMessage>, LaunchError> {
    // A process that reports nothing for this long has failed, also on a busy machine.
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(leash, PollFlags::IN)], Some(&patience)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(errno) => return Err(internal_error("waiting for the sandbox")(errno)),
        }
    }
    match next(leash)? {
        Some(InitMessage { words: [REPORT_FAULT, step, index, errno], .. }) => {
            Err(fault(step, index, errno.cast_signed(), plan))
        }
        heard => Ok(heard),
    }
}

/// Reads the next available message.
fn next(leash: &OwnedFd) -> Result<Option<InitMessage>, LaunchError> {
    let mut message = [0u8; REPORT_BYTES];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut message)];
        match recvmsg(leash, &mut parts, &mut control, RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(None),
            received => break received.map_err(internal_error("reading the report of the sandbox"))?.bytes,
        }
    };
    match received {
        0 => return Ok(None),
        REPORT_BYTES => {}
        _ => return Err(LaunchError::InvalidReport),
    }
    let mut descriptors = control.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    Ok(Some(InitMessage { words: words(&message), number: number(&message), descriptor }))
}

fn fault(step: u32, index: u32, errno: i32, plan: &LaunchPlan) -> LaunchError {
    let step = InitProcessStep::ALL.get(step as usize).copied();
    let mount = plan.mounts.get(index as usize).filter(|_| step == Some(InitProcessStep::Mount)).cloned();
    let error = io::Error::from_raw_os_error(errno);
    match mount {
        Some(MountOp::Overlay { root: path, .. } | MountOp::Layer { path, .. }) => {
            LaunchError::CopyFailed { root: OsStr::from_bytes(path.to_bytes()).into(), error }
        }
        mount => LaunchError::Init { failure: InitFailure { step, mount }, error },
    }
}

fn words(message: &[u8; REPORT_BYTES]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(message.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

fn number(message: &[u8; REPORT_BYTES]) -> u64 {
    message.last_chunk::<8>().map_or(0, |number| u64::from_le_bytes(*number))
}

/// Decodes a status of `wait`.
fn status(status: i32) -> CommandStatus {
    match status & 0x7f {
        0 => CommandStatus::Exited(status >> 8 & 0xff),
        signal => CommandStatus::Signalled(signal),
    }
}
