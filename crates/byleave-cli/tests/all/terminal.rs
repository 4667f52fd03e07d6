//! Questions at a real terminal, drawn in place.

use crate::sitting::Sitting;
use crate::world::World;

fn asks(world: &World) -> Sitting {
    let args = r#"{"path":"notes.txt","line":"first"}"#;
    Sitting::new(world, &["call", "append_line", "--args", args, "--reason", "because"])
}

/// The screen with names for whatever is different each time.
fn shown(world: &World, sitting: &Sitting) -> String {
    world.named(&sitting.screen())
}

// req: R5
#[test]
fn yes_runs_it() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    insta::assert_snapshot!("question", shown(&world, &sitting));
    sitting.choose("y", "yes");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("appended 6 bytes"), "{seen}");
    assert_eq!(world.file("notes.txt"), "first\n");
    let lines = world.json(&["book", "show", &world.call(), "--json"])["lines"].to_string();
    assert!(lines.contains(r#""by":{"grade":"terminal","name":"ann"}"#), "{lines}");
}

// req: R5
#[test]
fn no_tells_the_model_what_to_do_instead() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.choose("n", "no");
    sitting.await_shown("What should be done instead?");
    sitting.press("use the journal");
    sitting.await_shown("use the journal");
    insta::assert_snapshot!("no", shown(&world, &sitting));
    sitting.press("\r");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains("refused:") && seen.contains("(declined)"), "{seen}");
    assert!(seen.contains("use the journal"), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: R5
#[test]
fn an_edit_is_what_runs() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.choose("e", "edit");
    sitting.await_shown("Ctrl-D");
    // One character is fixed in place.
    sitting.press("\u{1b}[B\u{1b}[F\u{1b}[D\u{1b}[D\u{7f}T");
    sitting.await_shown("firsT");
    insta::assert_snapshot!("edit", shown(&world, &sitting));
    sitting.press("\u{4}");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(world.file("notes.txt"), "firsT\n");
}

// req: R5
#[test]
fn abort_exits_with_130() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.choose("a", "abort");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: E2
#[test]
fn ctrl_c_calls_it_off() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.await_ready();
    sitting.press("\u{3}");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("(cancelled)"), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
    assert_eq!(world.json(&["book", "--json"])[0]["outcome"], "refused");
    assert_eq!(world.json(&["inbox", "--json"]).as_array().unwrap().len(), 0);
}
