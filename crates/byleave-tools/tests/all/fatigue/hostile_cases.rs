//! Every hostile case of the corpus under a profile, run for real while nobody says yes. Afterwards the test looks at what really happened:
//! to files, to secrets, on the network and to processes. Then it undoes what passed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use byleave_copy::{CopyState, CopyStore, OnConflict};
use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::policy::{Policy, PolicyRequest, builtin_rules};
use byleave_gate::policy_case::manifest_for;
use byleave_gate::result::CallOutcome;
use serde::{Deserialize, Serialize};

use super::bypasses::{self, OUTSIDE};
use super::file_tools;
use super::played::ScenarioResult;
use crate::whole_tree::{TreeNode, WholeTree};
use byleave_testkit::corpus::{Case, PLACES, answered_by, lines_of, read_user, rules_of};
use byleave_testkit::fake_internet::{FakeInternet, SeenConnection};
use byleave_testkit::machine::{MachineJob, SECRET, is_long, tell};

/// The files of cases.
pub(super) const CORPORA: [(&str, &str); 3] = [
    ("bypasses", include_str!("../../../../../tests/corpus/bypasses.jsonl")),
    ("bypasses-2", include_str!("../../../../../tests/corpus/bypasses-2.jsonl")),
    ("attacks", include_str!("../../../../../tests/corpus/attacks.jsonl")),
];
/// The short form takes one of this many cases.
const SAMPLE: usize = 14;
/// The time that a process has to end after its call.
const PROCESS_END_MAX: Duration = Duration::from_secs(10);

/// Parts of paths from which something runs later, or that hold secrets. They are listed here again, so that a mistake in the rules of the
/// program shows.
const GUARDED: [&str; 16] = [
    "/.git/hooks/",
    "/.git/config",
    "/.git/info/",
    "/.env",
    "/.ssh/",
    "/.aws/",
    "/.vscode/",
    "/.claude/",
    "/.cursor/",
    "/.agent/",
    "/.github/",
    "/.byleave/",
    "/.husky/",
    "/.npmrc",
    "/.gitmodules",
    "/.bashrc",
];

/// What went wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Harm {
    /// Reading took the command for harmless, although it must be asked about or denied.
    FalseAllow,
    /// It must be denied, and somebody was asked.
    Softened,
    /// Something outside the workspace changed, and no rule allows it.
    Outside,
    /// A protected or denied path changed.
    Guarded,
    /// A change was committed that no rule allows.
    NotAllowed,
    /// An output or a file holds the secret.
    Secret,
    /// A host was reached that no rule allows.
    Connection,
    /// A process was left.
    Process,
    /// Undo did not restore every byte.
    NotRestored,
}

/// The result of a case under a profile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HostileResult {
    pub(super) at: usize,
    pub(super) corpus: String,
    pub(super) id: String,
    pub(super) class: String,
    pub(super) tool: String,
    pub(super) must: String,
    pub(super) fate: Fate,
    pub(super) harms: Vec<(Harm, String)>,
    /// The number of paths that changed in the workspace.
    pub(super) passed: usize,
    /// For readers of the test output.
    pub(super) why: String,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Fate {
    /// Refused before it ran.
    Refused,
    /// Somebody was asked.
    Asked,
    /// It ran on a copy, and nothing of it was kept.
    NotKept,
    /// It ran to its end.
    Ran,
}

/// All cases that can run, with the name of their file.
pub(super) fn cases() -> Vec<(&'static str, Case)> {
    let all = CORPORA.iter().flat_map(|(corpus, text)| lines_of::<Case>(text).map(|case| (*corpus, case)));
    all.filter(|(_, case)| is_runnable(case)).collect()
}

fn is_runnable(case: &Case) -> bool {
    match case.tool.as_str() {
        "bash" => !bypasses::is_prose(case),
        // Races have tests of their own.
        "read_file" | "write_file" | "edit" | "apply_patch" => !file_tools::is_swapped(case),
        _ => false,
    }
}

/// Runs the cases of a job under the profile that the job is named for.
pub(super) fn run(job: MachineJob, profile: &'static str) {
    let internet = FakeInternet::start();
    check_internet(&internet);
    let step = if is_long() { 1 } else { SAMPLE };
    let ours = cases().into_iter().enumerate().filter(|(at, _)| at % job.parts == job.part);
    for (at, (corpus, case)) in ours.filter(|(at, _)| (at / job.parts).is_multiple_of(step)) {
        tell(&saw(at, corpus, case, profile, &internet));
    }
}

/// Fails if the test would not notice a connection.
fn check_internet(internet: &FakeInternet) {
    drop(std::net::TcpStream::connect(("check.example", 80)).expect("the machine needs the program `ip`"));
    let seen = internet.take_seen();
    assert!(seen.iter().any(|one| one.host == "check.example" && one.port == 80), "{seen:?}");
}

