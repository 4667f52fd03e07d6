//! Standing approvals for commands that change something below a directory, with real files and several sessions.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::world::CliTestWorld;

const SHOWN: &str = "find . -name '*.o' -delete";

fn bash(world: &CliTestWorld, session: &str, command: &str) -> Output {
    let args = json!({ "command": command }).to_string();
    world.quietly(&["call", "bash", "--session", session, "--ask", "inbox", "--args", &args], "")
}

fn is_asked(world: &CliTestWorld) -> bool {
    world.json(&["inbox", "--json"]) != json!([])
}

fn fill(world: &CliTestWorld) {
    for name in ["main.c", "main.o", "other.o"] {
        fs::write(world.workspace().join(name), "text").unwrap();
    }
}

fn prepared() -> CliTestWorld {
    let world = CliTestWorld::bare().of_another_user();
    fill(&world);
    world
}

fn answer(world: &CliTestWorld, words: &[&str]) {
    let question = world.question();
    world.quietly(&[&["inbox", "answer", &question], words].concat(), "");
    assert!(!is_asked(world), "it was answered");
}

// req: R5
#[test]
fn an_approval_of_one_find_is_not_one_for_another() {
    let world = prepared();
    bash(&world, "first", SHOWN);
    let offers = world.json(&["inbox", "answer", &world.question(), "standing-approval", "--json"]);
    let many = offers["scopes"].as_array().unwrap_or_else(|| panic!("{offers:#}")).len();
    for number in 1..=many {
        let world = prepared();
        bash(&world, "first", SHOWN);
        // Each of these calls has a session of its own.
        answer(&world, &["standing-approval", "--scope", &number.to_string(), "--every-session"]);
        let left = || world.workspace().join("main.c").exists();
        assert!(left() && !world.workspace().join("main.o").exists());
        fill(&world);
        let told = bash(&world, "second", SHOWN);
        assert!(told.status.success() && !is_asked(&world), "the same again: {told:?}");
        assert!(left() && !world.workspace().join("main.o").exists());
        for other in [
            "find . -mindepth 1 -delete",
            "find . -delete",
            "find . -name '*' -delete",
            "find . -name '*.o' -o -delete",
            "find . -type f -exec rm {} +",
            "cd .. && find w -name '*.o' -delete",
        ] {
            bash(&world, "third", other);
            assert!(is_asked(&world) && left(), "{other}: {offers:#}");
            answer(&world, &["no"]);
        }
    }
}

// req: P8
#[test]
fn no_rule_is_suggested_for_something_beneath_a_directory() {
    let world = prepared();
    let suggested = || world.json(&["policy", "suggest", "--json"])["suggestions"].clone();
    for session in ["a", "b", "c"] {
        fill(&world);
        bash(&world, session, SHOWN);
        answer(&world, &["yes"]);
        assert!(!world.workspace().join("main.o").exists());
    }
    assert_eq!(suggested(), json!([]));
    // An approved command is suggested word for word, not by its first words.
    for session in ["a", "b"] {
        bash(&world, session, "touch made");
        answer(&world, &["yes"]);
    }
    let suggestions = suggested();
    let about = suggestions[0]["about"].as_array().unwrap_or_else(|| panic!("{suggestions:#}"));
    let runs: Vec<&Value> = about.iter().filter(|one| one.get("run").is_some()).collect();
    assert!(runs.is_empty() && about.iter().any(|one| one.get("run-exact").is_some()), "{suggestions:#}");
}
