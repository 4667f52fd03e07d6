//! Runs a command in the sandbox, and ends with everything that it started.

use std::ffi::OsString;
use std::sync::Arc;

use byleave::core::outcome::Output;
use byleave::tool::Run;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::granted::Keeper;
use byleave_sandbox::launch::{LaunchError, Outcome, Running, Status, Stopper, start_warm};
use byleave_sandbox::limits::Limit;
use byleave_sandbox::net::policy::Door;
use byleave_sandbox::plan::Command;
use byleave_sandbox::told::told;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::heard::{Audience, Listener};
use crate::kept::Kept;
use crate::lines::{in_its_own_words, say};
use crate::workplace::{Way, Workplace};

/// The shell that reads commands: by its place, so that nothing in the workspace can be it.
const SHELL: &str = "/bin/bash";

/// A command that has run to its end, and what it printed.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) printed: Kept,
}

/// Runs a shell command to its end. Blocks; stops when it is told to.
pub(crate) fn run(
    workplace: &Workplace,
    confinement: &Confinement,
    text: &str,
    way: Way,
    run: &Run,
    output_bytes_max: usize,
) -> Result<Ran, String> {
    let mut running = started(workplace, confinement, (text, Printing::Together), way, run)?;
    let audience = match way {
        Way::Granted => Audience::Watching,
        Way::Closed => Audience::Nobody,
    };
    let listener = Listener::begin(run, audience, output_bytes_max);
    running.pass_on(listener.ear());
    let watch = Watch::begin(running.stopper().map_err(words)?, run.cancel.clone());
    let outcome = running.finish();
    drop(watch);
    let printed = listener.end();
    outcome.map(|outcome| Ran { outcome, printed }).map_err(words)
}

/// Runs a shell command to its end with nobody listening, for who reads what it prints and what it prints as errors by themselves.
pub(crate) fn unheard(
    workplace: &Workplace,
    confinement: &Confinement,
    text: &str,
    run: &Run,
) -> Result<Outcome, String> {
    let running = started(workplace, confinement, (text, Printing::Apart), Way::Closed, run)?;
    let _watch = Watch::begin(running.stopper().map_err(words)?, run.cancel.clone());
    running.finish().map_err(words)
}

/// Whether what a command prints and what it prints as errors comes as one, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printing {
    Together,
    Apart,
}

/// Starts a shell command.
pub(crate) fn started(
    workplace: &Workplace,
    confinement: &Confinement,
    (text, printing): (&str, Printing),
    way: Way,
    run: &Run,
) -> Result<Running, String> {
    let argv: Vec<OsString> = [SHELL, "-c", text].map(OsString::from).to_vec();
    let command = Command { argv, together: printing == Printing::Together, ..Command::default() };
    let warm = workplace.warm();
    if confinement.network != Network::Proxied {
        return start_warm(confinement, &command, workplace.run_as, None, warm).map_err(words);
    }
    let door = match (way, &run.rules) {
        (Way::Granted, Some(rules)) => {
            let (session, agent) = (run.site.session.clone(), run.site.agent.clone());
            Door::new(Arc::new(Keeper::new(Arc::clone(rules), &run.plan, session, agent)))
        }
        (Way::Closed, _) | (_, None) => Door::closed(),
    };
    let through = Some((workplace.uplink()?, door));
    start_warm(confinement, &command, workplace.run_as, through, warm).map_err(words)
}

#[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
pub(crate) fn words(error: LaunchError) -> String {
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

/// What a model can be advised to do otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advice {
    /// There are background jobs.
    pub(crate) background: bool,
}

/// What the model is told of a run.
pub(crate) fn output(confinement: &Confinement, outcome: &Outcome, printed: Kept, advice: Advice) -> Output {
    let truncated = printed.lost().bytes > 0;
    let mut text = shown(printed);
    told(confinement, outcome).iter().for_each(|line| say(&mut text, line));
    if outcome.ended_by == Some(Limit::Wall) {
        let or = if advice.background { ", or `background: true`" } else { "" };
        say(&mut text, &format!("for more time give `timeout_ms`, at most 600000{or}"));
    }
    if outcome.survivors > 0 {
        let how =
            if advice.background { "; to leave something running, give `background: true`" } else { "" };
        say(&mut text, &format!("what it left running was ended with it{how}"));
    }
    let error = (outcome.status != Status::Exited(0)).then(|| match outcome.ended_by {
        Some(Limit::Wall) => format!("stopped after {} ms", confinement.limits.wall.as_millis()),
        _ => outcome.status.to_string(),
    });
    let data = error.is_some().then(|| json!({ "exit": exit_code(outcome) }));
    Output { text, is_error: error.is_some(), error, truncated, data, ..Output::default() }
}

/// How a shell would tell of it.
fn exit_code(outcome: &Outcome) -> u32 {
    match outcome.status {
        _ if outcome.ended_by == Some(Limit::Wall) => 124,
        Status::Exited(code) => u32::try_from(code).unwrap_or(1),
        Status::Signalled(signal) => u32::try_from(signal).unwrap_or(0).saturating_add(128),
        // Not there, or not to be run.
        Status::NotStarted(2) => 127,
        Status::NotStarted(_) => 126,
    }
}

/// What was printed, in its own words, with what is said where something is left out.
pub(crate) fn shown(printed: Kept) -> String {
    let (head, lost, tail) = printed.parts();
    let mut text = in_its_own_words(&head);
    if lost.bytes > 0 {
        say(&mut text, &format!("cut: {} bytes ({} lines) are left out here", lost.bytes, lost.lines));
        text.push_str(&in_its_own_words(&tail));
    }
    text
}