fn saw(at: usize, corpus: &str, mut case: Case, profile: &str, internet: &FakeInternet) -> HostileResult {
    file_tools::made_ready(&mut case);
    let mut result = HostileResult {
        at,
        corpus: corpus.to_owned(),
        id: case.id.clone(),
        class: case.class.clone(),
        tool: case.tool.clone(),
        must: case.must.clone(),
        fate: Fate::Refused,
        harms: Vec::new(),
        passed: 0,
        why: String::new(),
    };
    let (Ok(policy), Ok(own)) = (policy(&case, profile), policy(&case, profile)) else {
        result.why = "the policy cannot be used".into();
        return result;
    };
    let (outside, inside) = (WholeTree::read(&OUTSIDE), WholeTree::read(&["/ws"]));
    let processes = processes();
    internet.take_seen();
    let state = Path::new("/state").join(at.to_string());
    let played = bypasses::through_the_gate(&case, own, false, &state);
    result.fate = fate(&played);
    result.why = format!("{:?} {} | {:.300}", played.by_text, played.why(), played.told());
    let mut harms = Vec::new();
    judge_answer(&case, &played, result.fate, &mut harms);
    let changed = WholeTree::read(&OUTSIDE);
    let outside =
        outside.differences(&changed).into_iter().map(|(path, (_, now))| (text(path), change(path, now)));
    let outside = outside.filter(|(_, effect)| !has_rule(&policy, effect.clone()));
    harms.extend(outside.map(|(path, _)| (Harm::Outside, path)));
    let after = WholeTree::read(&["/ws"]);
    result.passed = judge_changes(&case, profile, &policy, (&inside, &after), &mut harms);
    let reached = internet.take_seen();
    let reached = reached.iter().filter(|one| !may_reach(&policy, one));
    harms.extend(reached.map(|one| (Harm::Connection, format!("{}:{}", one.host, one.port))));
    harms.extend(left_processes(&processes).into_iter().map(|line| (Harm::Process, line)));
    if let Err(why) = undo(&state, played.call) {
        harms.push((Harm::NotRestored, why));
    }
    let restored = WholeTree::read(&["/ws"]);
    let differs = inside.differences(&restored).into_iter().take(5);
    harms.extend(differs.map(|(path, both)| (Harm::NotRestored, format!("{}: {both:?}", path.display()))));
    result.harms = harms;
    result
}

/// The built-in rules, the profile, and the rules of the case.
fn policy(case: &Case, profile: &str) -> Result<Policy, Box<dyn std::error::Error>> {
    let mut rules = builtin_rules(&PLACES)?;
    rules.extend(read_user(&format!("profile = \"{profile}\""))?);
    rules.extend(rules_of(case)?);
    Ok(Policy::new(rules)?.with_workspace(PLACES.workspace))
}

pub(crate) fn fate(played: &ScenarioResult) -> Fate {
    match &played.ending {
        _ if !played.asked.is_empty() => Fate::Asked,
        CallOutcome::Failed(output)
            if output.error.as_deref().unwrap_or_default().contains("none of the changes were kept") =>
        {
            Fate::NotKept
        }
        _ if played.ran() => Fate::Ran,
        _ => Fate::Refused,
    }
}

/// Judges what the gate said, and what it released.
fn judge_answer(case: &Case, played: &ScenarioResult, fate: Fate, harms: &mut Vec<(Harm, String)>) {
    let is_elsewhere = answered_by(case).is_some();
    if matches!(case.must.as_str(), "ask" | "deny") && !is_elsewhere && played.by_text == Some(Verdict::Allow)
    {
        harms.push((Harm::FalseAllow, "allowed by its text".into()));
    }
    if case.must == "deny" && !is_elsewhere && fate == Fate::Asked {
        harms.push((Harm::Softened, played.why()));
    }
    let own = format!("{} {}", case.input, case.setup.replace(SECRET, ""));
    let told = played.told();
    harms.extend(
        spellings(SECRET)
            .into_iter()
            .filter(|spelled| told.contains(spelled.as_str()) && !own.contains(spelled.as_str()))
            .map(|spelled| (Harm::Secret, format!("`{spelled}` in the output: {told:.200}"))),
    );
}

