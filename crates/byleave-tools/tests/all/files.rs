//! `read_file` and `write_file` on a real gate.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use byleave_gate::core::call::Mode;
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};

use crate::world::{CallObservation, ToolTestWorld, tree, yes};

async fn call(world: &ToolTestWorld, tool: &str, arguments: Value) -> CallObservation {
    world.call(tool, arguments, &[yes()], Mode::ConfirmSensitive).await
}

// req: B2, B8
#[tokio::test]
async fn reading_shows_numbered_lines_and_asks_nobody() {
    let world = ToolTestWorld::new();
    world.write("src/a", "one\ntwo\nthree");
    let check = async |arguments: Value, wanted: &str| {
        let played = call(&world, "read_file", arguments).await;
        assert!(played.result.is_success() && played.asked.is_empty(), "{:?}", played.result);
        assert_eq!(played.text(), wanted);
    };
    check(json!({"path": "src/a"}), "     1\tone\n     2\ttwo\n     3\tthree").await;
    check(json!({"path": "src/a", "numbered": false}), "one\ntwo\nthree").await;
    let rest = "     2\ttwo\n[byleave] 1 more lines; continue with from_line = 3\n";
    check(json!({"path": "src/a", "from_line": 2, "lines": 1}), rest).await;
}

// req: B2, B7, E6
#[tokio::test]
async fn writing_is_asked_about_with_its_difference_and_taken_back() {
    let world = ToolTestWorld::new();
    world.write("src/a", "one\n");
    fs::set_permissions(world.at("src/a"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = tree(&world.at(""));
    let played = call(&world, "write_file", json!({"path": "src/a", "content": "two\n"})).await;
    assert!(played.result.is_success(), "{:?}", played.result);
    assert_eq!(played.result.to_text(), "wrote 4 bytes to src/a");
    assert!(played.seen().changes.list[0].diff.as_deref().unwrap().contains("+two"), "{:?}", played.seen());
    assert_eq!(fs::metadata(world.at("src/a")).unwrap().permissions().mode() & 0o7777, 0o755);
    let more =
        call(&world, "write_file", json!({"path": "new/deep/b", "content": "b", "mode": "append"})).await;
    assert!(more.result.is_success(), "{:?}", more.result);
    let more_still =
        call(&world, "write_file", json!({"path": "new/deep/b", "content": "c", "mode": "append"})).await;
    assert_eq!((world.read("src/a"), world.read("new/deep/b")), ("two\n".into(), "bc".into()));
    for played in [more_still, more, played] {
        let undone = call(&world, "undo", json!({"call": played.call})).await;
        assert!(undone.result.is_success(), "{:?}", undone.result);
    }
    assert_eq!(tree(&world.at("")), before);
}

// req: B2, B7, E3
#[tokio::test]
async fn what_cannot_be_read_or_written_is_told_with_what_to_do() {
    let world = ToolTestWorld::made("", GateSettings::default(), |mut workplace| {
        workplace.max_file_bytes = 100;
        workplace
    });
    world.write("src/a", "one\n");
    fs::write(world.at("png"), b"\x89PNG\r\n\x1a\n\0").unwrap();
    fs::write(world.at("latin"), b"caf\xe9").unwrap();
    fs::write(world.at("wide"), b"\xff\xfea\0").unwrap();
    fs::write(world.at("big"), [b'a'; 101]).unwrap();
    fs::write(world.at("nul"), b"\0\xff").unwrap();
    world.write(".env", "KEY=GATE_SECRET");
    fs::hard_link(world.at(".env"), world.at("alias")).unwrap();
    // The plan of a call does not search such a directory for other names. The tool itself knows the file.
    world.write("node_modules/a/.env", "KEY=GATE_SECRET");
    fs::hard_link(world.at("node_modules/a/.env"), world.at("far")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, world.at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for (tool, arguments, wanted) in [
        ("read_file", json!({"path": "none"}), "there is no `none`; list_dir shows what is there"),
        ("read_file", json!({"path": "src"}), "is a directory; list_dir"),
        ("read_file", json!({"path": "src/a/b"}), "cannot resolve"),
        ("read_file", json!({"path": "png"}), "an image (PNG), not UTF-8 text; use an image tool"),
        (
            "read_file",
            json!({"path": "latin"}),
            "text in another encoding, not UTF-8 text; convert it with `iconv",
        ),
        ("read_file", json!({"path": "wide"}), "UTF-16"),
        ("read_file", json!({"path": "nul"}), "binary, not UTF-8 text"),
        (
            "read_file",
            json!({"path": "big"}),
            "has 101 bytes, and at most 100 are read at once; find the part with grep",
        ),
        ("read_file", json!({"path": "pipe"}), "is a pipe, not a file; name a file"),
        ("read_file", json!({"path": "alias"}), "environment files hold secrets"),
        ("read_file", json!({"path": "far"}), "is another name of a file that a rule denies reading"),
        (
            "read_file",
            json!({"path": "src/a", "from_line": 5}),
            "has 1 lines, so there are none from line 5 on",
        ),
        ("write_file", json!({"path": "src", "content": ""}), "the path is not a regular file"),
        (
            "write_file",
            json!({"path": "c", "content": "x".repeat(101)}),
            "and the limit is 100; write it in parts",
        ),
        (
            "write_file",
            json!({"path": "png", "content": "x".repeat(99), "mode": "append"}),
            "and the limit is 100",
        ),
    ] {
        let before = tree(&world.at(""));
        let played = call(&world, tool, arguments.clone()).await;
        assert!(
            !played.result.is_success() && played.text().contains(wanted),
            "{tool} {arguments}: {}",
            played.text()
        );
        assert!(!played.text().contains("GATE_SECRET"));
        assert_eq!(tree(&world.at("")), before);
    }
}

// req: E3
#[tokio::test]
async fn what_was_cut_is_read_on_by_its_call() {
    let world = ToolTestWorld::new();
    let long: String = (0..40_000).map(|number| format!("line {number}\n")).collect();
    world.write("long", &long);
    let cut = call(&world, "read_file", json!({"path": "long", "numbered": false})).await;
    let text = cut.text();
    assert!(
        text.starts_with("line 0\n") && text.ends_with("line 39999\n") && text.len() < 103_000,
        "{}",
        text.len()
    );
    assert!(text.contains(&format!("read them with read_output, call = \"{}\"", cut.call)), "{}", cut.call);
    let (mut whole, mut from) = (String::new(), 0);
    while from < long.len() {
        let page = call(&world, "read_output", json!({"call": cut.call, "from": from})).await;
        assert!(page.result.is_success() && page.asked.is_empty(), "{}", page.text());
        let text = page.text();
        whole.push_str(text.split("\n[byleave] ").next().unwrap());
        from = whole.len();
    }
    assert_eq!(whole, long);
    for (arguments, wanted) in [
        (json!({"call": "x"}), "this session has no call `x`; use the id"),
        (json!({"call": uuid::Uuid::new_v4()}), "this session has no call"),
        (json!({"call": cut.call, "from": long.len()}), "so there is nothing from"),
    ] {
        let played = call(&world, "read_output", arguments).await;
        assert!(!played.result.is_success() && played.text().contains(wanted), "{}", played.text());
    }
    let other =
        world.call_in("other", "read_output", json!({"call": cut.call}), &[], Mode::ConfirmSensitive).await;
    assert!(other.text().contains("this session has no call"), "{}", other.text());
}

// req: E5, B3
#[tokio::test]
async fn a_change_that_must_fail_is_not_asked_about() {
    let world = ToolTestWorld::new();
    world.write("src/a", "one\n");
    let played = call(&world, "write_file", json!({"path": "src", "content": ""})).await;
    assert!(!played.result.is_success() && played.asked.is_empty(), "{:?}", played.asked);
}

// req: B4, B7
#[tokio::test]
async fn what_was_asked_about_and_granted_is_seen_and_nothing_beside_it() {
    let rules = "[[rule]]\nid = \"diary\"\nverdict = \"ask\"\nread = [\"**/diary\", \"**/diary/**\"]\n";
    let world = ToolTestWorld::with(rules, GateSettings::default());
    world.write("diary/monday", "MARK\n");
    world.write("diary/.env", "MARK=GATE_SECRET\n");
    world.write("src/a", "MARK\n");
    let all = world.call("grep", json!({"pattern": "MARK"}), &[], Mode::ConfirmSensitive).await;
    assert!(all.asked.is_empty() && all.text().contains("src/a:1:MARK"), "{}", all.text());
    assert!(!all.text().contains("monday"), "{}", all.text());
    let arguments = json!({"pattern": "MARK", "path": "diary", "all": true});
    let diary = call(&world, "grep", arguments).await;
    assert_eq!(diary.asked.len(), 1);
    assert!(
        diary.text().contains("diary/monday:1:MARK") && !diary.text().contains("GATE_SECRET"),
        "{}",
        diary.text()
    );
}
