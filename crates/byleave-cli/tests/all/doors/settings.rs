//! Limits, rehearsals and challenges are settings (E10), and each of them has an effect on calls.

use std::process::Output;

use serde_json::{Value, json};

use super::{DoorFixture, args, bash, text};

const OWN: &str = "../.config/byleave/config.toml";
const YOLO: &str = "mode = \"yolo\"\n";
const APPLY: &str = "kubectl apply -f app.yaml";

/// Replaces the user's own settings.
fn set(doors: &DoorFixture, settings: &str) {
    doors.put(OWN, settings);
}

/// Returns the record of the newest call as text.
fn newest_record(doors: &DoorFixture) -> String {
    let call = doors.stand.json(&["log", "--json"])[0]["call"].as_str().unwrap().to_owned();
    doors.stand.json(&["log", "show", &call, "--json"]).to_string()
}

/// Makes a call whose arguments are in a file.
fn call_with_file(doors: &DoorFixture, tool: &str, arguments: &Value, words: &[&str]) -> Output {
    doors.put("../args.json", &arguments.to_string());
    let path = format!("@{}", doors.stand.file("../args.json").to_str().unwrap());
    doors.run(&[&["call", tool, "--args", &path], words].concat())
}

// req: E10
// door: program
#[test]
fn every_limit_is_shown_with_its_origin() {
    let doors = DoorFixture::new("max_concurrent = 4\nrehearse = false\n", "");
    doors.put(".byleave/config.toml", "max_concurrent = 2\nfile_bytes = 4096\n");
    let told = doors.stand.json(&["config", "--json"]);
    let held = |name: &str| {
        let all = told["settings"].as_array().unwrap();
        let one = all.iter().find(|held| held["name"] == name).unwrap();
        (one["value"].clone(), one["origin"]["kind"].as_str().unwrap().to_owned())
    };
    assert_eq!(held("max_concurrent"), (json!(2), "project".into()));
    assert_eq!(held("file_bytes"), (json!(4_096), "project".into()));
    assert_eq!(held("rehearse"), (json!(false), "user".into()));
    assert_eq!(held("challenge_when"), (json!("before-question"), "default".into()));
    assert_eq!(held("challenge_replaces_checkpoint"), (json!([]), "default".into()));
    // A project cannot choose what only a person may.
    doors.put(".byleave/config.toml", "challenge_replaces_checkpoint = [\"bash\"]\n");
    let refused = doors.run(&["config"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("may only tighten"), "{refused:?}");
}

// req: E4, E10
// door: program
#[test]
fn with_one_call_at_a_time_no_call_is_concurrency_safe() {
    let doors = DoorFixture::new("", "");
    let read = ["call", "read_file", "--args", r#"{"path":"notes.txt"}"#];
    let usual = doors.run(&read);
    assert_eq!(usual.status.code(), Some(0), "{usual:?}");
    assert!(newest_record(&doors).contains("\"concurrency_safe\":true"));
    set(&doors, "max_concurrent = 1\n");
    let alone = doors.run(&read);
    assert_eq!(alone.status.code(), Some(0), "{alone:?}");
    assert!(!newest_record(&doors).contains("\"concurrency_safe\":true"));
}

// req: E3, E10, B2, B3, B4
// door: program
#[test]
fn the_file_tools_follow_the_limit() {
    let doors = DoorFixture::new("mode = \"yolo\"\nfile_bytes = 2000\n", "");
    let long = "a".repeat(2_001);
    doors.put("long.txt", &long);
    // One line, longer than the limit and the buffer of the search together.
    doors.put("line.txt", &format!("{}needle", "a".repeat(200_000)));
    let patch = format!("*** Begin Patch\n*** Add File: new.txt\n+{long}\n*** End Patch\n");
    let too_large = [
        ("read_file", json!({"path": "long.txt"}), "at most 2000 are read"),
        ("write_file", json!({"path": "new.txt", "content": long}), "the limit is 2000"),
        (
            "write_file",
            json!({"path": "notes.txt", "content": "a".repeat(1_996), "mode": "append"}),
            "the limit is 2000",
        ),
        ("edit", json!({"path": "long.txt", "old": "a", "new": "b"}), "at most 2000 are read"),
        ("edit", json!({"path": "notes.txt", "old": "hello", "new": long}), "2000"),
        ("apply_patch", json!({ "patch": patch }), "the limit is 2000"),
    ];
    for (tool, arguments, wanted) in &too_large {
        let said = call_with_file(&doors, tool, arguments, &[]);
        assert_eq!(said.status.code(), Some(1), "{tool}: {said:?}");
        let told = text(&said.stdout) + &text(&said.stderr);
        assert!(told.contains(wanted), "{tool}: {told}");
    }
    assert!(!doors.stand.file("new.txt").exists());
    let search = ["call", "grep", "--args", r#"{"pattern":"needle","mode":"files"}"#];
    assert!(!text(&doors.run(&search).stdout).contains("line.txt"));
    // With the usual limit all of it works.
    set(&doors, YOLO);
    assert!(text(&doors.run(&search).stdout).contains("line.txt"));
    let read = doors.run(&["call", "read_file", "--args", r#"{"path":"long.txt"}"#]);
    assert_eq!(read.status.code(), Some(0), "{read:?}");
    // A project lowers it for everybody who works there.
    doors.put(".byleave/config.toml", "file_bytes = 1024\n");
    let bound = doors.run(&["call", "read_file", "--args", r#"{"path":"long.txt"}"#]);
    assert!((text(&bound.stdout) + &text(&bound.stderr)).contains("at most 1024"), "{bound:?}");
}

// req: E3, R5
// door: program
#[test]
fn a_file_of_almost_ten_mebibytes_is_written_and_never_asked_about_in_part() {
    let doors = DoorFixture::new(YOLO, "");
    // Lines, so that the JSON is larger than the file. All are different, because a question shows equal ones once.
    let content: String = (0..10_380_900 / 32).map(|number| format!("{number:031}\n")).collect();
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    let done = call_with_file(&doors, "write_file", &write("large.txt", &content), &[]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(std::fs::read_to_string(doors.stand.file("large.txt")).unwrap().len(), content.len());
    let over = call_with_file(&doors, "write_file", &write("over.txt", &"a".repeat(10_485_761)), &[]);
    assert_eq!(over.status.code(), Some(1), "{}", text(&over.stderr));
    assert!((text(&over.stdout) + &text(&over.stderr)).contains("the limit is 10485760"));
    // Nobody can read that much, so nobody is asked.
    set(&doors, "");
    let asked = call_with_file(&doors, "write_file", &write("asked.txt", &content), &["--ask", "inbox"]);
    assert_eq!(asked.status.code(), Some(3), "{}", text(&asked.stderr));
    assert!(text(&asked.stderr).contains("not-shown-in-full"), "{}", text(&asked.stderr));
    assert!(!doors.stand.file("over.txt").exists() && !doors.stand.file("asked.txt").exists());
}

// req: E9, E10
// door: program
#[test]
fn without_rehearsals_the_question_comes_before_anything_runs() {
    let doors = DoorFixture::new("", "");
    let call = |session: &str| {
        let touch = args(&bash("touch made"));
        let waits = doors.run(&["call", "bash", "--ask", "inbox", "--session", session, "--args", &touch]);
        assert_eq!(waits.status.code(), Some(4), "{waits:?}");
        newest_record(&doors).contains("rehearsal_started")
    };
    assert!(call("usual"));
    let first = doors.stand.question();
    assert_eq!(doors.run(&["inbox", "answer", &first, "no"]).status.code(), Some(3));
    set(&doors, "rehearse = false\n");
    assert!(!call("plain"));
    assert!(!doors.stand.file("made").exists());
    // A yes runs it for the first time, and it can still be undone.
    let done = doors.run(&["inbox", "answer", &doors.stand.question(), "yes"]);
    assert_eq!((done.status.code(), doors.stand.file("made").exists()), (Some(0), true), "{done:?}");
    let undone = doors.run(&["undo"]);
    assert_eq!((undone.status.code(), doors.stand.file("made").exists()), (Some(0), false), "{undone:?}");
    // Whoever asks for a rehearsal gets one.
    let rehearsed = doors.run(&["rehearse", "--json", "--yes", "--", "touch", "two"]);
    assert!(text(&rehearsed.stdout).contains("\"rehearsal\""), "{rehearsed:?}");
    assert!(doors.stand.file("two").exists());
}

// req: R9, R12, E10
// door: program
#[test]
fn a_model_makes_the_case_before_the_question_or_after_the_answer() {
    let rule = "[[rule]]\nverdict = \"ask\"\nrun = \"kubectl apply\"\nchallenge = true\n";
    for (setting, is_before) in [("", true), ("challenge_when = \"after-answer\"\n", false)] {
        let doors = DoorFixture::new(setting, rule);
        // The model has nothing else to say, so the case fails as soon as it is needed.
        let says = vec![("I deploy.", Some(("bash", bash(APPLY)))), ("I cannot.", None)];
        let (said, got) = doors.model(says, &["--ask", "inbox", "Deploy."]);
        let is_asked = got.iter().any(|body| body.to_string().contains("Make the case against"));
        let code = if is_before { Some(0) } else { Some(4) };
        assert_eq!((said.status.code(), is_asked), (code, is_before), "{setting}: {said:?}");
        assert!(!doors.deployed());
    }
}

// req: R8, R9, E10
// door: http
#[test]
fn a_challenge_replaces_the_checkpoint_of_the_named_tools_only() {
    let settings = "mode = \"yolo\"\nchallenge_when = \"after-answer\"\n\
                    challenge_replaces_checkpoint = [\"client.bot.named\"]\n";
    let doors = DoorFixture::new(settings, "");
    let bot = doors.token(&["bot"]);
    let served = doors.serve();
    let tool = json!({
        "description": "Deploys.", "input_schema": {"type": "object"}, "class": "generic",
        "requires_checkpoint": true, "requires_reverse_thinking": true,
    });
    for name in ["named", "other"] {
        let (status, made) = served.ask(&bot, "PUT", &format!("/v1/client-tools/{name}"), &tool);
        assert!(status < 300, "{made}");
    }
    let call = |name: &str| json!({"tool": format!("client.bot.{name}"), "mode": "yolo", "session": name});
    let waits = served.asked_about(&bot, "other", &call("other"));
    assert_eq!(waits["question"]["kind"], "checkpoint", "{waits}");
    // No checkpoint. The person who answers makes the case.
    let named = served.asked_about(&bot, "named", &call("named"));
    assert_eq!(named["question"]["kind"], "approval", "{named}");
    served.stop();
}