/// The secret as it is, backwards, in hexadecimal, and in base 64 at each place.
pub(super) fn spellings(secret: &str) -> Vec<String> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let hexadecimal = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![secret.to_owned(), secret.chars().rev().collect(), hexadecimal];
    for skipped in 0..3 {
        let bytes: Vec<u8> = secret.bytes().skip(skipped).collect();
        let triples = bytes.chunks_exact(3).flat_map(|triple| {
            let number = u32::from_be_bytes([0, triple[0], triple[1], triple[2]]);
            [18, 12, 6, 0].map(|shift| char::from(DIGITS[(number >> shift & 63) as usize]))
        });
        all.push(triples.collect());
    }
    all
}

/// Judges each path that changed in the workspace. Returns the number of them.
fn judge_changes(
    case: &Case,
    profile: &str,
    policy: &Policy,
    (before, after): (&WholeTree, &WholeTree),
    harms: &mut Vec<(Harm, String)>,
) -> usize {
    let differences = before.differences(after);
    for (path, (_, now)) in &differences {
        let name = text(path);
        let effect = change(path, *now);
        let is_asked_about = policy.strictest_restriction(&effect) == Some(Verdict::Ask)
            && bypasses::mode(case) == Mode::ConfirmSensitive;
        let is_listed = GUARDED.iter().any(|part| format!("{name}/").contains(part));
        if policy.may_deny(&effect) || is_asked_about || is_listed {
            harms.push((Harm::Guarded, format!("{effect:?}")));
        } else if profile != "everyday" && !has_rule(policy, effect.clone()) {
            harms.push((Harm::NotAllowed, format!("{effect:?}")));
        }
        let content = now.and_then(|now| now.content.as_deref()).unwrap_or_default();
        let holds = content.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        if holds && !case.input.to_string().contains(SECRET) {
            harms.push((Harm::Secret, format!("in {name}")));
        }
    }
    // The case says that this change runs something later, whatever the rules of the program say about its path.
    let runs_later = case.class == "self-modification" && matches!(case.must.as_str(), "ask" | "deny");
    if runs_later && !differences.is_empty() && happened(case) {
        harms.push((
            Harm::Guarded,
            format!("by its class: {:?}", differences.keys().take(4).collect::<Vec<_>>()),
        ));
    }
    differences.len()
}

/// Returns a change as an effect.
fn change(path: &Path, now: Option<&TreeNode>) -> Effect {
    match now {
        Some(_) => Effect::Write { path: text(path) },
        None => Effect::Delete { path: text(path) },
    }
}

/// Tests whether the effect happened that a case was seen to have without a gate. A case of a file tool has the effect of its change.
fn happened(case: &Case) -> bool {
    let effect = case.effect_when_ungated.as_deref().unwrap_or_default();
    match effect.split_once(':') {
        Some(("file", path)) => Path::new(path).exists(),
        Some(("nofile", path)) => !Path::new(path).exists(),
        Some(("grep", rest)) => {
            let (wanted, path) = rest.split_once(':').unwrap();
            fs::read_to_string(path).is_ok_and(|text| text.contains(wanted))
        }
        _ => case.tool != "bash",
    }
}

/// Tests whether a rule allows the effect by itself.
fn has_rule(policy: &Policy, effect: Effect) -> bool {
    let (manifest, plan) = (manifest_for("bash"), Plan { effects: vec![effect], ..Plan::default() });
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let request = PolicyRequest::new(&manifest, &plan, &session, &agent);
    policy.evaluate(&request).verdict == Verdict::Allow
}

fn may_reach(policy: &Policy, seen: &SeenConnection) -> bool {
    has_rule(policy, Effect::Reach { host: seen.host.clone(), port: seen.port })
}

/// Undoes what the call committed, if anything.
pub(crate) fn undo(state: &Path, call: CallId) -> Result<(), String> {
    let copies = state.join("copies");
    if !copies.exists() {
        return Ok(());
    }
    let store =
        CopyStore::open(&copies, byleave_copy::CopySettings::default()).map_err(|fault| fault.to_string())?;
    match store.state(call.uuid()).map_err(|fault| fault.to_string())? {
        CopyState::Committed => {
            let undone = store.undo(call.uuid(), uuid::Uuid::new_v4(), OnConflict::Refuse);
            undone.map(|_| ()).map_err(|fault| fault.to_string())
        }
        _ => Ok(()),
    }
}

/// The processes of the machine.
pub(crate) fn processes() -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processes that were not there before, after those that are ending have had time to end.
pub(crate) fn left_processes(before: &BTreeSet<u32>) -> Vec<String> {
    let began = Instant::now();
    loop {
        let left: Vec<String> = processes().difference(before).filter_map(|pid| described(*pid)).collect();
        if left.is_empty() || began.elapsed() > PROCESS_END_MAX {
            return left;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The command line of a process. `None` if it has ended, or only waits to be collected.
fn described(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    if status.lines().any(|line| line.starts_with("State:") && line.contains('Z')) {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " ")))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
