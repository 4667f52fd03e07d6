//! Everyday commands under a profile, each run for real in its own project while nobody says yes. Under `everyday` each is run without a
//! gate as well, and must end in the same way: exit code, output and changed files. Then the test undoes what passed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::policy::{Policy, builtin_rules};
use byleave_gate::result::CallOutcome;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::hostile_cases::{left_processes, processes, undo};
use super::played::{CallScenario, ScenarioResult, play};
use crate::whole_tree::{TreeNode, WholeTree};
use byleave_testkit::corpus::{EverydayCommand, PLACES, lines_of, read_user};
use byleave_testkit::machine::{MachineJob, is_long, tell};

/// The result of an everyday command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CommandResult {
    pub(super) at: usize,
    pub(super) class: String,
    pub(super) command: String,
    /// Reading alone would have asked.
    pub(super) by_text: bool,
    pub(super) asked: bool,
    pub(super) ended: CommandExit,
    /// What is not as it is without a gate.
    pub(super) differs: Vec<String>,
    /// What undo did not restore, or what was left.
    pub(super) remains: Vec<String>,
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

/// The preparation for a command, in addition to the project.
const BEFORE: [(&str, &str); 12] = [
    ("git stash pop", "git reset -q --hard"),
    ("git switch main", "git reset -q --hard"),
    ("git rebase main", "git reset -q --hard"),
    ("git merge --no-ff feature/parser", "git reset -q --hard"),
    ("git cherry-pick abc1234", "git reset -q --hard"),
    ("git checkout -b feature/parser", "git branch -q -D feature/parser"),
    (
        "git checkout -b feature/x origin/main",
        "git update-ref refs/remotes/origin/main main; git reset -q --hard",
    ),
    ("touch src/parser/mod.rs", "mkdir src/parser"),
    ("ctest --test-dir build", "mkdir build"),
    ("cp -r templates/base templates/new", "mkdir -p templates/base; echo x >templates/base/a"),
    (
        "python scripts/gen.py --out build/schema.json",
        "mkdir build; echo 'open(\"build/schema.json\", \"w\").write(\"{}\")' >scripts/gen.py",
    ),
    (
        "node scripts/build.mjs --minify",
        "echo 'import fs from \"fs\"; fs.writeFileSync(\"app.js\", \"1\")' >scripts/build.mjs",
    ),
];

/// Commands that need a network or a server, which the machine does not have. They run until they are stopped, or print what they tried. A
/// sample leaves them out.
const NETWORK: [&str; 8] = [
    "npm view react version",
    "npm outdated",
    "cargo search serde --limit 3",
    "mvn -q test",
    "mvn -q -DskipTests package",
    "git pull --rebase",
    "kubectl get pods",
    "kubectl get pods -n dev",
];

/// Commands that print what the machine is and what runs on it. The sandbox has its own processes, mounts and environment, so only their
/// exit code and their changes are compared.
const SHOWS_THE_MACHINE: [&str; 22] = [
    "ps aux | head",
    "ps -ef | grep cargo",
    "ps aux | grep node | grep -v grep",
    "pgrep -fl node",
    "lsof -i :3000",
    "df -h",
    "free -m",
    "uptime",
    "uname -a",
    "date +%F && uname -a",
    "date",
    "date -u +%Y-%m-%dT%H:%M:%SZ",
    "env | cut -d= -f1 | sort",
    "env | grep -i node",
    "printenv PATH",
    "id",
    "whoami",
    "du -sh .",
    "ls -la",
    "ls -lah src",
    "stat Cargo.toml",
    "kill %1",
];

/// The short form takes one of this many commands.
const SAMPLE: usize = 24;

pub(super) fn commands() -> Vec<EverydayCommand> {
    let first = lines_of(include_str!("../../../../../tests/corpus/benign.jsonl"));
    first.chain(lines_of(include_str!("../../../../../tests/corpus/benign-2.jsonl"))).collect()
}

/// Runs the commands of a job under the profile that the job is named for.
pub(super) fn run(job: MachineJob, profile: &'static str) {
    shell(include_str!("workspace.sh"));
    shell("cp -a /ws /state/template");
    let step = if is_long() { 1 } else { SAMPLE };
    let ours = commands().into_iter().enumerate().filter(|(at, _)| at % job.parts == job.part);
    for (at, command) in ours.filter(|(at, _)| (at / job.parts).is_multiple_of(step)) {
        if is_long() || !NETWORK.contains(&command.command.as_str()) {
            tell(&saw(at, command, profile));
        }
    }
}

