//! The `approval_ui` cases of the corpus, each on a real pseudo-terminal with the real program on a machine that is thrown away; or,
//! where the program has no such tool, with a gate of its own and the same prompt.
//!
//! Written to docs/security/scores.md by `BYLEAVE_SCORES=write cargo nextest run -p byleave-cli -E 'test(exam)'`; without that the page
//! must be what would be written.

mod authority;
mod binding;
mod display;
#[path = "../../../byleave-tools/tests/all/fatigue/machine.rs"]
mod machine;
mod own;
mod page;
mod reading;
mod stage;
mod surface;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::machine::{Job, tell};
use self::surface::Surface;

const TEST: &str = "exam::every_approval_case_holds_at_the_terminal";
const CASES: usize = 83;

const JOBS: [Job; 3] = [
    Job { name: "cases", builds: false, part: 0, parts: 3 },
    Job { name: "cases", builds: false, part: 1, parts: 3 },
    Job { name: "cases", builds: false, part: 2, parts: 3 },
];

/// A case of the corpus.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    id: String,
    class: String,
    tool: String,
    input: Value,
    setup: String,
    must: String,
}

/// How it was shown that a case holds.
pub(crate) type How = &'static str;

/// What became of a case on one surface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Saw {
    at: usize,
    id: String,
    class: String,
    must: String,
    surface: String,
    /// How it was shown, or what went wrong.
    shown: Result<String, String>,
}

// req: R5, R6, R7
#[test]
fn every_approval_case_holds_at_the_terminal() {
    if machine::began_again(TEST, &JOBS, work) {
        return;
    }
    let told = machine::run::<Saw>(TEST, &JOBS);
    let mut saw: Vec<Saw> = told.into_iter().flat_map(|(_, saw)| saw).collect();
    saw.sort_by_key(|saw| saw.at);
    let failed: Vec<&Saw> = saw.iter().filter(|saw| saw.shown.is_err()).collect();
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
    assert_eq!(saw.len(), CASES * Surface::ALL.len());
    page::check(&saw);
}

fn work(job: Job) {
    for (at, case) in job.share(cases()) {
        for surface in Surface::ALL {
            let shown = catch_unwind(AssertUnwindSafe(|| examine(&case, surface)));
            let shown = shown.map(str::to_owned).map_err(|broke| {
                let text = broke.downcast_ref::<String>().cloned();
                text.or_else(|| broke.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default()
            });
            let Case { id, class, must, .. } = case.clone();
            tell(&Saw { at, id, class, must, surface: surface.name().to_owned(), shown });
        }
    }
}

fn cases() -> Vec<Case> {
    let text = include_str!("../../../../tests/corpus/bypasses.jsonl");
    let cases = text.lines().map(|line| serde_json::from_str(line).unwrap());
    cases.filter(|case: &Case| case.tool == "approval_ui").collect()
}

fn examine(case: &Case, surface: Surface) -> How {
    stage::prepare(case);
    let how = match case.class.as_str() {
        "approval-display" => display::examine(case, surface),
        "approval-binding-toctou" => binding::examine(case, surface),
        _ => authority::examine(case, surface),
    };
    stage::no_marker();
    how
}
