//! `edit`, `multi_edit`, `apply_patch` and `delete_file` on a real gate.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use byleave_gate::core::call::Mode;
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};

use crate::world::{CallObservation, ToolTestWorld, tree, yes};

async fn call(world: &ToolTestWorld, tool: &str, arguments: Value) -> CallObservation {
    world.call(tool, arguments, &[yes()], Mode::ConfirmSensitive).await
}

async fn undone(world: &ToolTestWorld, played: &CallObservation) {
    let undone = call(world, "undo", json!({"call": played.call})).await;
    assert!(undone.result.is_success(), "{:?}", undone.result);
}

// req: B3, E6
#[tokio::test]
async fn edits_are_shown_made_and_taken_back() {
    let world = ToolTestWorld::new();
    world.write("src/a", "one\ntwo\nthree\ntwo\n");
    fs::set_permissions(world.at("src/a"), fs::Permissions::from_mode(0o750)).unwrap();
    let before = tree(&world.at(""));
    let edits = json!([{"old": "one\n", "new": "1\n"}, {"old": "1\ntwo", "new": "1\n2"}]);
    for (tool, arguments, said, is) in [
        (
            "edit",
            json!({"path": "src/a", "old": "three", "new": "3"}),
            "replaced `old` in src/a at line 3",
            "one\ntwo\n3\ntwo\n",
        ),
        (
            "edit",
            json!({"path": "src/a", "old": "two", "new": "", "all": true}),
            "replaced `old` in src/a in 2 places: lines 2, 4",
            "one\n\nthree\n\n",
        ),
        (
            "multi_edit",
            json!({"path": "src/a", "edits": edits}),
            "made 2 edits in src/a\n  1: at line 1\n  2: at line 1",
            "1\n2\nthree\ntwo\n",
        ),
    ] {
        let played = call(&world, tool, arguments).await;
        assert_eq!(played.result.to_text(), said, "{:?}", played.result);
        assert!(played.seen().changes.list[0].diff.is_some());
        assert_eq!(world.read("src/a"), is);
        assert_eq!(fs::metadata(world.at("src/a")).unwrap().permissions().mode() & 0o7777, 0o750);
        undone(&world, &played).await;
        assert_eq!(tree(&world.at("")), before);
    }
}

// req: B4, E6
#[tokio::test]
async fn a_patch_makes_changes_moves_and_removes_files_as_a_whole() {
    let world = ToolTestWorld::new();
    world.write("src/a", "1\n2\n3\n4\n5\n6\n7\n8\n");
    world.write("gone", "gone\n");
    world.write("old name", "x\ny\n");
    world.write("run", "#!/bin/sh\n");
    let before = tree(&world.at(""));
    let diff = "diff --git a/src/a b/src/a\n--- a/src/a\n+++ b/src/a\n@@ -1,3 +1,3 @@\n 3\n-4\n+four\n 5\n\
        diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\
        diff --git a/old name b/new/name\nsimilarity index 50%\nrename from old name\nrename to new/name\n\
        --- a/old name\t\n+++ b/new/name\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n\
        diff --git a/run b/run\nold mode 100644\nnew mode 100755\n\
        diff --git a/fresh b/fresh\nnew file mode 100755\n--- /dev/null\n+++ b/fresh\n@@ -0,0 +1 @@\n+fresh\n\\ No newline at end of file\n";
    let form = "*** Begin Patch\n*** Update File: src/a\n@@\n 3\n-4\n+four\n*** Delete File: gone\n*** Update File: old name\n\
        *** Move to: new/name\n@@\n-y\n+z\n*** Add File: fresh\n+fresh\n*** Update File: src/a\n@@\n-8\n+eight\n*** End Patch\n";
    for (patch, remark) in
        [(diff, "hunk 1 of src/a was applied at line 3, 2 lines further down than stated"), (form, "")]
    {
        let played = call(&world, "apply_patch", json!({"patch": patch})).await;
        assert!(played.result.is_success() && played.result.to_text().contains(remark), "{}", played.text());
        assert!(world.read("src/a").contains("3\nfour\n5\n"), "{}", world.read("src/a"));
        assert_eq!(world.read("new/name"), "x\nz\n");
        assert!(!world.at("gone").exists() && !world.at("old name").exists());
        let fresh = fs::metadata(world.at("fresh")).unwrap();
        if patch == diff {
            let mode = |name: &str| fs::metadata(world.at(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode("run"), mode("fresh"), fresh.len()), (0o755, 0o755, 5));
        }
        undone(&world, &played).await;
        assert_eq!(tree(&world.at("")), before);
    }
}

