//! The rehearsal of `bash`: a run on a copy that is then committed or discarded.

use std::sync::Arc;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::Effect;
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::id::CallId;
use byleave_gate::core::outcome::{ExecutionStatus, Output};
use byleave_gate::core::rehearsal::{BlockedHost, Rehearsal};
use byleave_gate::tool::{Rehearsable, RehearseError, RunContext, Tool as _};
use byleave_sandbox::confinement::Confinement;
use byleave_sandbox::launch::CommandStatus;
use byleave_shell::services::is_build;
use serde_json::Value;

use super::held::HeldJob;
use super::{Bash, BashArguments};
use crate::blocking::{rehearse_blocking, run_blocking};
use crate::change_findings::ChangeFindings;
use crate::copy_commit::{discard_copy, drop_copy, finish_commit, has_copy};
use crate::execution_env::{NetworkAccess, PrepareCopyError, PreparedCopy};
use crate::gate_lines::push_gate_line;
use crate::git_lend::GitLender;
use crate::new_repository::new_repositories;
use crate::output_stream::OutputForwarding;
use crate::read_permission::may_read_without_asking;
use crate::rehearsal_result;
use crate::run_command::{self, CommandNetwork, CompletedCommand, OutputStreams};
use crate::service_watch;
use crate::without_namespaces::ContainerTrust;

/// The words of the error with which a rename between file systems fails, in every program that prints it.
const CROSS_DEVICE: &str = "cross-device link";
/// Why a command is run on a plain copy.
const CANNOT_RENAME: &str = "the copy cannot rename a directory that existed before";

/// What may explain a failure where nothing can be mounted.
const AT_OWN_PATH: &str = "the command ran on a copy at another path, because nothing can be mounted here: what a script names by its absolute path could be read and not be written there; name it relative to the working directory";

/// Why a job is not rehearsed.
const NOT_REHEARSED: &str = "the command is a background job, which stays until it is stopped: it sees the workspace read-only, and what it writes elsewhere is judged when it ends";

/// The words of errors of programs that have no sockets or cannot look up a name. Without a network of its own, attempts of a command are not
/// counted. A run that failed with one of them is asked about, and a yes runs it again with the network that it was granted.
const NO_NETWORK: [&str; 7] = [
    "ddress family not supported",
    "EAFNOSUPPORT",
    "esolve host",
    "name resolution",
    "getaddrinfo",
    "ENOTFOUND",
    "EAI_AGAIN",
];

fn lacks_network(text: &str) -> bool {
    NO_NETWORK.iter().any(|words| text.contains(words))
}

/// A run on one copy.
struct CopyRun {
    seen: Rehearsal,
    /// Whether it failed because the copy is an overlay. That copy is discarded.
    failed_to_rename: bool,
}

impl Rehearsable for Bash {
    fn rehearse(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let bash = self.clone();
        Box::pin(rehearse_blocking(move || {
            bash.check_rehearsable(&run)
                .map_err(|why| RehearseError::Unavailable(bash.without_lending(why, &run)))?;
            bash.on_a_copy(arguments, &run, NetworkAccess::Blocked)
        }))
    }

    fn runs_on_copy(&self, arguments: &Value) -> bool {
        let is_background = || self.read(arguments.clone()).is_ok_and(|arguments| arguments.background);
        self.jobs.held_by_call().is_some() || !is_background()
    }

    fn run_on_copy(
        &self,
        arguments: Value,
        run: RunContext,
    ) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let bash = self.clone();
        Box::pin(rehearse_blocking(move || bash.on_a_copy(arguments, &run, NetworkAccess::Granted)))
    }

    fn has_copy<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> BoxFuture<'a, bool> {
        has_copy(&self.workplace, call, seen)
    }

    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: RunContext) -> BoxFuture<'_, Output> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(run_blocking(move || finish_commit(&workplace, seen, only.as_deref(), &run)))
    }

    fn discard(&self, call: CallId) -> BoxFuture<'_, ()> {
        drop_copy(&self.workplace, call)
    }
}

