//! Ignore files and searching, compared with ripgrep itself: the same files, the same lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::bare::ToolFixture;

/// The output of `rg` in a directory, by line. The test fails if `rg` is not installed.
fn rg(at: &Path, words: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new("rg");
    command.args(["--no-config", "--no-ignore-global", "--color=never", "--no-messages"]).args(words);
    // No settings of the machine: no global excludes, no repository around it.
    let output = command.current_dir(at).env("HOME", at).env("XDG_CONFIG_HOME", at).output();
    let output = output.expect("ripgrep is needed: apt-get install ripgrep");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

async fn ours(bare: &ToolFixture, tool: &str, path: &str, arguments: Value) -> BTreeSet<String> {
    let output = bare.read(tool, path, arguments).await;
    assert!(!output.is_error, "{output:?}");
    let lines = output.text.lines().filter(|line| !line.starts_with("[byleave]"));
    lines.map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

fn make(at: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = at.join(path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).unwrap();
        }
        fs::write(path, text).unwrap();
    }
}

/// Files that the trees below have in common.
const FILES: [&str; 26] = [
    "a.log",
    "a.txt",
    "keep.log",
    "build/out.o",
    "build/keep/me.txt",
    "src/build/x.txt",
    "src/a.log",
    "src/keep.log",
    "src/main.rs",
    "src/deep/er/a.log",
    "src/deep/er/b.txt",
    "docs/index.md",
    "docs/build",
    "target/debug/x.txt",
    "sub/target/y.txt",
    "sub/.hidden/z.txt",
    ".dot/a.txt",
    ".dotfile",
    "foo/bar/baz.txt",
    "foo/bar.txt",
    "space name.txt",
    "sub/a b/c.txt",
    "x/y/z/w.txt",
    "x/z/w.txt",
    "UPPER.LOG",
    "#hash.txt",
];

// req: B4
#[tokio::test]
async fn the_same_files_are_ignored_as_by_ripgrep() {
    let trees: &[(&str, &[(&str, &str)])] = &[
        ("nothing", &[]),
        ("a gitignore without a repository", &[(".gitignore", "*.log\nbuild/\n")]),
        (
            "negation",
            &[
                (".git/HEAD", ""),
                (".gitignore", "*.log\n!keep.log\n"),
                ("src/.gitignore", "keep.log\n!a.log\n"),
            ],
        ),
        ("anchored", &[(".git/HEAD", ""), (".gitignore", "/build\n/a.txt\nsrc/main.rs\n/docs/build\n")]),
        ("directories only", &[(".git/HEAD", ""), (".gitignore", "build/\ntarget/\n")]),
        ("two stars", &[(".git/HEAD", ""), (".gitignore", "**/er/\nfoo/**\n!foo/bar.txt\nx/**/w.txt\n")]),
        (
            "precedence of .ignore",
            &[
                (".git/HEAD", ""),
                (".gitignore", "*.txt\n"),
                (".ignore", "!a.txt\n*.md\n"),
                ("src/.ignore", "!*.txt\n"),
            ],
        ),
        ("an .ignore without a repository", &[(".ignore", "*.log\n"), ("src/.gitignore", "*.rs\n")]),
        ("excludes", &[(".git/info/exclude", "*.log\nsub/\n"), (".gitignore", "!keep.log\n")]),
        (
            "a repository in a repository",
            &[
                (".git/HEAD", ""),
                (".gitignore", "*.txt\n"),
                ("sub/.git/HEAD", ""),
                ("sub/.gitignore", "target/\n"),
            ],
        ),
        (
            "a repository further down",
            &[(".gitignore", "*.txt\n"), ("src/.git/HEAD", ""), ("src/.gitignore", "*.log\n")],
        ),
        (
            "oddities",
            &[
                (".git/HEAD", ""),
                (
                    ".gitignore",
                    "*.md\r\n\\#hash.txt\n# comment\nspace name.txt  \n\\!x\n[\nfoo/bar/\n*.LOG\n{a,b}.txt\n",
                ),
            ],
        ),
        ("hidden but wanted", &[(".git/HEAD", ""), (".gitignore", "!.dotfile\n!.dot/\n")]),
        ("everything but", &[(".git/HEAD", ""), (".gitignore", "*\n!*/\n!*.txt\n")]),
        (
            "a directory and what is in it",
            &[(".git/HEAD", ""), (".gitignore", "build\n!build/keep\n!build/keep/me.txt\n")],
        ),
        ("not text", &[(".git/HEAD", ""), (".gitignore", "*.md\n")]),
    ];
    for (name, ignores) in trees {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = folder.path().join("w");
        make(&root, &FILES.map(|path| (path, "hello\n")));
        make(&root, ignores);
        if *name == "not text" {
            fs::write(root.join(".gitignore"), b"*.md\n\xff\n*.txt\n").unwrap();
        }
        let bare = ToolFixture::new(&root, &folder.path().join("kept"));
        for path in ["", "src", "sub", "build", "x/y"] {
            let front = if path.is_empty() { String::new() } else { format!("{path}/") };
            // Started in that directory, because some versions forget the ignore files of parents if a directory is
            // named.
            let wanted = rg(&root.join(path), &["--files", "."]);
            let wanted: BTreeSet<String> = wanted.iter().map(|path| format!("{front}{path}")).collect();
            assert_eq!(ours(&bare, "list_files", path, json!({})).await, wanted, "{name}: {path}");
        }
        let wanted = rg(&root, &["--files", "--hidden", "--no-ignore", "-g", "!.git", "."]);
        assert_eq!(ours(&bare, "list_files", "", json!({"all": true})).await, wanted, "{name}: all");
        for (words, arguments) in [
            (
                &["-l", "hello", "-g", "*.txt"][..],
                json!({"pattern": "hello", "mode": "files", "glob": "*.txt"}),
            ),
            (
                &["-l", "hello", "-g", "!src/**"],
                json!({"pattern": "hello", "mode": "files", "glob": "!src/**"}),
            ),
            (
                &["-l", "hello", "-g", "/build/**"],
                json!({"pattern": "hello", "mode": "files", "glob": "/build/**"}),
            ),
            (&["-l", "hello", "-t", "md"], json!({"pattern": "hello", "mode": "files", "type": "md"})),
            (&["-l", "hello", "-g", ".dot*"], json!({"pattern": "hello", "mode": "files", "glob": ".dot*"})),
        ] {
            let found = ours(&bare, "grep", "", arguments).await;
            assert_eq!(found, rg(&root, &[words, &["."]].concat()), "{name}: {words:?}");
        }
    }
}

