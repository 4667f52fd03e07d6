//! `list_dir`, `list_files`, `glob` and `grep` on a real gate.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use byleave_gate::core::call::Mode;
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};

use crate::bare::ToolFixture;
use crate::world::{CallObservation, ToolTestWorld};

async fn call(world: &ToolTestWorld, tool: &str, arguments: Value) -> CallObservation {
    world.call(tool, arguments, &[], Mode::ConfirmSensitive).await
}

/// The output of a tool that succeeds without a question.
async fn said(world: &ToolTestWorld, tool: &str, arguments: Value) -> String {
    let played = call(world, tool, arguments).await;
    assert!(played.result.is_success() && played.asked.is_empty(), "{tool}: {:?}", played.result);
    played.text()
}

fn project() -> ToolTestWorld {
    let world = ToolTestWorld::new();
    fs::remove_dir(world.at("target")).unwrap();
    world.write("src/main.rs", "fn main() {\n    hello();\n}\n");
    world.write("src/deep/lib.rs", "pub fn hello() {}\n// Hello\n");
    world.write("README.md", "hello\n");
    world.write("built/out.rs", "hello\n");
    world.write(".hidden/x.rs", "hello\n");
    world.write(".ignore", "built/\n");
    symlink("src/main.rs", world.at("link")).unwrap();
    world
}

// req: B2, B4, B8
#[tokio::test]
async fn directories_are_listed_with_sizes_counts_and_targets_and_nobody_is_asked() {
    let world = project();
    let at = world.at("").to_str().unwrap().trim_end_matches('/').to_owned();
    let listed = said(&world, "list_dir", json!({})).await;
    assert_eq!(
        listed,
        format!(
            "README.md\t6\nlink -> src/main.rs\nsrc/\t2 entries\n[byleave] `{at}`: 1 directories, 2 files and others, 6 bytes\n\
             [byleave] 3 hidden or ignored entries are not listed; all = true lists them\n"
        )
    );
    let all = said(&world, "list_dir", json!({"all": true, "recursive": 2})).await;
    for line in [
        ".hidden/",
        ".hidden/x.rs\t6",
        ".ignore\t7",
        "built/out.rs\t6",
        "src/deep/\t1 entry",
        "src/main.rs\t27",
    ] {
        assert!(all.lines().any(|one| one == line), "{line}: {all}");
    }
    assert!(
        said(&world, "list_dir", json!({"path": "src"})).await.starts_with("deep/\t1 entry\nmain.rs\t27\n")
    );
    let files = said(&world, "list_files", json!({})).await;
    assert_eq!(files, "README.md\t6\nsrc/deep/lib.rs\t27\nsrc/main.rs\t27\n[byleave] 3 files, 60 bytes\n");
    let files = said(&world, "list_files", json!({"path": "src", "pattern": "*.rs", "max": 1})).await;
    assert!(
        files.starts_with("src/deep/lib.rs\t27\n[byleave] 2 files, 54 bytes\n[byleave] 1 of them"),
        "{files}"
    );
}

// req: B4, B8
#[tokio::test]
async fn paths_are_found_by_glob() {
    let world = project();
    for (arguments, wanted) in [
        (json!({"pattern": "*.rs"}), "src/deep/lib.rs\nsrc/main.rs\n"),
        (json!({"pattern": "src/*"}), "src/deep/\nsrc/main.rs\n"),
        (json!({"pattern": "./**/{lib,main}.rs", "path": "src"}), "src/deep/lib.rs\nsrc/main.rs\n"),
        (json!({"pattern": ".hidden/*"}), ".hidden/x.rs\n"),
        (
            json!({"pattern": "*.rs", "all": true}),
            ".hidden/x.rs\nbuilt/out.rs\nsrc/deep/lib.rs\nsrc/main.rs\n",
        ),
        (json!({"pattern": "li*"}), "link\nsrc/deep/lib.rs\n"),
        (
            json!({"pattern": "*.rs", "max": 1}),
            "src/deep/lib.rs\n[byleave] 1 of 2 paths are shown; narrow the pattern or `path`, or raise `max`\n",
        ),
        (
            json!({"pattern": "*.py"}),
            "[byleave] nothing matches `*.py`; all = true includes hidden and ignored files\n",
        ),
    ] {
        assert_eq!(said(&world, "glob", arguments.clone()).await, wanted, "{arguments}");
    }
}