impl Bash {
    /// Runs a command on a copy. A rehearsal has no network, and a granted run has what its plan permits.
    ///
    /// An overlay cannot rename a directory of the layer beneath it. A command that failed for that reason is run again on a plain copy,
    /// unless it has reached a host: everything else that it did is on the first copy, which is discarded.
    fn on_a_copy(
        &self,
        arguments: Value,
        run: &RunContext,
        access: NetworkAccess,
    ) -> Result<Rehearsal, RehearseError> {
        let arguments = self.read(arguments).map_err(RehearseError::Unavailable)?;
        if let Some(held) = self.jobs.held_by_call().filter(|_| arguments.background) {
            return match access {
                NetworkAccess::Granted => self.hold(&arguments, run, held),
                NetworkAccess::Blocked => Err(RehearseError::Unavailable(NOT_REHEARSED.into())),
            };
        }
        if arguments.background {
            let why = "the command runs in the background, on the real files: its changes cannot be undone";
            return Err(RehearseError::Unavailable(why.into()));
        }
        let first = self.on_one_copy(&arguments, run, access, None)?;
        if !first.failed_to_rename {
            return Ok(first.seen);
        }
        match self.on_one_copy(&arguments, run, access, Some(CANNOT_RENAME)) {
            Ok(second) => Ok(second.seen),
            Err(RehearseError::Unavailable(why)) => {
                let mut output = first.seen.output;
                push_gate_line(
                    &mut output.text,
                    &format!("{CANNOT_RENAME}, and there can be no plain copy: {why}"),
                );
                Ok(Rehearsal { output, changes: FileChanges::default(), ..first.seen })
            }
            Err(other) => Err(other),
        }
    }

    fn on_one_copy(
        &self,
        arguments: &BashArguments,
        run: &RunContext,
        access: NetworkAccess,
        plain_because: Option<&str>,
    ) -> Result<CopyRun, RehearseError> {
        let workplace = &*self.workplace;
        let mut confinement =
            workplace.build_copy_confinement(run, access).map_err(RehearseError::Unavailable)?;
        confinement.limits.wall_time = arguments.timeout(run);
        let ready =
            workplace.create_copy(run, &mut confinement, access, plain_because).map_err(|unready| {
                match unready {
                    PrepareCopyError::RunningElsewhere => RehearseError::RunningElsewhere,
                    PrepareCopyError::Failed(why) => RehearseError::Unavailable(why),
                }
            })?;
        // Without a network of its own, the lent connection would be open to every program of this machine.
        let lender = (!ready.is_at_own_path)
            .then(|| GitLender::for_run(workplace, run, &confinement.files.cwd, access))
            .flatten();
        if let Some(lender) = &lender {
            lender.prepare(&mut confinement);
        }
        let network = CommandNetwork { access, git: lender };
        let seen = self.run_and_list(&confinement, &arguments.command, &ready, (run, network), None);
        drop(ready.scratch_stacks);
        let failed_to_rename = ready.weaker_reason.is_none()
            && seen.as_ref().is_ok_and(|seen| {
                seen.status == ExecutionStatus::Failed
                    && seen.reached_hosts.is_empty()
                    && seen.blocked_hosts.is_empty()
                    && seen.git_transports.is_empty()
                    && seen.output.text.contains(CROSS_DEVICE)
            });
        if seen.is_err() || failed_to_rename {
            // Nothing will use this copy any more, and it may be large.
            discard_copy(ready.copy);
        }
        let seen = seen.map_err(RehearseError::Unavailable)?;
        Ok(CopyRun { seen, failed_to_rename })
    }