// req: B4, P3
#[tokio::test]
async fn nothing_is_told_of_a_file_that_nobody_let_be_read() {
    let world = ToolTestWorld::new();
    fs::write(world.beside("outside/f"), "GATE_SECRET\nmore\n").unwrap();
    let path = world.beside("outside/f");
    let path = path.to_str().unwrap();
    for (tool, arguments) in [
        ("edit", json!({"path": path, "old": "GATE", "new": "x", "all": true})),
        ("edit", json!({"path": path, "old": "gate_secret", "new": "x"})),
        ("apply_patch", json!({"patch": format!("--- {path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-GATE_SECRE\n")})),
        (
            "apply_patch",
            json!({"patch": format!("*** Begin Patch\n*** Update File: {path}\n@@\n-gate_secret\n*** End Patch")}),
        ),
        (
            "apply_patch",
            json!({"patch": format!("*** Begin Patch\n*** Add File: {path}\n+gate_secret\n*** End Patch")}),
        ),
        ("write_file", json!({"path": path, "content": "x", "mode": "append"})),
        ("delete_file", json!({"path": path})),
    ] {
        let played = world.call(tool, arguments.clone(), &[], Mode::ConfirmSensitive).await;
        let told = format!("{:?}", played.result);
        assert!(!played.result.is_success() && !told.contains("GATE_SECRET"), "{tool} {arguments}: {told}");
    }
    assert_eq!(fs::read_to_string(world.beside("outside/f")).unwrap(), "GATE_SECRET\nmore\n");
}

// req: B2
#[tokio::test]
async fn writing_what_is_there_already_is_no_failure() {
    let world = ToolTestWorld::new();
    world.write("src/a", "one\n");
    let played = call(&world, "write_file", json!({"path": "src/a", "content": "one\n"})).await;
    assert!(played.result.is_success(), "{:?}", played.result);
    assert_eq!(world.read("src/a"), "one\n");
}

// req: B2, E6
#[tokio::test]
async fn a_file_is_removed_only_where_that_was_offered_and_comes_back() {
    let world = ToolTestWorld::new();
    world.write("src/a", "one\n");
    let before = tree(&world.at(""));
    let played = call(&world, "delete_file", json!({"path": "src/a"})).await;
    assert_eq!(played.result.to_text(), "removed src/a", "{:?}", played.result);
    assert!(!played.asked.is_empty() && !world.at("src/a").exists());
    undone(&world, &played).await;
    assert_eq!(tree(&world.at("")), before);
    let workplace = byleave_tools::ExecutionEnv::new("/nowhere".into(), "/nowhere".into());
    let offered =
        byleave_tools::builtin_catalog(&workplace, &byleave_tools::BuiltinToolOptions::default()).unwrap();
    assert!(!offered.contains("delete_file") && offered.contains("apply_patch"));
}

