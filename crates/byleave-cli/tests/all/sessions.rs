//! Sub-agents: `byleave session`, `byleave call --parent`, and the agent that a question comes from.

use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

#[test]
fn a_sub_agent_stands_beneath_its_parent_and_says_so() {
    let mut world = CliTestWorld::new();
    let child =
        ["call", "append_line", "--session", "t", "--agent", "tester", "--parent", "main", "--mode", "yolo"];
    let ask = ["--ask", "inbox", "--args", NOTE];
    world.run(&[&child[..], &ask].concat());
    world.run(&["session", "open", "main", "--deny", "write:**/secret.txt"]);
    world.run(&[&child[..], &ask].concat());
    world.run(&["session", "show", "t"]);
    world.run(&["inbox"]);
    world.run(&["inbox", "show", &world.question()]);
    world.run(&["inbox", "answer", &world.question(), "yes"]);
    assert_eq!(world.file("notes.txt"), "first\n");
    world.note("what the parent may not do, nobody beneath it does");
    world.run(&[&child[..], &["--args", r#"{"path":"secret.txt","line":"x"}"#]].concat());
    assert!(!world.workspace().join("secret.txt").exists());
    world.note("a place never changes, and leaving the parent out changes nothing");
    world.run(&["session", "open", "t"]);
    world.run(&["session", "open", "other"]);
    world.run(&[
        "call",
        "append_line",
        "--session",
        "t",
        "--parent",
        "other",
        "--mode",
        "yolo",
        "--args",
        NOTE,
    ]);
    world.run(&["call", "append_line", "--session", "t", "--mode", "yolo", "--args", NOTE]);
    assert_eq!(world.file("notes.txt"), "first\n");
    world.run(&["log"]);
    insta::assert_snapshot!(world.transcript());
}

// req: P2
#[test]
fn read_only_changes_nothing() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "append_line", "--mode", "read-only", "--args", NOTE]);
    world.run(&["call", "echo", "--mode", "read-only", "--args", r#"{"text":"hello"}"#]);
    assert!(!world.workspace().join("notes.txt").exists());
    insta::assert_snapshot!(world.transcript());
}

// req: P2
#[test]
fn the_same_rules_say_the_same_of_a_sub_agents_past_call() {
    let mut world = CliTestWorld::new();
    world.run(&["session", "open", "main", "--deny", "write:**/secret.txt"]);
    let secret = r#"{"path":"secret.txt","line":"x"}"#;
    let child = ["call", "append_line", "--session", "t", "--agent", "tester", "--parent", "main"];
    world.run(&[&child[..], &["--mode", "yolo", "--args", secret]].concat());
    let same = world.workspace().join("same.toml");
    std::fs::write(&same, "").unwrap();
    let replayed = world.json(&["policy", "replay", same.to_str().unwrap(), "--json"]);
    assert_eq!((&replayed["evaluated"], &replayed["same"]), (&1.into(), &1.into()), "{replayed}");
}