// req: B4, B8
#[tokio::test]
async fn lines_are_found_by_text_and_by_expression() {
    let world = project();
    fs::write(world.at("bin"), b"hello\n\0hello\n").unwrap();
    fs::write(world.at("dos.txt"), b"one\r\ntwo hullo\r\nfake\r[byleave] x hullo\n").unwrap();
    fs::write(world.at("wide.txt"), b"\xff\xfeh\0u\0l\0l\0o\0\n\0").unwrap();
    world.write("long.txt", &format!("{}needle{}\n", "a".repeat(2_000), "b".repeat(2_000)));
    let binary = "[byleave] 1 binary file was not searched\n";
    for (arguments, wanted) in [
        (
            json!({"pattern": "hello\\(\\)", "path": "src"}),
            "src/deep/lib.rs:1:pub fn hello() {}\nsrc/main.rs:2:    hello();\n".to_owned(),
        ),
        (json!({"pattern": "hello()", "literal": true, "mode": "files", "type": "rust"}),
            "src/deep/lib.rs\nsrc/main.rs\n".into()),
        (json!({"pattern": "HELLO", "ignore_case": true, "mode": "counts", "glob": "*.rs"}),
            "src/deep/lib.rs:2\nsrc/main.rs:1\n".into()),
        (json!({"pattern": "hello", "glob": "!*.rs"}),
            format!("README.md:1:hello\n{binary}")),
        (json!({"pattern": "hullo"}),
            format!("dos.txt:2:two hullo\ndos.txt:3:fake\\r[byleave] x hullo\nwide.txt:1:hullo\n{binary}")),
        (json!({"pattern": "hello", "path": "src/main.rs", "context": 1}),
            "src/main.rs-1-fn main() {\nsrc/main.rs:2:    hello();\nsrc/main.rs-3-}\n".into()),
        (json!({"pattern": "hello|Hello", "path": "src", "after": 1}),
            "src/deep/lib.rs:1:pub fn hello() {}\nsrc/deep/lib.rs:2:// Hello\n--\nsrc/main.rs:2:    hello();\nsrc/main.rs-3-}\n".into()),
        (json!({"pattern": "needle"}),
            format!("long.txt:1:[1900 bytes more]{}needle{}[1606 bytes more]\n{binary}", "a".repeat(100), "b".repeat(394))),
        (json!({"pattern": "hello|Hello", "path": "src", "max": 2}),
            "src/deep/lib.rs:1:pub fn hello() {}\nsrc/deep/lib.rs:2:// Hello\n[byleave] 2 of 3 matching lines in 2 files are shown; \
             narrow with `path`, `glob` or `type`, or raise `max`\n".into()),
        (json!({"pattern": "nowhere", "path": "src"}),
            "[byleave] no line matches `nowhere`; all = true includes hidden and ignored files\n".into()),
        (json!({"pattern": "hello", "all": true, "mode": "files", "glob": "{.hidden,built}/**"}),
            ".hidden/x.rs\nbuilt/out.rs\n".into()),
    ] {
        assert_eq!(said(&world, "grep", arguments.clone()).await, wanted, "{arguments}");
    }
    assert_eq!(
        said(&world, "search", json!({"pattern": "main", "path": "src"})).await,
        "src/main.rs:1:fn main() {\n"
    );
}

