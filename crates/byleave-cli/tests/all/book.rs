//! Tests of the audit log: list, show, verify, erase and export.

use std::path::Path;

use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

fn peer(world: &CliTestWorld) -> rusqlite::Connection {
    rusqlite::Connection::open(world.state().join("audit.sqlite")).unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

// req: A1
#[test]
fn calls_are_listed_and_shown() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "append_line", "--mode", "yolo", "--args", NOTE]);
    let call = world.call();
    world.run(&["call", "ecko"]);
    world.run(&["call", "echo", "--session", "other", "--args", r#"{"text":"hi"}"#]);
    world.run(&["log"]);
    world.run(&["log", "--session", "other", "--json"]);
    world.run(&["log", "--outcome", "refused", "-n", "1"]);
    world.run(&["log", "--tool", "nothing"]);
    world.run(&["log", "show", &call, "--contents"]);
    world.run(&["log", "show", "00000000"]);
    world.run(&["log", "show", "0190a000-0000-7000-8000-00000000cafe"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn what_is_forgotten_is_gone_and_the_book_still_verifies() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "echo", "--args", r#"{"text":"a secret"}"#]);
    let call = world.call();
    world.run(&["audit", "forget", &call]);
    let shown = world.run(&["log", "show", &call, "--contents"]);
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("a secret"));
    world.run(&["audit", "verify"]);
    world.run(&["audit", "verify", "--json"]);
    world.run(&["call", "echo", "--id", &call, "--args", r#"{"text":"a secret"}"#]);
    world.run(&["audit", "forget", "0190a000-0000-7000-8000-00000000cafe"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_changed_line_is_named() {
    let mut world = CliTestWorld::new();
    for text in ["one", "two", "three"] {
        world.run(&["call", "echo", "--args", &format!(r#"{{"text":"{text}"}}"#)]);
    }
    world.run(&["audit", "verify"]);
    let second = world.json(&["log", "--json"])[1]["call"].as_str().unwrap().to_owned();
    let second: rusqlite::types::Value = hex(&second).into();
    let peer = peer(&world);
    let (at, mut body): (i64, Vec<u8>) = peer
        .query_row("SELECT pos, body FROM batch WHERE call = ?1 AND seq = 0", [&second], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    // Flips a bit in the middle of the first line, so that the byte stays text.
    *body.get_mut(40).unwrap() ^= 1;
    peer.execute("UPDATE batch SET body = ?2 WHERE pos = ?1", rusqlite::params![at, body]).unwrap();
    drop(peer);
    world.note("a bit of the second record is flipped");
    let bad = world.run(&["audit", "verify"]);
    assert_eq!(bad.status.code(), Some(1));
    world.run(&["audit", "verify", "--json"]);
    insta::assert_snapshot!(world.transcript());
}

fn hex(id: &str) -> Vec<u8> {
    let digits: Vec<u32> = id.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

#[test]
fn an_old_copy_shows_against_an_anchor_kept_elsewhere() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "echo", "--args", r#"{"text":"one"}"#]);
    let old = world.workspace().join("old");
    copy(&world.state(), &old);
    world.run(&["call", "echo", "--args", r#"{"text":"two"}"#]);
    let anchor = world.run(&["audit", "anchor"]);
    std::fs::write(world.workspace().join("anchor.json"), anchor.stdout).unwrap();
    world.run(&["audit", "verify", "--anchor", "anchor.json"]);
    for leftover in ["audit.sqlite-wal", "audit.sqlite-shm"] {
        drop(std::fs::remove_file(world.state().join(leftover)));
    }
    copy(&old, &world.state());
    world.note("the old copy is put back");
    world.run(&["audit", "verify", "--anchor", "anchor.json"]);
    world.run(&["audit", "verify", "--anchor", "nowhere.json"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn lists_can_be_made_again() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "append_line", "--ask", "inbox", "--args", NOTE]);
    peer(&world).execute_batch("DELETE FROM question; DELETE FROM call;").unwrap();
    world.run(&["inbox"]);
    world.run(&["audit", "rebuild"]);
    world.run(&["inbox"]);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn records_go_out() {
    let mut world = CliTestWorld::new();
    world.run(&["call", "echo", "--args", r#"{"text":"one"}"#]);
    world.run(&["call", "ecko"]);
    world.run(&["audit", "export", "--format", "markdown", "--contents"]);
    let call = world.call();
    world.run(&["audit", "export", "--format", "json", &call]);
    assert_eq!(world.json(&["audit", "export", "--format", "json"]).as_array().unwrap().len(), 2);
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn no_book_is_not_a_sound_book() {
    let mut world = CliTestWorld::new();
    for words in [
        &["audit", "verify"][..],
        &["inbox"],
        &["policy", "approvals"],
        &["resume"],
        &["log", "--state", "elsewhere"],
    ] {
        world.run(words);
    }
    assert!(!world.state().exists());
    insta::assert_snapshot!(world.transcript());
}

#[test]
fn a_file_that_is_no_book_is_said() {
    let mut world = CliTestWorld::new();
    std::fs::create_dir(world.state()).unwrap();
    std::fs::write(world.state().join("audit.sqlite"), "this is not a database, whatever it is called")
        .unwrap();
    world.run(&["audit", "verify"]);
    world.run(&["call", "echo", "--args", r#"{"text":"one"}"#]);
    insta::assert_snapshot!(world.transcript());
}
