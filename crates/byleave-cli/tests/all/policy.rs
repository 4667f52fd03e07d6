//! `byleave policy`, and the effect of policy files on calls.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
}

const MINE: &str = r#"
[[rule]]
id = "notes"
verdict = "allow"
write = "notes.txt"
reason = "my notes are mine"
matches = "notes.txt"
not_matches = "other.txt"

[[rule]]
verdict = "ask"
run = "git commit"
matches = "git commit -m x"
"#;

// req: P8
#[test]
fn the_files_of_everyone_are_in_force() {
    let mut world = CliTestWorld::new();
    let mine = world.workspace().parent().unwrap().join(".config/byleave/policy.toml");
    world.run(&["call", "append_line", "--args", NOTE]);
    put(&mine, MINE);
    world.run(&["call", "append_line", "--args", NOTE]);
    world.note("a project tightens");
    let project = world.workspace().join(".byleave/policy.toml");
    put(&project, "[[rule]]\nid = \"frozen\"\nverdict = \"deny\"\nwrite = \"*.txt\"\nreason = \"frozen\"\n");
    world.run(&["call", "append_line", "--mode", "yolo", "--args", NOTE]);
    world.run(&["policy", "test"]);
    world.run(&["policy", "test", "--json"]);
    let shown = world.json(&["policy", "show", "--json"]);
    let ours = shown["rules"].as_array().unwrap().iter().filter(|rule| rule["layer"] != "builtin");
    let ours: Vec<&str> = ours.map(|rule| rule["origin"].as_str().unwrap()).collect();
    assert_eq!(ours.len(), 3, "{ours:?}");
    world.note("and never loosens, nor can an agent write it");
    put(&project, "[[rule]]\nverdict = \"allow\"\nwrite = \"**\"\n");
    world.run(&["call", "append_line", "--args", NOTE]);
    fs::remove_file(&project).unwrap();
    let rewrite = r#"{"path":".byleave/policy.toml","line":"x"}"#;
    world.run(&["call", "append_line", "--mode", "yolo", "--args", rewrite]);
    assert_eq!(world.file("notes.txt"), "first\n");
    insta::assert_snapshot!(world.transcript());
}

// req: P8
#[test]
fn a_bad_file_stops_everything() {
    let mut world = CliTestWorld::new();
    let mine = world.workspace().parent().unwrap().join(".config/byleave/policy.toml");
    let call = ["call", "echo", "--args", r#"{"text":"hello"}"#];
    put(
        &mine,
        "[[rule]]\nid = \"a\"\nverdict = \"alow\"\nread = [\"/a/../b\", \"/ok\"]\ncolour = \"\u{1b}[2Jred\"\n",
    );
    world.run(&call);
    let file = mine.to_str().unwrap();
    let several =
        "[[rule]]\nid = \"a\"\nverdict = \"alow\"\nread = [\"/a/../b\", \"/ok\"]\ncolour = \"red\"\n";
    put(&mine, several);
    world.run(&call);
    world.run(&["policy", "check", file, "--json"]);
    put(&mine, "[[rule]\n");
    world.run(&call);
    put(&mine, MINE);
    world.run(&["policy", "check", file]);
    fs::set_permissions(&mine, Permissions::from_mode(0o666)).unwrap();
    world.run(&call);
    fs::set_permissions(&mine, Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(mine.parent().unwrap(), Permissions::from_mode(0o777)).unwrap();
    world.run(&call);
    fs::remove_file(&mine).unwrap();
    fs::create_dir(&mine).unwrap();
    world.run(&call);
    fs::remove_dir(&mine).unwrap();
    world.run(&["policy", "check", "nowhere.toml"]);
    world.run(&["--policy", "nowhere.toml", "call", "echo"]);
    let project = world.workspace().join(".byleave");
    fs::create_dir(&project).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", project.join("policy.toml")).unwrap();
    world.run(&call);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn the_rules_in_force_are_shown() {
    let mut world = CliTestWorld::new();
    world.run(&["policy"]);
    let printed = world.run(&["policy", "builtin"]);
    assert!(String::from_utf8(printed.stdout).unwrap().contains("id = \"secrets-env\""));
    let shown = world.transcript();
    insta::assert_snapshot!(shown.split("$ byleave policy builtin").next().unwrap());
}

// req: P8
#[test]
fn what_a_person_types_teaches_no_rule() {
    let mut world = CliTestWorld::new();
    for _ in 0..3 {
        world.run(&["call", "append_line", "--mode", "yolo", "--args", NOTE]);
        world.run(&["undo"]);
    }
    let suggested = world.json(&["policy", "suggest", "--json"]);
    assert_eq!(suggested["suggestions"], serde_json::json!([]), "{suggested}");
}
