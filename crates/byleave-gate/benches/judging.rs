//! Measures planning and evaluation of a command, with this machine's own files and search path, as in use.
//!
//! `cargo bench -p byleave --bench judging` measures and writes its part of docs/performance.md. With `BYLEAVE_PROOF=short` it
//! takes seconds and writes nothing. Either way it fails if something takes more than twice its bar. If the bar is out of
//! reach, the limit is twice the reached value.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing, reason = "a benchmark")]

use std::path::Path;
use std::time::{Duration, Instant};

use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::Plan;
use byleave_gate::core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind, GitStatus};
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::core::outcome::{ExecutionStatus, Output};
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::policy::{
    EffectStage, Layer, PathVariables, Policy, PolicyRequest, Rule, builtin_rules,
};
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::plan;
use byleave_gate::tool::ToolContext;
use serde_json::{Value, json};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EVERYDAY_BAR: Duration = Duration::from_micros(100);
const HOSTILE_BAR: Duration = Duration::from_millis(50);
const RULES_BAR: f64 = 2.0;
const CHANGE_BAR: Duration = Duration::from_micros(20);
/// The number of changes of an observed run.
const CHANGES: u32 = 500;

/// The commands of a file of the corpus, each once.
fn commands(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let cases = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = |case: Value| {
        let command = case.get("command").or_else(|| case.pointer("/input/command"))?.as_str()?.to_owned();
        (case.get("tool").is_none_or(|tool| tool == "bash")).then_some(command)
    };
    let mut commands: Vec<String> = cases.filter_map(of).collect();
    commands.sort();
    commands.dedup();
    commands
}

/// The built-in rules, and this many user rules of every kind.
fn policy(workspace: &str, many: usize) -> Policy {
    let rules = (0..many).map(|i| {
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        let patterns = vec![
            Pattern::Run(words(format!("git sub{i} -x"))),
            Pattern::Run(words(format!("prog{i}"))),
            Pattern::Read(format!("{workspace}/d{i}/**")),
            Pattern::Write(format!("**/f{i}.lock")),
            Pattern::Reach(format!("*.h{i}.example")),
            Pattern::Invoke(format!("tool_{i}")),
        ];
        let verdict = [Verdict::Allow, Verdict::Ask, Verdict::Deny][i % 3];
        Rule::new(format!("r{i}"), Layer::User, verdict, patterns)
    });
    let places =
        PathVariables { workspace: Some(workspace), home: Some("/home/u"), ..PathVariables::default() };
    Policy::new(rules.chain(builtin_rules(&places).unwrap()).collect()).unwrap()
}

struct PolicyFixture {
    manifest: Manifest,
    site: ToolContext,
}

impl PolicyFixture {
    fn plan(&self, arguments: &Value) -> Plan {
        plan::plan_by_class(&self.manifest, arguments, &self.site).unwrap()
    }

    fn judge(&self, policy: &Policy, plan: &Plan) -> Verdict {
        policy
            .evaluate(&PolicyRequest::new(&self.manifest, plan, &self.site.session, &self.site.agent))
            .verdict
    }

    /// Judges what a run changed: the effects, whether they are undoable work, and the policy on each.
    fn judge_observed(&self, policy: &Policy, workspace: &str, seen: &Rehearsal) -> Verdict {
        let plan = seen.observed_plan();
        let stage = EffectStage::Observed { undoable: seen.is_undoable_work(workspace) };
        let request = PolicyRequest::new(&self.manifest, &plan, &self.site.session, &self.site.agent);
        policy.evaluate(&PolicyRequest { stage, ..request }).verdict
    }

    /// The time to plan and evaluate each command: the median of some rounds.
    fn times(&self, policy: &Policy, commands: &[String], rounds: usize) -> Vec<(Duration, String)> {
        let time = |command: &String| {
            let arguments = json!({ "command": command });
            let mut rounds: Vec<Duration> =
                (0..rounds).map(|_| timed(|| self.judge(policy, &self.plan(&arguments)))).collect();
            rounds.sort_unstable();
            (rounds[rounds.len() / 2], command.clone())
        };
        let mut times: Vec<_> = commands.iter().map(time).collect();
        times.sort();
        times
    }
}

/// A run that changed many files of a workspace.
fn observed(workspace: &str) -> Rehearsal {
    let node =
        |size| FileNode { kind: FileNodeKind::File { size, digest: None }, mode: 0o644, modified_ns: 1 };
    let change = |number: u32| FileChange {
        path: format!("{workspace}/src/module{}/file{number}.rs", number % 20),
        before: Some(node(100)),
        after: Some(node(101)),
        git_status: GitStatus::Tracked,
        diff: None,
    };
    let changes = FileChanges { list: (0..CHANGES).map(change).collect(), ..FileChanges::default() };
    Rehearsal::new(changes, ExecutionStatus::Succeeded, Output::default())
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    std::hint::black_box(work());
    started.elapsed()
}

