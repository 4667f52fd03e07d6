//! Runs a command in the sandbox, and waits until everything that it started has ended.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byleave_gate::core::outcome::Output;
use byleave_gate::tool::RunContext;
use byleave_sandbox::backend::start_on_landlock;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::from_plan::CallHostPolicy;
use byleave_sandbox::launch::{
    CommandOutcome, CommandStatus, LaunchError, RunningCommand, StartedCommand, Stopper, start_with_cache,
};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::plan::CommandSpec;
use byleave_sandbox::report::describe_outcome;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::command_host::CommandHost;
use crate::copy_paths::CopyPaths;
use crate::execution_env::{ExecutionEnv, NetworkAccess};
use crate::gate_lines::{push_gate_line, strip_gate_prefix};
use crate::git_lend::GitLender;
use crate::head_tail_buffer::HeadTailBuffer;
use crate::job_notes::running_jobs;
use crate::output_stream::{OutputForwarding, OutputListener};
use crate::service_watch::ServiceWatch;

/// The shell, by absolute path, so that no file in the workspace can replace it.
const SHELL: &str = "/bin/bash";

/// A completed command and its output.
pub(crate) struct CompletedCommand {
    pub(crate) outcome: CommandOutcome,
    pub(crate) output: HeadTailBuffer,
    /// The port on which it listened, if it was ended because it is a service.
    pub(crate) service_port: Option<u16>,
}

/// What a command has beyond the sandbox.
pub(crate) struct CommandNetwork {
    /// The hosts.
    pub(crate) access: NetworkAccess,
    /// The Git transports that it is lent.
    pub(crate) git: Option<Arc<GitLender>>,
}

/// Runs a shell command to its end. Blocks; a cancellation stops the command.
pub(crate) fn run_command(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    text: &str,
    network: CommandNetwork,
    run: &RunContext,
    (output_bytes_max, ends_services): (usize, bool),
) -> Result<CompletedCommand, String> {
    let audience = match network.access {
        NetworkAccess::Granted => OutputForwarding::Live,
        NetworkAccess::Blocked => OutputForwarding::TimeOnly,
    };
    let running = start_anywhere(workplace, confinement, (text, OutputStreams::Merged), network, run)?;
    let probe = match &running {
        StartedCommand::Sandbox(running) if ends_services => running.service_probe(),
        StartedCommand::Sandbox(_) | StartedCommand::Container(_) => None,
    };
    let stopper = running.stopper().map_err(describe_error)?;
    let printed = Arc::<AtomicU64>::default();
    let watch = probe.map(|probe| ServiceWatch::begin(probe, stopper, Arc::clone(&printed)));
    let paths = workplace.has_no_namespaces().then(|| CopyPaths::of(confinement));
    let completed = attend_counting(running, (audience, paths), run, output_bytes_max, &printed);
    let service_port = watch.and_then(ServiceWatch::finish);
    completed.map(|completed| CompletedCommand { service_port, ..completed })
}

/// Forwards the output of a started command until it ends. A cancellation stops the command.
pub(crate) fn attend(
    running: StartedCommand,
    audience: OutputForwarding,
    run: &RunContext,
    output_bytes_max: usize,
) -> Result<CompletedCommand, String> {
    attend_counting(running, (audience, None), run, output_bytes_max, &Arc::default())
}

/// Does the same, and counts the bytes that it prints. Output of a command at the path of its copy names the original.
fn attend_counting(
    mut running: StartedCommand,
    (audience, paths): (OutputForwarding, Option<CopyPaths>),
    run: &RunContext,
    output_bytes_max: usize,
    printed: &Arc<AtomicU64>,
) -> Result<CompletedCommand, String> {
    let listener = OutputListener::start(run, audience, output_bytes_max);
    let (mut sink, counted) = (listener.output_sink(), Arc::clone(printed));
    let sink = move |bytes: &[u8]| {
        counted.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        sink(bytes);
    };
    match paths {
        Some(paths) => running.forward_output(paths.in_output(sink)),
        None => running.forward_output(sink),
    }
    let watch = CancelWatch::begin(running.stopper().map_err(describe_error)?, run.cancel.clone());
    let outcome = running.finish();
    drop(watch);
    let printed = listener.finish();
    outcome
        .map(|outcome| CompletedCommand { outcome, output: printed, service_port: None })
        .map_err(describe_error)
}