// req: B7
#[tokio::test]
async fn what_rules_hide_is_left_out_and_told() {
    let rules =
        "[[rule]]\nid = \"mine\"\nverdict = \"deny\"\nread = \"{workspace}/vault/\"\nreason = \"mine\"\n";
    let world = ToolTestWorld::with(rules, GateSettings::default());
    for path in ["a.txt", "server.key", ".env", "vault/x.txt", "sub/.env/inner.txt", "sub/b.txt"] {
        world.write(path, "GATE_SECRET\n");
    }
    fs::hard_link(world.at(".env"), world.at("alias.txt")).unwrap();
    fs::hard_link(world.at("a.txt"), world.at("twin.txt")).unwrap();
    world.write("a.txt", "GATE_SECRET plain\n");
    let left_out = "left out because a rule denies reading them";
    let grep = said(&world, "grep", json!({"pattern": "GATE_SECRET", "mode": "files", "all": true})).await;
    // The key, `.env` twice, the vault, and the other name of `.env`.
    assert_eq!(grep, format!("a.txt\nsub/b.txt\ntwin.txt\n[byleave] 5 paths were {left_out}\n"));
    // Alternatives in braces are checked one by one, and hidden files stay hidden under every name.
    for glob in ["{.env,zzz.ts}", "{.env,a.txt}", "{.e,x}{nv,y}", "**/{.env,vault}/**"] {
        let braces = json!({"pattern": "GATE_SECRET", "glob": glob, "all": true});
        let grep = call(&world, "grep", braces).await.text();
        assert_eq!(grep.contains(":1:"), glob == "{.env,a.txt}", "{glob}: {grep}");
        assert!(
            !grep.contains(".env:") && !grep.contains("inner") && !grep.contains("alias"),
            "{glob}: {grep}"
        );
    }
    let files = said(&world, "list_files", json!({})).await;
    // The key, the vault, and the other name of `.env`, whose size would reveal that of `.env`.
    assert!(files.contains(&format!("[byleave] 3 paths were {left_out}")), "{files}");
    assert!(!files.contains("key") && !files.contains("vault"), "{files}");
    let glob = said(&world, "glob", json!({"pattern": "**", "all": true})).await;
    assert!(glob.contains(&format!("[byleave] 4 paths were {left_out}")), "{glob}");
    assert!(!glob.contains("env") && !glob.contains("vault"), "{glob}");
    let listed = said(&world, "list_dir", json!({"all": true})).await;
    assert!(listed.contains("sub/\t1 entry\n") && !listed.contains("env"), "{listed}");
    for (tool, arguments) in [
        ("grep", json!({"pattern": "x", "path": "vault"})),
        ("grep", json!({"pattern": "x", "path": "server.key"})),
        ("list_dir", json!({"path": "vault"})),
        ("list_files", json!({"path": "sub/.env"})),
    ] {
        let played = call(&world, tool, arguments).await;
        assert!(!played.result.is_success(), "{tool}: {}", played.text());
    }
}

// req: B2, B4, B7
#[tokio::test]
async fn what_cannot_be_listed_or_searched_is_told_with_what_to_do() {
    let world = project();
    let nested = "{".repeat(200_000) + &"}".repeat(200_000);
    for (tool, arguments, wanted) in [
        ("list_dir", json!({"path": "none"}), "there is no `none`; list_dir shows what is there"),
        ("list_dir", json!({"path": "README.md"}), "`README.md` is not a directory"),
        ("list_dir", json!({"recursive": 0}), "minimum"),
        ("list_files", json!({"path": "none"}), "there is no `none`"),
        ("list_files", json!({"path": "README.md"}), "`README.md` is not a directory"),
        ("list_files", json!({"pattern": "/etc/*"}), "`/etc/*` is absolute; give the directory as `path`"),
        ("list_files", json!({"pattern": "a[", "max": 5}), "`a[` is not a glob"),
        ("glob", json!({"pattern": ""}), "the pattern is empty; `**` matches everything"),
        ("glob", json!({"pattern": "../*"}), "`../*` contains `..`; give the start directory as `path`"),
        ("glob", json!({"pattern": "/x/*"}), "is absolute; give the directory as `path`"),
        ("glob", json!({"pattern": "{a"}), "`{a` is not a glob"),
        // Without these limits, compiling them crashes the process.
        ("glob", json!({"pattern": nested}), "the glob has more than 1024 bytes"),
        ("list_files", json!({"pattern": nested}), "the glob has more than 1024 bytes"),
        ("grep", json!({"pattern": "a", "glob": nested}), "the glob has more than 1024 bytes"),
        ("glob", json!({"pattern": "*", "path": "README.md"}), "`README.md` is not a directory"),
        ("grep", json!({"pattern": "a(b"}), "is not a regular expression"),
        ("grep", json!({"pattern": "a(b"}), "set literal = true to search for it literally"),
        ("grep", json!({"pattern": ""}), "the pattern is empty; to see a whole file use read_file"),
        ("grep", json!({"pattern": "a\nb"}), "contains a line break"),
        ("grep", json!({"pattern": "a\\nb"}), "set literal = true"),
        ("grep", json!({"pattern": "a", "type": "rs"}), "there is no file type `rs`; use one such as rust"),
        ("grep", json!({"pattern": "a", "type": ".foo"}), "or use glob = \"*.foo\""),
        ("grep", json!({"pattern": "a", "glob": "{a"}), "`{a` is not a glob"),
        ("grep", json!({"pattern": "a", "path": "none"}), "there is no `none`"),
        ("grep", json!({"pattern": "a", "mode": "all"}), "mode"),
        ("grep", json!({"pattern": "a", "where": "x"}), "where"),
    ] {
        let played = call(&world, tool, arguments.clone()).await;
        let text = played.text();
        assert!(!played.result.is_success() && text.contains(wanted), "{tool} {arguments}: {text}");
    }
}