// req: B4
#[tokio::test]
async fn the_same_lines_are_found_as_by_ripgrep() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = folder.path().join("w");
    make(
        &root,
        &[
            ("a.txt", "one\ntwo\nthree one\n\nOne\nnone"),
            ("crlf.txt", "one\r\ntwo one\r\n"),
            ("empty", ""),
            ("unicode.txt", "na\u{ef}ve\nSTRASSE stra\u{df}e\n\u{212a}elvin\n"),
            ("many.txt", &"one\ntwo\n".repeat(300)),
            ("late.bin", &format!("{}\0one\n", "one\n".repeat(20_000))),
            ("early.bin", "\0one\n"),
            ("between.bin", "one\ntwo\0one\none\n"),
            ("large.txt", &"some line that is long enough to fill buffers\none\n".repeat(4_000)),
        ],
    );
    fs::write(root.join("utf16.txt"), b"\xff\xfeo\0n\0e\0\n\0").unwrap();
    fs::write(root.join("bom.txt"), b"\xef\xbb\xbfone\n").unwrap();
    fs::write(root.join("latin.txt"), b"caf\xe9 one\n").unwrap();
    let bare = ToolFixture::new(&root, &folder.path().join("kept"));
    for (pattern, literal, ignore_case) in [
        ("one", true, false),
        ("one", false, true),
        ("^one$", false, false),
        ("\\bone\\b", false, false),
        ("(?i)stra\u{df}e|K", false, false),
        ("n.*e", false, false),
        ("[^a-z]one", false, false),
        ("^$", false, false),
        ("t(wo|hree)", false, false),
        ("o\\s*n", false, false),
        ("nowhere", false, false),
    ] {
        let mut words = vec!["-e", pattern];
        words.extend(literal.then_some("-F"));
        words.extend(ignore_case.then_some("-i"));
        let arguments = |mode: &str| json!({"pattern": pattern, "literal": literal, "ignore_case": ignore_case, "mode": mode, "max": 100_000});
        for (mode, more) in [("lines", &["-n", "--no-heading"][..]), ("files", &["-l"]), ("counts", &["-c"])]
        {
            let wanted: BTreeSet<String> = rg(&root, &[&words, more, &["."]].concat())
                .into_iter()
                // Its messages about binary files are its own.
                .filter(|line| !line.contains("WARNING: stopped searching binary file"))
                .map(|line| line.trim_end_matches('\r').to_owned())
                .collect();
            assert_eq!(ours(&bare, "grep", "", arguments(mode)).await, wanted, "{pattern} {mode}");
        }
        let wanted = rg(&root, &[&words[..], &["-n", "--no-heading", "-C2", "."]].concat());
        let wanted: BTreeSet<String> = wanted
            .into_iter()
            .filter(|line| !line.contains("WARNING: stopped searching binary file"))
            .map(|line| line.trim_end_matches('\r').to_owned())
            .collect();
        let mut arguments = arguments("lines");
        arguments["context"] = 2.into();
        assert_eq!(ours(&bare, "grep", "", arguments).await, wanted, "{pattern} with context");
    }
}
