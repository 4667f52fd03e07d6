//! Everyday commands, each run in its own project, through a gate whose approver says yes to everything. The questions are counted.

use std::path::Path;
use std::process::{Command, Stdio};

use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::policy::{Policy, builtin_rules};
use byleave_gate::result::CallOutcome;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::played::{CallScenario, ScenarioResult, play};
use byleave_testkit::corpus::{EverydayCommand, PLACES, read_user};
use byleave_testkit::machine::{MachineJob, is_long, tell};

/// The result of an everyday command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CommandResult {
    pub(super) at: usize,
    pub(super) class: String,
    pub(super) command: String,
    /// Without a rehearsal, the gate would have asked.
    pub(super) by_text: bool,
    pub(super) asked: bool,
    pub(super) spared: bool,
    pub(super) ended: CommandExit,
    /// It failed, but succeeds without a gate.
    pub(super) is_broken: bool,
    /// For readers of the test output.
    pub(super) why: String,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CommandExit {
    Ran,
    Failed,
    /// A program that it needs is not installed.
    NotHere,
    Refused,
}

/// The policy that the docs recommend for ordinary development, or only the built-in rules, by the name of
/// the job.
fn policy(job: MachineJob) -> Policy {
    let mut rules = builtin_rules(&PLACES).unwrap();
    if job.name == super::DEV {
        rules.extend(read_user(include_str!("../../../../../docs/policies/dev-default.toml")).unwrap());
    }
    Policy::new(rules).unwrap()
}

/// The preparation for a command, in addition to the project.
const BEFORE: [(&str, &str); 8] = [
    ("git stash pop", "git reset -q --hard"),
    ("git switch main", "git reset -q --hard"),
    ("git rebase main", "git reset -q --hard"),
    ("git merge --no-ff feature/parser", "git reset -q --hard"),
    ("git cherry-pick abc1234", "git reset -q --hard"),
    ("git checkout -b feature/parser", "git branch -q -D feature/parser"),
    ("touch src/parser/mod.rs", "mkdir src/parser"),
    ("ctest --test-dir build", "mkdir build"),
];

/// Commands that need the network, which the machine does not have. They run for a while. A sample leaves them out.
const NETWORK: [&str; 4] =
    ["npm view react version", "npm outdated", "cargo search serde --limit 3", "mvn -q test"];

pub(super) fn commands() -> Vec<EverydayCommand> {
    let text = include_str!("../../../../../tests/corpus/benign.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs the commands of a job.
pub(super) fn run(job: MachineJob) {
    shell(include_str!("workspace.sh"));
    shell("cp -a /ws /state/template");
    for (at, EverydayCommand { command, class }) in job.share(commands()) {
        if !is_long() && NETWORK.contains(&command.as_str()) {
            continue;
        }
        prepare(&command);
        let played = play(
            CallScenario {
                policy: policy(job),
                tool: "bash",
                arguments: json!({ "command": command }),
                cwd: "/ws".into(),
                agent: "a".into(),
                mode: Mode::ConfirmSensitive,
                lineage: Vec::new(),
                says_yes: true,
                timeout_ms: if NETWORK.contains(&command.as_str()) { 4_000 } else { 60_000 },
            },
            &Path::new("/state").join(at.to_string()),
        );
        let ended = ended(&played);
        tell(&CommandResult {
            at,
            class,
            is_broken: ended == CommandExit::Failed && works_bare(&command),
            command,
            by_text: played.by_text != Some(Verdict::Allow),
            asked: !played.asked.is_empty(),
            spared: played.is_spared,
            ended,
            why: format!("{} | {:.300}", played.why(), played.told()),
        });
    }
}

/// Restores the project to its state before a command.
fn prepare(command: &str) {
    shell("find /ws -mindepth 1 -delete; cp -a /state/template/. /ws/");
    if let Some((_, before)) = BEFORE.iter().find(|(one, _)| *one == command) {
        shell(before);
    }
}

/// Tests whether a command succeeds without a gate.
fn works_bare(command: &str) -> bool {
    prepare(command);
    let mut bare = Command::new("timeout");
    // Not in the arguments, where `pgrep` would find it.
    bare.args(["-k1", "4", "/bin/bash", "-c", "eval \"$COMMAND\""]).env("COMMAND", command);
    bare.current_dir("/ws").stdin(Stdio::null());
    bare.output().unwrap().status.success()
}

fn ended(played: &ScenarioResult) -> CommandExit {
    match &played.ending {
        CallOutcome::Completed(_) => CommandExit::Ran,
        CallOutcome::Failed(_) if played.lacks_a_program() => CommandExit::NotHere,
        CallOutcome::Failed(_) => CommandExit::Failed,
        _ => CommandExit::Refused,
    }
}

fn shell(script: &str) {
    let mut bash = Command::new("bash");
    let ended =
        bash.args(["--norc", "-c", script]).current_dir("/ws").env_remove("API_TOKEN").output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
