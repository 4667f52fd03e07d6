//! An ordinary session of a coding agent, call by call, as Claude Code makes it: each call goes through `byleave hook`, the shell commands run
//! as the hook rewrites them, and the agent performs its own file tools itself. A person answers every question. The questions are counted,
//! and each call must do what it does without a gate.
//!
//! `scripts/prove rehearsal` runs the whole session and checks docs/security/scores.md. Otherwise the slow calls and most commands are left
//! out.

mod page;
mod stage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byleave_testkit::fake_internet::FakeInternet;
use byleave_testkit::machine::{MachineJob, is_long, tell};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::stage::{CommandEnd, Person};

const TEST: &str = "ordinary_session::an_ordinary_session_needs_at_most_three_questions";
const JOBS: [MachineJob; 1] = [MachineJob { name: "session", builds: true, part: 0, parts: 1 }];
/// The number of questions that the session may need.
const QUESTIONS_MAX: usize = 3;
/// What takes long. The short form leaves it out.
const SLOW: [&str; 8] = ["venv", "pip", "npm", "cargo", "pytest", "http.server", "git push", "node test.js"];

/// A call of the session, and what must happen.
#[derive(Clone, Debug, Deserialize)]
struct SessionCall {
    tool: String,
    input: Value,
    expect: String,
}

/// What happened to a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CallSeen {
    call: String,
    expect: String,
    /// The questions that it needed, in words.
    questions: Vec<String>,
    /// What was not as it should be.
    wrong: Vec<String>,
}

// req: M2, E9
// door: hook
#[test]
fn an_ordinary_session_needs_at_most_three_questions() {
    let program = Some(env!("CARGO_BIN_EXE_byleave"));
    if byleave_testkit::machine::began_again(TEST, &JOBS, program, |_| play()) {
        return;
    }
    let told = byleave_testkit::machine::run::<CallSeen>(TEST, &JOBS);
    let saw: Vec<CallSeen> = told.into_iter().flat_map(|(_, saw)| saw).collect();
    for one in saw.iter().filter(|one| !one.questions.is_empty() || !one.wrong.is_empty()) {
        println!("{}: {:?} {:?}", one.call, one.questions, one.wrong);
    }
    if is_long() {
        page::check(&saw);
    }
    let wrong: Vec<&CallSeen> = saw.iter().filter(|one| !one.wrong.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let asked: Vec<&CallSeen> = saw.iter().filter(|one| !one.questions.is_empty()).collect();
    let questions: usize = asked.iter().map(|one| one.questions.len()).sum();
    assert!(questions <= QUESTIONS_MAX, "{questions} questions: {asked:#?}");
}

fn calls() -> Vec<SessionCall> {
    let text = include_str!("../../../../tests/corpus/session.jsonl").replace("{workspace}", "/ws");
    let calls = text.lines().map(|line| serde_json::from_str::<SessionCall>(line).unwrap());
    let is_slow = |call: &SessionCall| {
        let command = call.input["command"].as_str().unwrap_or_default();
        call.tool == "Bash" && SLOW.iter().any(|slow| command.contains(slow))
    };
    let calls: Vec<SessionCall> = calls.filter(|call| is_long() || !is_slow(call)).collect();
    let is_sampled = |(number, call): &(usize, SessionCall)| {
        call.tool != "Bash" || call.expect == "deny" || number % 4 == 0
    };
    let sampled = calls.into_iter().enumerate().filter(|one| is_long() || is_sampled(one));
    sampled.map(|(_, call)| call).collect()
}

/// Plays the session twice, without a gate and with one.
fn play() {
    let internet = FakeInternet::start();
    stage::prepare(&internet);
    let bare: Vec<Option<CommandEnd>> = calls().iter().map(stage::run_bare).collect();
    let wanted = files();
    stage::restore();
    let person = Person::start();
    for (call, bare) in calls().iter().zip(bare) {
        let (mut questions, mut wrong) = (Vec::new(), Vec::new());
        stage::run_through_hook(call, bare.as_ref(), &person, &mut questions, &mut wrong);
        tell(&CallSeen { call: name(call), expect: call.expect.clone(), questions, wrong });
    }
    person.stop();
    let own = files();
    let paths = wanted.keys().chain(own.keys());
    let differs = paths.filter(|path| wanted.get(*path) != own.get(*path));
    let differs: Vec<String> = differs.map(|path| path.display().to_string()).take(10).collect();
    let wrong = if differs.is_empty() { Vec::new() } else { vec![format!("files differ: {differs:?}")] };
    tell(&CallSeen {
        call: "all files at the end".into(),
        expect: "pass".into(),
        questions: Vec::new(),
        wrong,
    });
}

fn name(call: &SessionCall) -> String {
    let what = ["command", "file_path", "url", "query", "pattern", "description"];
    let what = what.iter().find_map(|key| call.input[*key].as_str()).unwrap_or_default();
    format!("{} {what}", call.tool).trim().to_owned()
}

/// The files of the project, without what a tool generates and what holds the time.
fn files() -> BTreeMap<PathBuf, Vec<u8>> {
    const GENERATED: [&str; 5] = [".git", ".venv", "target", "__pycache__", "node_modules"];
    let mut found = BTreeMap::new();
    let mut left = vec![PathBuf::from("/ws")];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let is_generated = path.file_name().is_some_and(|name| GENERATED.iter().any(|one| name == *one));
            if path.ends_with(".pytest_cache") {
                // Scratch. It never reaches the directory.
            } else if is_generated {
                found.insert(path, Vec::new());
            } else if kind.is_dir() {
                left.push(path);
            } else {
                let content = std::fs::read(&path).unwrap_or_default();
                found.insert(path, content);
            }
        }
    }
    // Scratch of a build stays with the session and never reaches the directory.
    found.retain(|path, _| !path.ends_with("target") && !path.ends_with("__pycache__"));
    found
}

/// Tests whether a path is there.
fn is_there(path: &str) -> bool {
    Path::new(path).exists()
}
