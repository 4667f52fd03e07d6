//! Runs a command in the sandbox, and waits until everything that it started has ended.

use std::ffi::OsString;
use std::sync::Arc;

use byleave::core::outcome::Output;
use byleave::tool::RunContext;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::from_plan::CallHostPolicy;
use byleave_sandbox::launch::{
    CommandOutcome, CommandStatus, LaunchError, RunningCommand, Stopper, start_warm,
};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::plan::CommandSpec;
use byleave_sandbox::report::told;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::execution_env::{ExecutionEnv, NetworkAccess};
use crate::gate_lines::{in_its_own_words, say};
use crate::head_tail_buffer::HeadTailBuffer;
use crate::output_stream::{OutputForwarding, OutputListener};

/// The shell, by absolute path, so that no file in the workspace can replace it.
const SHELL: &str = "/bin/bash";

/// A completed command and its output.
pub(crate) struct CompletedCommand {
    pub(crate) outcome: CommandOutcome,
    pub(crate) printed: HeadTailBuffer,
}

/// Runs a shell command to its end. Blocks; a cancellation stops the command.
pub(crate) fn run(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    text: &str,
    way: NetworkAccess,
    run: &RunContext,
    output_bytes_max: usize,
) -> Result<CompletedCommand, String> {
    let mut running = started(workplace, confinement, (text, OutputStreams::Together), way, run)?;
    let audience = match way {
        NetworkAccess::Granted => OutputForwarding::Watching,
        NetworkAccess::Closed => OutputForwarding::Nobody,
    };
    let listener = OutputListener::begin(run, audience, output_bytes_max);
    running.pass_on(listener.ear());
    let watch = CancelWatch::begin(running.stopper().map_err(words)?, run.cancel.clone());
    let outcome = running.finish();
    drop(watch);
    let printed = listener.end();
    outcome.map(|outcome| CompletedCommand { outcome, printed }).map_err(words)
}

/// Runs a shell command to its end without a listener. Standard output and standard error are separate.
pub(crate) fn unheard(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    text: &str,
    run: &RunContext,
) -> Result<CommandOutcome, String> {
    let running = started(workplace, confinement, (text, OutputStreams::Apart), NetworkAccess::Closed, run)?;
    let _watch = CancelWatch::begin(running.stopper().map_err(words)?, run.cancel.clone());
    running.finish().map_err(words)
}

/// The choice between one combined, ordered output and separate standard output and standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStreams {
    Together,
    Apart,
}

/// Starts a shell command.
pub(crate) fn started(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    (text, printing): (&str, OutputStreams),
    way: NetworkAccess,
    run: &RunContext,
) -> Result<RunningCommand, String> {
    let argv: Vec<OsString> = [SHELL, "-c", text].map(OsString::from).to_vec();
    let command =
        CommandSpec { argv, together: printing == OutputStreams::Together, ..CommandSpec::default() };
    let warm = workplace.warm();
    if confinement.network != Network::Proxied {
        return start_warm(confinement, &command, workplace.run_as, None, warm).map_err(words);
    }
    let door = match (way, &run.rules) {
        (NetworkAccess::Granted, Some(rules)) => {
            let (session, agent) = (run.site.session.clone(), run.site.agent.clone());
            Egress::new(Arc::new(CallHostPolicy::new(Arc::clone(rules), &run.plan, session, agent)))
        }
        (NetworkAccess::Closed, _) | (_, None) => Egress::closed(),
    };
    let through = Some((workplace.uplink()?, door));
    start_warm(confinement, &command, workplace.run_as, through, warm).map_err(words)
}

#[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
pub(crate) fn words(error: LaunchError) -> String {
    error.to_string()
}

/// A guard that stops a command when its call is cancelled. It ends with the command.
struct CancelWatch {
    ended: CancellationToken,
}

impl CancelWatch {
    fn begin(stopper: Stopper, called_off: CancellationToken) -> Self {
        let ended = CancellationToken::new();
        let until = ended.clone();
        // Without a runtime the call cannot be cancelled.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::select! {
                    () = until.cancelled() => {}
                    () = called_off.cancelled() => {
                        if let Err(error) = stopper.stop() {
                            tracing::error!(%error, "a command that was called off could not be stopped");
                        }
                    }
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
pub(crate) fn output(
    confinement: &Confinement,
    outcome: &CommandOutcome,
    printed: HeadTailBuffer,
    advice: RunAdvice,
) -> Output {
    let truncated = printed.lost().bytes > 0;
    let mut text = shown(printed);
    told(confinement, outcome).iter().for_each(|line| say(&mut text, line));
    if outcome.ended_by == Some(LimitKind::Wall) {
        let or = if advice.background { ", or `background: true`" } else { "" };
        say(&mut text, &format!("for more time give `timeout_ms`, at most 600000{or}"));
    }
    if outcome.survivors > 0 {
        let how =
            if advice.background { "; to leave something running, give `background: true`" } else { "" };
        say(&mut text, &format!("what it left running was ended with it{how}"));
    }
    let error = (outcome.status != CommandStatus::Exited(0)).then(|| match outcome.ended_by {
        Some(LimitKind::Wall) => format!("stopped after {} ms", confinement.limits.wall.as_millis()),
        _ => outcome.status.to_string(),
    });
    let data = error.is_some().then(|| json!({ "exit": exit_code(outcome) }));
    Output { text, is_error: error.is_some(), error, truncated, data, ..Output::default() }
}

/// Returns the exit code as a shell would report it.
fn exit_code(outcome: &CommandOutcome) -> u32 {
    match outcome.status {
        _ if outcome.ended_by == Some(LimitKind::Wall) => 124,
        CommandStatus::Exited(code) => u32::try_from(code).unwrap_or(1),
        CommandStatus::Signalled(signal) => u32::try_from(signal).unwrap_or(0).saturating_add(128),
        // Not found, or not executable.
        CommandStatus::NotStarted(2) => 127,
        CommandStatus::NotStarted(_) => 126,
    }
}

/// Returns the printed text with lines of the gate marked, and a note where text is omitted.
pub(crate) fn shown(printed: HeadTailBuffer) -> String {
    let (head, lost, tail) = printed.parts();
    let mut text = in_its_own_words(&head);
    if lost.bytes > 0 {
        say(&mut text, &format!("cut: {} bytes ({} lines) are left out here", lost.bytes, lost.lines));
        text.push_str(&in_its_own_words(&tail));
    }
    text
}