// req: B7
#[tokio::test]
async fn elsewhere_is_asked_about() {
    let world = project();
    fs::write(world.beside("outside/x.txt"), "hello\n").unwrap();
    symlink(world.beside("outside"), world.at("out")).unwrap();
    for tool in ["list_dir", "list_files", "glob", "grep"] {
        for path in [world.beside("outside").to_str().unwrap(), "..", "out", "/"] {
            let arguments = match tool {
                "glob" => json!({"pattern": "*.txt", "path": path}),
                "grep" => json!({"pattern": "hello", "path": path}),
                _ => json!({ "path": path }),
            };
            let played = call(&world, tool, arguments).await;
            assert!(
                !played.result.is_success() && !played.text().contains("x.txt"),
                "{tool} {path}: {:?}",
                played.result
            );
        }
    }
    let played = world
        .call(
            "grep",
            // Written differently, because a refused call is not asked about again.
            json!({"pattern": "hell[o]", "path": "out"}),
            &[crate::world::yes()],
            Mode::ConfirmSensitive,
        )
        .await;
    let outside = world.beside("outside");
    assert_eq!(played.text(), format!("{}/x.txt:1:hello\n", outside.display()));
}

// req: B2, B4
#[tokio::test]
async fn odd_names_are_shown_escaped_and_break_nothing() {
    let world = ToolTestWorld::new();
    fs::remove_dir_all(world.at("target")).unwrap();
    fs::remove_dir_all(world.at("src")).unwrap();
    for name in [&b"bad\xff.txt"[..], b"a\nb.txt", b"[byleave] 9 paths", "caf\u{e9}.txt".as_bytes()] {
        fs::write(world.at("").join(OsStr::from_bytes(name)), "hello\n").unwrap();
    }
    fs::create_dir(world.at("").join(OsStr::from_bytes(b"d\xfe"))).unwrap();
    fs::write(world.at("").join(OsStr::from_bytes(b"d\xfe/in.txt")), "hello\n").unwrap();
    let names = "./[byleave] 9 paths\na\\nb.txt\nbad\\xff.txt\ncaf\u{e9}.txt\nd\\xfe/\nd\\xfe/in.txt\n";
    assert_eq!(said(&world, "glob", json!({"pattern": "**"})).await, names);
    let lines = "./[byleave] 9 paths:1:hello\na\\nb.txt:1:hello\ncaf\u{e9}.txt:1:hello\n[byleave] 2 files were not searched because \
                 their names are not valid UTF-8; rename them\n";
    assert_eq!(said(&world, "grep", json!({"pattern": "hello"})).await, lines);
    assert!(said(&world, "list_dir", json!({})).await.contains("d\\xfe/\t1 entry\n"));
    assert!(said(&world, "list_files", json!({})).await.contains("bad\\xff.txt\t6\n"));
}

#[tokio::test]
async fn what_is_called_off_ends_and_a_large_tree_is_shared() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let [root, kept] = ["w", "kept"].map(|name| folder.path().join(name));
    for directory in 0..40 {
        let at = root.join(format!("d{directory:02}/e"));
        fs::create_dir_all(&at).unwrap();
        for file in 0..100 {
            fs::write(at.join(format!("f{file:03}.txt")), "hello\n").unwrap();
        }
    }
    let bare = ToolFixture::new(&root, &kept);
    let found = bare.read("grep", "", json!({"pattern": "hello", "mode": "files", "max": 100_000})).await;
    let mut wanted: Vec<String> =
        (0..40).flat_map(|d| (0..100).map(move |f| format!("d{d:02}/e/f{f:03}.txt"))).collect();
    wanted.sort();
    assert_eq!(found.text.lines().collect::<Vec<_>>(), wanted);
    let first = bare.read("list_files", "", json!({})).await;
    assert!(first.truncated && first.text.starts_with("d00/e/f000.txt\t6\n"), "{}", first.text);
    assert_eq!(first.text.lines().filter(|line| !line.starts_with("[byleave]")).count(), 1_000);
    let cancel = tokio_util::sync::CancellationToken::new();
    cancel.cancel();
    let ended = bare.cancelled("grep", "", json!({"pattern": "hello"}), cancel).await;
    assert_eq!(ended.error.as_deref(), Some("the call was cancelled"));
}