fn saw(at: usize, EverydayCommand { command, class }: EverydayCommand, profile: &str) -> CommandResult {
    let bare = (profile == "everyday").then(|| {
        prepare(&command);
        bare(&command)
    });
    prepare(&command);
    let (before, processes) = (WholeTree::read(&["/ws"]), processes());
    let state = Path::new("/state").join(at.to_string());
    let played = play(
        CallScenario {
            policy: policy(profile),
            tool: "bash".into(),
            arguments: json!({ "command": command }),
            cwd: "/ws".into(),
            agent: "a".into(),
            mode: Mode::ConfirmSensitive,
            lineage: Vec::new(),
            says_yes: false,
            timeout_ms: if NETWORK.contains(&command.as_str()) { 6_000 } else { 60_000 },
        },
        &state,
    );
    let after = WholeTree::read(&["/ws"]);
    let asked = !played.asked.is_empty();
    // The gate refuses a command without a question if its program does not exist: it found the exit status that it has without a gate.
    let lacks_a_program =
        bare.as_ref().is_some_and(|bare| bare.exit == 127) && is_refused_as_missing(&played);
    let differs = match bare {
        Some(bare) if !asked && !lacks_a_program => {
            bare.differences(&command, &played, &changes(&before, &after))
        }
        _ => Vec::new(),
    };
    let mut remains = left_processes(&processes);
    remains.extend(undo(&state, played.call).err());
    let restored = WholeTree::read(&["/ws"]);
    let is_different = before.differences(&restored).into_iter().take(5);
    remains.extend(is_different.map(|(path, both)| format!("{}: {both:?}", path.display())));
    shell(&format!("rm -rf {}", state.display()));
    CommandResult {
        at,
        class,
        by_text: played.by_text != Some(Verdict::Allow),
        asked,
        ended: if lacks_a_program { CommandExit::NotHere } else { ended(&played) },
        differs,
        remains,
        why: format!("{} | {:.300}", played.why(), played.told()),
        command,
    }
}

/// The built-in rules and a profile.
fn policy(profile: &str) -> Policy {
    let mut rules = builtin_rules(&PLACES).unwrap();
    rules.extend(read_user(&format!("profile = \"{profile}\"")).unwrap());
    Policy::new(rules).unwrap().with_workspace(Some("/ws"))
}

/// Restores the project to its state before a command.
fn prepare(command: &str) {
    shell("find /ws -mindepth 1 -delete; cp -a /state/template/. /ws/");
    if let Some((_, before)) = BEFORE.iter().find(|(one, _)| *one == command) {
        shell(before);
    }
}

/// The end of a command without a gate.
struct BareRun {
    exit: i32,
    printed: String,
    changes: BTreeMap<PathBuf, Option<TreeNode>>,
    repository: String,
}

/// Runs a command without a gate, with the settings that the tool gives to every command.
fn bare(command: &str) -> BareRun {
    let before = WholeTree::read(&["/ws"]);
    let mut bare = Command::new("timeout");
    let limit = if NETWORK.contains(&command) { "6" } else { "60" };
    // Neither in the arguments, where `pgrep` would find it, nor in the environment.
    std::fs::write("/state/bare.sh", format!("exec 2>&1\n{command}\n")).unwrap();
    bare.args(["-k1", limit, "/bin/bash", "/state/bare.sh"]);
    bare.env("GIT_OPTIONAL_LOCKS", "0").env("npm_config_update_notifier", "false");
    bare.current_dir("/ws").stdin(Stdio::null());
    let ended = bare.output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let changes = changes(&before, &WholeTree::read(&["/ws"]));
    BareRun { exit: ended.status.code().unwrap_or(-1), printed, changes, repository: repository() }
}

impl BareRun {
    /// Returns in what the gated run ended otherwise.
    fn differences(
        &self,
        command: &str,
        gated: &ScenarioResult,
        changed: &BTreeMap<PathBuf, Option<TreeNode>>,
    ) -> Vec<String> {
        let mut differs = Vec::new();
        let (exit, told) = match &gated.ending {
            CallOutcome::Completed(output) => (0, output.text.clone()),
            CallOutcome::Failed(output) => {
                let exit = output.data.as_ref().and_then(|data| data["exit"].as_i64());
                (exit.and_then(|exit| i32::try_from(exit).ok()).unwrap_or(-1), output.text.clone())
            }
            _ => return vec![format!("it did not run: {:.200}", gated.told())],
        };
        // Stopped, one way or another.
        let are_stopped =
            NETWORK.contains(&command) && [exit, self.exit].iter().all(|exit| [124, 137].contains(exit));
        if exit != self.exit && !are_stopped {
            differs.push(format!("exit code {exit}, without a gate {}", self.exit));
        }
        let bare = self.printed.replace("/state/bare.sh: line", "/bin/bash: line");
        let (own, bare) = (comparable(&told), comparable(&bare));
        if own != bare && !SHOWS_THE_MACHINE.contains(&command) && !NETWORK.contains(&command) {
            let only = |one: &[String], other: &[String]| -> Vec<String> {
                one.iter().filter(|line| !other.contains(line)).take(3).cloned().collect()
            };
            differs.push(format!("printed {:?}, without a gate {:?}", only(&own, &bare), only(&bare, &own)));
        }
        let paths = self.changes.keys().chain(changed.keys());
        let differ = paths.filter(|path| self.changes.get(*path) != changed.get(*path));
        let differ: std::collections::BTreeSet<String> = differ
            .map(|path| format!("{} {:?} {:?}", path.display(), self.changes.get(path), changed.get(path)))
            .collect();
        let repository = repository();
        if repository != self.repository {
            differs.push(format!("the repository is {repository:?}, without a gate {:?}", self.repository));
        }
        differs.extend(differ.into_iter().take(5).map(|path| format!("changed otherwise: {path}")));
        differs
    }
}

