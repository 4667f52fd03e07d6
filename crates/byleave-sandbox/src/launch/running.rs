//! A command that is running: carried, watched and waited for until nothing of it is left.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::inside::{self, Ended, Heard};
use super::process::{Process, Stopper};
use super::scratch::Scratch;
use super::streams::Streams;
use super::uplink::Joined;
use super::watch::Watch;
use super::{LaunchError, Outcome, Pipes, Status, ours};
use crate::cgroup::{Account, Group};
use crate::confinement::Confinement;
use crate::limits::{Limit, Limits};
use crate::plan::Plan;
use crate::tripwire::{Guard, Planted};
use crate::wire::{Part, REPORT_TERMINAL};

/// A command that is running. When this is dropped, the command and everything that it started end.
#[derive(Debug)]
pub struct Running {
    pub(super) process: Process,
    pub(super) group: Option<Group>,
    pub(super) leash: OwnedFd,
    pub(super) streams: Streams,
    pub(super) plan: Plan,
    pub(super) clock: Clock,
    pub(super) guard: Guard,
    /// Ends after the processes: what they leave waiting is theirs alone.
    pub(super) joined: Option<Joined>,
    pub(super) over: bool,
    /// Gone when the command is.
    pub(super) scratch: Option<Scratch>,
}

impl Running {
    /// Takes the terminal that was made inside, where one was asked for.
    pub(super) fn with_terminal(mut self) -> Result<Self, LaunchError> {
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
        self.process.stopper()
    }

    /// Tells of what the command plants, when it is found and put out of action, instead of keeping it: none of it is then in the
    /// outcome. It is called by the thread that waits in [`Running::finish`].
    pub fn tell_planted(&mut self, to: impl FnMut(&[Planted]) + Send + Sync + 'static) {
        self.guard.tell(Box::new(to));
    }

    /// Waits until the command and everything that it started have ended, or the time is over. Meanwhile it is looked for what the
    /// command plants; where that cannot be done, the command is ended and this is an error.
    pub fn finish(mut self) -> Result<Outcome, LaunchError> {
        let killed_for = self.carry()?;
        if killed_for.is_some() {
            self.kill()?;
            self.streams.carry(self.process.pidfd.as_fd(), None)?;
        }
        self.process.reap()?;
        self.over = true;
        let planted = self.guard.end()?;
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
            earlier: self.guard.earlier(),
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
            let next = self.clock.watch.next().min(self.guard.next());
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
            self.guard.look()?;
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
            self.guard.end().unwrap_or_default();
        }
        self.joined.take().map(Joined::close);
    }
}

/// When a command began, and what it may use up from there.
#[derive(Debug)]
pub(super) struct Clock {
    began: Instant,
    limits: Limits,
    pub(super) watch: Watch,
}

impl Clock {
    pub(super) fn start(confinement: &Confinement) -> Self {
        let (limits, began) = (confinement.limits, Instant::now());
        Self { began, limits, watch: Watch::new(&limits, &confinement.files, began) }
    }
}
