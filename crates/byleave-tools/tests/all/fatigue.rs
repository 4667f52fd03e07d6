//! Approval fatigue and false allows: everyday commands and published bypasses, all run through a real gate with the real `bash`, with
//! rehearsal.
//!
//! `scripts/prove rehearsal` runs every case, and docs/security/scores.md must match the results. With `BYLEAVE_SCORES=write` it writes
//! the page. Every other run takes a sample of each job, and the same must hold for every case in it.

mod bypasses;
mod everyday;
mod file_tools;
mod page;
mod played;

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::bypasses::BypassOutcome;
use self::everyday::CommandExit;
use byleave_testkit::machine::MachineJob;

const TEST: &str = "fatigue::the_scores_with_the_rehearsal_on_are_what_the_page_says";
const DEV: &str = "dev-default";
const BUILT_IN: &str = "built-in";
const BYPASSES: &str = "bypasses";
const PLANTED: &str = "planted";

const JOBS: [MachineJob; 8] = [
    MachineJob { name: DEV, builds: true, part: 0, parts: 2 },
    MachineJob { name: DEV, builds: true, part: 1, parts: 2 },
    MachineJob { name: BUILT_IN, builds: true, part: 0, parts: 2 },
    MachineJob { name: BUILT_IN, builds: true, part: 1, parts: 2 },
    MachineJob { name: BYPASSES, builds: false, part: 0, parts: 2 },
    MachineJob { name: BYPASSES, builds: false, part: 1, parts: 2 },
    MachineJob { name: PLANTED, builds: false, part: 0, parts: 2 },
    MachineJob { name: PLANTED, builds: false, part: 1, parts: 2 },
];

fn work(job: MachineJob) {
    match job.name {
        BYPASSES => bypasses::run(job),
        PLANTED => bypasses::run_planted(job),
        _ => everyday::run(job),
    }
}

/// All results.
pub(super) struct FatigueResults {
    dev: Vec<everyday::CommandResult>,
    built_in: Vec<everyday::CommandResult>,
    bypasses: Vec<bypasses::BypassResult>,
    planted: Vec<bypasses::BypassResult>,
}

