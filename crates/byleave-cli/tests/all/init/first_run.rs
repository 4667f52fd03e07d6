//! `byleave init` without an agent: at a terminal, with `--yes`, and taken back.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::InitFixture;
use crate::window::TestWindow;

/// Some agents that are used here, one of them with a server that downloads its program.
fn fixture(service_manager: &str) -> InitFixture {
    let server = r#"{"mcpServers": {"github": {"command": "npx", "args": ["-y", "server-github@1.2.3"]}}}"#;
    let home = InitFixture::of(&[(".claude.json", server), (".gemini/settings.json", "{\n  // mine\n}\n")]);
    home.script("systemctl", &format!("#!/bin/sh\necho \"$@\" >> \"$0.log\"\n{service_manager}\n"));
    home
}

fn service_log(home: &InitFixture) -> String {
    fs::read_to_string(home.program.with_file_name("systemctl.log")).unwrap_or_default()
}

// req: M1
#[test]
fn the_first_run_sets_up_every_agent_that_is_here_and_undo_takes_all_of_it_back() {
    let home = fixture("exit 0");
    let before = home.files();
    let told = home.done(&["init", "--yes"]);
    for said in [
        "found claude-code",
        "found codex",
        "found gemini",
        "profile everyday",
        "1 MCP server behind the gateway",
        "reach = [\"registry.npmjs.org\"]",
        "3 hooks trusted",
        "service byleave-hook",
        "ok  claude-code",
        "ok  codex",
        "ok  gemini",
        "byleave inbox",
        "byleave init --undo",
    ] {
        assert!(told.contains(said), "`{said}` is not in {told}");
    }
    assert!(!told.contains("cursor") && !told.contains("goose"), "{told}");
    assert_eq!(home.read(".config/byleave/policy.toml"), "profile = \"everyday\"\n");
    let unit = home.read(".config/systemd/user/byleave-hook.service");
    assert!(unit.contains(&format!("ExecStart=\"{}\" --state", home.program.display())), "{unit}");
    assert!(service_log(&home).contains("--user enable --now byleave-hook.service"));

    let set_up = home.files();
    let again = home.done(&["init", "--yes"]);
    assert!(
        again.contains("nothing to change") && again.contains("profile everyday    was chosen before"),
        "{again}"
    );
    assert_eq!(home.files(), set_up);

    // A dry run changes nothing. Another state directory is no reason not to find what was set up.
    home.done(&["init", "--undo", "--dry-run"]);
    assert_eq!(home.files(), set_up);
    let elsewhere = home.path("bin/elsewhere");
    let undo = home.command().args(["init", "--undo"]).env("BYLEAVE_STATE", &elsewhere).output().unwrap();
    assert!(undo.status.success(), "{undo:?}");
    assert_eq!(home.files(), before);
    assert!(service_log(&home).contains("--user disable --now byleave-hook.service"));
    assert!(home.done(&["init", "--undo"]).contains("nothing was set up"));
}

// req: M1
#[test]
fn a_setup_in_another_state_directory_is_found_only_as_it_was_written() {
    let home = fixture("exit 1");
    let before = home.files();
    let state = home.path("bin/first");
    let run = |words: &[&str], state: &std::path::Path| {
        home.command().args(words).env("BYLEAVE_STATE", state).output().unwrap()
    };
    assert!(run(&["init", "gemini"], &state).status.success());
    let journal = state.join("agents/gemini/setup.json");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace("settings.json", "other.json")).unwrap();
    let told = run(&["init", "--undo"], &home.path("bin/second"));
    assert!(String::from_utf8(told.stdout).unwrap().contains("nothing was set up"));
    fs::write(&journal, text).unwrap();
    let found = run(&["doctor", "--json"], &home.path("bin/second"));
    assert!(String::from_utf8(found.stdout).unwrap().contains("\"gemini\""));
    assert!(run(&["init", "--undo", "gemini"], &home.path("bin/second")).status.success());
    assert_eq!(home.files(), before);
}

// req: M1
#[test]
fn what_cannot_be_set_up_is_said_and_stops_nothing_else() {
    let home = fixture("exit 1");
    home.write(".cursor/mcp.json", "{\"mcpServers\": ");
    let told = home.told(&["init", "--yes", "--profile", "strict"]);
    assert!(told.ends_with("[1]\n\n"), "{told}");
    assert!(told.contains("cursor is not set up") && told.contains("cannot be parsed"), "{told}");
    assert!(told.contains("ok  gemini") && told.contains("ok  claude-code"), "{told}");
    assert!(told.contains("`byleave hook serve` in a terminal"), "{told}");
    assert!(!home.path(".config/systemd").exists() && !service_log(&home).contains("enable"));
    assert_eq!(home.read(".config/byleave/policy.toml"), "profile = \"strict\"\n");
    // The person's own rules stay as they are now.
    home.write(".config/byleave/policy.toml", "profile = \"careful\"\n");
    let told = home.done(&["init", "--undo"]);
    assert!(told.contains("was changed after setup, so it stays"), "{told}");
    assert_eq!(home.read(".config/byleave/policy.toml"), "profile = \"careful\"\n");
    // Nobody is asked where nobody is.
    let told = home.done(&["init"]);
    assert!(told.contains("AGENT") && told.contains("byleave init --yes"), "{told}");
    let json: Value = home.json(&["init", "--yes", "--json"]);
    assert_eq!(json["service"], false, "{json:#}");
}

// req: M1
#[test]
fn at_a_terminal_one_question_decides_and_q_changes_nothing() {
    for (keys, profile) in
        [(&["q\r"][..], None), (&["what\r", "2\r"], Some("careful")), (&["\r"], Some("everyday"))]
    {
        let home = fixture("exit 1");
        let before = home.files();
        let (mut window, end) = TestWindow::open(120, 50);
        let mut command = home.command();
        command.arg("init").stdin(Stdio::from(end.try_clone().unwrap()));
        command.stdout(Stdio::from(end.try_clone().unwrap())).stderr(Stdio::from(end));
        let mut child = command.spawn().unwrap();
        drop(command);
        for (number, key) in keys.iter().enumerate() {
            window.await_times("Your choice [1]:", number + 1);
            window.press(key);
        }
        let status = child.wait().unwrap();
        assert!(status.success());
        match profile {
            None => assert_eq!(home.files(), before),
            Some(profile) => {
                assert_eq!(home.read(".config/byleave/policy.toml"), format!("profile = \"{profile}\"\n"));
            }
        }
    }
}
