//! What really happens: everyday commands, hostile cases and the cases of the file tools, all run for real through a gate with the built-in
//! tools, under the profiles `careful` and `everyday`, while nobody says yes.
//!
//! `scripts/prove rehearsal` runs every case, and docs/security/scores.md must match the results. With `BYLEAVE_SCORES=write` it writes
//! the page. Every other run takes a sample of each job, and the same must hold for every case in it.

mod bypasses;
mod canary;
mod everyday;
mod file_tools;
pub(crate) mod hostile_cases;
mod page;
pub(crate) mod played;

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::bypasses::BypassOutcome;
use self::hostile_cases::Harm;
use byleave_testkit::machine::MachineJob;

const TEST: &str = "fatigue::the_scores_of_real_runs_are_what_the_page_says";
const EVERYDAY: &str = "commands under everyday";
const CAREFUL: &str = "commands under careful";
const HOSTILE_EVERYDAY: &str = "hostile cases under everyday";
const HOSTILE_CAREFUL: &str = "hostile cases under careful";
const CONTAINED: &str = "approved cases";
const PLANTED: &str = "planted";
const CANARY_EVERYDAY: &str = "canary under everyday";
const CANARY_CAREFUL: &str = "canary under careful";

const fn job(name: &'static str, builds: bool, part: usize, parts: usize) -> MachineJob {
    MachineJob { name, builds, part, parts }
}

const JOBS: [MachineJob; 14] = [
    job(EVERYDAY, true, 0, 3),
    job(EVERYDAY, true, 1, 3),
    job(EVERYDAY, true, 2, 3),
    job(CAREFUL, true, 0, 2),
    job(CAREFUL, true, 1, 2),
    job(HOSTILE_EVERYDAY, false, 0, 2),
    job(HOSTILE_EVERYDAY, false, 1, 2),
    job(HOSTILE_CAREFUL, false, 0, 2),
    job(HOSTILE_CAREFUL, false, 1, 2),
    job(CANARY_EVERYDAY, false, 0, 1),
    job(CANARY_CAREFUL, false, 0, 1),
    job(CONTAINED, false, 0, 1),
    job(PLANTED, false, 0, 2),
    job(PLANTED, false, 1, 2),
];

fn work(job: MachineJob) {
    match job.name {
        EVERYDAY => everyday::run(job, "everyday"),
        CAREFUL => everyday::run(job, "careful"),
        HOSTILE_EVERYDAY => hostile_cases::run(job, "everyday"),
        HOSTILE_CAREFUL => hostile_cases::run(job, "careful"),
        CANARY_EVERYDAY => canary::run(job, "everyday"),
        CANARY_CAREFUL => canary::run(job, "careful"),
        CONTAINED => bypasses::run(job),
        _ => bypasses::run_planted(job),
    }
}

/// All results.
pub(super) struct FatigueResults {
    everyday: Vec<everyday::CommandResult>,
    careful: Vec<everyday::CommandResult>,
    hostile_everyday: Vec<hostile_cases::HostileResult>,
    hostile_careful: Vec<hostile_cases::HostileResult>,
    canary_everyday: Vec<canary::CanaryResult>,
    canary_careful: Vec<canary::CanaryResult>,
    contained: Vec<bypasses::BypassResult>,
    planted: Vec<bypasses::BypassResult>,
}

/// Runs the sample of one job on one machine, and checks the results. The long form runs every case in one test.
fn sampled<T: DeserializeOwned + Send>(test: &str, name: &'static str, check: fn(&[T])) {
    let jobs = [job(name, [EVERYDAY, CAREFUL].contains(&name), 0, 1)];
    if byleave_testkit::machine::began_again(test, &jobs, None, work) || byleave_testkit::machine::is_long() {
        return;
    }
    let told: Vec<(&str, Vec<Value>)> = byleave_testkit::machine::run(test, &jobs);
    let saw: Vec<T> = of(&told, name);
    assert!(!saw.is_empty(), "nothing was run");
    check(&saw);
}

// req: E5
#[test]
fn a_sample_of_everyday_commands_ends_under_everyday_as_without_a_gate() {
    let test = "fatigue::a_sample_of_everyday_commands_ends_under_everyday_as_without_a_gate";
    sampled(test, EVERYDAY, everyday_commands_work);
}

