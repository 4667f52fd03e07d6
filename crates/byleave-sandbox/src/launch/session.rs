//! A session: one place for many commands, made once.
//!
//! Its namespaces of users, mounts, network and interprocess communication are shared by its commands; each has processes of its
//! own. A mask is lifted when somebody outside renames another file over what it covers, so before every command what is covered
//! is compared with what was covered, and the place is made anew if it differs.

use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::{
    Ends, LaunchError, Process, RunAs, Running, ThisHost, carried, given, identity, inside, leash, ours,
    spawn,
};
use crate::confinement::Confinement;
use crate::plan::{Command, Plan};
use crate::wire::REPORT_BYTES;

/// A place for many commands. When it is dropped, they all end.
#[derive(Debug)]
pub struct Session {
    confinement: Confinement,
    run_as: RunAs,
    parked: u32,
    place: Mutex<Place>,
}

/// The first process of a session, which starts those of its commands.
#[derive(Debug)]
struct Place {
    process: Process,
    requests: OwnedFd,
    covered: Vec<Option<(u64, u64)>>,
    /// What every command has in common.
    plan: Plan,
}

impl Session {
    /// Makes the place. So many first processes of commands wait ready in it; with none, each is started when it is asked for.
    pub fn open(confinement: Confinement, run_as: RunAs, parked: u32) -> Result<Self, LaunchError> {
        confinement.held_against(given)?;
        let place = Mutex::new(Place::new(&confinement, run_as, parked)?);
        Ok(Self { confinement, run_as, parked, place })
    }

    /// Starts a command in it.
    pub fn start(&self, command: &Command) -> Result<Running, LaunchError> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if covered(&self.confinement) != place.covered {
            *place = Place::new(&self.confinement, self.run_as, self.parked)?;
        }
        let plan = place.plan.with_command(&self.confinement, command)?;
        let ends = Ends::new(&plan, command, self.confinement.limits.output)?;
        let began = Instant::now();
        let pidfd = place.request(&ends, &plan)?;
        drop(place);
        Ok(ends.running(
            Process { pidfd, child: false, leash: None },
            plan,
            began,
            self.confinement.limits.wall,
        ))
    }
}

/// What the masks and protections cover, each by its own identity.
fn covered(confinement: &Confinement) -> Vec<Option<(u64, u64)>> {
    let one = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let files = &confinement.files;
    files.hidden.iter().chain(&files.protected).chain(&files.writable).map(one).collect()
}

impl Place {
    fn new(confinement: &Confinement, run_as: RunAs, parked: u32) -> Result<Self, LaunchError> {
        let covered = covered(confinement);
        // The command of this plan is never started.
        let nothing = Command { argv: vec!["/".into()], stdin: Vec::new() };
        let plan = Plan::new(confinement, &nothing, identity(run_as)?, &ThisHost)?.for_session(parked);
        let written = carried::sealed(c"byleave-plan", &plan.encode())?;
        let (requests, inner) = leash()?;
        let null = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(ours("opening /dev/null"))?;
        let given = [null.as_fd(), null.as_fd(), null.as_fd(), written.as_fd(), inner.as_fd()];
        let pidfd = spawn(carried::program()?, given, plan.network_apart, run_as)?;
        drop(inner);
        let common = plan.clone().for_command();
        let place =
            Self { process: Process { pidfd, child: true, leash: None }, requests, covered, plan: common };
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
        let mut message = [0u8; REPORT_BYTES];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        // A session that says nothing is one that has come to harm.
        let mut asked = [PollFd::new(&self.requests, PollFlags::IN)];
        let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
        if poll(&mut asked, Some(&patience)).map_err(ours("waiting for the session"))? == 0 {
            return Err(LaunchError::Silent);
        }
        let length = loop {
            let mut parts = [rustix::io::IoSliceMut::new(&mut message)];
            match recvmsg(&self.requests, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                received => break received.map_err(ours("waiting for the session"))?.bytes,
            }
        };
        if length != REPORT_BYTES {
            return Err(LaunchError::Garbled);
        }
        inside::ready(&message, plan)?;
        let mut descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok(descriptors.next().and_then(|mut descriptors| descriptors.next()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Best effort, and not the only one: its leash goes with this as well.
        if self.process.kill().is_ok() {
            self.process.reap().unwrap_or_default();
        }
    }
}
