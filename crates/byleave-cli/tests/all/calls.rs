//! `byleave call` and `byleave halt`: which calls run, which do not, and the messages for both.

use crate::world::CliTestWorld;

const HELLO: &str = r#"{"text":"hello"}"#;
const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

// req: R10, E1
#[test]
fn a_harmless_call_simply_runs() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "echo", "--args", HELLO]);
    world.run_with(&["call", "echo", "--args", "-"], r#"{"text":"from standard input"}"#);
    std::fs::write(world.workspace().join("args.json"), r#"{"text":"from a file"}"#).unwrap();
    world.run(&["call", "echo", "--args", "@args.json"]);
    world.run(&["call", "tool_search", "--args", r#"{"query":"append","limit":1}"#]);
    world.run(&["call", "echo", "--args", HELLO, "--json"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn what_a_tool_puts_out_cannot_act_on_the_terminal() {
    let mut world = CliTestWorld::new();
    let nasty = r#"{"text":"\u001b[2Jgone\r\u202eevil\u009b31m\ttab\nsecond line"}"#;
    let shown = world.run(&["call", "echo", "--args", nasty]);
    assert!(!shown.stdout.contains(&0x1b));
    let exact = world.run(&["call", "echo", "--args", nasty, "--json"]);
    let exact: serde_json::Value = serde_json::from_slice(&exact.stdout).unwrap();
    assert_eq!(exact["output"], "\u{1b}[2Jgone\r\u{202e}evil\u{9b}31m\ttab\nsecond line");
    insta::assert_snapshot!(world.transcript());
}

// req: R7
#[test]
fn nobody_there_is_refused_and_told_what_to_do() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "append_line", "--args", NOTE]);
    world.run(&["call", "append_line", "--args", NOTE, "--json"]);
    world.run(&["call", "append_line", "--args", NOTE, "--ask", "terminal"]);
    assert!(!world.workspace().join("notes.txt").exists());
    insta::assert_snapshot!(world.transcript());
}

// req: P2, P4, P7
#[test]
fn no_mode_overrules_a_deny() {
    let mut world = CliTestWorld::new();
    for path in [".env", "../state/audit.sqlite", "deploy.pem"] {
        let args = format!(r#"{{"path":"{path}","line":"x"}}"#);
        world.run(&["call", "append_line", "--mode", "yolo", "--args", &args]);
        assert!(!world.workspace().join(path).exists() || path.starts_with(".."));
    }
    world.run(&["call", "append_line", "--mode", "yolo", "--args", NOTE]);
    world.run(&["call", "echo", "--mode", "confirm-all", "--args", HELLO]);
    assert_eq!(world.file("notes.txt"), "first\n");
    insta::assert_snapshot!(world.transcript());
}

// req: E5
#[test]
fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "append_line", "--dry-run", "--args", NOTE]);
    world.run(&["call", "append_line", "--dry-run", "--args", NOTE, "--json"]);
    let forged = r#"{"path":"a\n[DRY-RUN] would do nothing","line":"x"}"#;
    world.run(&["call", "append_line", "--dry-run", "--args", forged]);
    assert!(!world.workspace().join("notes.txt").exists());
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn the_same_id_is_the_same_call() {
    let mut world = CliTestWorld::new();
    let id = "0190a000-0000-7000-8000-00000000cafe";
    let call = ["call", "append_line", "--mode", "yolo", "--id", id, "--args"];
    world.run(&[&call[..], &[NOTE]].concat());
    world.run(&[&call[..], &[NOTE]].concat());
    world.run(&[&call[..], &[r#"{"path":"notes.txt","line":"other"}"#]].concat());
    assert_eq!(world.file("notes.txt"), "first\n");
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_tool_that_fails_says_why() {
    let mut world = CliTestWorld::new();
    std::fs::create_dir(world.workspace().join("folder")).unwrap();
    let pipe = world.workspace().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for path in ["folder", "pipe", "nowhere/notes.txt"] {
        let args = format!(r#"{{"path":"{path}","line":"x"}}"#);
        world.run(&["call", "append_line", "--mode", "yolo", "--args", &args]);
    }
    insta::assert_snapshot!(world.transcript());
}

// The suggestions include `chat`, so the feature `agent` must be on.
#[cfg(feature = "agent")]
#[test]
fn wrong_usage_is_said_with_what_to_do() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "ecko", "--args", HELLO]);
    world.run(&["call", "echo", "--args", r#"{"txt":"hello"}"#]);
    world.run(&["call", "append_line", "--mode", "yolo", "--args", r#"{"path":"a","line":"two\nlines"}"#]);
    world.run(&["call", "echo", "--args", "{text:hello}"]);
    world.run(&["call", "echo", "--args", "@nowhere.json"]);
    world.run(&["call", "echo", "--mode", "all"]);
    world.run(&["call", "echo", "--session", "a b"]);
    world.run(&["call", "echo", "--timeout-ms", "0"]);
    world.run(&["cal"]);
    world.run(&["call", "echo", "--\u{1b}[31mred"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_halt_refuses_everything_until_it_is_lifted() {
    let mut world = CliTestWorld::new();
    world.run(&["halt", "--reason", "the agent went wild"]);
    world.run(&["call", "echo", "--args", HELLO]);
    world.run(&["call", "append_line", "--mode", "yolo", "--args", NOTE]);
    world.run(&["halt", "--lift", "--json"]);
    world.run(&["call", "echo", "--args", HELLO]);
    world.run(&["halt", "--lift", "--reason", "x"]);
    assert!(!world.workspace().join("notes.txt").exists());
    insta::assert_snapshot!(world.transcript());
}

#[cfg(all(feature = "serve", feature = "fleet", feature = "agent"))]
#[test]
fn help_names_every_command_and_exit_code() {
    let mut world = CliTestWorld::new();
    world.run(&["--help"]);
    world.run(&["call", "--help"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let world = CliTestWorld::new();
    let mut command = world.command(std::path::Path::new(env!("CARGO_BIN_EXE_byleave")));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let args = r#"{"path":"notes.txt","line":"x"}"#;
    command.args(["call", "append_line", "--mode", "yolo", "--args", args]);
    let ended = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_eq!(world.file("notes.txt"), "x\n");
}

#[test]
fn colour_and_talk_are_as_wished() {
    let mut world = CliTestWorld::new();
    let red = "\u{1b}[1;31mrefused:";
    let said = |words: &[&str], world: &mut CliTestWorld| String::from_utf8(world.run(words).stderr).unwrap();
    assert!(said(&["call", "ecko", "--color", "always"], &mut world).contains(red));
    assert!(!said(&["call", "ecko"], &mut world).contains('\u{1b}'), "not a terminal");
    let talk = said(&["-v", "call", "echo", "--args", HELLO], &mut world);
    assert!(talk.contains("call settled") && !talk.contains('\u{1b}'), "{talk}");
}

#[test]
fn the_book_is_where_the_environment_says() {
    let world = CliTestWorld::new();
    let home = world.workspace().parent().unwrap().to_path_buf();
    let try_with = |set: &[(&str, &str)], expected: &str| {
        let mut command = world.command(std::path::Path::new(env!("CARGO_BIN_EXE_byleave")));
        command.env_remove("BYLEAVE_STATE").args(["call", "echo", "--args", HELLO]);
        for (name, value) in set {
            command.env(name, home.join(value));
        }
        assert!(command.output().unwrap().status.success());
        assert!(home.join(expected).join("audit.sqlite").exists(), "{expected}");
    };
    try_with(&[("HOME", "h")], "h/.local/state/byleave");
    try_with(&[("HOME", "h"), ("XDG_STATE_HOME", "x")], "x/byleave");
    try_with(&[("HOME", "h"), ("XDG_STATE_HOME", "x"), ("BYLEAVE_STATE", "b")], "b");
}
