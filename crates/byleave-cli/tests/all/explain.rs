//! `byleave explain`: what a call would do, and what decides.

use std::fs;

use crate::world::World;

// req: P3, P4
#[test]
fn a_command_is_explained_without_being_run() {
    let mut world = World::new();
    fs::create_dir(world.workspace().join("src")).unwrap();
    fs::write(world.workspace().join("src/a.rs"), "x\n").unwrap();
    world.run(&["explain", "--command", "cat src/a.rs; cat .env > out"]);
    world.run(&["explain", "--command", "$tool --now"]);
    world.run(&["explain", "--command", "$tool --now", "--json"]);
    world.run(&["explain", "append_line", "--args", r#"{"path":"notes.txt","line":"x"}"#]);
    world.run(&["explain"]);
    assert!(!world.workspace().join("out").exists(), "it was run");
    insta::assert_snapshot!(world.transcript());
}