/// Runs a shell command to its end without a listener. Standard output and standard error are separate.
pub(crate) fn run_quietly(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    text: &str,
    run: &RunContext,
) -> Result<CommandOutcome, String> {
    let network = CommandNetwork { access: NetworkAccess::Blocked, git: None };
    let running = start_anywhere(workplace, confinement, (text, OutputStreams::Separate), network, run)?;
    let _watch = CancelWatch::begin(running.stopper().map_err(describe_error)?, run.cancel.clone());
    let mut outcome = running.finish().map_err(describe_error)?;
    if workplace.has_no_namespaces() {
        let paths = CopyPaths::of(confinement);
        for output in [&mut outcome.stdout, &mut outcome.stderr] {
            output.bytes = paths.in_bytes(std::mem::take(&mut output.bytes));
        }
    }
    Ok(outcome)
}

/// The choice between one combined, ordered output and separate standard output and standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStreams {
    Merged,
    Separate,
}

/// Starts a shell command where commands run: in the sandbox of this machine or in a container.
fn start_anywhere(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    (text, printing): (&str, OutputStreams),
    network: CommandNetwork,
    run: &RunContext,
) -> Result<StartedCommand, String> {
    match &workplace.command_host {
        CommandHost::Container(engine) => {
            let (command, cache) = (shell_command(text, printing), workplace.index_cache());
            let running = engine.start(confinement, &command, workplace.run_as, Some(cache));
            running.map(StartedCommand::from).map_err(describe_error)
        }
        CommandHost::Native => {
            start_command(workplace, confinement, (text, printing), network, run).map(StartedCommand::from)
        }
        CommandHost::Unavailable(why) => Err(why.clone()),
    }
}

fn shell_command(text: &str, printing: OutputStreams) -> CommandSpec {
    let argv: Vec<OsString> = [SHELL, "-c", text].map(OsString::from).to_vec();
    CommandSpec { argv, merge_output: printing == OutputStreams::Merged, ..CommandSpec::default() }
}

/// Starts a shell command in the sandbox of this machine, if commands run there.
pub(crate) fn start_command(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    (text, printing): (&str, OutputStreams),
    network: CommandNetwork,
    run: &RunContext,
) -> Result<RunningCommand, String> {
    workplace.command_host.check_jobs()?;
    let has_no_namespaces = workplace.has_no_namespaces();
    let text = match has_no_namespaces {
        true => CopyPaths::of(confinement).in_command(text, &run.plan),
        false => text.to_owned(),
    };
    let command = shell_command(&text, printing);
    let warm = workplace.index_cache();
    let start = |through| match has_no_namespaces {
        true => start_on_landlock(confinement, &command, workplace.run_as, through, Some(warm)),
        false => start_with_cache(confinement, &command, workplace.run_as, through, warm),
    };
    let describe_error = |error: LaunchError| match &error {
        LaunchError::Unenforceable(_) if has_no_namespaces => {
            format!("{error}; {}", workplace.container.advice())
        }
        _ => describe_error(error),
    };
    if confinement.network != Network::Proxied {
        return start(None).map_err(describe_error);
    }
    let door = match (network.access, host_policy(workplace, run)) {
        (NetworkAccess::Granted, Some(policy)) => {
            let lent = network.git.as_ref().map(|lender| lender.hosts()).unwrap_or_default();
            Egress::new(Arc::new(policy.with_lent_hosts(lent)))
        }
        (NetworkAccess::Blocked, _) | (_, None) => Egress::deny_all(),
    };
    let door = match network.git {
        Some(lender) => door.with_service(lender),
        None => door,
    };
    let through = Some((workplace.network_bridge()?, door));
    start(through).map_err(describe_error)
}

