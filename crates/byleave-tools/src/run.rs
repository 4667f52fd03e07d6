//! Runs a command in the sandbox, and ends with everything that it started.

use std::ffi::OsString;
use std::sync::Arc;

use byleave::core::outcome::Output;
use byleave::tool::Run;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::granted::Keeper;
use byleave_sandbox::launch::{LaunchError, Outcome, Printed, Running, Status, Stopper, start_warm};
use byleave_sandbox::net::policy::Door;
use byleave_sandbox::plan::Command;
use byleave_sandbox::told::told;
use tokio_util::sync::CancellationToken;

use crate::workplace::{Way, Workplace};

/// The shell that reads commands: by its place, so that nothing in the workspace can be it.
const SHELL: &str = "/bin/bash";

/// Does what blocks on a thread of its own; why it was not done is a failure that the model can read.
pub(crate) async fn apart(work: impl FnOnce() -> Result<Output, String> + Send + 'static) -> Output {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(output)) => output,
        Ok(Err(why)) => Output::failure(why),
        Err(error) => Output::failure(format!("it broke: {error}")),
    }
}

/// Runs a shell command to its end. Blocks; stops when it is told to.
pub(crate) fn run(
    workplace: &Workplace,
    confinement: &Confinement,
    text: &str,
    way: Way,
    run: &Run,
) -> Result<Outcome, String> {
    let argv: Vec<OsString> = [SHELL, "-c", text].map(OsString::from).to_vec();
    let command = Command { argv, ..Command::default() };
    let running = started(workplace, confinement, &command, way, run)?;
    let watch = Watch::begin(running.stopper().map_err(words)?, run.cancel.clone());
    let outcome = running.finish();
    drop(watch);
    outcome.map_err(words)
}

fn started(
    workplace: &Workplace,
    confinement: &Confinement,
    command: &Command,
    way: Way,
    run: &Run,
) -> Result<Running, String> {
    let warm = workplace.warm();
    if confinement.network != Network::Proxied {
        return start_warm(confinement, command, workplace.run_as, None, warm).map_err(words);
    }
    let door = match (way, &run.rules) {
        (Way::Granted, Some(rules)) => {
            let (session, agent) = (run.site.session.clone(), run.site.agent.clone());
            Door::new(Arc::new(Keeper::new(Arc::clone(rules), &run.plan, session, agent)))
        }
        (Way::Closed, _) | (_, None) => Door::closed(),
    };
    let through = Some((workplace.uplink()?, door));
    start_warm(confinement, command, workplace.run_as, through, warm).map_err(words)
}

#[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
fn words(error: LaunchError) -> String {
    error.to_string()
}

/// Stops a command when the call is called off; lets go of it when it has ended.
struct Watch {
    ended: CancellationToken,
}

impl Watch {
    fn begin(stopper: Stopper, called_off: CancellationToken) -> Self {
        let ended = CancellationToken::new();
        let until = ended.clone();
        // Without a runtime nobody can call it off.
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

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// What the model is told of a run.
pub(crate) fn output(confinement: &Confinement, outcome: &Outcome) -> Output {
    let mut text = shown(&outcome.stdout);
    let errors = shown(&outcome.stderr);
    if !errors.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&errors);
    }
    for line in told(confinement, outcome) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[byleave] {line}\n"));
    }
    let error = match outcome.status {
        Status::Exited(0) => None,
        Status::Exited(code) => Some(format!("exit status {code}")),
        Status::Signalled(signal) => Some(format!("ended by signal {signal}")),
        Status::NotStarted(errno) => Some(format!("it could not be started (error {errno})")),
    };
    Output { text, is_error: error.is_some(), error, ..Output::default() }
}

fn shown(printed: &Printed) -> String {
    let mut text = in_its_own_words(&String::from_utf8_lossy(&printed.bytes));
    if printed.dropped > 0 {
        text.push_str(&format!("\n[byleave] cut: {} bytes more\n", printed.dropped));
    }
    text
}

/// What a command printed, where no line looks like one of ours: those are read as what the gate says.
pub(crate) fn in_its_own_words(text: &str) -> String {
    const OURS: &str = "[byleave]";
    if !text.contains(OURS) {
        return text.to_owned();
    }
    let line = |line: &str| {
        let indented =
            line.len() - line.trim_start_matches(|one: char| one.is_whitespace() || one.is_control()).len();
        match line.split_at_checked(indented) {
            Some((before, rest)) if rest.starts_with(OURS) => format!("{before}printed: {rest}"),
            _ => line.to_owned(),
        }
    };
    text.split_inclusive(['\n', '\r']).map(line).collect()
}
