//! The corpus of published bypasses and everyday commands, evaluated: false allows, softened denies, and questions.
//!
//! Written to docs/security/scores.md by `BYLEAVE_SCORES=write cargo nextest run -p byleave-gate -E 'test(corpus)'`. Without that
//! variable, the page must match the results.

mod confined;
mod disguise;
mod examine;
mod fixture;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::Plan;
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::policy::{EffectStage, Policy, PolicyRequest, builtin_rules};
use byleave_gate::policy_case::manifest_for;
use serde_json::json;

use self::examine::{CaseScore, planned, score};
use self::fixture::Fixture;
use byleave_testkit::corpus::{Case, EverydayCommand, PLACES, lines, read_user};

/// The policy for everyday commands: the profile for work with a coding agent.
fn everyday() -> Policy {
    let mut rules = builtin_rules(&PLACES).unwrap();
    rules.extend(read_user("profile = \"everyday\"").unwrap());
    Policy::new(rules).unwrap().with_workspace(PLACES.workspace)
}

#[derive(Default)]
struct ScoreCounts {
    held: usize,
    allowed: Vec<String>,
    softened: Vec<String>,
    elsewhere: usize,
}

/// The scores of the cases of some files.
#[derive(Default)]
struct Scores {
    classes: BTreeMap<String, ScoreCounts>,
    elsewhere: BTreeMap<&'static str, Vec<String>>,
}

/// The number of threads that share the cases: preparing a case takes longer than evaluating it.
const THREADS: usize = 4;