struct TimingRow {
    what: String,
    took: String,
    bar: String,
    within: bool,
    /// Machines are noisy, so only a result beyond this is a failure.
    tolerable: bool,
}

fn row(what: String, took: Duration, bar: Duration) -> TimingRow {
    let said = |time: Duration| match time.as_secs_f64() {
        seconds if seconds < 1e-5 => format!("{:.1} µs", seconds * 1e6),
        seconds if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        seconds => format!("{:.1} ms", seconds * 1e3),
    };
    TimingRow {
        what,
        took: said(took),
        bar: format!("≤ {}", said(bar)),
        within: took <= bar,
        tolerable: took <= bar * 2,
    }
}

fn main() {
    let quick = std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "short");
    let rounds = if quick { 11 } else { 101 };
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    for file in ["Cargo.toml", "package.json", "README.md", "src/lib.rs", "src/main.rs", "tests/all.rs"] {
        let file = cwd.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    let mut manifest = Manifest::new("bash", "", json!({}));
    (manifest.permission_class, manifest.sensitive) = (PermissionClass::Bash, Some(false));
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let bench = PolicyFixture {
        manifest,
        site: ToolContext { tenant: "t".parse().unwrap(), session, agent, cwd: cwd.clone() },
    };
    let workspace = cwd.to_str().unwrap();
    let (few, many) = (policy(workspace, 10), policy(workspace, 2_000));

    let everyday = bench.times(&few, &commands("benign.jsonl"), rounds);
    let at = |part: usize| everyday[(everyday.len() * part / 100).min(everyday.len() - 1)].clone();
    let hostile = bench.times(&few, &commands("bypasses.jsonl"), if quick { 3 } else { 11 });
    let (slowest, which) = hostile.last().unwrap().clone();

    let plans: Vec<Plan> =
        everyday.iter().map(|(_, command)| bench.plan(&json!({ "command": command }))).collect();
    let all = |policy: &Policy| timed(|| plans.iter().map(|plan| bench.judge(policy, plan)).max());
    // Alternating, and the best of them, so that other load on the machine has no influence.
    let turns: Vec<_> = (0..rounds).map(|_| (all(&few), all(&many))).collect();
    let ten = turns.iter().map(|turn| turn.0).min().unwrap();
    let thousands = turns.iter().map(|turn| turn.1).min().unwrap();
    let ratio = thousands.as_secs_f64() / ten.as_secs_f64();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / plans.len() as f64;

    let seen = observed(workspace);
    let undoable = Rule::for_undoable_work(Layer::User, Verdict::Allow);
    let places =
        PathVariables { workspace: Some(workspace), home: Some("/home/u"), ..PathVariables::default() };
    let rules: Vec<Rule> = builtin_rules(&places).unwrap().into_iter().chain([undoable]).collect();
    let passing = Policy::new(rules).unwrap().with_workspace(Some(workspace));
    assert_eq!(bench.judge_observed(&passing, workspace, &seen), Verdict::Allow);
    let turns = (0..rounds).map(|_| timed(|| bench.judge_observed(&passing, workspace, &seen)));
    let change = turns.min().unwrap() / CHANGES;

    let shown: String = which.chars().take(40).collect();
    let rows = [
        row(
            format!("an everyday command, planned and judged (p50 of {})", everyday.len()),
            at(50).0,
            EVERYDAY_BAR,
        ),
        row(
            format!("the slowest of {} hostile ones, `{}…`", hostile.len(), shown.escape_debug()),
            slowest,
            HOSTILE_BAR,
        ),
        row(format!("judging what was observed, for each of {CHANGES} changes"), change, CHANGE_BAR),
        TimingRow {
            what: "judging alone with 2,000 rules, against 10".into(),
            took: format!("{ratio:.2} times ({:.1} µs against {:.1} µs)", each(thousands), each(ten)),
            bar: "≤ 2.00 times".into(),
            within: ratio <= RULES_BAR,
            tolerable: ratio <= RULES_BAR * 2.0,
        },
    ];
    let mut table = String::from("| what | took | bar | |\n|---|--:|--:|---|\n");
    for TimingRow { what, took, bar, within, .. } in &rows {
        let within = if *within { "within" } else { "**beyond**" };
        table.push_str(&format!("| {what} | {took} | {bar} | {within} |\n"));
    }
    let (ninety_nine, which) = at(99);
    table.push_str(&format!(
        "\nEveryday commands are all of `tests/corpus/benign.jsonl`; each time is the median of {rounds} rounds. Of them p99 is {} µs \
         (`{which}`).\n",
        ninety_nine.as_micros(),
    ));
    println!("{table}");
    for (time, command) in everyday.iter().rev().take(5).chain(hostile.iter().rev().take(5)) {
        println!("{time:?} {:?}", command.chars().take(100).collect::<String>());
    }
    if !quick {
        byleave_testkit::write_bench_page!("judging", &table);
    }
    let failed: Vec<&String> = rows.iter().filter(|row| !row.tolerable).map(|row| &row.what).collect();
    assert!(failed.is_empty(), "more than twice their bars: {failed:?}");
}
