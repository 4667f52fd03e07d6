//! Makes a call that must be denied through the hook of an agent, exactly as the agent starts it.
//!
//! The call is evaluated with a state directory of its own, so nothing of it stays.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use byleave_hook::{AgentKind, shell_request};

use crate::timed_process;

/// The time limit for the hook. Without `byleave hook serve`, it starts the whole program.
const PATIENCE: Duration = Duration::from_secs(60);
/// Reads a secret, which no setting can allow, and the rule that denies it.
const DENIED: (&str, &str) = ("cat ~/.ssh/id_byleave_doctor", "secrets-ssh");
/// The words of the shell line of `init` about a hook that failed.
const FAILED: &str = "the hook failed";

/// Returns why the hook that this line starts does not do its work, or `None` if it denied the call.
pub(super) fn problem(agent: AgentKind, line: &str, directory: &Path) -> Option<String> {
    let state = match tempfile::Builder::new().prefix("byleave-doctor-").tempdir() {
        Ok(state) => state,
        Err(error) => return Some(format!("cannot make a directory to try the hook: {error}")),
    };
    let request = shell_request(agent, &directory.to_string_lossy(), DENIED.0).to_string();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).current_dir(directory).env("BYLEAVE_STATE", state.path());
    let said = match timed_process::run(&mut command, &request, PATIENCE) {
        Ok(said) => said,
        Err(error) => return Some(format!("the hook does not answer: {error:#}")),
    };
    let answer = format!("{}\n{}", said.stdout, said.stderr);
    let why = answer.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
    if answer.contains(DENIED.1) {
        None
    } else if answer.contains(FAILED) {
        Some("the hook fails, so the agent can use no tool of its own".to_owned())
    } else if said.status.code() == Some(0) {
        Some(format!("the hook lets a call pass that must be denied: {why}"))
    } else {
        Some(format!("the hook does not evaluate calls: {why}"))
    }
}