// req: E5
#[test]
fn a_sample_of_everyday_commands_leaves_nothing_under_careful() {
    let test = "fatigue::a_sample_of_everyday_commands_leaves_nothing_under_careful";
    sampled(test, CAREFUL, nothing_remains);
}

// req: E5, P3, P4, P5, P6
#[test]
fn a_sample_of_hostile_cases_does_no_harm_under_everyday() {
    sampled(
        "fatigue::a_sample_of_hostile_cases_does_no_harm_under_everyday",
        HOSTILE_EVERYDAY,
        no_case_does_harm,
    );
}

// req: E5, P3, P4, P5, P6
#[test]
fn a_sample_of_hostile_cases_does_no_harm_under_careful() {
    sampled(
        "fatigue::a_sample_of_hostile_cases_does_no_harm_under_careful",
        HOSTILE_CAREFUL,
        no_case_does_harm,
    );
}

// req: E5, E7
#[test]
fn a_sample_of_what_sends_a_canary_sends_nothing_of_it_under_everyday() {
    let test = "fatigue::a_sample_of_what_sends_a_canary_sends_nothing_of_it_under_everyday";
    sampled(test, CANARY_EVERYDAY, no_canary_leaves);
}

// req: E5, E7
#[test]
fn a_sample_of_what_sends_a_canary_sends_nothing_of_it_under_careful() {
    let test = "fatigue::a_sample_of_what_sends_a_canary_sends_nothing_of_it_under_careful";
    sampled(test, CANARY_CAREFUL, no_canary_leaves);
}

// req: E5, P3, P4, P5, P6
#[test]
fn a_sample_of_approved_cases_is_contained() {
    sampled("fatigue::a_sample_of_approved_cases_is_contained", CONTAINED, every_case_is_contained);
}

// req: E5, P3, P4, P5, P6
#[test]
fn of_a_sample_of_bypasses_none_leaves_a_marker_in_the_workspace() {
    let test = "fatigue::of_a_sample_of_bypasses_none_leaves_a_marker_in_the_workspace";
    sampled(test, PLANTED, nothing_is_left_in_the_workspace);
}

// req: E5, P3, P4, P5, P6
#[test]
#[ignore = "takes minutes: scripts/prove rehearsal"]
fn the_scores_of_real_runs_are_what_the_page_says() {
    if byleave_testkit::machine::began_again(TEST, &JOBS, None, work) {
        return;
    }
    let told = byleave_testkit::machine::run(TEST, &JOBS);
    let seen = FatigueResults {
        everyday: of(&told, EVERYDAY),
        careful: of(&told, CAREFUL),
        hostile_everyday: of(&told, HOSTILE_EVERYDAY),
        hostile_careful: of(&told, HOSTILE_CAREFUL),
        canary_everyday: of(&told, CANARY_EVERYDAY),
        canary_careful: of(&told, CANARY_CAREFUL),
        contained: of(&told, CONTAINED),
        planted: of(&told, PLANTED),
    };
    page::report(&seen);
    // The differences come first, because only the beginning of a long output may be kept.
    if let Some(differs) = page::differs(&seen) {
        hold(&seen);
        panic!("docs/security/scores.md is not what was measured (`+` is what was measured):\n{differs}");
    }
    hold(&seen);
}

fn of<T: DeserializeOwned>(told: &[(&str, Vec<Value>)], name: &str) -> Vec<T> {
    let mut values: Vec<&Value> =
        told.iter().filter(|(job, _)| *job == name).flat_map(|(_, saw)| saw).collect();
    values.sort_by_key(|value| value["at"].as_u64());
    values.into_iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect()
}

/// The percentage of everyday commands that may be asked about, or end otherwise than without a gate.
const FAILED_PERCENT_MAX: usize = 3;
/// The least number of commands that succeed here. With fewer, the project is outdated.
const RAN_MIN: usize = 200;
/// The least number of bypasses that leave their marker in the workspace without a gate. With fewer, the fixture is outdated.
const PLANTED_MIN: usize = 180;

/// The least number of cases that send the canary without a gate. With fewer, the fixture is outdated.
const CANARY_SENT_MIN: usize = 40;

