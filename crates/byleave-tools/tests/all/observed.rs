//! A property of every run: what it committed is allowed by the policy, and undo restores every byte. Random scripts run for real under random
//! policies on random trees, while nobody says yes. `scripts/prove observed` runs 20,000 of them.

mod random_policy;
mod random_script;
mod random_tree;

use std::path::Path;

use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::Effect;
use byleave_gate::core::policy::{Policy, builtin_rules};
use byleave_testkit::corpus::{PLACES, read_user};
use byleave_testkit::machine::{MachineJob, is_long, tell};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::random_policy::RandomPolicy;
use crate::fatigue::hostile_cases::{Fate, fate, left_processes, processes, undo};
use crate::fatigue::played::{CallScenario, play};
use crate::whole_tree::{TreeNode, WholeTree};

/// The number of runs of one test. The tests together have the number of the short form.
const RUNS: usize = 10;
/// The number of runs of the long form.
const RUNS_LONG: usize = 20_000;
const LONG_PARTS: usize = 3;
/// The directories that no run may change.
const OUTSIDE: [&str; 5] = ["/outside", "/home/u", "/main", "/tmp", "/var/tmp"];
/// The most files that a run may delete or change without a rule.
const DELETED_MAX: usize = 50;
const CHANGED_MAX: usize = 500;

/// A run that broke the property, or the numbers of a job.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ObservedRuns {
    runs: usize,
    /// Runs that changed something.
    changed: usize,
    asked: usize,
    not_kept: usize,
    refused: usize,
    broken: Vec<String>,
}

/// Random numbers from a seed, the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x51_7c_c1_b7_27_22_0a_95)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    /// True once in this many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

macro_rules! parts {
    ($($name:ident: $part:literal,)*) => {
        $(
            // req: E5, P3
            #[test]
            fn $name() {
                let jobs = [MachineJob { name: "observed", builds: false, part: $part, parts: 1 }];
                let test = concat!("observed::", stringify!($name));
                if !byleave_testkit::machine::began_again(test, &jobs, None, work) && !is_long() {
                    hold(test, &jobs);
                }
            }
        )*
    };
}

parts! {
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_1: 0,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_2: 1,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_3: 2,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_4: 3,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_5: 4,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_6: 5,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_7: 6,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_8: 7,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_9: 8,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_10: 9,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_11: 10,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_12: 11,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_13: 12,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_14: 13,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_15: 14,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_16: 15,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_17: 16,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_18: 17,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_19: 18,
    random_runs_commit_only_what_is_allowed_and_undo_restores_it_20: 19,
}

// req: E5, P3
#[test]
#[ignore = "takes half an hour: scripts/prove observed"]
fn twenty_thousand_random_runs_commit_only_what_is_allowed_and_undo_restores_it() {
    let test = "observed::twenty_thousand_random_runs_commit_only_what_is_allowed_and_undo_restores_it";
    let jobs: Vec<MachineJob> = (0..LONG_PARTS)
        .map(|part| MachineJob { name: "observed", builds: false, part, parts: LONG_PARTS })
        .collect();
    if !byleave_testkit::machine::began_again(test, &jobs, None, work) {
        hold(test, &jobs);
    }
}

fn hold(test: &str, jobs: &[MachineJob]) {
    let mut all = ObservedRuns::default();
    for (_, told) in byleave_testkit::machine::run::<ObservedRuns>(test, jobs) {
        for one in told {
            all.runs += one.runs;
            all.changed += one.changed;
            all.asked += one.asked;
            all.not_kept += one.not_kept;
            all.refused += one.refused;
            all.broken.extend(one.broken);
        }
    }
    let ObservedRuns { runs, changed, asked, not_kept, refused, broken } = all;
    println!(
        "figure: {runs} random runs: {changed} changed something, {asked} were asked about, {not_kept} were refused after they ran, {refused} before; {} broke the property",
        broken.len()
    );
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    assert!(runs < 1_000 || changed * 5 > runs, "too few runs change anything: {changed} of {runs}");
}

/// The number of runs of the long form, or of one of its steps.
fn runs_long() -> usize {
    std::env::var("BYLEAVE_PROOF_RUNS").map_or(RUNS_LONG, |runs| runs.parse().unwrap())
}

fn work(job: MachineJob) {
    let count = if is_long() { runs_long() / LONG_PARTS + 1 } else { RUNS };
    // The short form has the same cases each time.
    let first = match std::env::var("BYLEAVE_PROOF_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) if is_long() => u64::from(std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos()) << 20,
        Err(_) => 0,
    };
    let mut all = ObservedRuns::default();
    for number in 0..count {
        let seed = first + u64::try_from(job.part * count + number).unwrap();
        run(seed, &mut all);
    }
    tell(&all);
}

