//! A running command: transfers its streams, supervises it and waits until nothing of it is left.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::init_report::{self, CommandEnd, InitMessage};
use super::landlock_only::MetadataSupervisor;
use super::network_bridge::CommandNetwork;
use super::process::{InitProcess, Stopper, process_id};
use super::resource_monitor::ResourceMonitor;
use super::service_probe::ServiceProbe;
use super::streams::CommandStreams;
use super::temp_dir::CommandTempDir;
use super::tree_monitor::ProcessPauser;
use super::{CommandOutcome, CommandStatus, LaunchError, Pipes, internal_error};
use crate::backend::SCOPES_SINCE;
use crate::cgroup::{CgroupUsage, CommandCgroup};
use crate::clone3::landlock_version;
use crate::confinement::Confinement;
use crate::limits::{LimitKind, ResourceLimits};
use crate::net::published_ports::PortPublisher;
use crate::plan::LaunchPlan;
use crate::plan_format::{PlanPart, REPORT_TERMINAL};
use crate::tripwire::{PlantedFile, TripwireGuard};

/// A running command. Dropping it ends the command and all processes that it started.
#[derive(Debug)]
pub struct RunningCommand {
    pub(super) process: InitProcess,
    pub(super) group: Option<CommandCgroup>,
    pub(super) control_socket: OwnedFd,
    pub(super) streams: CommandStreams,
    pub(super) plan: LaunchPlan,
    pub(super) clock: RunClock,
    pub(super) guard: TripwireGuard,
    /// Closed after the processes have ended, so that connections still waiting are known to be theirs.
    pub(super) network: Option<CommandNetwork>,
    pub(super) publisher: Option<Arc<PortPublisher>>,
    /// The ports of the sandbox itself.
    pub(super) own_ports: BTreeSet<u16>,
    pub(super) is_finished: bool,
    /// Ended after the processes.
    pub(super) supervisor: Option<MetadataSupervisor>,
    /// Removed with the command.
    pub(super) temp_dir: Option<CommandTempDir>,
}

impl RunningCommand {
    /// Takes the terminal that was created inside, if one was requested.
    pub(super) fn with_terminal(mut self) -> Result<Self, LaunchError> {
        if self.plan.terminal.is_none() {
            return Ok(self);
        }
        match init_report::read_message(&self.control_socket, &self.plan)? {
            Some(InitMessage { words: [REPORT_TERMINAL, ..], descriptor: Some(terminal), .. }) => {
                self.streams.set_terminal(terminal)?;
            }
            Some(_) => return Err(LaunchError::InvalidReport),
            None => return Err(LaunchError::NoTerminal),
        }
        Ok(self)
    }

    /// Takes the outer end of the command's terminal, for a caller that transfers its bytes itself, such as to a person's
    /// terminal. Nothing is then typed into it, and its output is not in the outcome. When the last copy of the descriptor is
    /// closed, the command is hung up.
    pub fn take_terminal(&mut self) -> Result<Option<OwnedFd>, LaunchError> {
        self.streams.take_terminal()
    }

    /// Takes the ends of the command's standard streams, if the caller handles them.
    pub fn take_pipes(&mut self) -> Option<Pipes> {
        self.streams.take_pipes()
    }

    /// Forwards output as it arrives, instead of keeping it. It is then not in the outcome, and no limit applies to it. The
    /// thread that waits in [`RunningCommand::finish`] calls the listener, and the command is blocked meanwhile. With two pipes,
    /// the order is the order of reading.
    pub fn forward_output(&mut self, to: impl FnMut(&[u8]) + Send + Sync + 'static) {
        self.streams.forward_output(Box::new(to));
    }

    /// Returns a handle to end the command from another thread.
    pub fn stopper(&self) -> Result<Stopper, LaunchError> {
        self.process.stopper()
    }

    /// Reports planted files when they are found and disabled, instead of keeping them. They are then not in the outcome. The
    /// thread that waits in [`RunningCommand::finish`] calls the listener.
    pub fn on_planted(&mut self, to: impl FnMut(&[PlantedFile]) + Send + Sync + 'static) {
        self.guard.set_listener(Box::new(to));
    }

    /// Returns the publisher of the ports on which the command listens, if its confinement lets ports be published. Drop it when the
    /// command has ended.
    pub fn publisher(&self) -> Option<Arc<PortPublisher>> {
        self.publisher.clone()
    }

    /// Returns a probe for what the command does, if it has a network of its own. Do not use it after the command has ended.
    pub fn service_probe(&self) -> Option<ServiceProbe> {
        let pid = process_id(self.process.pidfd.as_fd()).ok().filter(|_| self.plan.own_network)?;
        let is_shared = self.plan.part == PlanPart::WithoutNamespaces;
        Some(ServiceProbe::new(pid, self.own_ports.clone(), is_shared))
    }

