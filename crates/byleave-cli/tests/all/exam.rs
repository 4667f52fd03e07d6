//! The `approval_ui` cases of the corpus. Each runs on a real pseudo-terminal with the real program, on a disposable machine. If the
//! program does not have the tool of the case, a separate gate with the same prompt is used.
//!
//! `scripts/prove approvals` runs every case, and the page docs/security/scores.md must match the measured results. With
//! `BYLEAVE_SCORES=write` the page is written. With `BYLEAVE_PROOF_CASE=id,id` only these cases run. Every other run takes a sample, in which each case must hold as well.

mod authority;
mod binding;
mod display;
mod own;
mod page;
mod reading;
mod stage;
mod surface;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::surface::Surface;
use byleave_testkit::machine::{MachineJob, tell};

const CASES: usize = 83;

/// The cases that every form runs: each failed once because no command of the exam ran on a copy, and no sample showed it.
const ALWAYS: [&str; 3] = ["newline-padding", "path-lookup-changes", "interpreter-operand-unbindable"];

/// One third of the cases per job, for each surface.
const JOBS: [MachineJob; 6] = [
    MachineJob { name: "inline", builds: false, part: 0, parts: 3 },
    MachineJob { name: "inline", builds: false, part: 1, parts: 3 },
    MachineJob { name: "inline", builds: false, part: 2, parts: 3 },
    MachineJob { name: "inbox", builds: false, part: 0, parts: 3 },
    MachineJob { name: "inbox", builds: false, part: 1, parts: 3 },
    MachineJob { name: "inbox", builds: false, part: 2, parts: 3 },
];

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CorpusCase {
    id: String,
    class: String,
    tool: String,
    input: Value,
    setup: String,
    must: String,
}

/// Describes how a test showed that a case holds.
pub(crate) type CaseProof = &'static str;

/// The result of a case on one surface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CaseResult {
    at: usize,
    id: String,
    class: String,
    must: String,
    surface: String,
    /// How the case was shown to hold, or what went wrong.
    shown: Result<String, String>,
}

/// The long form runs every case on every surface, as on the page. Otherwise this test runs a sample, and the tests below run the rest.
// req: R5, R6, R7
#[test]
fn every_approval_case_holds_at_the_terminal() {
    let jobs = if byleave_testkit::machine::is_long() { &JOBS[..] } else { &JOBS[..1] };
    let Some(saw) = hold("exam::every_approval_case_holds_at_the_terminal", jobs) else { return };
    if byleave_testkit::machine::is_long() {
        assert_eq!(saw.len(), CASES * Surface::ALL.len());
        page::check(&saw);
    }
}

macro_rules! samples {
    ($($name:ident: $job:literal,)*) => {
        $(
            // req: R5, R6, R7
            #[test]
            fn $name() {
                // The long form of the test above covers these cases.
                if !byleave_testkit::machine::is_long() {
                    hold(concat!("exam::", stringify!($name)), &JOBS[$job..=$job]);
                }
            }
        )*
    };
}

samples! {
    a_second_sample_holds_inline: 1,
    a_third_sample_holds_inline: 2,
    a_first_sample_holds_in_the_inbox: 3,
    a_second_sample_holds_in_the_inbox: 4,
    a_third_sample_holds_in_the_inbox: 5,
}

/// Examines the cases of these jobs in the test of this name. Each case must hold. Returns `None` in a process that was started again to do
/// the work of one job.
fn hold(test: &str, jobs: &[MachineJob]) -> Option<Vec<CaseResult>> {
    if byleave_testkit::machine::began_again(test, jobs, Some(env!("CARGO_BIN_EXE_byleave")), work) {
        return None;
    }
    let told = byleave_testkit::machine::run::<CaseResult>(test, jobs);
    let mut saw: Vec<CaseResult> = told.into_iter().flat_map(|(_, saw)| saw).collect();
    let surface = |saw: &CaseResult| Surface::ALL.iter().position(|surface| surface.name() == saw.surface);
    saw.sort_by_key(|saw| (saw.at, surface(saw)));
    let failed: Vec<&CaseResult> = saw.iter().filter(|saw| saw.shown.is_err()).collect();
    for saw in &failed {
        println!(
            "{} ({}, {}) on {}: {}",
            saw.id,
            saw.class,
            saw.must,
            saw.surface,
            saw.shown.clone().unwrap_err()
        );
    }
    let failed: Vec<&str> = failed.iter().map(|saw| saw.id.as_str()).collect();
    assert_eq!(failed, [""; 0], "do not hold");
    if std::env::var_os("BYLEAVE_PROOF_CASE").is_some() {
        for saw in &saw {
            println!("{} on {}: {:?}", saw.id, saw.surface, saw.shown);
        }
        return None;
    }
    let wanted = CASES / 10 * Surface::ALL.len() * jobs.len() / JOBS.len();
    assert!(saw.len() >= wanted, "only {} cases", saw.len());
    Some(saw)
}

fn work(job: MachineJob) {
    let only = std::env::var("BYLEAVE_PROOF_CASE").ok();
    for (at, case) in sample(job) {
        if only.as_ref().is_some_and(|only| !only.split(',').any(|id| id == case.id)) {
            continue;
        }
        for surface in Surface::ALL.into_iter().filter(|surface| surface.name() == job.name) {
            let shown = catch_unwind(AssertUnwindSafe(|| examine(&case, surface)));
            let shown = shown.map(str::to_owned).map_err(|broke| {
                let text = broke.downcast_ref::<String>().cloned();
                text.or_else(|| broke.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default()
            });
            let CorpusCase { id, class, must, .. } = case.clone();
            tell(&CaseResult { at, id, class, must, surface: surface.name().to_owned(), shown });
        }
    }
    // Last, because the cases clear the machine.
    stage::check_copies();
}

/// Returns the cases of a job, with those that every form runs.
fn sample(job: MachineJob) -> impl Iterator<Item = (usize, CorpusCase)> {
    let mut share: Vec<(usize, CorpusCase)> = job.share(cases()).collect();
    let part = cases().into_iter().enumerate().filter(|(at, _)| at % job.parts == job.part);
    for (at, case) in part.filter(|(_, case)| ALWAYS.contains(&case.id.as_str())) {
        if share.iter().all(|(taken, _)| *taken != at) {
            share.push((at, case));
        }
    }
    share.into_iter()
}

fn cases() -> Vec<CorpusCase> {
    let text = include_str!("../../../../tests/corpus/bypasses.jsonl");
    let cases = text.lines().map(|line| serde_json::from_str(line).unwrap());
    cases.filter(|case: &CorpusCase| case.tool == "approval_ui").collect()
}

fn examine(case: &CorpusCase, surface: Surface) -> CaseProof {
    stage::prepare(case);
    let how = match case.class.as_str() {
        "approval-display" => display::examine(case, surface),
        "approval-binding-toctou" => binding::examine(case, surface),
        _ => authority::examine(case, surface),
    };
    stage::no_marker();
    how
}
