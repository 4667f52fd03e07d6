//! What an allowed build writes is on the disk afterwards; what nobody allowed is not (ADR 49).

use std::fs;
use std::process::Output;

use byleave_hook::AgentKind;

use super::{DoorFixture, args, bash, text, workspace};
use crate::hooks::{rewritten, said};

const CLAUDE: AgentKind = AgentKind::ClaudeCode;
const MANIFEST: &str = "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

/// A command that no manual knows.
const BUILDER: &str = r#"#!/bin/sh
mkdir -p target
case $1 in
    build) echo "echo built $2" > target/app; chmod +x target/app; test ! -e target/kept && echo first > target/kept; cat target/kept;;
    plant) echo "echo planted" > target/app; echo planted > target/planted;;
    odd) mkdir -p target/.git/hooks; for f in denied a.secret .git/hooks/pre-commit fine; do echo x > target/$f; done; ln -s /root target/out;;
    source) echo source >> src.txt; echo "echo from source" > target/app;;
esac
"#;

fn fixture(rules: &str) -> DoorFixture {
    let doors = DoorFixture::new("", rules);
    doors.put_program("bin/builder", BUILDER);
    doors.put("Cargo.toml", MANIFEST);
    doors
}

/// Runs a command as an agent does, through the hook.
fn through_hook(doors: &DoorFixture, command: &str) -> Output {
    let cwd = workspace(doors).to_str().unwrap().to_owned();
    let told = doors.stand.asks_until_judged(CLAUDE, &said(CLAUDE, &cwd, "Bash", &bash(command), None));
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    doors.stand.shell(&line)
}

fn read(doors: &DoorFixture, name: &str) -> Option<String> {
    fs::read_to_string(doors.stand.file(name)).ok()
}

/// Runs a program of the workspace outside of the sandbox, as the person does.
fn by_person(doors: &DoorFixture, program: &str) -> String {
    let command = doors.stand.desk.world.command(&doors.stand.file(program));
    text(&doors.stand.desk.by_another(command).output().unwrap().stdout)
}

// req: E6, E9
// door: hook
#[test]
fn what_an_allowed_cargo_build_writes_is_on_the_disk() {
    let doors = fixture("profile = \"everyday\"\n");
    doors.put("src/main.rs", "fn main() { println!(\"first\"); }\n");
    let _gate = doors.stand.serve();
    if !doors.stand.shell("command -v cargo").status.success() {
        // The user of this test has no cargo. `scripts/places` and the other tests build with what is there.
        return;
    }
    let built = through_hook(&doors, "cargo build --offline");
    assert!(built.status.success(), "{built:?}");
    assert_eq!(by_person(&doors, "target/debug/shop"), "first\n");
    // A second build finds the first, and an edit reaches the program on the disk.
    let again = through_hook(&doors, "cargo build --offline 2>&1");
    assert!(!text(&again.stdout).contains("Compiling"), "{again:?}");
    doors.put("src/main.rs", "fn main() { println!(\"second\"); }\n");
    let again = through_hook(&doors, "cargo build --offline 2>&1");
    assert!(again.status.success() && text(&again.stdout).contains("Compiling"), "{again:?}");
    assert_eq!(by_person(&doors, "target/debug/shop"), "second\n");
}

// req: E6, E9
// door: hook
#[test]
fn what_an_undoable_build_writes_is_on_the_disk_for_the_person_and_the_next_build() {
    let doors = fixture("profile = \"everyday\"\n");
    let _gate = doors.stand.serve();
    let built = through_hook(&doors, "bin/builder build one");
    assert!(built.status.success(), "{built:?}");
    assert_eq!(by_person(&doors, "target/app"), "built one\n");
    let again = through_hook(&doors, "bin/builder build two");
    assert!(text(&again.stdout).contains("first"), "{again:?}");
    assert_eq!(by_person(&doors, "target/app"), "built two\n");
    // What changes a file and builds is undone as a whole.
    let both = through_hook(&doors, "bin/builder source");
    assert!(both.status.success() && read(&doors, "src.txt").is_some(), "{both:?}");
    assert_eq!(by_person(&doors, "target/app"), "from source\n");
    let undone = doors.run(&["undo"]);
    assert!(undone.status.success() && read(&doors, "src.txt").is_none(), "{undone:?}");
    assert_eq!(by_person(&doors, "target/app"), "built two\n", "{undone:?}");
}

// req: E6, E9
// door: hook
#[test]
fn what_a_build_that_nobody_allowed_writes_is_found_by_no_other_run_and_is_not_on_the_disk() {
    // Nothing allows a program, so it is rehearsed, and what changes no other file needs no question.
    let rules = "[[rule]]\nverdict = \"allow\"\nrun = \"./bin/builder build\"\n[[rule]]\nverdict = \"allow\"\nrun = \"sh target/app\"\n";
    let doors = fixture(rules);
    doors.put("target/app", "echo original\n");
    let _gate = doors.stand.serve();
    let planted = doors.run(&["call", "bash", "--session", "s", "--args", &args(&bash("bin/builder plant"))]);
    assert_eq!(planted.status.code(), Some(0), "{planted:?}");
    assert_eq!(read(&doors, "target/app").unwrap(), "echo original\n");
    assert_eq!(read(&doors, "target/planted"), None);
    // A run that a rule allows works on what the person has.
    let ran = doors.run(&["call", "bash", "--session", "s", "--args", &args(&bash("sh target/app"))]);
    assert_eq!(text(&ran.stdout), "original\n", "{ran:?}");
    let built =
        doors.run(&["call", "bash", "--session", "s", "--args", &args(&bash("bin/builder build one"))]);
    assert_eq!(built.status.code(), Some(0), "{built:?}");
    assert_eq!(by_person(&doors, "target/app"), "built one\n");
    assert_eq!(read(&doors, "target/planted"), None);
}

// req: P1, E9
// door: hook
#[test]
fn what_a_rule_restricts_stays_out_of_the_outputs_on_the_disk() {
    let rules = "profile = \"everyday\"\n[[rule]]\nverdict = \"deny\"\nwrite = \"{workspace}/**/denied*\"\n[[rule]]\nverdict = \"deny\"\nread = \"{workspace}/**/*.secret\"\n";
    let doors = fixture(rules);
    let _gate = doors.stand.serve();
    let built = through_hook(&doors, "bin/builder odd");
    assert!(built.status.success(), "{built:?}");
    assert_eq!(read(&doors, "target/fine").unwrap(), "x\n");
    for name in ["target/denied", "target/a.secret", "target/.git/hooks/pre-commit", "target/out"] {
        assert!(doors.stand.file(name).symlink_metadata().is_err(), "{name}: {built:?}");
    }
    assert!(text(&built.stdout).contains("keeps these outputs off the disk"), "{built:?}");
}
