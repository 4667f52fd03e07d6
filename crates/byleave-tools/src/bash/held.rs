//! A background job that is held by its call: a server or a watcher, until it is stopped.
//!
//! A job sees the workspace as it is, so that a server shows the next edits, and cannot change it. It has scratch directories, and
//! copies of the directories that its plan names. A build in the background works on a copy, as any other command. What is on copies is
//! judged when the job ends.

use std::sync::Arc;
use std::time::Instant;

use byleave_gate::core::outcome::ExecutionStatus;
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::tool::{RehearseError, RunContext};
use byleave_sandbox::confinement::Network;
use byleave_sandbox::from_plan::CallHostPolicy;
use byleave_sandbox::launch::RunningCommand;
use byleave_shell::services;
use parking_lot::Mutex;

use super::{Bash, BashArguments};
use crate::background_jobs::ports::{JobPortListener, JobPorts};
use crate::background_jobs::prepare_network;
use crate::copy_commit::discard_copy;
use crate::execution_env::{NetworkAccess, PrepareCopyError};
use crate::gate_lines::push_gate_line;
use crate::held_jobs::{HELD_MAX, HeldJobs};
use crate::job_notes::{JobNoteFile, JobPort};
use crate::run_command::{self, CancelWatch, CommandNetwork};

/// The words of the error with which a write to the workspace fails, in every program that prints it.
const READ_ONLY: &str = "Read-only file system";

/// A job that its call holds.
pub(super) struct HeldJob<'a> {
    pub(super) held: &'a HeldJobs,
    /// The policy for the hosts, which decides about ports.
    policy: Option<CallHostPolicy>,
    watched: Arc<WatchedJob>,
    name: String,
    began: Instant,
}

/// The part of a job that the thread for its ports has.
struct WatchedJob {
    held: HeldJobs,
    note: Mutex<Option<JobNoteFile>>,
    /// Every port on which it listened.
    ports: Mutex<Vec<JobPort>>,
}

impl JobPortListener for WatchedJob {
    fn is_running(&self) -> bool {
        self.held.is_running()
    }

    fn say(&self, line: String) {
        self.held.say(&line);
    }

    fn changed(&self, ports: Vec<JobPort>) {
        if let Some(note) = &mut *self.note.lock()
            && let Err(error) = note.set_ports(ports.iter().copied())
        {
            tracing::warn!(%error, "cannot note the ports of a job");
        }
        let mut known = self.ports.lock();
        known.extend(ports);
        known.sort();
        known.dedup();
    }
}

/// Keeps a job known as running. Dropping it ends the threads that attend to it.
struct RunningGuard<'a>(&'a HeldJobs);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.set_running(false);
    }
}

impl Bash {
    /// Runs a granted job until it ends or is stopped.
    pub(super) fn hold(
        &self,
        arguments: &BashArguments,
        run: &RunContext,
        held: &HeldJobs,
    ) -> Result<Rehearsal, RehearseError> {
        let workplace = &*self.workplace;
        let unavailable = RehearseError::Unavailable;
        let mut confinement =
            workplace.build_copy_confinement(run, NetworkAccess::Granted).map_err(unavailable)?;
        let time = arguments.requested_timeout().unwrap_or(HELD_MAX);
        (confinement.limits.wall_time, confinement.limits.cpu_time) =
            (time, confinement.limits.cpu_time.max(time));
        // Without a network namespace, a job that was granted no host and no port has no sockets.
        let access = match confinement.network {
            Network::Off if workplace.has_no_namespaces() => NetworkAccess::Blocked,
            _ => prepare_network(&mut confinement),
        };
        let is_build = services::is_build(&arguments.command);
        let ready = if is_build {
            workplace.create_copy(run, &mut confinement, NetworkAccess::Granted, None)
        } else {
            workplace.create_job_copy(run, &mut confinement)
        };
        let ready = ready.map_err(|unready| match unready {
            PrepareCopyError::RunningElsewhere => RehearseError::RunningElsewhere,
            PrepareCopyError::Failed(why) => RehearseError::Unavailable(why),
        })?;
        let job = HeldJob::new(self, run, held).map_err(unavailable)?;
        let is_left_behind =
            services::find_service(&arguments.command).is_some_and(|service| service.is_left_behind);
        let command = &arguments.command;
        let text = if is_left_behind { format!("{command}\nwait") } else { command.clone() };
        let network = CommandNetwork { access, git: None };
        let seen = self.run_and_list(&confinement, &text, &ready, (run, network), Some(&job));
        drop(ready.scratch_stacks);
        match seen {
            Ok(mut seen) => {
                job.describe_end(&mut seen, is_build);
                Ok(seen)
            }
            Err(why) => {
                discard_copy(ready.copy);
                Err(RehearseError::Unavailable(why))
            }
        }
    }
}

