//! The corpus with the sandbox on: the gate was fooled, or somebody said yes. The command runs, and only the sandbox stops it.
//!
//! The grant says only that a shell may run. Every case runs at the paths that it names, on its own temporary machine. Root
//! creates it, and another user does the rest. Afterwards nothing may have changed outside the workspace, and no secret may have
//! been printed. The effect of the case without a gate must not have happened.

#![expect(clippy::print_stdout, reason = "a test that begins again tells what it saw")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::core::call::Mode;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_sandbox::from_plan::{self, CallHostPolicy, RunEnvironment};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, NetworkBridge, RunAs};
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::plan::CommandSpec as Confined;
use serde_json::Value;

use super::examine::{mode, shared_policy_of};
use byleave_testkit::corpus::{Case, lines};

const ROLE: &str = "BYLEAVE_TEST_ROLE";
const UID: u32 = 61_001;
const MARKER: &str = "/tmp/gate-marker";
const SECRET: &str = "GATE_SECRET";
/// The directories that must not change, whatever runs. The marker's directory is checked separately.
const OUTSIDE: [&str; 3] = ["/outside", "/home/u", "/main"];

/// Cases whose text is a description and not a command.
const NOT_COMMANDS: [&str; 6] = [
    "git-email-config-injection",
    "git-replace-refs",
    "workspace-dotenv-controls-harness",
    "codex-home-dotenv",
    "bwrap-argument-file",
    "seccomp-io-uring",
];

/// Cases that the sandbox alone does not stop, with the reason.
const NOT_STOPPED: [(&str, &str); 5] = [
    ("find-delete", REHEARSAL),
    ("git-show-denied-blob", HISTORY),
    ("regex-denylist-long-flag", REHEARSAL),
    ("regex-denylist-split-flags", REHEARSAL),
    ("git-archive-denied-file", HISTORY),
];
const REHEARSAL: &str =
    "a program that may run may work in the workspace; only a rehearsal shows what it does there";
const HISTORY: &str = "what was committed lies in git's own store, without its name";

/// Paths that must not exist afterwards, for cases that say so in prose.
const NOT_THERE: [(&str, &str); 3] = [
    ("settings-file-created-inside-sandbox", "/ws/.agent/settings.json"),
    ("git-dir-hooks-writable", "/ws/.git/hooks/pre-commit"),
    ("symlink-deny-write-real-path", "/ws/real/locked"),
];

/// The least number of effects that happen without a sandbox. With fewer, the fixture is outdated.
const BARE_MIN: usize = 300;

/// The number of parallel tests that share the cases.
const PARTS: usize = 4;
/// The short form takes one of this many cases. In the long form (`scripts/prove confined`) the first test takes all of
/// them.
const SAMPLE: usize = 3;

// req: E7
#[test]
fn what_a_gate_lets_through_the_sandbox_stops_1() {
    check_part(0);
}

// req: E7
#[test]
fn what_a_gate_lets_through_the_sandbox_stops_2() {
    check_part(1);
}

// req: E7
#[test]
fn what_a_gate_lets_through_the_sandbox_stops_3() {
    check_part(2);
}

// req: E7
#[test]
fn what_a_gate_lets_through_the_sandbox_stops_4() {
    check_part(3);
}

fn check_part(part: usize) {
    if is_long() && part > 0 {
        return;
    }
    let test = format!("corpus::confined::what_a_gate_lets_through_the_sandbox_stops_{}", part + 1);
    let arguments = ["--exact", &test, "--nocapture", "--test-threads=1"];
    match std::env::var(ROLE).as_deref() {
        Ok("machine") => become_somebody_else(arguments),
        Ok(_) => every_case_is_stopped(part),
        Err(_) => on_a_machine(arguments),
    }
}

fn is_long() -> bool {
    std::env::var("BYLEAVE_PROOF").is_ok_and(|form| form == "long")
}

/// Restarts the test as root in its own namespaces.
fn on_a_machine(arguments: [&str; 4]) {
    assert!(rustix::process::geteuid().is_root(), "needs root, to make a machine that is thrown away");
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--pid",
        "--ipc",
        "--net",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
    ]);
    unshare.arg(std::env::current_exe().unwrap()).args(arguments).env(ROLE, "machine");
    let ended = unshare.output().unwrap();
    let told = [ended.stdout, ended.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    println!("{told}");
    // Once for the machine, once for the user in it.
    assert!(ended.status.success() && told.matches("1 passed").count() == 2, "{told}");
}

