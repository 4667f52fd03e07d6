//! Approval fatigue and what is let through, the whole: everyday commands and published bypasses, all run for real through a real
//! gate with the real `bash`, rehearsal on.
//!
//! Written to docs/security/scores.md by `BYLEAVE_SCORES=write cargo nextest run -p byleave-tools -E 'test(fatigue)'`; without that
//! the page must be what would be written.

mod bypasses;
#[path = "../../../byleave/tests/all/corpus/elsewhere.rs"]
mod elsewhere;
mod everyday;
mod file_tools;
mod machine;
mod page;
mod played;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::case;

use self::bypasses::Fate;
use self::everyday::Ended;
use self::machine::Job;

const TEST: &str = "fatigue::the_scores_with_the_rehearsal_on_are_what_the_page_says";
const DEV: &str = "dev-default";
const BUILT_IN: &str = "built-in";
const BYPASSES: &str = "bypasses";
const PLANTED: &str = "planted";

const JOBS: [Job; 8] = [
    Job { name: DEV, builds: true, part: 0, parts: 2 },
    Job { name: DEV, builds: true, part: 1, parts: 2 },
    Job { name: BUILT_IN, builds: true, part: 0, parts: 2 },
    Job { name: BUILT_IN, builds: true, part: 1, parts: 2 },
    Job { name: BYPASSES, builds: false, part: 0, parts: 2 },
    Job { name: BYPASSES, builds: false, part: 1, parts: 2 },
    Job { name: PLANTED, builds: false, part: 0, parts: 2 },
    Job { name: PLANTED, builds: false, part: 1, parts: 2 },
];

fn work(job: Job) {
    match job.name {
        BYPASSES => bypasses::run(job),
        PLANTED => bypasses::run_planted(job),
        _ => everyday::run(job),
    }
}

/// Everything that was seen.
pub(super) struct Seen {
    dev: Vec<everyday::Saw>,
    built_in: Vec<everyday::Saw>,
    bypasses: Vec<bypasses::Saw>,
    planted: Vec<bypasses::Saw>,
}

// req: E5, P3, P4, P5, P6
#[test]
fn the_scores_with_the_rehearsal_on_are_what_the_page_says() {
    if machine::began_again(TEST, &JOBS, work) {
        return;
    }
    let told = machine::run(TEST, &JOBS);
    let seen = Seen {
        dev: of(&told, DEV),
        built_in: of(&told, BUILT_IN),
        bypasses: of(&told, BYPASSES),
        planted: of(&told, PLANTED),
    };
    // What is wrong comes first: of a long output only the beginning may be kept.
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

/// Of the everyday commands, so many of a hundred may be asked about.
const ASKED_PERCENT_MAX: usize = 3;
/// So many of them really run to their end here; else the project has gone stale.
const RAN_MIN: usize = 180;
/// So many of the bypasses leave their marker in the workspace where nothing stands in between; else the fixture has gone stale.
const PLANTED_MIN: usize = 180;

/// What may not change, whatever the page says.
fn hold(seen: &Seen) {
    let asked: Vec<&str> = asked(&seen.dev).collect();
    assert_eq!((seen.dev.len(), seen.built_in.len()), (everyday::commands().len(), seen.dev.len()));
    assert!(asked.len() * 100 <= ASKED_PERCENT_MAX * seen.dev.len(), "asked about: {asked:#?}");
    let refused = seen.dev.iter().chain(&seen.built_in).filter(|saw| saw.ended == Ended::Refused);
    assert_eq!(refused.map(|saw| saw.command.as_str()).collect::<Vec<_>>(), [""; 0], "refused");
    let broken = seen.dev.iter().chain(&seen.built_in).filter(|saw| saw.is_broken);
    assert_eq!(
        broken.map(|saw| saw.command.as_str()).collect::<Vec<_>>(),
        [""; 0],
        "fails only through the gate"
    );
    let ran = seen.dev.iter().filter(|saw| saw.ended == Ended::Ran).count();
    assert!(ran >= RAN_MIN, "{ran}");

    assert_eq!(seen.bypasses.len(), bypasses::cases().len());
    let none: [&str; 0] = [];
    assert_eq!(false_allows(seen), none, "let through");
    assert_eq!(softened(seen), none, "denied, and asked about or run");
    let not_contained: Vec<&str> = seen
        .bypasses
        .iter()
        .filter(|saw| saw.must == "contained" && !saw.wrong.is_empty() && !saw.by_name)
        .map(|saw| saw.id.as_str())
        .collect();
    assert_eq!(not_contained, none, "not contained");
    assert!(seen.planted.len() >= PLANTED_MIN, "{}", seen.planted.len());
    // What would really leave something in the workspace is asked about or refused, whatever it is disguised as.
    let planted = seen.planted.iter().filter(|saw| !saw.wrong.is_empty() || saw.fate == Fate::Spared);
    assert_eq!(planted.map(|saw| saw.id.as_str()).collect::<Vec<_>>(), none, "left in the workspace");
}

fn asked(saw: &[everyday::Saw]) -> impl Iterator<Item = &str> {
    saw.iter().filter(|saw| saw.asked).map(|saw| saw.command.as_str())
}

/// Nobody was asked, and either the text was taken to be harmless or something happened that must not.
fn false_allows(seen: &Seen) -> Vec<&str> {
    let must = seen.bypasses.iter().filter(|saw| saw.must != "contained" && !saw.elsewhere);
    let through = must.filter(|saw| saw.fate == Fate::Allowed || !saw.wrong.is_empty());
    through.map(|saw| saw.id.as_str()).collect()
}

/// It must be denied, and somebody was asked or it ran.
fn softened(seen: &Seen) -> Vec<&str> {
    let must = seen.bypasses.iter().filter(|saw| saw.must == "deny" && !saw.elsewhere);
    must.filter(|saw| saw.fate != Fate::Refused).map(|saw| saw.id.as_str()).collect()
}

/// For whoever looks why a number is what it is.
fn report(seen: &Seen) {
    let line = |why: &str| why.replace('\n', " / ");
    for (rules, saw) in [(DEV, &seen.dev), (BUILT_IN, &seen.built_in)] {
        for one in saw.iter().filter(|one| one.by_text || one.asked || one.ended != Ended::Ran) {
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