impl<'a> HeldJob<'a> {
    fn new(bash: &Bash, run: &RunContext, held: &'a HeldJobs) -> Result<Self, String> {
        let workplace = &bash.workplace;
        let note =
            workplace.jobs_dir.as_deref().map(|dir| JobNoteFile::create(dir, run.call, &run.context.session));
        let note = note.transpose().map_err(|error| {
            format!("the job was not started, because nobody else could see that it runs: {error}")
        })?;
        let id = run.call.to_string();
        let end: String = id.chars().skip(id.chars().count().saturating_sub(8)).collect();
        Ok(Self {
            held,
            policy: run_command::host_policy(workplace, run),
            watched: Arc::new(WatchedJob {
                held: held.clone(),
                note: Mutex::new(note),
                ports: Mutex::default(),
            }),
            name: format!("job-{end}"),
            began: Instant::now(),
        })
    }

    /// Runs the started command to its end, publishes its ports meanwhile, and stops it when its agent does.
    pub(super) fn attend<T>(
        &self,
        running: RunningCommand,
        finish: impl FnOnce(RunningCommand) -> Result<T, String>,
    ) -> Result<T, String> {
        let stopper = running.stopper().map_err(run_command::describe_error)?;
        let _stop = CancelWatch::begin(stopper, self.held.stop_token());
        self.held.set_running(true);
        let guard = RunningGuard(self.held);
        let ports = running.publisher().zip(self.policy.clone());
        let ports = ports.map(|(publisher, policy)| {
            let ports = JobPorts { id: self.name.clone(), publisher, policy, can_ask: false };
            let watched = Arc::clone(&self.watched);
            std::thread::Builder::new().name("byleave-ports".into()).spawn(move || ports.watch(&*watched))
        });
        let ports = ports
            .transpose()
            .map_err(|error| format!("the job was not started: {error}; try again later"))?;
        let ended = finish(running);
        drop(guard);
        if ports.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread for the ports of a job failed");
        }
        self.watched.note.lock().take();
        ended
    }

    /// Adds to the result how the job ended. One that its agent stopped has done what it was started for.
    fn describe_end(&self, seen: &mut Rehearsal, is_build: bool) {
        let mut ports: Vec<String> =
            self.watched.ports.lock().iter().map(|port| port.port.to_string()).collect();
        ports.dedup();
        let served =
            if ports.is_empty() { String::new() } else { format!(", listened on {}", ports.join(", ")) };
        let seconds = self.began.elapsed().as_secs();
        let is_stopped = self.held.is_stopped();
        let how = if is_stopped { "was stopped" } else { "ended" };
        let text = &mut seen.output.text;
        if !is_build && text.contains(READ_ONLY) {
            push_gate_line(
                text,
                "a job sees the workspace read-only: what builds something and ends runs as an ordinary command",
            );
        }
        push_gate_line(text, &format!("the background job ran for {seconds} s{served}, and {how}"));
        if is_stopped {
            (seen.output.is_error, seen.output.error, seen.output.data) = (false, None, None);
            seen.status = ExecutionStatus::Succeeded;
        }
    }
}