fn scores(files: &[&str]) -> Scores {
    let cases: Vec<Case> = files.iter().flat_map(|file| lines::<Case>(file)).collect();
    let each: Vec<CaseScore> = std::thread::scope(|scope| {
        let share = cases.len().div_ceil(THREADS);
        let parts: Vec<_> = cases
            .chunks(share)
            .map(|part| scope.spawn(|| part.iter().map(score).collect::<Vec<CaseScore>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let mut scores = Scores::default();
    for (case, score) in cases.into_iter().zip(each) {
        let tally = scores.classes.entry(case.class).or_default();
        match score {
            CaseScore::Held => tally.held += 1,
            CaseScore::FalseAllow => tally.allowed.push(case.id),
            CaseScore::Softened => tally.softened.push(case.id),
            CaseScore::Elsewhere(part) => {
                tally.elsewhere += 1;
                scores.elsewhere.entry(part).or_default().push(case.id);
            }
        }
    }
    scores
}

impl Scores {
    fn table(&self) -> String {
        let mut table = String::from(
            "| class | held | false allows | denies softened | elsewhere |\n|---|--:|--:|--:|--:|\n",
        );
        let mut sums = (0, 0, 0, 0);
        for (class, ScoreCounts { held, allowed, softened, elsewhere }) in &self.classes {
            let (allowed, softened) = (allowed.len(), softened.len());
            writeln!(table, "| {class} | {held} | {allowed} | {softened} | {elsewhere} |").unwrap();
            sums = (sums.0 + held, sums.1 + allowed, sums.2 + softened, sums.3 + elsewhere);
        }
        writeln!(table, "| **all** | {} | {} | {} | {} |\n", sums.0, sums.1, sums.2, sums.3).unwrap();
        let named = |pick: fn(&ScoreCounts) -> &Vec<String>| {
            let ids: Vec<String> = self.classes.values().flat_map(|tally| pick(tally).clone()).collect();
            if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
        };
        writeln!(table, "False allows: {}.\n", named(|tally| &tally.allowed)).unwrap();
        writeln!(table, "Denies softened to asks: {}.\n", named(|tally| &tally.softened)).unwrap();
        table
    }

    fn elsewhere(&self) -> String {
        let mut list = String::from(
            "Cases that no reading of a call can answer, by the part of the system that must.\n\n",
        );
        for (part, ids) in &self.elsewhere {
            writeln!(list, "- {part} ({}): {}", ids.len(), ids.join(", ")).unwrap();
        }
        list
    }

    /// Fails if a case is allowed, or a deny is softened.
    fn assert_all_held(&self) {
        for (class, tally) in &self.classes {
            assert_eq!(tally.allowed, [""; 0], "let through: {class}");
            assert_eq!(tally.softened, [""; 0], "denied, and only asked about: {class}");
        }
    }
}

/// Checks one part of the page, or writes it: the text from one heading to the next.
fn check_part(next: &str, part: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/scores.md");
    let heading = part.trim_start().lines().next().unwrap();
    // Other processes write other parts.
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.lock().unwrap();
    let page = std::fs::read_to_string(&path).unwrap();
    let start = page.find(heading).unwrap_or_else(|| panic!("the page has no `{heading}`"));
    let end = page.find(next).unwrap_or_else(|| panic!("the page has no `{next}`"));
    if std::env::var("BYLEAVE_SCORES").is_ok_and(|what| what == "write") {
        let (before, after) = (page.get(..start).unwrap(), page.get(end..).unwrap());
        let written = format!("{before}{}{after}", part.trim_start());
        std::fs::write(&path, written).unwrap();
    } else {
        assert!(
            page.get(start..end) == Some(part.trim_start()),
            "docs/security/scores.md is not what was measured:\n{part}"
        );
    }
}

/// Tests whether a call is allowed that runs on a copy, so that its changes are judged afterwards.
fn is_allowed_on_copy(policy: &Policy, manifest: &Manifest, plan: &Plan) -> bool {
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let stage = EffectStage::PredictedOnCopy;
    let request = PolicyRequest { stage, ..PolicyRequest::new(manifest, plan, &session, &agent) };
    policy.evaluate(&request).verdict == Verdict::Allow
}

/// The beginnings of the parts of the page. The last one is written by the tests of the sandbox.
const OWN: &str = "## Attacks of our own\n";
const CONFINED: &str = "## With the sandbox on\n";
const OTHERS: &str = "<!-- escapes -->";

const PREFACE: &str = "# Scores

Written by `BYLEAVE_SCORES=write cargo nextest run -p byleave-gate -E 'test(corpus)'`, never by hand; CI fails where it differs. The
cases are in `tests/corpus`: every bypass that we could find in public, and everyday commands. Each is judged in a fixture of
its own under the built-in rules and the rules of the case. *Held*: asked or denied where it must be asked, denied where it
must be denied.

## Bypasses

";

const OWN_PREFACE: &str = "## Attacks of our own

The attacks of `bypasses-2.jsonl` and `attacks.jsonl`, which were written against Byleave itself and got through once. They are judged in the
same way. A case that names `dev-default.toml` is judged with that policy, too (`tests/corpus/dev-default.toml`).

";

/// The share of everyday commands that are asked about without need.
fn fatigue() -> String {
    let (policy, manifest, fixture) = (everyday(), manifest_for("bash"), Fixture::project());
    let mut classes: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for EverydayCommand { command, class } in lines::<EverydayCommand>("benign.jsonl") {
        let plan = planned(&manifest, &json!({"command": command}), &fixture).unwrap();
        let (count, asked) = classes.entry(class).or_default();
        *count += 1;
        if !is_allowed_on_copy(&policy, &manifest, &plan) {
            asked.push(command);
        }
    }
    let mut text = String::from(
        "\n## Everyday commands\n\nJudged under the profile `everyday` in a small project, by reading alone.\n\n| class | commands | asked about |\n|---|--:|--:|\n",
    );
    let (mut all, mut all_asked) = (0, 0);
    for (class, (count, asked)) in &classes {
        writeln!(text, "| {class} | {count} | {} |", asked.len()).unwrap();
        (all, all_asked) = (all + count, all_asked + asked.len());
    }
    assert!(all_asked * 10 <= all, "{all_asked} of {all} everyday commands are asked about");
    writeln!(text, "| **all** | {all} | {all_asked} ({:.1} %) |\n", 100.0 * all_asked as f64 / all as f64)
        .unwrap();
    text.push_str("Asked about:\n\n");
    for asked in classes.values().flat_map(|(_, asked)| asked) {
        writeln!(text, "- `{asked}`").unwrap();
    }
    text
}

// req: P3, P4, P5, P6
#[test]
fn the_scores_of_published_bypasses_are_what_the_page_says() {
    let published = scores(&["bypasses.jsonl"]);
    // The page may change, but this may not.
    published.assert_all_held();
    let part = format!("{PREFACE}{}## Answered elsewhere\n\n{}\n", published.table(), published.elsewhere());
    check_part(OWN, &part);
}

// req: P3, P4, P5, P6
#[test]
fn the_scores_of_our_own_attacks_are_what_the_page_says() {
    let own = scores(&["bypasses-2.jsonl", "attacks.jsonl"]);
    own.assert_all_held();
    check_part(CONFINED, &format!("{OWN_PREFACE}{}{}\n", own.table(), own.elsewhere()));
}

#[test]
fn the_other_parts_of_the_scores_are_what_the_page_says() {
    check_part(OTHERS, &format!("{}{}\n", confined::section(), fatigue()));
}