    /// Waits until the command and all processes that it started have ended, or the time is over. Meanwhile it checks for planted
    /// files. If that fails, the command is ended and an error is returned.
    pub fn finish(mut self) -> Result<CommandOutcome, LaunchError> {
        let killed_for = self.carry()?;
        if killed_for.is_some() {
            self.kill()?;
            self.streams.copy_until_end(self.process.pidfd.as_fd(), None)?;
        }
        self.process.reap()?;
        self.is_finished = true;
        let planted = self.guard.finish()?;
        let wall = self.clock.began.elapsed();
        let network = self.network.take().map(CommandNetwork::close).unwrap_or_default();
        let account = self
            .group
            .take()
            .map(CommandCgroup::finish)
            .transpose()
            .map_err(internal_error("removing a cgroup"))?;
        let CommandEnd { status, cpu: waited_cpu, survivors, unrouted } =
            init_report::read_end_report(&self.control_socket, &self.plan)?.unwrap_or_else(|| {
                // It was killed, by us or by another process that may. The first process had no time to report it.
                let status = CommandStatus::Signalled(Signal::KILL.as_raw());
                CommandEnd { status, cpu: Duration::ZERO, survivors: 0, unrouted: None }
            });
        let has_own_network = self.plan.own_network && self.plan.part == PlanPart::Whole;
        let unrouted = unrouted.filter(|_| has_own_network);
        let CgroupUsage { memory_limit_hit: memory, pids_limit_hit: pids, cpu } =
            account.unwrap_or(CgroupUsage { cpu: waited_cpu, ..CgroupUsage::default() });
        let cpu = cpu.max(self.clock.monitor.cpu_used());
        let ended_by = match status {
            _ if killed_for.is_some() => killed_for,
            _ if memory => Some(LimitKind::Memory),
            // Any process can send that signal.
            CommandStatus::Signalled(signal)
                if signal == Signal::XCPU.as_raw() && cpu >= self.clock.limits.cpu_time =>
            {
                Some(LimitKind::Cpu)
            }
            _ => None,
        };
        let [stdout, stderr] = self.streams.take_output();
        let told = |is_reached: bool, limit| is_reached.then_some(limit).into_iter();
        let grew = self.clock.monitor.grown_limits().filter(|limit| killed_for != Some(*limit));
        let reached = told(pids, LimitKind::Pids).chain(grew);
        let reached =
            reached.chain(told(stdout.dropped_bytes + stderr.dropped_bytes > 0, LimitKind::Output)).collect();
        Ok(CommandOutcome {
            status,
            limit_exceeded: ended_by,
            limits_reached: reached,
            planted,
            planted_earlier: self.guard.earlier(),
            hidden: self.guard.hidden(),
            stdout,
            stderr,
            wall_time: wall,
            cpu_time: cpu,
            network,
            unrouted_count: unrouted,
            survivors,
        })
    }

    /// Transfers input and output until everything has ended or a limit is exceeded. Returns that limit.
    fn carry(&mut self) -> Result<Option<LimitKind>, LaunchError> {
        let deadline = self.clock.began.checked_add(self.clock.limits.wall_time);
        loop {
            let next = self.clock.monitor.next().min(self.guard.next());
            let until = deadline.map_or(next, |deadline| deadline.min(next));
            if self.streams.copy_until_end(self.process.pidfd.as_fd(), Some(until))? {
                return Ok(None);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(Some(LimitKind::Wall));
            }
            // The first process of a Landlock domain for signals reaches nothing outside of it.
            let is_apart =
                self.plan.part == PlanPart::WithoutNamespaces && landlock_version() >= SCOPES_SINCE;
            let pauser = is_apart.then(|| ProcessPauser { control_socket: self.control_socket.as_fd() });
            let process = self.process.pidfd.as_fd();
            let passed = self.clock.monitor.check_limits(process, self.group.as_ref(), pauser);
            if passed.is_some() {
                return Ok(passed);
            }
            self.guard.check_if_due()?;
        }
    }

    fn kill(&self) -> Result<(), LaunchError> {
        if let Some(group) = &self.group {
            group.kill().map_err(internal_error("killing the processes of a cgroup"))?;
        }
        self.process.kill()
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // Best effort, with a fallback: the control socket closes with this as well.
        if !self.is_finished && self.kill().is_ok() {
            self.process.reap().unwrap_or_default();
            // No caller is left to receive the result.
            self.guard.finish().unwrap_or_default();
        }
        self.network.take().map(CommandNetwork::close);
    }
}

/// The start time of a command, and its limits.
#[derive(Debug)]
pub(super) struct RunClock {
    pub(super) began: Instant,
    pub(super) limits: ResourceLimits,
    pub(super) monitor: ResourceMonitor,
}

impl RunClock {
    pub(super) fn start(confinement: &Confinement) -> Self {
        let (limits, began) = (confinement.limits, Instant::now());
        Self { began, limits, monitor: ResourceMonitor::new(&limits, &confinement.files, began) }
    }
}
