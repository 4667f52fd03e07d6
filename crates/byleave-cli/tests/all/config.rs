//! `byleave config`: the settings, the origin of each, and a file with errors.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sitting::TerminalSession;
use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

/// The user's own file.
fn own(world: &CliTestWorld) -> PathBuf {
    let dir = world.workspace().parent().unwrap().join(".config/byleave");
    fs::create_dir_all(&dir).unwrap();
    dir.join("config.toml")
}

/// Writes the project's file.
fn project(world: &CliTestWorld, text: &str) {
    let dir = world.workspace().join(".byleave");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
}

fn origin<'a>(told: &'a Value, name: &str) -> (&'a Value, &'a str) {
    let settings = told["settings"].as_array().unwrap();
    let held = settings.iter().find(|held| held["name"] == name).unwrap();
    (&held["value"], held["origin"]["kind"].as_str().unwrap())
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let mut world = CliTestWorld::new();
    fs::write(own(&world), "# mine\nmode = \"confirm-dangerous\"\nquestion_expiry = \"2d\"\n").unwrap();
    project(&world, "mode = \"confirm-all\"\nquestions_per_minute = 10\n");
    // Uses a short value, because the column widths must not depend on the length of a temporary path.
    world.run(&["config", "--color", "never", "--state", "s"]);
    world.run(&["config", "path"]);
    world.run(&["config", "path", "--json"]);
    let told = world.json(&["config", "show", "--json", "--state", "elsewhere"]);
    assert_eq!(origin(&told, "state").1, "flag");
    assert_eq!(origin(&told, "mode").1, "project");
    assert_eq!(origin(&told, "question_expiry"), (&Value::from(2 * 86_400_000), "user"));
    let state = world.json(&["config", "show", "--json"]);
    assert_eq!(origin(&state, "state").1, "variable");
    let told = world
        .command(Path::new(env!("CARGO_BIN_EXE_byleave")))
        .args(["config", "--json"])
        .env("BYLEAVE_WAIVE", "network-confined secrets-hidden")
        .env("BYLEAVE_ALLOW_DELETE", "1")
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"));
    assert_eq!(origin(&told, "waive").1, "variable");
    assert_eq!(origin(&told, "allow_delete"), (&Value::from(true), "variable"));
    insta::assert_snapshot!(world.transcript());
}

