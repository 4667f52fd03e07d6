//! `byleave policy replay` and `byleave policy suggest`: the effect of other rules on past calls.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::world::CliTestWorld;

fn line(file: &str) -> String {
    format!(r#"{{"path":"{file}","line":"x"}}"#)
}

/// Makes a call that leads to a question, and answers it.
fn asked(world: &CliTestWorld, file: &str, answer: &[&str]) {
    world.quietly(&["call", "append_line", "--ask", "inbox", "--args", &line(file)], "");
    let question = world.question();
    world.quietly(&[&["inbox", "answer", &question], answer].concat(), "");
}

fn put(world: &CliTestWorld, name: &str, text: &str) {
    let path = world.workspace().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
}

const OWN: &str = "../.config/byleave/policy.toml";

const CAREFUL: &str = "[[rule]]\nid = \"careful\"\nverdict = \"ask\"\ndangerous = true\nwrite = \"danger.txt\"\nreason = \"careful\"\n\n[[rule]]\nid = \"look\"\nverdict = \"ask\"\nwrite = \"look.txt\"\n";

fn calls(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|one| one["call"].as_str().unwrap().to_owned()).collect()
}

// req: P4, P8
#[test]
fn what_was_always_approved_is_suggested_and_spares_just_those_questions() {
    let mut world = CliTestWorld::new();
    put(&world, OWN, CAREFUL);
    world.run(&["policy", "suggest"]);
    fs::create_dir(world.workspace().join("logs")).unwrap();
    let (yes, no) = (&["yes"][..], &["no"][..]);
    world.quietly(&["call", "append_line", "--ask", "none", "--args", &line("notes.txt")], "");
    for (file, answer) in [
        ("notes.txt", yes),
        ("notes.txt", yes),
        ("once.txt", yes),
        ("mixed.txt", yes),
        ("mixed.txt", yes),
        ("mixed.txt", no),
        ("logs/a", yes),
        ("logs/b", yes),
        ("logs/c", yes),
        ("danger.txt", yes),
        ("danger.txt", yes),
        ("look.txt", yes),
        ("look.txt", yes),
    ] {
        asked(&world, file, answer);
    }
    world.quietly(&["call", "echo", "--args", r#"{"text":"hello"}"#], "");
    let suggested = world.run(&["policy", "suggest"]);
    let rules = String::from_utf8(suggested.stdout).unwrap();
    put(&world, "more.toml", &format!("{CAREFUL}\n{rules}"));
    world.run(&["policy", "check", "more.toml"]);
    world.run(&["policy", "replay", "more.toml"]);
    insta::assert_snapshot!(world.transcript());

    let suggested = world.json(&["policy", "suggest", "--json"]);
    let replayed = world.json(&["policy", "replay", "more.toml", "--json"]);
    let suggestions = suggested["suggestions"].as_array().unwrap();
    let spared: BTreeSet<String> = suggestions
        .iter()
        .flat_map(|one| calls(&one["calls"]).into_iter().chain(calls(&one["nobody_was_asked"])))
        .collect();
    assert_eq!(calls(&replayed["changed"]), spared, "just those are spared");
    assert!(spared.len() >= 5, "{suggested:#}");
    for change in replayed["changed"].as_array().unwrap() {
        assert_eq!((&change["before"], &change["now"]), (&"ask".into(), &"allow".into()), "{change}");
        assert!(change["rule"].as_str().unwrap().starts_with("spare-"), "{change}");
    }
    for never in ["mixed", "danger", "look", "once"] {
        assert!(!rules.contains(&format!("{never}.txt")), "{never}: {rules}");
    }
}

// req: P4
#[test]
fn a_no_in_a_directory_keeps_the_directory_closed() {
    let world = CliTestWorld::new();
    fs::create_dir(world.workspace().join("logs")).unwrap();
    for file in ["logs/a", "logs/b", "logs/c"] {
        asked(&world, file, &["yes"]);
    }
    let suggest = || world.json(&["policy", "suggest", "--json"])["suggestions"].as_array().unwrap().len();
    assert_eq!(suggest(), 1);
    asked(&world, "logs/d", &["no"]);
    assert_eq!(suggest(), 0);
}

// req: P4
#[test]
fn another_policy_is_held_against_the_book() {
    let mut world = CliTestWorld::new();
    world.run(&["policy", "replay", "strict.toml"]);
    put(
        &world,
        "strict.toml",
        "[[rule]]\nid = \"frozen\"\nverdict = \"deny\"\nwrite = \"notes.txt\"\nreason = \"frozen\"\n",
    );
    world.run(&["policy", "replay", "strict.toml"]);
    asked(&world, "notes.txt", &["yes"]);
    asked(&world, "other.txt", &["yes"]);
    asked(&world, "gone.txt", &["yes"]);
    let gone = world.call();
    world.quietly(&["audit", "forget", &gone], "");
    world.quietly(&["call", "echo", "--args", r#"{"text":"hello"}"#], "");
    world.quietly(&["call", "nowhere"], "");
    world.run(&["policy", "replay", "strict.toml"]);
    world.run(&["policy", "replay", "strict.toml", "--json"]);
    put(&world, "strict.toml", "[[rule]]\nverdict = \"deni\"\nwrite = \"notes.txt\"\n");
    world.run(&["policy", "replay", "strict.toml"]);
    insta::assert_snapshot!(world.transcript());
}