// req: B2, B3, B4
#[tokio::test]
async fn what_cannot_be_changed_is_told_with_what_to_do() {
    let world = ToolTestWorld::made("", GateSettings::default(), |mut workplace| {
        workplace.max_file_bytes = 1_000;
        workplace
    });
    world.write("src/a", "one\ntwo\nthree\ntwo\n");
    world.write("crlf", "one\r\ntwo\r\n");
    world.write("tabs", "\tif x {\n\t\ty\n");
    world.write("open", "no end");
    fs::write(world.at("latin"), b"caf\xe9").unwrap();
    fs::write(world.at("big"), [b'a'; 1_001]).unwrap();
    symlink("src/a", world.at("alias")).unwrap();
    let edit = |path: &str, old: &str, new: &str| json!({"path": path, "old": old, "new": new});
    let patch = |text: &str| json!({ "patch": text });
    let form = |lines: &str| json!({ "patch": format!("*** Begin Patch\n{lines}*** End Patch") });
    for (tool, arguments, wanted) in [
        ("edit", edit("none", "a", "b"), "there is no file `none`; create it with write_file"),
        ("edit", edit("src", "a", "b"), "is a directory"),
        ("edit", edit("src/a", "", "b"), "write the whole file with write_file"),
        ("edit", edit("src/a", "one", "one"), "are the same, so nothing would change"),
        (
            "edit",
            edit("src/a", "two", "2"),
            "occurs in 2 places: lines 2, 4; include more of the surrounding text",
        ),
        ("edit", edit("src/a", "threee", "3"), "the most similar lines are\n      3 │ three"),
        ("edit", edit("crlf", "one\ntwo\n", "x"), "end in CRLF (\\r\\n), and the given lines in LF"),
        (
            "edit",
            edit("tabs", "    if x {\n        y\n", "x"),
            "ignoring whitespace (indentation, tabs, spaces at line ends), it is",
        ),
        ("edit", edit("latin", "a", "b"), "convert it with `iconv"),
        ("edit", edit("big", "a", "b"), "at most 1000 are read at once"),
        (
            "edit",
            json!({"path": "src/a", "old": "o", "new": "x".repeat(900), "all": true}),
            "replace less, or use a shorter text",
        ),
        ("edit", json!({"path": "src/a", "old": "o"}), "new"),
        ("multi_edit", json!({"path": "src/a", "edits": []}), "edits"),
        (
            "multi_edit",
            json!({"path": "src/a", "edits": [{"old": "one", "new": "1"}, {"old": "one", "new": "2"}]}),
            "edit 2 of 2 cannot be made, so none was: `old` was not found",
        ),
        (
            "multi_edit",
            json!({"path": "src/a", "edits": [{"old": "one", "new": "1"}, {"old": "1", "new": "one"}]}),
            "do not change `src/a`",
        ),
        ("delete_file", json!({"path": "none"}), "there is no `none`; list_dir shows what is there"),
        (
            "delete_file",
            json!({"path": "src"}),
            "is a directory, and this tool removes only files; remove the files in it, or use `rm -r` in bash",
        ),
        ("apply_patch", patch("hello"), "the patch names no file; begin with `*** Begin Patch`"),
        ("apply_patch", form("*** Update File: none\n@@\n-a\n"), "there is no `none`"),
        ("apply_patch", form("*** Add File: src/a\n+a\n"), "but that file exists; change it instead"),
        ("apply_patch", form("*** Delete File: none\n"), "there is no `none`"),
        ("apply_patch", form("*** Update File: src/a\n*** Move to: open\n@@\n-one\n"), "choose another name"),
        (
            "apply_patch",
            form("*** Add File: new\n+a\n*** Update File: src/a\n@@\n-four\n"),
            "`src/a`: hunk 1 of 1 does not fit",
        ),
        ("apply_patch", form("*** Update File: src/a\n@@\n-two\n"), "fits in 2 places, at lines 2, 4"),
        (
            "apply_patch",
            form("*** Update File: src/a\n@@\n-one\n*** Update File: alias\n@@\n-three\n"),
            "are the same file; use one name",
        ),
        (
            "apply_patch",
            form("*** Update File: src/a\n@@\n *** Add File: b\n-one\n"),
            "the patch is ambiguous",
        ),
        (
            "apply_patch",
            form("*** Update File: src/a\n@@\n-one\n+1\n*** Update File: src/a\n*** Move to: b\n"),
            "in two patches",
        ),
        (
            "apply_patch",
            form("*** Delete File: src/a\n*** Update File: src/a\n@@\n-one\n"),
            "an earlier part of the patch removed it",
        ),
        (
            "apply_patch",
            patch("--- a/open\n+++ b/open\n@@ -1 +1 @@\n-no end\n+end\n"),
            "put `\\ No newline at end of file` after it",
        ),
        ("apply_patch", patch("--- a/src/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"), "give all of its lines"),
        (
            "apply_patch",
            patch("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n"),
            "create the link with `ln -s` in bash",
        ),
        (
            "apply_patch",
            patch("diff --git a/src/a b/src/a\nindex 1..2 100644\nGIT binary patch\nliteral 0\n"),
            "change that file with bash",
        ),
        (
            "apply_patch",
            patch("diff --git a/src/a b/src/a\nold mode 100755\nnew mode 100644\n"),
            "changes nothing: the files already contain all its changes",
        ),
        ("apply_patch", patch("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"), "give one name"),
    ] {
        let before = tree(&world.at(""));
        let played = call(&world, tool, arguments.clone()).await;
        assert!(
            !played.result.is_success() && played.text().contains(wanted),
            "{tool} {arguments}: {}",
            played.text()
        );
        assert_eq!(tree(&world.at("")), before, "{tool} {arguments}");
    }
}

