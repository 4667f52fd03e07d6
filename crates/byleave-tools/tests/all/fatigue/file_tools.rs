//! The corpus cases for `read_file`, `write_file`, `edit` and `apply_patch`: each through a gate with its rules and the real tool,
//! on a temporary machine. The approver says no, except if a case must be contained although it was approved.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use byleave_gate::result::CallOutcome;
use serde::{Deserialize, Serialize};

use super::bypasses::{OUTSIDE, lineage, mode, places, prepare};
use super::played::{CallScenario, ScenarioResult, play};
use byleave_testkit::corpus::{Case, policy_of};
use byleave_testkit::machine::{MachineJob, SECRET, tell};

/// The number of tests that share the cases.
const PARTS: usize = 2;
const TOOLS: [(&str, usize); 4] = [("read_file", 29), ("write_file", 45), ("edit", 1), ("apply_patch", 14)];

/// Cases that cannot run here, with the reason. There are none.
const NOT_HERE: [(&str, &str); 0] = [];

/// The number of repetitions of a race.
const SWAPPED_ROUNDS: usize = 20;
const SWAPPED_ROUNDS_LONG: usize = 60;
/// A call that takes longer hangs.
const CALL_MAX: Duration = Duration::from_secs(60);

/// The result of a case.
#[derive(Debug, Serialize, Deserialize)]
struct FileToolResult {
    at: usize,
    id: String,
    tool: String,
    must: String,
    fate: FileToolOutcome,
    wrong: Vec<String>,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum FileToolOutcome {
    /// Refused without a question.
    Refused,
    /// Somebody was asked.
    Asked,
    /// Allowed, and failed.
    Failed,
    /// Allowed, and succeeded.
    Done,
}

// req: B1, B2, B3, B4, B7, P3
#[test]
fn the_cases_of_the_file_tools_hold() {
    cases_hold("fatigue::file_tools::the_cases_of_the_file_tools_hold", 0);
}

// req: B1, B2, B3, B4, B7, P3
#[test]
fn the_other_cases_of_the_file_tools_hold() {
    cases_hold("fatigue::file_tools::the_other_cases_of_the_file_tools_hold", 1);
}

/// Runs every second case, from this one on.
fn cases_hold(test: &str, part: usize) {
    let jobs = [MachineJob { name: "file tools", builds: false, part, parts: PARTS }];
    if byleave_testkit::machine::began_again(test, &jobs, None, work) {
        return;
    }
    let told = byleave_testkit::machine::run::<FileToolResult>(test, &jobs);
    let saw: Vec<FileToolResult> = told.into_iter().flat_map(|(_, saw)| saw).collect();
    let mut counts: BTreeMap<(&str, &str, String), usize> = BTreeMap::new();
    for one in &saw {
        *counts.entry((&one.tool, &one.must, format!("{:?}", one.fate))).or_default() += 1;
        println!("{} {} {} {:?}: {}", one.tool, one.must, one.id, one.fate, one.why.replace('\n', " / "));
    }
    println!("{counts:#?}");
    let wrong: Vec<_> = saw.iter().filter(|one| !one.wrong.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (tool, count) in TOOLS {
        let all = cases();
        assert_eq!(all.iter().filter(|case| case.tool == tool).count(), count, "{tool}");
        let ours = all.iter().skip(part).step_by(PARTS);
        let ours = ours.filter(|case| case.tool == tool && !is_not_here(case)).count();
        assert_eq!(saw.iter().filter(|one| one.tool == tool).count(), ours, "{tool}");
    }
}

fn cases() -> Vec<Case> {
    let text = include_str!("../../../../../tests/corpus/bypasses.jsonl");
    let cases = text.lines().map(|line| serde_json::from_str(line).unwrap());
    cases.filter(|case: &Case| TOOLS.iter().any(|(tool, _)| *tool == case.tool)).collect()
}

fn is_not_here(case: &Case) -> bool {
    NOT_HERE.iter().any(|(id, _)| *id == case.id)
}

fn work(job: MachineJob) {
    // Every case runs, also in the short form.
    let ours = cases().into_iter().enumerate().skip(job.part).step_by(job.parts);
    for (at, mut case) in ours.filter(|(_, case)| !is_not_here(case)) {
        made_ready(&mut case);
        let rounds = match (is_swapped(&case), byleave_testkit::machine::is_long()) {
            (false, _) => 1,
            (true, false) => SWAPPED_ROUNDS,
            (true, true) => SWAPPED_ROUNDS_LONG,
        };
        let mut saw = None;
        for round in 0..rounds {
            let one = while_swapping(&case, || saw_of(at, round, &case));
            let is_wrong = !one.wrong.is_empty();
            saw = Some(one);
            if is_wrong {
                break;
            }
        }
        tell(&saw.unwrap());
    }
}

/// Prepares the fixture for the case, including preparation that is described in prose.
pub(super) fn made_ready(case: &mut Case) {
    // A directory without permissions would prevent the cleanup.
    assert!(Command::new("chmod").args(["-R", "u+rwX", "/ws", "/outside"]).status().unwrap().success());
    // Removes a remark after the commands.
    if let Some((commands, remark)) = case.setup.clone().rsplit_once(" (")
        && remark.ends_with(')')
    {
        case.setup = commands.to_owned();
    }
    prepare(case);
    if is_swapped(case) {
        for (path, text) in [("/ws/a/b", "inside"), ("/ws/d/g", "inside"), ("/outside/b", SECRET)] {
            fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    if case.tool == "edit" && case.input["path"] == "/ws/a" {
        fs::write("/ws/a", "x").unwrap();
    }
}

pub(super) fn is_swapped(case: &Case) -> bool {
    case.setup.starts_with("a thread flips /ws/a")
        || case.setup.starts_with("after verification /ws/d becomes")
}

/// Runs the work while a directory is swapped back and forth with a link that leads out.
fn while_swapping<T>(case: &Case, work: impl FnOnce() -> T) -> T {
    if !is_swapped(case) {
        return work();
    }
    let name = if case.tool == "apply_patch" { "/ws/d" } else { "/ws/a" };
    symlink("/outside", "/ws/.link").unwrap();
    let stop = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..2 {
                    rustix::fs::renameat_with(rustix::fs::CWD, name, rustix::fs::CWD, "/ws/.link", flags)
                        .unwrap();
                    std::thread::yield_now();
                }
            }
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    });
    fs::remove_file("/ws/.link").unwrap();
    done
}

fn saw_of(at: usize, round: usize, case: &Case) -> FileToolResult {
    // For a path that leads to a descriptor of this process.
    let held = (case.id == "proc-pid-fd").then(|| {
        fs::write("/outside/secret.txt", SECRET).unwrap();
        File::open("/outside/secret.txt").unwrap()
    });
    let (outside, inside) = (places(&OUTSIDE), places(&["/ws"]));
    let began = Instant::now();
    let Some(played) = through_the_gate(at, round, case) else {
        return told(at, case, FileToolOutcome::Refused, Vec::new(), "the policy cannot be used".into());
    };
    drop(held);
    let mut wrong = Vec::new();
    if began.elapsed() > CALL_MAX {
        wrong.push(format!("it took {:?}", began.elapsed()));
    }
    let fate = match &played.ending {
        _ if !played.asked.is_empty() => FileToolOutcome::Asked,
        CallOutcome::Completed(_) | CallOutcome::Withheld(_) | CallOutcome::Unknown(_) => {
            FileToolOutcome::Done
        }
        CallOutcome::Failed(_) => FileToolOutcome::Failed,
        CallOutcome::Refused(_) | CallOutcome::DryRun(_) | CallOutcome::Answered(_) => {
            FileToolOutcome::Refused
        }
    };
    match (case.must.as_str(), fate) {
        ("deny", FileToolOutcome::Refused)
        | ("ask", FileToolOutcome::Refused | FileToolOutcome::Asked)
        | ("contained", _) => {}
        // A question is not required if the call fails anyway.
        ("ask", FileToolOutcome::Failed) => {}
        (must, fate) => wrong.push(format!("must {must}, and {fate:?}")),
    }
    if played.told().contains(SECRET) && !case.input.to_string().contains(SECRET) {
        wrong.push(format!("the secret is told: {:.200}", played.told()));
    }
    if places(&OUTSIDE) != outside {
        wrong.push("something outside has changed".to_owned());
    }
    if case.must != "contained" && places(&["/ws"]) != inside {
        wrong.push("something in the workspace has changed".to_owned());
    }
    let why = format!("{:?} {} | {:.300}", played.by_text, played.why(), played.told());
    told(at, case, fate, wrong, why)
}

fn told(at: usize, case: &Case, fate: FileToolOutcome, wrong: Vec<String>, why: String) -> FileToolResult {
    let (id, tool, must) = (case.id.clone(), case.tool.clone(), case.must.clone());
    FileToolResult { at, id, tool, must, fate, wrong, why }
}

/// Makes the call of a case. `None` if the gate would not start.
fn through_the_gate(at: usize, round: usize, case: &Case) -> Option<ScenarioResult> {
    let mut arguments = case.input.clone();
    let agent = arguments.as_object_mut().unwrap().remove("agent");
    let (tool, _) = TOOLS.into_iter().find(|(tool, _)| *tool == case.tool)?;
    let played = play(
        CallScenario {
            policy: policy_of(case).ok()?,
            tool: tool.to_owned(),
            arguments,
            cwd: "/ws".into(),
            agent: agent.as_ref().and_then(|agent| agent.as_str()).unwrap_or("a").into(),
            mode: mode(case),
            lineage: lineage(case),
            // If links are swapped, the question would name the path outside. A yes to that is not an escape.
            says_yes: case.must == "contained" && !is_swapped(case),
            timeout_ms: 20_000,
        },
        &Path::new("/state").join(format!("{at}-{round}")),
    );
    Some(played)
}
