//! `byleave` without a command, and words that need no `--`.

use std::fs;

use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

#[test]
fn without_a_command_the_status_is_shown_and_nothing_is_created() {
    let world = CliTestWorld::new();
    let said = world.quietly(&[], "");
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("questions    none open"), "{text}");
    assert!(text.contains("`byleave init`"), "{text}");
    assert!(text.contains("built-in rules; mode confirm-sensitive"), "{text}");
    assert!(!world.state().join("audit.sqlite").exists());
}

#[test]
fn the_status_names_what_waits_the_policy_and_the_last_change() {
    let world = CliTestWorld::new();
    fs::create_dir_all(world.workspace().join(".byleave")).unwrap();
    let rule = "[[rule]]\nid = \"x\"\nverdict = \"deny\"\nread = [\"/x\"]\n";
    fs::write(world.workspace().join(".byleave/policy.toml"), rule).unwrap();
    let wrote = r#"{"path":"written.txt","content":"x"}"#;
    world.quietly(&["call", "write_file", "--mode", "yolo", "--args", wrote], "");
    let changed = world.call();
    world.quietly(&["call", "append_line", "--args", NOTE, "--ask", "inbox", "--session", "b"], "");
    let status = world.json(&["--json"]);
    assert_eq!(status["questions"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["last_change"]["call"], changed, "{status}");
    assert_eq!(status["halted"], serde_json::Value::Null);
    let text = String::from_utf8(world.quietly(&[], "").stdout).unwrap();
    for part in
        ["1 open; `byleave inbox`", ".byleave/policy.toml; mode", "written.txt", "`byleave undo` reverts it"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    world.quietly(&["halt", "--reason", "lunch"], "");
    assert_eq!(world.json(&["--json"])["halted"], "lunch");
    // The undo that the status names takes the change back.
    world.quietly(&["halt", "--lift"], "");
    assert_eq!(world.quietly(&["undo"], "").status.code(), Some(0));
    assert!(!world.workspace().join("written.txt").exists());
}

#[test]
fn a_policy_that_does_not_load_is_named_in_the_status() {
    let world = CliTestWorld::new();
    fs::create_dir_all(world.workspace().join(".byleave")).unwrap();
    fs::write(world.workspace().join(".byleave/policy.toml"), "rule = 1\n").unwrap();
    let said = world.quietly(&[], "");
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("does not load, so calls are refused"), "{text}");
}

#[test]
fn options_after_the_first_word_of_a_command_belong_to_it() {
    let world = CliTestWorld::new();
    let explained = |words: &[&str]| String::from_utf8(world.quietly(words, "").stderr).unwrap();
    // `-n` and `--json` are options of the command here, not of the program.
    for words in [
        &["sandbox", "exec", "echo", "-n", "--json", "x"][..],
        &["sandbox", "exec", "--", "echo", "-n", "--json", "x"],
    ] {
        let said = world.quietly(words, "");
        let refused = said.status.code() == Some(125);
        assert!(refused || said.stdout == b"--json x", "{words:?}: {said:?}");
    }
    let said = explained(&["rehearse", "--nonsense", "true"]);
    assert!(said.contains("--nonsense"), "{said}");
    let added = world.json(&["--json", "mcp", "add", "one", "--env", "A=b", "true", "-y", "--env", "C=d"]);
    assert_eq!(added["server"], "one", "{added}");
    let shown = world.json(&["--json", "mcp", "show", "one"]);
    assert!(shown.to_string().contains(r#"["-y","--env","C=d"]"#), "{shown}");
}

#[test]
fn an_option_that_a_subcommand_would_ignore_is_rejected() {
    let world = CliTestWorld::new();
    world.quietly(&["call", "echo", "--args", r#"{"text":"x"}"#], "");
    let call = world.call();
    for words in [["log", "--tool", "echo", "show", &call], ["serve", "--tenant", "x", "token", "list"]] {
        let said = world.quietly(&words, "");
        let text = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{text}");
        assert!(text.contains("cannot be used with the subcommand"), "{text}");
    }
    // The options of every command are accepted in any place.
    assert_eq!(world.json(&["log", "--json", "show", &call])["call"], call);
    assert!(world.json(&["serve", "--json", "token", "list"]).is_array());
}

// req: E6
#[test]
fn the_status_names_the_profile_and_the_space_of_before_images() {
    let world = CliTestWorld::new();
    let text = |words: &[&str]| String::from_utf8(world.quietly(words, "").stdout).unwrap();
    assert!(text(&[]).contains("policy       profile careful; built-in rules"), "{}", text(&[]));
    assert_eq!(world.json(&["--json"])["store"], serde_json::Value::Null);
    assert_eq!(world.quietly(&["policy", "profile", "everyday"], "").status.code(), Some(0));
    assert!(text(&[]).contains("profile everyday; "), "{}", text(&[]));
    assert_eq!(world.json(&["--json"])["policy"]["profiles"], serde_json::json!(["everyday"]));
    fs::write(world.workspace().join("old.txt"), "x".repeat(100_000)).unwrap();
    let wrote = r#"{"path":"old.txt","content":"x"}"#;
    world.quietly(&["call", "write_file", "--mode", "yolo", "--args", wrote], "");
    let store = world.json(&["--json"])["store"].clone();
    assert!(store["calls"] == 1 && store["before_image_bytes"].as_u64().unwrap() >= 100_000, "{store}");
    assert!(text(&[]).contains("of before-images (1 call)"), "{}", text(&[]));
}

// req: E6
#[test]
fn garbage_collection_never_drops_recent_before_images_without_a_confirmation() {
    let world = CliTestWorld::new();
    let wrote = r#"{"path":"written.txt","content":"x"}"#;
    world.quietly(&["call", "write_file", "--mode", "yolo", "--args", wrote], "");
    for words in [&["gc"][..], &["gc", "--older-than", "1h"], &["gc", "--scratch"]] {
        assert_eq!(world.quietly(words, "").status.code(), Some(0), "{words:?}");
    }
    let trial = world.json(&["gc", "--all", "--dry-run", "--json"]);
    assert_eq!(
        (trial["dropped"].as_array().unwrap().len(), &trial["store"]["calls"]),
        (1, &1.into()),
        "{trial}"
    );
    for words in [&["gc", "--all"][..], &["gc", "--all", "--confirm", "2"]] {
        let refused = world.quietly(words, "");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains("--all --confirm 1"), "{words:?}: {said}");
    }
    assert_eq!(world.quietly(&["undo"], "").status.code(), Some(0), "nothing was dropped");
    // The undo is a change as well.
    let trial = world.json(&["gc", "--all", "--dry-run", "--json"]);
    let count = trial["dropped"].as_array().unwrap().len().to_string();
    let done = world.json(&["gc", "--all", "--confirm", &count, "--json"]);
    assert_eq!(done["store"]["calls"], 0, "{done}");
    assert_ne!(world.quietly(&["undo"], "").status.code(), Some(1));
}
