//! What the first process inside reports, and how it is told to people.

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

use super::{LaunchError, Status, ours, undertaker};
use crate::plan::Plan;
use crate::wire::{Op, REPORT_BYTES, REPORT_ENDED, REPORT_FAULT, REPORT_MOUNTS, REPORT_NOT_STARTED, Step};

/// What the first process inside was doing when it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The step.
    pub step: Option<Step>,
    /// The mount that it was at.
    pub mount: Option<Op<CString>>,
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = match self.step {
            None | Some(Step::Read) => "reading the plan",
            Some(Step::Identity) => "mapping the user",
            Some(Step::Mount) => return mount_told(self.mount.as_ref(), f),
            Some(Step::Limits) => "setting limits",
            Some(Step::Capabilities) => "dropping capabilities",
            Some(Step::NoNewPrivileges) => "giving up new privileges",
            Some(Step::Landlock) => "applying Landlock",
            Some(Step::Filter) => "installing the system call filter",
            Some(Step::Dumpable) => "hiding its memory",
            Some(Step::Terminal) => "making a terminal",
            Some(Step::Start) => "starting the command",
        };
        f.write_str(told)
    }
}

fn mount_told(mount: Option<&Op<CString>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match mount {
        None => f.write_str("mounting"),
        Some(Op::Seclude) => f.write_str("making mounts private"),
        Some(Op::Hold { path, .. }) => write!(f, "taking `{}` in hand", path.to_string_lossy()),
        Some(Op::Layer { path, .. }) => write!(f, "taking the layer `{}` in hand", path.to_string_lossy()),
        Some(Op::Overlay { root, .. }) => write!(f, "making a copy of `{}`", root.to_string_lossy()),
        Some(Op::IfThere { path }) => write!(f, "looking at `{}`", path.to_string_lossy()),
        Some(Op::Seal) => f.write_str("making everything read-only"),
        Some(Op::Scratch { .. }) => f.write_str("making an empty file system"),
        Some(Op::Terminals { .. }) => f.write_str("making terminals"),
        Some(Op::Processes { .. }) => f.write_str("mounting the processes"),
        Some(Op::Attach { path, .. }) => write!(f, "putting something at `{}`", path.to_string_lossy()),
        Some(Op::Link { path, .. }) => write!(f, "making the link `{}`", path.to_string_lossy()),
        Some(Op::Write { path, .. }) => write!(f, "writing `{}`", path.to_string_lossy()),
        Some(Op::File { path, .. }) => write!(f, "making `{}`", path.to_string_lossy()),
        Some(Op::Loopback) => f.write_str("starting the loopback"),
        Some(Op::Route) => f.write_str("leading the addresses of names to the loopback"),
        Some(Op::Offer { port, .. }) => write!(f, "making a socket for port {port} of its network"),
        Some(Op::Await) => f.write_str("waiting until its network is served"),
        Some(Op::Hostname { .. }) => f.write_str("naming the host"),
    }
}

/// How a command ended, as the first process inside has it.
pub(super) struct Ended {
    pub(super) status: Status,
    pub(super) cpu: Duration,
    pub(super) survivors: u32,
    /// How often no way led to where something was to go, in all of the network that it is in; unless that is not known.
    pub(super) unrouted: Option<u64>,
}

/// Reads what was reported. `None` when it was killed before it could report.
pub(super) fn reports(leash: &OwnedFd, plan: &Plan) -> Result<Option<Ended>, LaunchError> {
    let mut ended = None;
    loop {
        // All of it is there: who writes has ended.
        let Some(heard) = next(leash)? else { return Ok(ended) };
        let [kind, step, index, errno] = heard.words;
        let errno = errno.cast_signed();
        match kind {
            REPORT_FAULT => return Err(fault(step, index, errno, plan)),
            REPORT_NOT_STARTED => {
                let status = Status::NotStarted(errno);
                ended = Some(Ended { status, cpu: Duration::ZERO, survivors: 0, unrouted: None });
            }
            REPORT_MOUNTS => heard.descriptor.into_iter().for_each(undertaker::take),
            // Said by a process that did not become the command, it adds nothing.
            REPORT_ENDED if ended.is_none() => {
                let cpu = Duration::from_micros(heard.number);
                let unrouted = index.checked_sub(1).map(u64::from);
                ended = Some(Ended { status: status(errno), cpu, survivors: step, unrouted });
            }
            _ => {}
        }
    }
}

/// A message from inside.
pub(super) struct Heard {
    /// What it is about, and three numbers.
    pub(super) words: [u32; 4],
    /// One more, which may be large.
    pub(super) number: u64,
    /// What came with it.
    pub(super) descriptor: Option<OwnedFd>,
}

/// The next message from inside; `None` when it does not come. A fault is an error.
pub(super) fn heard(leash: &OwnedFd, plan: &Plan) -> Result<Option<Heard>, LaunchError> {
    // Who says nothing has come to harm.
    let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(leash, PollFlags::IN)], Some(&patience)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(errno) => return Err(ours("waiting for the sandbox")(errno)),
        }
    }
    match next(leash)? {
        Some(Heard { words: [REPORT_FAULT, step, index, errno], .. }) => {
            Err(fault(step, index, errno.cast_signed(), plan))
        }
        heard => Ok(heard),
    }
}

/// The next message that is there.
fn next(leash: &OwnedFd) -> Result<Option<Heard>, LaunchError> {
    let mut message = [0u8; REPORT_BYTES];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut message)];
        match recvmsg(leash, &mut parts, &mut control, RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(None),
            received => break received.map_err(ours("reading what the sandbox reports"))?.bytes,
        }
    };
    match received {
        0 => return Ok(None),
        REPORT_BYTES => {}
        _ => return Err(LaunchError::Garbled),
    }
    let mut descriptors = control.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    Ok(Some(Heard { words: words(&message), number: number(&message), descriptor }))
}

fn fault(step: u32, index: u32, errno: i32, plan: &Plan) -> LaunchError {
    let step = Step::ALL.get(step as usize).copied();
    let mount = plan.mounts.get(index as usize).filter(|_| step == Some(Step::Mount)).cloned();
    let error = io::Error::from_raw_os_error(errno);
    match mount {
        Some(Op::Overlay { root: path, .. } | Op::Layer { path, .. }) => {
            LaunchError::NotCopied { root: OsStr::from_bytes(path.to_bytes()).into(), error }
        }
        mount => LaunchError::Inside { inside: Inside { step, mount }, error },
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

/// A status as `wait` has it.
fn status(status: i32) -> Status {
    match status & 0x7f {
        0 => Status::Exited(status >> 8 & 0xff),
        signal => Status::Signalled(signal),
    }
}
