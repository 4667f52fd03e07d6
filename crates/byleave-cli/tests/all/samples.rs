//! Books that earlier programs wrote are read by this one, whole.
//!
//! `tests/samples` has one state directory for each form of the book there ever was, keys included: they are worth nothing. One that is
//! there is never written again. When the form changes, raise `NAME` and write the next:
//! `BYLEAVE_SAMPLE=write cargo nextest run -p byleave-cli -E 'test(samples::a_sample)'`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::desk::said;
use crate::provider::FakeModel;
use crate::world::CliTestWorld;

/// What this program writes: the form of the book, and the version.
const NAME: &str = "book-1-of-0.1.0";

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/samples")
}

fn note(line: &str) -> String {
    json!({ "path": "notes.txt", "line": line }).to_string()
}

fn typed(world: &CliTestWorld, words: &[&str], wanted: i32) -> String {
    let (code, printed, told) = said(&world.quietly(words, ""));
    assert_eq!(code, Some(wanted), "{words:?}: {printed}{told}");
    printed
}

/// A book with one of everything.
fn written() -> CliTestWorld {
    let world = CliTestWorld::bare();
    let call = |line: &str, ask: &str, wanted: i32| {
        typed(
            &world,
            &["call", "append_line", "--args", &note(line), "--ask", ask, "--session", "old"],
            wanted,
        );
    };
    std::fs::write(world.workspace().join("notes.txt"), "").unwrap();
    typed(&world, &["call", "read_file", "--args", r#"{"path": "notes.txt"}"#], 0);
    call("refused", "none", 3);
    call("answered", "inbox", 4);
    typed(&world, &["inbox", "answer", &world.question(), "yes"], 0);
    call("declined", "inbox", 4);
    typed(&world, &["inbox", "answer", &world.question(), "no"], 3);
    call("with a leave", "inbox", 4);
    typed(&world, &["inbox", "answer", &world.question(), "leave", "--offer", "1", "--uses", "3"], 0);
    typed(&world, &["halt", "--why", "for the sample"], 0);
    call("while it is halted", "none", 3);
    typed(&world, &["halt", "--lift"], 0);
    let secret = world.call();
    typed(&world, &["book", "forget", &secret], 0);
    let model = FakeModel::new(vec![("I have read it.", None)]);
    let mut run = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    run.args(["run", "Read the notes."]).env("OPENAI_API_KEY", "sk-nobody");
    run.env("BYLEAVE_MODEL", "openai/some-model").env("BYLEAVE_MODEL_URL", &model.url);
    assert_eq!(said(&run.output().unwrap()).0, Some(0));
    // The one that stays open.
    let other = json!({ "path": "other.txt", "line": "open" }).to_string();
    typed(&world, &["call", "append_line", "--args", &other, "--ask", "inbox"], 4);
    world
}

/// How calls ended, the newest first.
fn endings(log: &Value) -> Vec<(String, String)> {
    let word = |call: &Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    log.as_array()
        .unwrap()
        .iter()
        .map(|call| {
            (word(call, "tool"), word(call, if call["outcome"].is_null() { "state" } else { "outcome" }))
        })
        .collect()
}

// req: A1
#[test]
fn a_sample_of_what_is_written_today_is_kept() {
    let archive = samples().join(format!("{NAME}.tar.xz"));
    if std::env::var("BYLEAVE_SAMPLE").is_ok_and(|how| how == "write") {
        assert!(!archive.exists(), "one that is there is never written again");
        let world = written();
        let tar =
            Command::new("tar").arg("-C").arg(world.state()).arg("-cJf").arg(&archive).arg(".").status();
        assert!(tar.unwrap().success());
    }
    assert!(archive.exists(), "the form of the book has changed: write a sample of it");
}

// req: A1
#[test]
fn books_of_every_form_there_was_are_read() {
    let mut read = 0;
    for archive in std::fs::read_dir(samples()).unwrap().flatten() {
        if archive.path().extension().is_none_or(|end| end != "xz") {
            continue;
        }
        read += 1;
        let name = archive.file_name().to_string_lossy().into_owned();
        let world = CliTestWorld::bare();
        std::fs::create_dir(world.state()).unwrap();
        let tar = Command::new("tar").arg("-C").arg(world.state()).arg("-xJf").arg(archive.path()).status();
        assert!(tar.unwrap().success(), "{name}");
        assert_eq!(world.json(&["book", "verify", "--json"])["sound"], json!(true), "{name}");
        let log = world.json(&["book", "log", "--limit", "100", "--json"]);
        let mut ends = endings(&log);
        ends.sort();
        insta::allow_duplicates! {
            insta::assert_json_snapshot!("old_books", ends);
        }
        let answered = log
            .as_array()
            .unwrap()
            .iter()
            .find(|call| call["outcome"] == "completed" && call["tool"] == "append_line");
        let id = answered.unwrap()["call"].as_str().unwrap();
        let shown = typed(&world, &["book", "show", id], 0);
        assert!(shown.contains("notes.txt") && shown.contains("ann"), "{name}: {shown}");
        let talk = typed(
            &world,
            &["history", "show", world.json(&["history", "--json"])[0]["session"].as_str().unwrap()],
            0,
        );
        assert!(talk.contains("I have read it."), "{name}: {talk}");
        let leaves = world.json(&["leaves", "--json"]);
        assert_eq!(leaves.as_array().unwrap().len(), 1, "{name}: {leaves}");
        // And written to.
        std::fs::write(world.workspace().join("notes.txt"), "new").unwrap();
        typed(&world, &["call", "read_file", "--args", r#"{"path": "notes.txt"}"#], 0);
        assert_eq!(world.json(&["book", "verify", "--json"])["sound"], json!(true), "{name}");
    }
    assert!(read > 0);
}
