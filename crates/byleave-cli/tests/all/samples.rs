//! State directories of other formats are refused, and stay as they are.
//!
//! `tests/samples` has a state directory of the format 1, with its keys. The format is a draft (`2-draft`) until the first
//! release; from then on this file checks that every released format is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::desk::said;
use crate::world::CliTestWorld;

fn sample(world: &CliTestWorld) {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/samples/book-1-of-0.1.0.tar.xz");
    std::fs::create_dir(world.state()).unwrap();
    let tar = Command::new("tar").arg("-C").arg(world.state()).arg("-xJf").arg(archive).status();
    assert!(tar.unwrap().success());
}

/// Returns every file below a directory with its contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

fn refused(world: &CliTestWorld, found: &str) {
    for command in [&["call", "echo", "--args", r#"{"text":"x"}"#][..], &["inbox"], &["audit", "verify"]] {
        let (code, printed, errors) = said(&world.quietly(command, ""));
        assert_eq!(code, Some(2), "{command:?}: {printed}{errors}");
        for wanted in [found, "this program reads 2-draft (", "move the state directory away"] {
            assert!(errors.contains(wanted), "{command:?}: {errors}");
        }
    }
    let report: Value = serde_json::from_slice(&world.quietly(&["doctor", "--json"], "").stdout).unwrap();
    let finding =
        report["findings"].as_array().unwrap().iter().find(|one| one["subject"] == "audit log").unwrap();
    assert_eq!(finding["ok"], false, "{finding}");
    assert!(finding["message"].as_str().unwrap().contains(found), "{finding}");
}

// req: A1
#[test]
fn a_state_directory_of_the_format_1_is_refused_and_unchanged() {
    let world = CliTestWorld::bare();
    sample(&world);
    let before = contents(&world.state());
    refused(&world, "the audit log has the format 1,");
    assert_eq!(contents(&world.state()), before);
}

// req: A1
#[test]
fn a_state_directory_of_another_draft_is_refused() {
    let world = CliTestWorld::bare();
    world.quietly(&["call", "echo", "--args", r#"{"text":"x"}"#], "");
    let peer = rusqlite::Connection::open(world.state().join("audit.sqlite")).unwrap();
    let changed =
        peer.execute("UPDATE meta SET value = x'322d6472616674' WHERE name = 'format'", []).unwrap();
    assert_eq!(changed, 1);
    drop(peer);
    refused(&world, "the audit log has the format 2-draft,");
}