fn run(seed: u64, all: &mut ObservedRuns) {
    let mut random = Random::new(seed);
    random_tree::make(&mut random);
    let policy = RandomPolicy::make(&mut random);
    let script = random_script::make(&mut random);
    let (outside, before) = (WholeTree::read(&OUTSIDE), WholeTree::read(&["/ws"]));
    let processes = processes();
    let state = Path::new("/state").join("observed");
    let played = play(
        CallScenario {
            policy: built(&policy),
            tool: "bash".into(),
            arguments: json!({ "command": script }),
            cwd: "/ws".into(),
            agent: "a".into(),
            mode: Mode::ConfirmSensitive,
            lineage: Vec::new(),
            says_yes: false,
            timeout_ms: 20_000,
        },
        &state,
    );
    let after = WholeTree::read(&["/ws"]);
    let fate = fate(&played);
    let differences = before.differences(&after);
    all.runs += 1;
    all.changed += usize::from(!differences.is_empty());
    all.asked += usize::from(fate == Fate::Asked);
    all.not_kept += usize::from(fate == Fate::NotKept);
    all.refused += usize::from(fate == Fate::Refused);
    let mut broken = Vec::new();
    if fate != Fate::Ran && !differences.is_empty() {
        broken.push(format!("{fate:?}, and something changed"));
    }
    if !differences.is_empty() {
        let own = built(&policy);
        let all = differences.iter();
        broken.extend(all.filter_map(|(path, (was, is))| not_allowed(&policy, &own, path, (*was, *is))));
    }
    let is_undoable = |path: &Path, is: Option<&TreeNode>| policy.verdict(path, is.is_none()).is_none();
    let by_default: Vec<_> = differences.iter().filter(|(path, (_, is))| is_undoable(path, *is)).collect();
    let deleted = by_default.iter().filter(|(_, (_, is))| is.is_none()).count();
    if deleted > DELETED_MAX || by_default.len() > CHANGED_MAX {
        broken.push(format!("{deleted} deleted and {} changed without a rule", by_default.len()));
    }
    broken.extend(
        outside.differences(&WholeTree::read(&OUTSIDE)).into_keys().map(|path| format!("outside: {path:?}")),
    );
    broken.extend(left_processes(&processes).into_iter().map(|process| format!("left running: {process}")));
    broken.extend(undo(&state, played.call).err().map(|why| format!("not undone: {why}")));
    let restored = WholeTree::read(&["/ws"]);
    let differs = before.differences(&restored).into_iter().take(5);
    broken.extend(differs.map(|(path, both)| format!("not restored: {path:?} {both:?}")));
    if !broken.is_empty() {
        let why = format!("{fate:?} {} {:.300}", played.why(), played.told());
        all.broken.push(format!("seed {seed}: {broken:#?}\n{script}\n---\n{}\n---\n{why}", policy.text));
    }
}

fn built(policy: &RandomPolicy) -> Policy {
    let mut rules = builtin_rules(&PLACES).unwrap();
    rules.extend(read_user(&policy.text).unwrap());
    Policy::new(rules).unwrap().with_workspace(PLACES.workspace)
}

/// Why the policy does not allow a change that was committed. The random rules are matched here again, by code of its own.
fn not_allowed(
    random: &RandomPolicy,
    policy: &Policy,
    path: &Path,
    (was, is): (Option<&TreeNode>, Option<&TreeNode>),
) -> Option<String> {
    let text = path.to_string_lossy().into_owned();
    if is.is_some_and(|is| is.is_special() && was.is_none_or(|was| !was.is_special())) {
        return Some(format!("a special file was committed: {text:?} {is:?}"));
    }
    let effect = match is {
        Some(_) => Effect::Write { path: text.clone() },
        None => Effect::Delete { path: text.clone() },
    };
    let by_builtin = policy.strictest_restriction(&effect);
    match random.verdict(path, is.is_none()) {
        Some(verdict @ (Verdict::Ask | Verdict::Deny)) => {
            Some(format!("a rule says {verdict:?}: {effect:?}"))
        }
        _ if by_builtin.is_some() => Some(format!("a built-in rule says {by_builtin:?}: {effect:?}")),
        None if !random.is_undoable => Some(format!("no rule allows it: {effect:?} {was:?} {is:?}")),
        _ => None,
    }
}
