//! Asks the installed Codex which hooks it would run, and whether it would run our command outside of its sandbox.
//!
//! Codex answers itself, so that nothing here repeats its rules. No model and no account is needed. It changes nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::timed_process::{self, RunningProcess};

/// The time limit for Codex to answer. It starts in less than a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum size of everything that is read from Codex.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// A hook, as Codex lists it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedHook {
    /// The key of its state in `config.toml`.
    pub(crate) key: String,
    pub(crate) event_name: String,
    #[serde(default)]
    pub(crate) command: Option<String>,
    pub(crate) source_path: PathBuf,
    pub(crate) enabled: bool,
    pub(crate) current_hash: String,
    pub(crate) trust_status: String,
}

impl ListedHook {
    /// Checks whether Codex runs it.
    pub(crate) fn runs(&self) -> bool {
        self.enabled && ["trusted", "managed"].contains(&self.trust_status.as_str())
    }
}

/// Returns the path of the program `codex`, if it is installed.
pub(crate) fn find() -> Option<PathBuf> {
    find_in_path("codex")
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Returns the hooks that Codex finds in this directory.
pub(crate) fn listed_hooks(program: &Path, directory: &str) -> Result<Vec<ListedHook>> {
    let requests = [
        json!({ "id": 1, "method": "initialize", "params": { "clientInfo": { "name": "byleave", "version": env!("CARGO_PKG_VERSION") } } }),
        json!({ "method": "initialized" }),
        json!({ "id": 2, "method": "hooks/list", "params": { "cwds": [directory] } }),
    ];
    let mut command = Command::new(program);
    command.arg("app-server").current_dir(directory).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let server = command.spawn().with_context(|| format!("cannot start `{}`", program.display()))?;
    let mut server = RunningProcess(server);
    let mut stdin = server.0.stdin.take().context("codex has no input")?;
    let stdout = server.0.stdout.take().context("codex has no output")?;
    for request in requests {
        // A program that has ended gives no answer, which is noticed below.
        drop(stdin.write_all(format!("{request}\n").as_bytes()));
    }
    let (found, answer) = mpsc::channel();
    // A detached thread, because a program that hangs would keep the reader forever.
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout.take(ANSWER_BYTES_MAX)).lines().map_while(Result::ok);
        let mut values = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        // The receiver may have given up.
        drop(found.send(values.find(|value| value.get("id") == Some(&json!(2)))));
    });
    let answer = answer.recv_timeout(PATIENCE).ok().flatten();
    drop(stdin);
    let answer = answer.context("codex did not list its hooks")?;
    let entries = answer.pointer("/result/data").and_then(Value::as_array);
    let entries = entries.context("this version of codex does not list its hooks")?;
    let hooks = entries.iter().filter_map(|entry| entry.get("hooks")?.as_array()).flatten();
    hooks
        .map(|hook| ListedHook::deserialize(hook).context("codex lists its hooks in an unknown form"))
        .collect()
}

/// Checks whether Codex runs a prepared call outside of its own sandbox. The error says why it does not.
pub(crate) fn check_rules(program: &Path, rules: &[PathBuf], words: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["execpolicy", "check"]);
    for file in rules {
        command.arg("--rules").arg(file);
    }
    let said = timed_process::run(command.arg("--").args(words), "", PATIENCE)?;
    anyhow::ensure!(said.status.success(), "codex cannot read its rules: `codex execpolicy check` says why");
    let said: Value =
        serde_json::from_str(&said.stdout).context("codex checks its rules in an unknown form")?;
    match said.get("decision").and_then(Value::as_str) {
        Some("allow") => Ok(()),
        Some(other) => anyhow::bail!("another rule of codex for byleave says `{other}`"),
        None => anyhow::bail!("no rule of codex lets byleave run outside of its sandbox"),
    }
}