/// Checks the invariants that hold whatever the page says.
fn hold(seen: &FatigueResults) {
    let failed: Vec<&str> = page::failed_commands(&seen.everyday).map(|saw| saw.command.as_str()).collect();
    let (all, cases) = (everyday::commands().len(), hostile_cases::cases().len());
    assert_eq!((seen.everyday.len(), seen.careful.len()), (all, all));
    assert_eq!((seen.hostile_everyday.len(), seen.hostile_careful.len()), (cases, cases));
    assert_eq!(seen.contained.len(), bypasses::contained().len());
    assert!(seen.planted.len() >= PLANTED_MIN, "{}", seen.planted.len());
    let ran = seen.everyday.iter().filter(|saw| saw.ended == everyday::CommandExit::Ran).count();
    assert!(ran >= RAN_MIN, "{ran}");
    no_case_does_harm(&seen.hostile_everyday);
    no_case_does_harm(&seen.hostile_careful);
    no_canary_leaves(&seen.canary_everyday);
    no_canary_leaves(&seen.canary_careful);
    let sends = seen.canary_everyday.iter().filter(|saw| saw.bare > 0).count();
    assert!(sends >= CANARY_SENT_MIN, "only {sends} cases send the canary without a gate");
    every_case_is_contained(&seen.contained);
    nothing_is_left_in_the_workspace(&seen.planted);
    nothing_remains(&seen.everyday);
    nothing_remains(&seen.careful);
    assert!(failed.len() * 100 <= FAILED_PERCENT_MAX * all, "asked about, or ended otherwise: {failed:#?}");
}

/// Checks each command separately, so that it works for a sample as well. The commands that fail in the long form are named on the page.
fn everyday_commands_work(saw: &[everyday::CommandResult]) {
    nothing_remains(saw);
    let known = page::written_failures();
    let failed = page::failed_commands(saw).filter(|saw| !known.contains(&format!("`{}`", saw.command)));
    let failed: Vec<String> = failed
        .map(|saw| format!("{}: asked {} {:?} {}", saw.command, saw.asked, saw.differs, saw.why))
        .collect();
    assert_eq!(failed, [""; 0], "asked about, or ended otherwise than without a gate");
}

fn nothing_remains(saw: &[everyday::CommandResult]) {
    let remains = saw.iter().filter(|saw| !saw.remains.is_empty());
    let remains: Vec<String> = remains.map(|saw| format!("{}: {:?}", saw.command, saw.remains)).collect();
    assert_eq!(remains, [""; 0], "not restored by undo, or left");
}

fn no_case_does_harm(saw: &[hostile_cases::HostileResult]) {
    // The page names those that reading alone lets through. The run decides about them.
    let is_harm = |(harm, _): &&(Harm, String)| *harm != Harm::FalseAllow;
    let wrong = saw.iter().flat_map(|saw| {
        saw.harms
            .iter()
            .filter(is_harm)
            .map(move |harm| format!("{} {:?}: {harm:?} | {}", saw.id, saw.fate, saw.why))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0], "harm was done");
}

fn no_canary_leaves(saw: &[canary::CanaryResult]) {
    let sent = saw.iter().filter(|saw| saw.sent > 0 && !saw.by_code);
    let sent: Vec<String> =
        sent.map(|saw| format!("{} bytes, {:?}: {}", saw.sent, saw.fate, saw.why)).collect();
    assert_eq!(sent, [""; 0], "bytes of a canary were sent");
}

fn every_case_is_contained(saw: &[bypasses::BypassResult]) {
    let wrong = saw.iter().filter(|saw| !saw.wrong.is_empty() && !saw.by_name);
    assert_eq!(wrong.map(|saw| saw.id.as_str()).collect::<Vec<_>>(), [""; 0], "not contained");
}

/// A command that would leave something in the workspace is asked about or refused, whatever its disguise.
fn nothing_is_left_in_the_workspace(saw: &[bypasses::BypassResult]) {
    let planted = saw.iter().filter(|saw| !saw.wrong.is_empty() || saw.fate == BypassOutcome::Spared);
    assert_eq!(planted.map(|saw| saw.id.as_str()).collect::<Vec<_>>(), [""; 0], "left in the workspace");
}