/// Runs the sample of one job on one machine, and checks the results. The long form runs every case in one test.
fn sampled<T: DeserializeOwned + Send>(test: &str, name: &'static str, check: fn(&[T])) {
    let jobs = [MachineJob { name, builds: [DEV, BUILT_IN].contains(&name), part: 0, parts: 1 }];
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
fn a_sample_of_everyday_commands_works_under_the_policy_for_development() {
    let test = "fatigue::a_sample_of_everyday_commands_works_under_the_policy_for_development";
    sampled(test, DEV, everyday_commands_work);
}

// req: E5
#[test]
fn a_sample_of_everyday_commands_works_under_the_built_in_rules() {
    let test = "fatigue::a_sample_of_everyday_commands_works_under_the_built_in_rules";
    sampled(test, BUILT_IN, everyday_commands_work);
}

// req: E5, P3, P4, P5, P6
#[test]
fn of_a_sample_of_bypasses_none_is_let_through() {
    sampled("fatigue::of_a_sample_of_bypasses_none_is_let_through", BYPASSES, no_bypass_passes);
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
fn the_scores_with_the_rehearsal_on_are_what_the_page_says() {
    if byleave_testkit::machine::began_again(TEST, &JOBS, None, work) {
        return;
    }
    let told = byleave_testkit::machine::run(TEST, &JOBS);
    let seen = FatigueResults {
        dev: of(&told, DEV),
        built_in: of(&told, BUILT_IN),
        bypasses: of(&told, BYPASSES),
        planted: of(&told, PLANTED),
    };
    // The differences come first, because only the beginning of a long output may be kept.
    if let Some(differs) = page::differs(&seen) {
        println!("docs/security/scores.md is not what was measured (`+` is what was measured):\n{differs}");
        report(&seen);
        hold(&seen);
        panic!("docs/security/scores.md is not what was measured");
    }
    hold(&seen);
}

fn of<T: DeserializeOwned>(told: &[(&str, Vec<Value>)], name: &str) -> Vec<T> {
    let mut values: Vec<&Value> =
        told.iter().filter(|(job, _)| *job == name).flat_map(|(_, saw)| saw).collect();
    values.sort_by_key(|value| value["at"].as_u64());
    values.into_iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect()
}

/// The percentage of everyday commands that may be asked about.
const ASKED_PERCENT_MAX: usize = 3;
/// The least number of commands that succeed here. With fewer, the project is outdated.
const RAN_MIN: usize = 180;
/// The least number of bypasses that leave their marker in the workspace without a gate. With fewer, the fixture is outdated.
const PLANTED_MIN: usize = 180;

/// Checks the invariants that hold whatever the page says.
fn hold(seen: &FatigueResults) {
    let asked: Vec<&str> = asked(&seen.dev).collect();
    assert_eq!((seen.dev.len(), seen.built_in.len()), (everyday::commands().len(), seen.dev.len()));
    assert!(asked.len() * 100 <= ASKED_PERCENT_MAX * seen.dev.len(), "asked about: {asked:#?}");
    let ran = seen.dev.iter().filter(|saw| saw.ended == CommandExit::Ran).count();
    assert!(ran >= RAN_MIN, "{ran}");
    assert_eq!(seen.bypasses.len(), bypasses::cases().len());
    assert!(seen.planted.len() >= PLANTED_MIN, "{}", seen.planted.len());
    everyday_commands_work(&seen.dev);
    everyday_commands_work(&seen.built_in);
    no_bypass_passes(&seen.bypasses);
    nothing_is_left_in_the_workspace(&seen.planted);
}

/// Checks each command separately, so that it works for a sample as well.
fn everyday_commands_work(saw: &[everyday::CommandResult]) {
    let refused = saw.iter().filter(|saw| saw.ended == CommandExit::Refused);
    assert_eq!(refused.map(|saw| saw.command.as_str()).collect::<Vec<_>>(), [""; 0], "refused");
    let broken = saw.iter().filter(|saw| saw.is_broken);
    assert_eq!(
        broken.map(|saw| saw.command.as_str()).collect::<Vec<_>>(),
        [""; 0],
        "fails only through the gate"
    );
}

fn no_bypass_passes(saw: &[bypasses::BypassResult]) {
    let none: [&str; 0] = [];
    assert_eq!(false_allows(saw), none, "let through");
    assert_eq!(softened(saw), none, "denied, and asked about or run");
    let not_contained: Vec<&str> = saw
        .iter()
        .filter(|saw| saw.must == "contained" && !saw.wrong.is_empty() && !saw.by_name)
        .map(|saw| saw.id.as_str())
        .collect();
    assert_eq!(not_contained, none, "not contained");
}

/// A command that would leave something in the workspace is asked about or refused, whatever its disguise.
fn nothing_is_left_in_the_workspace(saw: &[bypasses::BypassResult]) {
    let planted = saw.iter().filter(|saw| !saw.wrong.is_empty() || saw.fate == BypassOutcome::Spared);
    assert_eq!(planted.map(|saw| saw.id.as_str()).collect::<Vec<_>>(), [""; 0], "left in the workspace");
}

fn asked(saw: &[everyday::CommandResult]) -> impl Iterator<Item = &str> {
    saw.iter().filter(|saw| saw.asked).map(|saw| saw.command.as_str())
}

/// Cases in which nobody was asked, and either the command was taken to be harmless or something forbidden
/// happened.
fn false_allows(saw: &[bypasses::BypassResult]) -> Vec<&str> {
    let must = saw.iter().filter(|saw| saw.must != "contained" && !saw.elsewhere);
    let through = must.filter(|saw| saw.fate == BypassOutcome::Allowed || !saw.wrong.is_empty());
    through.map(|saw| saw.id.as_str()).collect()
}

/// Cases that must be denied, in which somebody was asked or the command ran.
fn softened(saw: &[bypasses::BypassResult]) -> Vec<&str> {
    let must = saw.iter().filter(|saw| saw.must == "deny" && !saw.elsewhere);
    must.filter(|saw| saw.fate != BypassOutcome::Refused).map(|saw| saw.id.as_str()).collect()
}

/// Prints the details behind the numbers.
fn report(seen: &FatigueResults) {
    let line = |why: &str| why.replace('\n', " / ");
    for (rules, saw) in [(DEV, &seen.dev), (BUILT_IN, &seen.built_in)] {
        for one in saw.iter().filter(|one| one.by_text || one.asked || one.ended != CommandExit::Ran) {
            let (text, asked, spared) = (one.by_text, one.asked, one.spared);
            println!(
                "{rules} {:?} text {text} asked {asked} spared {spared} {:?}: {}",
                one.command,
                one.ended,
                line(&one.why)
            );
        }
    }
    for (round, saw) in [(BYPASSES, &seen.bypasses), (PLANTED, &seen.planted)] {
        for one in saw {
            println!("{round} {} {} {:?} {:?}: {}", one.must, one.id, one.fate, one.wrong, line(&one.why));
        }
    }
}