// req: B4
#[tokio::test]
async fn what_git_writes_is_applied_as_git_would() {
    let rounds: u64 = std::env::var("BYLEAVE_PATCHES").map_or(12, |rounds| rounds.parse().unwrap());
    let mut applied = 0;
    for seed in 1..=rounds {
        let mut dice = SeededRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let there = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = |name: &str| there.path().join("w").join(name);
        let write = |name: &str, text: String| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        let names = ["a", "dir/b c", "dir/\u{e4}", "e\"f", "plain", "dir/deep/g"];
        names.iter().for_each(|name| write(name, dice.text()));
        git(there.path(), &["init", "-q"]);
        git(there.path(), &["add", "-A"]);
        git(there.path(), &["commit", "-qm", "before"]);
        let world = ToolTestWorld::new();
        let copied = Command::new("cp").arg("-a").arg(at(".")).arg(world.at("")).status().unwrap();
        assert!(copied.success());
        let before = tree(&world.at(""));
        for name in names {
            let path = at(name);
            match dice.below(7) {
                0 => fs::remove_file(path).unwrap(),
                1 => fs::rename(&path, path.with_file_name(format!("moved {}", dice.below(100)))).unwrap(),
                2 => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap(),
                3 => write(&format!("{name}.new"), dice.text()),
                _ => {
                    let text = fs::read_to_string(&path).unwrap();
                    fs::write(path, dice.changed(&text)).unwrap();
                }
            }
        }
        git(there.path(), &["add", "-A"]);
        let context = format!("-U{}", dice.below(4));
        let patch = git(there.path(), &["diff", "--cached", "-M", "-C", &context]);
        if patch.is_empty() {
            continue;
        }
        let played = call(&world, "apply_patch", json!({"patch": patch})).await;
        assert!(played.result.is_success(), "seed {seed}: {}\n{patch}", played.text());
        assert_eq!(plain_files(&world.at("")), plain_files(&at("")), "seed {seed}\n{patch}");
        undone(&world, &played).await;
        assert_eq!(tree(&world.at("")), before, "seed {seed}");
        applied += 1;
    }
    assert!(applied * 2 > rounds, "only {applied} of {rounds}");
}

fn git(there: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", there);
    git.env("GIT_DIR", there.join("git")).env("GIT_WORK_TREE", there.join("w")).current_dir(there.join("w"));
    git.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(words);
    let ended = git.output().unwrap();
    assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

/// The files beneath a directory: whether they are executable, and their content.
fn plain_files(root: &Path) -> BTreeMap<String, (bool, String)> {
    let (mut all, mut left) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let runs = fs::metadata(&path).unwrap().permissions().mode() & 0o100 != 0;
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        all.insert(name, (runs, fs::read_to_string(path).unwrap()));
    }
    all
}

/// A deterministic sequence of different numbers.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Some lines, many of them equal.
    fn text(&mut self) -> String {
        let count = self.below(30);
        let mut text: String = (0..count).map(|_| self.line()).collect();
        if self.below(4) == 0 {
            text.pop();
        }
        text
    }

    fn line(&mut self) -> String {
        let lines =
            ["}", "", "    call();", "\tcall();", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "end\r", "*** x"];
        let pick = usize::try_from(self.below(14)).unwrap();
        let line =
            lines.get(pick).map_or_else(|| format!("line {}", self.below(1_000)), |line| (*line).to_owned());
        line + "\n"
    }

    fn changed(&mut self, text: &str) -> String {
        let mut changed = String::new();
        for line in text.split_inclusive('\n') {
            match self.below(6) {
                0 => {}
                1 => changed.push_str(&self.line()),
                2 => changed.push_str(&format!("{}{line}", self.line())),
                _ => changed.push_str(line),
            }
        }
        changed
    }
}
