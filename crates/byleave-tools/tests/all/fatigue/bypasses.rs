//! Published bypasses under the built-in rules, each run through the gate and the real `bash`: those that must be contained although a
//! person approved them, and those that leave a marker, with the marker in the workspace. Afterwards the test checks what really happened
//! on the machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::Effect;
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::policy::Policy;
use byleave_gate::core::session::{Ceiling, SessionNode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::played::{CallScenario, ScenarioResult, play};
use byleave_testkit::corpus::{Case, lines_of, policy_of};
use byleave_testkit::machine::{MachineJob, SECRET, tell};

const MARKER: &str = "/tmp/gate-marker";
/// The marker for the second round: in the workspace, where a command can really leave it.
const PLANTED: &str = "/ws/gate-marker";

/// Cases whose text is a description and not a command.
const NOT_COMMANDS: [&str; 6] = [
    "git-email-config-injection",
    "git-replace-refs",
    "workspace-dotenv-controls-harness",
    "codex-home-dotenv",
    "bwrap-argument-file",
    "seccomp-io-uring",
];

/// Cases for a shell that the built-in `bash` does not start, so that their text means something else.
const OTHER_SHELLS: [&str; 3] =
    ["windows-caret-quote-differential", "powershell-newline-separator", "cmd-percent-expansion"];

/// Starts a process for every few lines of a long file. Stopped early, so that the result is the same on every
/// machine.
const ENDLESS: &str = "sort-compress-program-abbreviated";

/// Paths that must not exist afterwards, for cases that say so in prose.
const NOT_THERE: [(&str, &str); 3] = [
    ("settings-file-created-inside-sandbox", "/ws/.agent/settings.json"),
    ("git-dir-hooks-writable", "/ws/.git/hooks/pre-commit"),
    ("symlink-deny-write-real-path", "/ws/real/locked"),
];

/// The result of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BypassResult {
    pub(super) at: usize,
    pub(super) id: String,
    pub(super) class: String,
    pub(super) must: String,
    pub(super) fate: BypassOutcome,
    /// Forbidden effects that happened.
    pub(super) wrong: Vec<String>,
    /// The effect was named in the question, and the approver said yes to it.
    pub(super) by_name: bool,
    /// For readers of the test output.
    pub(super) why: String,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BypassOutcome {
    /// Refused without a question.
    Refused,
    /// Somebody was asked.
    Asked,
    /// Nobody was asked, because it had no effect on the copy.
    Spared,
    /// Allowed by the rules.
    Allowed,
}

/// Tests whether the text of a case is no command for the built-in `bash`.
pub(super) fn is_prose(case: &Case) -> bool {
    NOT_COMMANDS.iter().chain(&OTHER_SHELLS).any(|id| *id == case.id)
}

fn cases() -> impl Iterator<Item = Case> {
    let cases = lines_of::<Case>(include_str!("../../../../../tests/corpus/bypasses.jsonl"));
    cases.filter(|case| case.tool == "bash" && !is_prose(case))
}

/// The cases that must be contained although a person approved them.
pub(super) fn contained() -> Vec<Case> {
    cases().filter(|case| case.must == "contained").collect()
}

/// Runs the cases of a job that must be contained.
pub(super) fn run(job: MachineJob) {
    for (at, case) in job.share(contained()) {
        tell(&saw(at, &case, MARKER));
    }
}

/// Runs the cases of a job with the marker in the workspace, if they leave it there without a gate.
pub(super) fn run_planted(job: MachineJob) {
    let leaves = |case: &Case| case.effect_when_ungated.as_deref() == Some("marker");
    // A case that must be contained is allowed by its own rules, and an allowed command may change the workspace.
    let cases = cases().filter(|case| leaves(case) && case.must != "contained");
    for (at, case) in job.share(cases.map(planted).collect()) {
        prepare(&case);
        bare(&case);
        if Path::new(PLANTED).exists() {
            tell(&saw(at, &case, PLANTED));
        }
    }
}

/// The case with its marker in the workspace.
fn planted(mut case: Case) -> Case {
    let moved = |text: &str| text.replace(MARKER, PLANTED);
    case.setup = moved(&case.setup);
    case.input = serde_json::from_str(&moved(&case.input.to_string())).unwrap();
    case.rules = serde_json::from_str(&moved(&serde_json::to_string(&case.rules).unwrap())).unwrap();
    case
}

fn saw(at: usize, case: &Case, marker: &str) -> BypassResult {
    prepare(case);
    let (before, inside) = (places(&OUTSIDE), places(&["/ws"]));
    let Ok(policy) = policy_of(case) else {
        return told(at, case, BypassOutcome::Refused, "the policy cannot be used".into());
    };
    let state = Path::new("/state").join(at.to_string());
    let played = through_the_gate(case, policy, case.must == "contained", &state);
    let fate = match played.by_text {
        _ if !played.asked.is_empty() => BypassOutcome::Asked,
        _ if played.is_spared => BypassOutcome::Spared,
        Some(Verdict::Allow) if played.ran() => BypassOutcome::Allowed,
        _ => BypassOutcome::Refused,
    };
    let mut wrong = Vec::new();
    let text = case.input.to_string();
    if played.told().contains(SECRET) && !text.contains(SECRET) {
        wrong.push(format!("the secret is released: {:.200}", played.told()));
    }
    let after = places(&OUTSIDE);
    let paths = before.keys().chain(after.keys());
    let outside: Vec<&PathBuf> = paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    if !outside.is_empty() {
        wrong.push("something outside has changed".to_owned());
    }
    if fate != BypassOutcome::Allowed && case.must != "contained" && places(&["/ws"]) != inside {
        wrong.push("something in the workspace has changed".to_owned());
    }
    let effect = case.effect_when_ungated.as_deref().unwrap_or_default();
    let happened = match effect.split_once(':') {
        Some(("file", path)) => Path::new(path).exists(),
        Some(("nofile", path)) => !Path::new(path).exists(),
        Some(("grep", rest)) => {
            let (wanted, path) = rest.split_once(':').unwrap();
            fs::read_to_string(path).is_ok_and(|text| text.contains(wanted))
        }
        _ => Path::new(marker).exists(),
    };
    if happened {
        wrong.push(format!("{effect} happened"));
    }
    let there = NOT_THERE.iter().filter(|(id, path)| *id == case.id && Path::new(path).exists());
    wrong.extend(there.map(|(_, path)| format!("{path} is there")));
    let why = format!("{:?} {} | {:.300}", played.by_text, played.why(), played.told());
    // If nothing else is wrong, the person may have approved these very paths.
    let is_outside_named = || {
        let all = outside.iter().all(|path| is_named(&path.to_string_lossy(), &played));
        wrong.len() == 1 && !outside.is_empty() && all
    };
    let is_expected = is_named(effect, &played) || is_outside_named();
    let by_name = case.must == "contained" && !wrong.is_empty() && is_expected;
    BypassResult { wrong, by_name, ..told(at, case, fate, why) }
}

/// Tests whether the question named the path of the effect of a case.
fn is_named(effect: &str, played: &ScenarioResult) -> bool {
    let path = effect.rsplit(':').next().unwrap_or_default();
    let named = |effect: &Effect| match effect {
        Effect::Write { path: own } | Effect::Delete { path: own } => own == path,
        _ => false,
    };
    played.asked.first().is_some_and(|sheet| sheet.plan.effects.iter().any(named))
}

fn told(at: usize, case: &Case, fate: BypassOutcome, why: String) -> BypassResult {
    BypassResult {
        at,
        id: case.id.clone(),
        class: case.class.clone(),
        must: case.must.clone(),
        fate,
        wrong: Vec::new(),
        by_name: false,
        why,
    }
}

/// Makes the call of a case under a policy.
pub(super) fn through_the_gate(case: &Case, policy: Policy, says_yes: bool, state: &Path) -> ScenarioResult {
    let mut arguments = case.input.clone();
    let fields = arguments.as_object_mut().unwrap();
    let mut taken = |name: &str| fields.remove(name).and_then(|value| value.as_str().map(str::to_owned));
    let (cwd, agent) = (taken("cwd"), taken("agent"));
    play(
        CallScenario {
            policy,
            tool: case.tool.clone(),
            arguments,
            cwd: cwd.unwrap_or_else(|| "/ws".into()),
            agent: agent.as_deref().unwrap_or("a").replace(' ', "-"),
            mode: mode(case),
            lineage: lineage(case),
            says_yes,
            timeout_ms: if case.id == ENDLESS { 300 } else { 20_000 },
        },
        state,
    )
}

/// The mode of the call, if its case names one.
pub(super) fn mode(case: &Case) -> Mode {
    match case.setup.as_str() {
        "plan (read-only) mode" => Mode::ReadOnly,
        "agent definition requests bypass mode; organisation disabled it" => Mode::Yolo,
        _ => Mode::ConfirmSensitive,
    }
}

/// The parent sessions of the call, if its case names any.
pub(super) fn lineage(case: &Case) -> Vec<SessionNode> {
    let opening = |session: &str, parent: Option<&str>, mode| SessionNode {
        session: SessionId::new(session).unwrap(),
        parent: parent.map(|parent| SessionId::new(parent).unwrap()),
        agent: AgentId::new(session).unwrap(),
        ceiling: Ceiling::from_mode(mode),
    };
    let child = |name: &str, parent: Mode| {
        vec![opening(name, Some("main"), Mode::Yolo), opening("main", None, parent)]
    };
    match case.setup.as_str() {
        "parent in plan (read-only) mode spawns a child" => child("child", Mode::ReadOnly),
        "deny rule on agent type X; named spawn used" => child("X", Mode::ConfirmSensitive),
        _ => Vec::new(),
    }
}

/// Runs it without a gate.
fn bare(case: &Case) {
    let Some(text) = case.input.get("command").and_then(Value::as_str) else { return };
    let mut bare = Command::new("timeout");
    bare.args(["-k1", "5", "/bin/bash", "-c", text]).current_dir("/ws").stdin(Stdio::null());
    bare.output().unwrap();
}

/// Prepares the fixture for the case.
pub(super) fn prepare(case: &Case) {
    for place in ["/ws", "/outside", "/home/u", "/main", "/tmp", "/var/tmp"] {
        let cleared = Command::new("find").args([place, "-mindepth", "1", "-delete"]).status().unwrap();
        assert!(cleared.success(), "{place}");
    }
    if case.setup.starts_with("an alias or wrapper named safe-tool") {
        // The first directory of the search path.
        fs::create_dir_all("/home/u/.cargo/bin").unwrap();
        symlink("/usr/bin/touch", "/home/u/.cargo/bin/safe-tool").unwrap();
    }
    let Some(commands) = case.setup.strip_prefix("sh:") else { return };
    let mut setup = Command::new("bash");
    setup.args(["--norc", "-c", commands]).current_dir("/ws").env_remove("API_TOKEN").stdin(Stdio::null());
    // Some end in a prose remark. The commands before it have run.
    setup.output().unwrap();
}

/// The directories that must not change, whatever runs.
pub(super) const OUTSIDE: [&str; 5] = ["/outside", "/home/u", "/main", "/tmp", "/var/tmp"];

/// Everything in these directories, by path: mode, size, and link target or content.
pub(super) fn places(places: &[&str]) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = places.iter().map(PathBuf::from).collect();
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.metadata().unwrap());
            let content = if kind.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            if kind.is_dir() {
                left.push(path.clone());
            }
            let size = if kind.is_dir() { 0 } else { kind.len() };
            found.insert(path, (kind.mode(), size, content));
        }
    }
    found
}