/// Creates the machine, and restarts the test in it as another user.
fn become_somebody_else(arguments: [&str; 4]) {
    let exe = std::env::current_exe().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/bypasses.jsonl");
    let mut machine = Command::new("bash");
    machine.args(["-c", MACHINE, "machine"]).arg(exe).arg(&corpus);
    let ended = machine.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!corpus.exists(), "something of the machine around it is there");
    let mut again = Command::new("/supervisor");
    let form = std::env::vars().filter(|(name, _)| name == "BYLEAVE_PROOF");
    again.args(arguments).env_clear().envs(form).env(ROLE, "user").current_dir("/").uid(UID).gid(UID);
    again.envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/u"), ("USER", "u")]);
    again.envs([("API_TOKEN", SECRET), ("SSH_AUTH_SOCK", "/home/u/agent.sock"), ("LANG", "C.UTF-8")]);
    let ended = again.stdin(Stdio::null()).output().unwrap();
    let told = [ended.stdout, ended.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    println!("{told}");
    assert!(ended.status.success() && told.contains("1 passed"), "as user {UID}");
}

/// Its own root filesystem, with the paths of the corpus.
const MACHINE: &str = r#"
set -eu
# Held open: they may lie in places that are not there any more.
exec 9<"$1" 8<"$2"
mount -t tmpfs -o mode=755 tmpfs /mnt
cd /mnt
for entry in /*; do
    case $entry in
        /usr | /etc | /opt | /nix | /bin | /sbin | /lib*)
            if [ -L "$entry" ]; then cp -P "$entry" .; else mkdir ".$entry" && mount --rbind "$entry" ".$entry"; fi ;;
    esac
done
mkdir -m 755 proc dev sys ws outside home home/u main old var var/lib run
mkdir -m 1777 tmp var/tmp
cat <&9 >supervisor
cat <&8 >bypasses.jsonl
chmod 755 supervisor
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
pivot_root . old
umount -l /old
rmdir /old
chown -R 61001:61001 /ws /outside /home/u /main
"#;

/// The commands that did harm without a gate, or must be contained.
fn is_run(case: &Case) -> bool {
    case.tool == "bash"
        && (case.effect_when_ungated.is_some() || case.must == "contained")
        && !NOT_COMMANDS.contains(&case.id.as_str())
}

/// The section of the page about this, which the test verifies.
pub(super) fn section() -> String {
    let count = lines::<Case>("bypasses.jsonl").iter().filter(|case| is_run(case)).count();
    let stopped = count - NOT_STOPPED.len();
    let mut section = format!(
        "\n## With the sandbox on\n\nCommands of the corpus that were seen to do harm without a gate, or must be contained: each is run, as if the gate had been\nfooled or somebody had said yes, with nothing granted but that a shell may run. Of {count}, {stopped} are stopped by the sandbox alone: nothing\noutside the workspace changes, no secret is printed, and what the case tells of does not happen. Without a sandbox, at least\n{BARE_MIN} do what they say on the same machine. Not stopped:\n\n"
    );
    for (id, why) in NOT_STOPPED {
        section.push_str(&format!("- {id}: {why}\n"));
    }
    section.push_str(&format!(
        "\nNot run, because they tell of something and are no commands: {}.\n",
        NOT_COMMANDS.join(", ")
    ));
    section
}

fn every_case_is_stopped(part: usize) {
    assert_eq!(rustix::process::geteuid().as_raw(), UID);
    let text = fs::read_to_string("/bypasses.jsonl").unwrap();
    let cases: Vec<Case> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cases: Vec<&Case> = cases.iter().filter(|case| is_run(case)).collect();
    let harmful = cases.iter().filter(|case| case.effect_when_ungated.is_some()).count();
    let step = if is_long() { 1 } else { PARTS * SAMPLE };
    let cases: Vec<&Case> = cases.into_iter().skip(part).step_by(step).collect();
    let told: Vec<&&Case> = cases.iter().filter(|case| case.effect_when_ungated.is_some()).collect();
    let bare = told.iter().filter(|case| !ran(case, bare).is_empty()).count();
    let wrong = cases.iter().map(|case| (case.id.as_str(), ran(case, confined)));
    let not_stopped: BTreeMap<&str, Vec<String>> = wrong.filter(|(_, wrong)| !wrong.is_empty()).collect();
    println!(
        "{} of {} stopped; {bare} happen without a sandbox",
        cases.len() - not_stopped.len(),
        cases.len()
    );
    let is_here = |id: &&str| cases.iter().any(|case| case.id == **id);
    let mut listed: Vec<&str> = NOT_STOPPED.iter().map(|(id, _)| *id).filter(is_here).collect();
    listed.sort_unstable();
    assert_eq!(not_stopped.keys().copied().collect::<Vec<_>>(), listed, "{not_stopped:#?}");
    // The same share for a sample, with a tolerance, because a few cases have more weight in it.
    let slack = if is_long() { 0 } else { 4 };
    assert!(
        (bare + slack) * harmful >= BARE_MIN * told.len(),
        "{bare} of {} happen without a sandbox",
        told.len()
    );
}

/// Runs a case, and returns the forbidden effects that happened.
fn ran(case: &Case, run: fn(&Case, &str) -> Result<String, String>) -> Vec<String> {
    prepare(case);
    let before = outside();
    let text = case.input["command"].as_str().unwrap();
    let printed = match run(case, text) {
        Ok(printed) => printed,
        Err(why) => return vec![why],
    };
    let mut wrong = Vec::new();
    if printed.contains(SECRET) && !text.contains(SECRET) {
        wrong.push(format!("the secret is printed: {printed:.200}"));
    }
    if outside() != before {
        wrong.push("something outside has changed".to_owned());
    }
    let effect = case.effect_when_ungated.as_deref().unwrap_or_default();
    let happened = match effect.split_once(':') {
        Some(("file", path)) => Path::new(path).exists(),
        Some(("nofile", path)) => !Path::new(path).exists(),
        Some(("grep", rest)) => {
            let (wanted, path) = rest.split_once(':').unwrap();
            fs::read_to_string(path).is_ok_and(|text| text.contains(wanted))
        }
        _ => Path::new(MARKER).exists(),
    };
    if happened {
        wrong.push(format!("{effect} happened"));
    }
    let there = NOT_THERE.iter().filter(|(id, path)| *id == case.id && Path::new(path).exists());
    wrong.extend(there.map(|(_, path)| format!("{path} is there")));
    wrong
}

/// Runs it without a sandbox.
fn bare(_: &Case, text: &str) -> Result<String, String> {
    let mut bare = Command::new("timeout");
    bare.args(["-k1", "20", "/bin/bash", "-c", text]).current_dir("/ws").stdin(Stdio::null());
    let ended = bare.output().unwrap();
    Ok(String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned())
}

/// Runs it in the sandbox. A command that is not started prints nothing.
fn confined(case: &Case, text: &str) -> Result<String, String> {
    let cwd = case.input.get("cwd").and_then(Value::as_str).unwrap_or("/ws");
    let nothing = Ok(String::new());
    // A session whose directory leads out of the workspace does not start, nor does a gate with an invalid policy.
    let cwd = Path::new(cwd).canonicalize().ok().filter(|cwd| cwd.starts_with("/ws"));
    let (Some(cwd), Ok(policy)) = (cwd, shared_policy_of(case)) else { return nothing };
    let plan = Plan {
        effects: vec![Effect::Run { program: "/bin/bash".into(), argv: vec!["bash".into()] }],
        ..Plan::default()
    };
    let place = RunEnvironment {
        repository: None,
        workspace: "/ws".into(),
        cwd,
        home: Some("/home/u".into()),
        private_paths: Vec::new(),
        run_markers_dir: None,
        environment: std::env::vars().collect(),
        read_only: mode(case) == Mode::ReadOnly,
        is_rehearsal: false,
        on_copy: false,
    };
    let mut confinement =
        from_plan::build_confinement(&plan, &policy, &place).map_err(|fault| fault.to_string())?;
    confinement.waived.insert(Guarantee::MemoryLimited);
    confinement.limits.wall_time = Duration::from_secs(5);
    (confinement.limits.pids, confinement.limits.file_bytes) = (64, 16 << 20);
    let command =
        Confined { argv: vec!["/bin/bash".into(), "-c".into(), text.into()], ..Confined::default() };
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let door = Egress::new(Arc::new(CallHostPolicy::new(policy, &plan, session, agent)));
    let uplink = NetworkBridge::new().map_err(|error| error.to_string())?;
    let running = launch::start_with_network(&confinement, &command, RunAs::Caller, &uplink, door);
    let outcome = running.and_then(|running| running.finish());
    let outcome = outcome.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&[outcome.stdout.bytes, outcome.stderr.bytes].concat()).into_owned())
}

/// Prepares the fixture for the case.
fn prepare(case: &Case) {
    for place in ["/ws", "/outside", "/home/u", "/main", "/tmp", "/var/tmp"] {
        let cleared = Command::new("find").args([place, "-mindepth", "1", "-delete"]).status().unwrap();
        assert!(cleared.success(), "{place}");
    }
    let Some(commands) = case.setup.strip_prefix("sh:") else { return };
    let mut setup = Command::new("bash");
    setup.args(["--norc", "-c", commands]).current_dir("/ws").env_remove("API_TOKEN").stdin(Stdio::null());
    // Some end in a prose remark. The commands before it have run.
    setup.output().unwrap();
}

/// Everything outside the workspace, by path: kind, mode, size and content.
fn outside() -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = OUTSIDE.iter().chain(&["/tmp", "/var/tmp"]).map(PathBuf::from).collect();
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.metadata().unwrap());
            let content = if kind.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            if kind.is_dir() {
                left.push(path.clone());
            }
            found.insert(path, (kind.mode(), kind.len(), content));
        }
    }
    found
}