    /// Runs a command on its copy, and lists what it changed there.
    pub(super) fn run_and_list(
        &self,
        confinement: &Confinement,
        text: &str,
        ready: &PreparedCopy,
        (run, network): (&RunContext, CommandNetwork),
        job: Option<&HeldJob<'_>>,
    ) -> Result<Rehearsal, String> {
        let began = rehearsal_result::filesystem_now(confinement)?;
        // A job has no rehearsal: it is granted, also if it may reach nothing.
        let access = job.map_or(network.access, |_| NetworkAccess::Granted);
        let lender = network.git.clone();
        let workplace = &*self.workplace;
        let output_bytes_max = self.output_bytes_max;
        let completed = match job {
            None => {
                let ends_services = self.jobs.held_by_call().is_some() && !is_build(text);
                let bounds = (output_bytes_max, ends_services);
                run_command::run_command(workplace, confinement, text, network, run, bounds)
            }
            Some(job) => {
                let output = (text, OutputStreams::Merged);
                let running = run_command::start_command(workplace, confinement, output, network, run)?;
                job.attend(running, |running| {
                    run_command::attend(running.into(), OutputForwarding::Live, run, output_bytes_max)
                })
            }
        };
        let CompletedCommand { outcome, output: printed, service_port } = completed?;
        if let Some(port) = service_port {
            self.remember_service(text, port, run);
            return Err(service_watch::describe(port));
        }
        if ready.is_at_own_path {
            ready.copy.restore_paths().map_err(|fault| fault.to_string())?;
        }
        ready.unmark()?;
        let mut listed = rehearsal_result::list_changes(&ready.copy).map_err(|fault| fault.to_string())?;
        // Text diffs are for people. Without them the rehearsal can still be evaluated completely.
        if let Err(fault) = ready.copy.fill_diffs(&mut listed.0) {
            tracing::warn!(%fault, "cannot show the diffs of a rehearsal");
        }
        let mut weaker = workplace.missing_guarantees();
        // Where the container is the outer wall, a full copy is the usual one.
        let is_accepted = ready.is_at_own_path && workplace.container == ContainerTrust::Trusted;
        if !is_accepted {
            weaker.extend(ready.weaker_reason.as_ref().map(|why| format!("on a plain copy: {why}")));
        }
        if outcome.unrouted_count.is_none() && !is_accepted {
            weaker.push("it is unknown whether the command tried to use the network".into());
        }
        let mut output = run_command::format_output(confinement, &outcome, printed, self.advice());
        if ready.is_at_own_path && outcome.status != CommandStatus::Exited(0) {
            push_gate_line(&mut output.text, AT_OWN_PATH);
        }
        let repositories = new_repositories(&ready.copy, &listed.0).map_err(|fault| fault.to_string())?;
        let findings = ChangeFindings::find(&ready.copy, &listed.0, &run.context);
        let findings = findings.map_err(|fault| fault.to_string())?;
        let mut seen = rehearsal_result::build_rehearsal(&outcome, output, listed, weaker);
        findings.add_to(&mut seen);
        seen.new_repositories = repositories;
        if access == NetworkAccess::Granted {
            // What was not granted was refused while the command ran. That is part of its result.
            seen.blocked_hosts.clear();
            seen.reached_hosts = rehearsal_result::reached_hosts(&outcome);
        }
        if let Some(lender) = lender {
            lender.report(&mut seen);
        }
        if access == NetworkAccess::Granted {
            return Ok(seen);
        }
        if ready.is_at_own_path && seen.status == ExecutionStatus::Failed && lacks_network(&seen.output.text)
        {
            seen.blocked_hosts.push(BlockedHost { host: None, port: 0 });
        }
        // This search is needed only for a quiet rehearsal; all others cause a question anyway.
        if seen.has_no_effects() {
            seen.missing_guarantees.extend(rehearsal_result::newly_visible_hidden(confinement, began));
        }
        Ok(seen)
    }

    /// Adds to the reason why there is no rehearsal that a yes then lends nothing.
    fn without_lending(&self, why: String, run: &RunContext) -> String {
        let lender = GitLender::for_run(&self.workplace, run, &run.context.cwd, NetworkAccess::Blocked);
        match lender.is_some_and(|lender| lender.needs_rehearsal()) {
            true => format!("{why}; no Git transport is lent without one, so run Git in a call of its own"),
            false => why,
        }
    }

    /// Checks whether the call may be rehearsed. A run that reads something that needs a question cannot be rehearsed, because its content
    /// could be anywhere on the copy.
    fn check_rehearsable(&self, run: &RunContext) -> Result<(), String> {
        run.policy.as_ref().ok_or("no policy is configured")?;
        for effect in &run.plan.effects {
            match effect {
                Effect::Read { path } if !may_read_without_asking(path, self.manifest(), run) => {
                    return Err(format!(
                        "the command reads `{}`, which needs a question",
                        path.escape_debug()
                    ));
                }
                Effect::Unconfined { guarantee } => {
                    return Err(format!(
                        "the command runs without the guarantee `{}`",
                        guarantee.escape_debug()
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