// req: P2, P8
#[test]
fn a_project_tightens_what_calls_are_asked_and_cannot_loosen_it() {
    let mut world = CliTestWorld::new();
    project(&world, "mode = \"confirm-all\"\n");
    // Even a flag cannot loosen the project's setting.
    world.run(&["call", "append_line", "--mode", "yolo", "--args", NOTE]);
    assert!(!world.workspace().join("notes.txt").exists());
    project(&world, "# come on\nmode = \"yolo\"\nwaive = [\"network-confined\"]\n");
    world.run(&["call", "append_line", "--args", NOTE]);
    world.run(&["config"]);
    assert!(!world.workspace().join("notes.txt").exists());
    // Through a symbolic link the project could show any file of the user.
    let place = world.workspace().join(".byleave/config.toml");
    fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &place).unwrap();
    world.run(&["config"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_settings_file_that_is_not_right_stops_everything() {
    let mut world = CliTestWorld::new();
    let path = own(&world);
    fs::write(&path, "mdoe = \"yolo\"\ncall_timeout = \"1y\"\n").unwrap();
    for words in [&["tools"][..], &["log"], &["call", "echo"], &["config", "show"]] {
        let told = world.run(words);
        assert_eq!(told.status.code(), Some(2));
        assert!(told.stdout.is_empty());
    }
    // But the user can find and fix the file.
    assert_eq!(world.run(&["config", "path"]).status.code(), Some(0));
    fs::write(&path, "mode = \"confirm-all\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    world.run(&["config", "show"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    world.run(&["config", "show"]);
    insta::assert_snapshot!(world.transcript());
}

// req: R7
#[test]
fn settings_hold_for_calls() {
    let world = CliTestWorld::new();
    let call = ["call", "append_line", "--args", NOTE, "--json"];
    assert_eq!(world.quietly(&call, "").status.code(), Some(3));
    fs::write(own(&world), "ask = \"inbox\"\nquestion_expiry = \"90s\"\n").unwrap();
    assert_eq!(world.quietly(&call, "").status.code(), Some(4));
    let open = world.json(&["inbox", "--json"]);
    let lasts = open[0]["expires_at"].as_u64().unwrap() - open[0]["asked_at"].as_u64().unwrap();
    // The gate reads the clock twice: for the expiry, and a moment later for the entry.
    assert!((89_000..=90_000).contains(&lasts), "{lasts}");
    fs::write(own(&world), "unattended = \"allow-with-warning\"\n").unwrap();
    // A call in the same session would wait behind the open question, so this call uses another session.
    let told = world.quietly(&[&call[..], &["--session", "other"]].concat(), "");
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert_eq!(world.file("notes.txt"), "first\n");
    let record = world.json(&["log", "show", &world.call(), "--json"]).to_string();
    assert!(record.contains("unattended"), "{record}");
    project(&world, "unattended = \"refuse\"\n");
    let told = world.quietly(&[&call[..], &["--session", "third"]].concat(), "");
    assert_eq!(told.status.code(), Some(3), "{told:?}");
}

// req: R5
#[test]
fn a_question_that_waits_is_told_by_a_command() {
    let world = CliTestWorld::new();
    let pipe = world.workspace().join("told");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // The same command as in real use, except for its destination.
    fs::write(
        own(&world),
        "notify = \"command\"\nnotify_command = [\"sh\", \"-c\", \"echo \\\"$1\\\" > told\", \"sh\"]\n",
    )
    .unwrap();
    let told = world.quietly(&["call", "append_line", "--args", NOTE, "--ask", "inbox"], "");
    assert_eq!(told.status.code(), Some(4), "{told:?}");
    let said = fs::read_to_string(&pipe).unwrap();
    assert!(said.contains("waits for you: Call “append_line”"), "{said}");
    fs::write(own(&world), "notify = \"command\"\nnotify_command = [\"/nowhere/at/all\"]\n").unwrap();
    let told =
        world.quietly(&["call", "append_line", "--args", NOTE, "--ask", "inbox", "--session", "s"], "");
    assert_eq!(told.status.code(), Some(4), "a question waits although nobody could be told: {told:?}");
}

/// Runs `config edit` with an editor that runs this script and ends.
fn edited(world: &CliTestWorld, script: &str) -> (Option<i32>, String) {
    let editor = world.workspace().join("editor");
    fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = world.command(Path::new("setsid"));
    command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_byleave"), "config", "edit"]);
    command.env("EDITOR", &editor);
    TerminalSession::before(command).end()
}

#[test]
fn an_edited_file_is_taken_if_it_loads() {
    let world = CliTestWorld::new();
    let path = own(&world);
    let (code, seen) = edited(&world, r#"grep -q '^# mode = ' "$1" && echo 'mode = "confirm-all"' >>"$1""#);
    assert_eq!(code, Some(0), "{seen}");
    let first = fs::read_to_string(&path).unwrap();
    assert!(first.ends_with("mode = \"confirm-all\"\n") && first.contains("# call_timeout ="), "{first}");
    assert_eq!(origin(&world.json(&["config", "--json"]), "mode").1, "user");

    let (code, seen) = edited(&world, r#"echo 'colour = "never"' >>"$1""#);
    assert_eq!(code, Some(2), "{seen}");
    assert!(seen.contains("did you mean `color`?") && seen.contains("unchanged"), "{seen}");
    assert_eq!(fs::read_to_string(&path).unwrap(), first);
    // The rejected edit is not lost.
    let (code, seen) = edited(&world, r#"sed -i 's/^colour/color/' "$1""#);
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(origin(&world.json(&["config", "--json"]), "color").1, "user");
    // An editor that ends with an error changes nothing.
    let (code, seen) = edited(&world, r#"echo 'mode = "yolo"' >"$1"; exit 1"#);
    assert_eq!(code, Some(2), "{seen}");
    assert!(!fs::read_to_string(&path).unwrap().contains("mode = \"yolo\""));
    assert!(!path.with_extension("toml.edited").exists());
}

#[test]
fn the_page_on_settings_holds_the_defaults() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let defaults = fs::read_to_string(root.join("src/config/defaults.toml")).unwrap();
    let path = root.join("../../docs/guide/settings.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("```toml\n").unwrap();
    let (shown, after) = rest.split_once("```\n").unwrap();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        fs::write(&path, format!("{before}```toml\n{defaults}```\n{after}")).unwrap();
        return;
    }
    assert_eq!(shown, defaults, "run it with INSTA_UPDATE=always to write the page");
}
