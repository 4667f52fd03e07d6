//! Machines and workspaces that are not the usual ones: root, files of other users and groups.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::desk::{OtherUserWorld, UID, said};
use crate::world::CliTestWorld;

/// A group that the user is not in.
const GROUP: u32 = 4242;

fn call(mut command: Command, tool: &str, arguments: &serde_json::Value) -> String {
    command.args(["call", tool, "--args", &arguments.to_string()]);
    let (code, out, err) = said(&command.output().unwrap());
    assert_eq!(code, Some(0), "{tool} {arguments}: {out}{err}");
    out
}

fn run(mut command: Command, words: &[&str]) -> String {
    let (code, out, err) = said(&command.args(words).output().unwrap());
    assert_eq!(code, Some(0), "{words:?}: {out}{err}");
    format!("{out}{err}")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// An overlay of an ordinary user cannot hold a file of another group (`EOVERFLOW`).
// req: E5, E7
#[test]
fn files_of_a_group_that_the_user_is_not_in_are_changed_and_changed_back() {
    let desk = OtherUserWorld::new();
    let at = |path: &str| desk.world.workspace().join(path);
    for directory in ["src", "closed"] {
        fs::create_dir(at(directory)).unwrap();
    }
    fs::write(at("src/main.rs"), "old\n").unwrap();
    // A database's directory, for example: nobody else can read it.
    fs::write(at("closed/data"), "data\n").unwrap();
    for path in [".", "src", "src/main.rs", "notes.txt", ".env"] {
        chown(at(path), Some(UID), Some(GROUP)).unwrap();
    }
    for path in ["closed", "closed/data"] {
        chown(at(path), Some(0), Some(0)).unwrap();
    }
    fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let command = || desk.command(&[]);
    run(command(), &["policy", "profile", "everyday"]);
    let script = "sed -i s/old/new/ src/main.rs; echo more >> notes.txt; mkdir d; echo 1 > d/x; ls closed; cat src/main.rs";
    let mut shell = command();
    shell.args(["call", "bash", "--args", &json!({ "command": script }).to_string()]);
    let (_, out, err) = said(&shell.output().unwrap());
    assert!(out.contains("new\n") && out.contains("denied"), "{out}{err}");
    assert_eq!((text(&at("src/main.rs")), text(&at("notes.txt"))), ("new\n".into(), "hellomore\n".into()));
    assert_eq!(text(&at("d/x")), "1\n", "{out}{err}");
    assert_eq!(text(&at("closed/data")), "data\n");
    assert_eq!(fs::metadata(at("closed")).unwrap().mode() & 0o777, 0o700);
    call(command(), "write_file", &json!({"path": "src/main.rs", "content": "newer\n"}));
    assert_eq!(text(&at("src/main.rs")), "newer\n");
    run(command(), &["undo"]);
    assert_eq!(text(&at("src/main.rs")), "new\n");
    run(command(), &["undo"]);
    assert_eq!((text(&at("src/main.rs")), text(&at("notes.txt"))), ("old\n".into(), "hello".into()));
    assert_eq!(fs::metadata(at("src/main.rs")).unwrap().gid(), GROUP, "it is the very file again");
    assert!(!at("d").exists());
}

/// In many containers and on many rented machines there is no other user.
// req: E2, E7
#[test]
fn root_works_as_any_other_user_does() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = CliTestWorld::bare();
    let at = |path: &str| world.workspace().join(path);
    let command = || world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    let told = run(command(), &["doctor"]);
    assert!(told.contains("ok  commands  shell commands run confined"), "{told}");
    run(command(), &["policy", "profile", "everyday"]);
    fs::write(at("kept"), "old\n").unwrap();
    let script = "id -un; echo more >> kept; mkdir d; echo 1 > d/x; git init -q . && git add kept && git -c user.name=t -c user.email=t@t commit -qm first && git log --format=%s";
    let printed = call(command(), "bash", &json!({ "command": script }));
    assert_eq!(printed, "byleave\nfirst\n");
    assert_eq!(text(&at("kept")), "old\nmore\n");
    for path in ["kept", "d", "d/x", ".git/HEAD"] {
        let found = fs::metadata(at(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (0, 0), "{path}");
    }
    run(command(), &["undo"]);
    assert_eq!(text(&at("kept")), "old\n");
    assert!(!at("d").exists() && !at(".git/HEAD").exists());
}

/// A rule denies every write to a repository's settings. A new repository has none that anybody needs to protect.
// req: E5
#[test]
fn a_new_repository_is_one_new_directory_unless_git_would_run_something_from_it() {
    let desk = OtherUserWorld::new();
    let at = |path: &str| desk.world.workspace().join(path);
    let command = || desk.command(&[]);
    run(command(), &["policy", "profile", "everyday"]);
    let begin = "mkdir new && cd new && git init -q && git add -A && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m one";
    call(command(), "bash", &json!({ "command": begin }));
    assert!(text(&at("new/.git/config")).contains("repositoryformatversion"));
    call(command(), "bash", &json!({"command": "git clone -q new copy && git -C copy log --format=%s"}));
    assert!(text(&at("copy/.git/config")).contains("[remote \"origin\"]"));
    run(command(), &["undo"]);
    assert!(!at("copy").exists() && at("new/.git/HEAD").exists());
    for (name, script) in [
        (
            "hook",
            "git init -q bad && python3 -c \"open('bad/.git/hooks/post-commit', 'w').write('#!/bin/sh')\"",
        ),
        (
            "setting",
            "git init -q bad && python3 -c \"open('bad/.git/config', 'a').write('[core]\\n\\tfsmonitor = touch m\\n')\"",
        ),
        (
            "link",
            "git init -q bad && python3 -c \"import os; os.remove('bad/.git/config'); os.symlink('../x', 'bad/.git/config')\"",
        ),
        ("existing", "python3 -c \"open('new/.git/config', 'a').write('[core]\\n\\tbare = false\\n')\""),
    ] {
        let mut shell = command();
        shell.args(["call", "bash", "--args", &json!({ "command": script }).to_string()]);
        let (code, out, err) = said(&shell.output().unwrap());
        let refused =
            err.contains("(denied)") || err.contains("Read-only file system") || out.contains("Read-only");
        assert!(code != Some(0) && refused, "{name}: {code:?} {out}{err}");
        assert!(!at("bad").exists(), "{name}: {out}{err}");
    }
    assert!(!text(&at("new/.git/config")).contains("fsmonitor"));
}

/// A rule is text. It holds for such a name by its other characters.
// req: E5
#[test]
fn a_name_that_is_not_text_is_hidden_only_where_a_rule_says_so() {
    let desk = OtherUserWorld::new();
    let workspace = desk.world.workspace();
    let at = |name: &[u8]| workspace.join(OsStr::from_bytes(name));
    fs::create_dir(at(b"dir\xff")).unwrap();
    let files: [(&[u8], &str); 5] = [
        (b"caf\xe9.txt", "PLAIN-LATIN"),
        (b"caf\xe9.pem", "SECRET-LATIN"),
        (b"dir\xff/in.txt", "PLAIN-WITHIN"),
        (b"dir\xff/.env", "SECRET-WITHIN"),
        (b"dir\xff/\xe9.key", "SECRET-BOTH"),
    ];
    for (name, content) in files {
        fs::write(at(name), content).unwrap();
        desk.give(&at(name));
    }
    desk.give(&at(b"dir\xff"));
    std::os::unix::fs::symlink("notes.txt", at(b"link\xff")).unwrap();
    let command = || desk.command(&[]);
    run(command(), &["policy", "profile", "everyday"]);
    let script = "cat * dir*/* dir*/.env 2>&1; echo more >> notes.txt";
    let printed = call(command(), "bash", &json!({ "command": script }));
    for readable in ["hello", "PLAIN-LATIN", "PLAIN-WITHIN"] {
        assert!(printed.contains(readable), "{readable}: {printed}");
    }
    assert!(!printed.contains("SECRET"), "{printed}");
    assert_eq!(text(&at(b"notes.txt")), "hellomore\n");
    run(command(), &["undo"]);
    assert_eq!(text(&at(b"notes.txt")), "hello");
}
