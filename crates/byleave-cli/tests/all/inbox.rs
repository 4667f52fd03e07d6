//! Open questions: listed, shown and answered. Their calls are resumed.

use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

fn ask(world: &mut CliTestWorld, args: &str) {
    world.run(&["call", "append_line", "--ask", "inbox", "--args", args, "--reason", "it was asked for"]);
}

fn end(id: &str) -> String {
    id.get(id.len() - 8..).unwrap().to_owned()
}

// req: R5
#[test]
fn asked_listed_shown_edited_and_answered() {
    let mut world = CliTestWorld::new();
    ask(&mut world, NOTE);
    world.run(&["inbox"]);
    let first = world.question();
    world.run(&["inbox", "show", &end(&first)]);
    let edited = r#"{"path":"other.txt","line":"edited"}"#;
    world.run(&["inbox", "answer", &end(&first), "edit", "--args", edited, "--note", "wrong file"]);
    world.note("it would do something else now, so it asks again");
    let second = world.question();
    assert_ne!(first, second);
    world.run(&["inbox", "show", &second]);
    world.run(&["inbox", "answer", &second, "yes", "--note", "fine"]);
    world.run(&["inbox"]);
    world.run(&["log"]);
    assert_eq!(world.file("other.txt"), "edited\n");
    assert!(!world.workspace().join("notes.txt").exists());
    insta::assert_snapshot!(world.transcript());
}

// req: R5
#[test]
fn no_with_feedback_and_abort() {
    let mut world = CliTestWorld::new();
    ask(&mut world, NOTE);
    let question = world.question();
    world.run(&["inbox", "answer", &question, "no", "--feedback", "use the journal"]);
    world.run(&["inbox", "answer", &question, "yes"]);
    ask(&mut world, NOTE);
    world.run(&["inbox", "answer", &world.question(), "abort"]);
    world.run(&["resume"]);
    assert!(!world.workspace().join("notes.txt").exists());
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn an_answer_for_something_else_is_not_taken() {
    let mut world = CliTestWorld::new();
    ask(&mut world, NOTE);
    let question = world.question();
    let digest = world.json(&["inbox", "show", &question, "--json"])["question"]["digest"].clone();
    let digest = digest.as_str().unwrap();
    let other: String = digest.chars().rev().collect();
    world.run(&["inbox", "answer", &question, "yes", "--digest", &other]);
    world.run(&["inbox", "answer", &question, "yes", "--digest", "123"]);
    world.run(&["inbox", "answer", "0190a000-0000-7000-8000-00000000cafe", "yes"]);
    world.run(&["inbox", "answer", "zz", "yes"]);
    world.run(&["inbox", "answer", "00000000", "yes"]);
    world.run(&["inbox", "answer", &question, "edit", "--args", "[1]"]);
    world.run(&["inbox", "answer", &question, "maybe"]);
    assert!(!world.workspace().join("notes.txt").exists());
    let short: String = digest.chars().take(12).collect();
    world.run(&["inbox", "answer", &question, "yes", "--digest", &short]);
    assert_eq!(world.file("notes.txt"), "first\n");
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn an_agent_cannot_answer_itself() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "append_line", "--agent", "ann", "--ask", "inbox", "--args", NOTE]);
    world.run(&["inbox", "answer", &world.question(), "yes"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_leave_is_given_listed_used_up_and_revoked() {
    let mut world = CliTestWorld::new();
    ask(&mut world, NOTE);
    let question = world.question();
    for scope in ["notes.txt", "write:notes/**", "eat:/w", "write:/["] {
        world.run(&["inbox", "answer", &question, "standing-approval", "--pattern", scope]);
    }
    world.run(&[
        "inbox",
        "answer",
        &question,
        "standing-approval",
        "--pattern",
        "write:/w/**",
        "--for",
        "soon",
    ]);
    let scope = format!("write:{}/*.txt", world.workspace().to_str().unwrap());
    world.run(&[
        "inbox",
        "answer",
        &question,
        "standing-approval",
        "--pattern",
        &scope,
        "--for",
        "150m",
        "--uses",
        "1",
    ]);
    world.run(&["policy", "approvals"]);
    let call = ["call", "append_line", "--args", NOTE];
    world.run(&call);
    world.note("used up");
    world.run(&call);
    world.run(&["policy", "approvals", "--json"]);
    ask(&mut world, NOTE);
    world.run(&["inbox", "answer", &world.question(), "standing-approval", "--pattern", &scope]);
    let leave =
        world.json(&["policy", "approvals", "--json"])[0]["standing_approval"].as_str().unwrap().to_owned();
    world.run(&["policy", "approvals", "revoke", &end(&leave)]);
    world.run(&["policy", "approvals", "revoke", "00000000"]);
    world.run(&call);
    world.run(&["policy", "approvals"]);
    assert_eq!(world.file("notes.txt"), "first\nfirst\nfirst\n");
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_call_behind_another_is_resumed_after_it() {
    let mut world = CliTestWorld::new();
    ask(&mut world, NOTE);
    ask(&mut world, r#"{"path":"notes.txt","line":"second"}"#);
    world.run(&["resume"]);
    world.run(&["inbox", "answer", &world.question(), "yes"]);
    world.note("the second one may ask now");
    world.run(&["resume"]);
    world.run(&["resume"]);
    world.run(&["inbox", "answer", &world.question(), "yes"]);
    assert_eq!(world.file("notes.txt"), "first\nsecond\n");
    insta::assert_snapshot!(world.transcript());
}

/// The directory from which a call is resumed must not change the policy's verdict.
#[test]
fn an_answer_may_be_given_from_anywhere() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "echo", "--mode", "confirm-all", "--ask", "inbox", "--args", r#"{"text":"hi"}"#]);
    ask(&mut world, NOTE);
    for question in world.json(&["inbox", "--json"]).as_array().unwrap() {
        let mut command = world.command(std::path::Path::new(env!("CARGO_BIN_EXE_byleave")));
        let question = question["question"].as_str().unwrap();
        let ended = command.current_dir("/").args(["inbox", "answer", question, "yes"]).output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    }
    assert_eq!(world.file("notes.txt"), "first\n");
}

#[test]
fn the_inbox_as_json() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "append_line", "--ask", "inbox", "--args", NOTE, "--json"]);
    world.run(&["inbox", "list", "--json"]);
    let question = world.question();
    world.run(&["inbox", "show", &question, "--json"]);
    world.run(&["call", "append_line", "--ask", "inbox", "--args", NOTE, "--json"]);
    world.run(&["inbox", "answer", &question, "yes", "--json"]);
    world.run(&["resume", "--json"]);
    insta::assert_snapshot!(world.transcript());
}