/// Returns the policy for the hosts of a call. `None` if no policy is configured.
pub(crate) fn host_policy(workplace: &ExecutionEnv, run: &RunContext) -> Option<CallHostPolicy> {
    let rules = run.policy.as_ref()?;
    let (session, agent) = (run.context.session.clone(), run.context.agent.clone());
    let policy = CallHostPolicy::new(Arc::clone(rules), &run.plan, session, agent);
    let jobs = workplace.jobs_dir.as_deref().map(running_jobs).unwrap_or_default();
    let ports = jobs.iter().flat_map(|job| &job.ports).filter(|port| port.is_published);
    let job_ports = ports.map(|port| port.port).collect();
    Some(policy.with_read_foreign(run.read_foreign).with_job_ports(job_ports))
}

#[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
pub(crate) fn describe_error(error: LaunchError) -> String {
    error.to_string()
}

/// A guard that stops a command when its call is cancelled. It ends with the command.
pub(crate) struct CancelWatch {
    ended: CancellationToken,
}

impl CancelWatch {
    pub(crate) fn begin(stopper: Stopper, called_off: CancellationToken) -> Self {
        let ended = CancellationToken::new();
        let until = ended.clone();
        // Without a runtime the call cannot be cancelled.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::select! {
                    () = until.cancelled() => {}
                    () = called_off.cancelled() => drop(tokio::task::spawn_blocking(move || {
                        if let Err(error) = stopper.stop() {
                            tracing::error!(%error, "cannot stop a cancelled command");
                        }
                    })),
                }
            });
        }
        Self { ended }
    }
}

impl Drop for CancelWatch {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Possible advice for the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunAdvice {
    /// Whether background jobs are available.
    pub(crate) background: bool,
}

/// Returns the output of a run for the model.
pub(crate) fn format_output(
    confinement: &Confinement,
    outcome: &CommandOutcome,
    printed: HeadTailBuffer,
    advice: RunAdvice,
) -> Output {
    let truncated = printed.omitted().bytes > 0;
    let mut text = output_text(printed);
    describe_outcome(confinement, outcome).iter().for_each(|line| push_gate_line(&mut text, line));
    if outcome.limit_exceeded == Some(LimitKind::Wall) {
        let or = if advice.background { ", or `background: true`" } else { "" };
        push_gate_line(&mut text, &format!("for more time set `timeout`, at most 600000 ms{or}"));
    }
    if outcome.survivors > 0 {
        let how = if advice.background { "; to keep something running, set `background: true`" } else { "" };
        push_gate_line(&mut text, &format!("processes that the command left running were ended{how}"));
    }
    let error = (outcome.status != CommandStatus::Exited(0)).then(|| match outcome.limit_exceeded {
        Some(LimitKind::Wall) => format!("stopped after {} ms", confinement.limits.wall_time.as_millis()),
        _ => outcome.status.to_string(),
    });
    let data = error.is_some().then(|| json!({ "exit": exit_code(outcome) }));
    Output { text, is_error: error.is_some(), error, truncated, data, ..Output::default() }
}

/// Returns the exit code as a shell would report it.
fn exit_code(outcome: &CommandOutcome) -> u32 {
    match outcome.status {
        _ if outcome.limit_exceeded == Some(LimitKind::Wall) => 124,
        CommandStatus::Exited(code) => u32::try_from(code).unwrap_or(1),
        CommandStatus::Signalled(signal) => u32::try_from(signal).unwrap_or(0).saturating_add(128),
        // Not found, or not executable.
        CommandStatus::NotStarted(2) => 127,
        CommandStatus::NotStarted(_) => 126,
    }
}

/// Returns the printed text with lines of the gate marked, and a note where text is omitted.
pub(crate) fn output_text(printed: HeadTailBuffer) -> String {
    let (head, lost, tail) = printed.into_parts();
    let mut text = strip_gate_prefix(&head);
    if lost.bytes > 0 {
        push_gate_line(
            &mut text,
            &format!("cut: {} bytes ({} lines) are left out here", lost.bytes, lost.lines),
        );
        text.push_str(&strip_gate_prefix(&tail));
    }
    text
}