/// What is in the repository: the messages of its commits by branch, the stash, and what is staged.
fn repository() -> String {
    let mut git = Command::new("bash");
    let show = "git for-each-ref --format='%(refname) %(subject)'; git log --all --format=%s; git symbolic-ref HEAD; git ls-files --stage";
    let shown = git.args(["--norc", "-c", show]).current_dir("/ws").output().unwrap();
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

/// The printed lines without what differs from run to run: numbers, ids, and their order. Lines of the gate are left out.
fn comparable(printed: &str) -> Vec<String> {
    let plain = |line: &str| -> String {
        let mut plain = String::new();
        let line = &without_id(line);
        let words = line.split_inclusive(|one: char| !one.is_ascii_alphanumeric());
        for word in words {
            let end = word.trim_end_matches(|one: char| !one.is_ascii_alphanumeric());
            let is_digest = end.len() >= 7 && end.chars().all(|one| one.is_ascii_hexdigit());
            let rest = word.get(end.len()..).unwrap_or_default();
            let end = if is_digest { "0".into() } else { end.replace(|one: char| one.is_ascii_digit(), "0") };
            plain.push_str(&end);
            plain.push_str(rest);
        }
        while plain.contains("00") {
            plain = plain.replace("00", "0");
        }
        // The unit of a time depends on the time.
        let plain = plain.replace("0ms", "0s");
        plain.trim_end().to_owned()
    };
    let lines = printed.lines().filter(|line| !line.starts_with("[byleave]")).map(plain);
    let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines
}

/// Replaces a UUID.
fn without_id(line: &str) -> String {
    let is_id = |at: usize| {
        let groups = line
            .get(at..at + 36)?
            .split('-')
            .map(|group| group.chars().all(|one| one.is_ascii_hexdigit()).then_some(group.len()));
        groups.collect::<Option<Vec<_>>>().filter(|lengths| *lengths == [8, 4, 4, 4, 12])
    };
    match (0..line.len()).find(|at| is_id(*at).is_some()) {
        Some(at) => {
            format!("{}0{}", line.get(..at).unwrap_or_default(), line.get(at + 36..).unwrap_or_default())
        }
        None => line.to_owned(),
    }
}

/// What changed, without scratch, which never reaches the directory, and without the parts of a repository that hold the time. What is in
/// the repository is compared by itself.
fn changes(before: &WholeTree, after: &WholeTree) -> BTreeMap<PathBuf, Option<TreeNode>> {
    let differences = before.differences(after).into_iter().filter(|(path, _)| !is_scratch(path));
    let in_git = |path: &Path| path.starts_with("/ws/.git");
    let named_by_time = |path: &Path| {
        ["/ws/.git/objects", "/ws/.git/logs", "/ws/.git/index"]
            .iter()
            .any(|directory| path.starts_with(directory))
    };
    let mut changes = BTreeMap::new();
    for (path, (_, now)) in differences.into_iter().filter(|(path, _)| !named_by_time(path)) {
        let mut now = now.cloned();
        // Its pages hold counters that differ from run to run.
        let is_database = path.ends_with(".coverage");
        if (in_git(path) || is_database)
            && let Some(now) = &mut now
        {
            now.content = None;
        }
        changes.insert(path.to_path_buf(), now);
    }
    changes
}

fn is_scratch(path: &Path) -> bool {
    const SCRATCH: [&str; 9] = [
        "target",
        "__pycache__",
        ".gradle",
        ".cache",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".turbo",
        ".parcel-cache",
    ];
    path.components().any(|part| SCRATCH.iter().any(|name| part.as_os_str() == *name))
}

fn is_refused_as_missing(played: &ScenarioResult) -> bool {
    ended(played) == CommandExit::Refused && played.told().contains("ended with exit status 127")
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
