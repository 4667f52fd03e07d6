//! Differential tests: the applier against `git apply` and patch(1), and the parser against the gate's own parser.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use byleave_gate::patch::PatchChange;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::{FileOperation, apply, parse_patch};

/// Generates lines with many duplicates, so that hunks match in several places.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["}", "", "{", "  a", "\ta", "a", "--- a/x", "+++ b/x", "a\r"]).prop_map(str::to_owned),
        2 => (0..40_u8).prop_map(|number| format!("line {number}")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    (prop::collection::vec(line(), 0..24), prop::bool::weighted(0.8)).prop_map(|(lines, ended)| {
        let text = lines.join("\n");
        if ended && !text.is_empty() { text + "\n" } else { text }
    })
}

/// Returns a text in which some lines are removed, replaced or preceded by others.
fn changed(text: &str, rolls: &[(u8, String)]) -> String {
    let mut changed = String::new();
    for (line, (roll, other)) in text.split_inclusive('\n').zip(rolls) {
        match roll {
            0 => {}
            1 => changed.push_str(&format!("{other}\n")),
            2 => changed.push_str(&format!("{other}\n{line}")),
            _ => changed.push_str(line),
        }
    }
    changed
}

fn rolls(rare: u8) -> impl Strategy<Value = Vec<(u8, String)>> {
    prop::collection::vec((0..rare, line()), 24)
}

fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("BYLEAVE_PATCHES").map_or(usual, |cases| cases.parse().unwrap());
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn ended(command: &mut Command) -> bool {
    let ended =
        command.env("LC_ALL", "C").env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", "/nowhere").output().unwrap();
    ended.status.success()
}

/// Returns the result of another program for a patch, if it accepts the patch.
fn by(program: &str, folder: &Path, base: &str, patch: &str) -> Option<String> {
    let at = |name: &str| folder.join(name);
    fs::write(at("x"), base).unwrap();
    fs::write(at("patch"), patch).unwrap();
    let mut command = Command::new(program);
    command.current_dir(folder);
    match program {
        "git" => command.args(["apply", "--whitespace=nowarn", "patch"]),
        _ => command.args([
            "-s",
            "-N",
            "-f",
            "-p1",
            "--binary",
            "--no-backup-if-mismatch",
            "-r",
            "-",
            "-i",
            "patch",
        ]),
    };
    let done = ended(&mut command);
    // Both programs remove a file that becomes empty only if the patch says so.
    done.then(|| fs::read_to_string(at("x")).unwrap_or_default())
}

// req: B4
#[test]
fn what_is_applied_is_what_git_or_patch_would_make_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (applied, refused) = (Cell::new(0), Cell::new(0));
    let drawn = (text(), rolls(8), rolls(30), 0..4_u8);
    let tried = TestRunner::new(cases(60)).run(&drawn, |(base, edit, drift, context)| {
        let new = changed(&base, &edit);
        prop_assume!(new != base && !base.is_empty() && !new.is_empty());
        let patch = diff(folder.path(), &base, &new, context);
        let sections = parse_patch(&patch).unwrap_or_else(|why| panic!("{why}\n{patch}"));
        let ours = |base: &str| {
            let (out, fits) = apply::apply(base.as_bytes(), &sections[0].hunks)?;
            Ok::<_, String>((String::from_utf8(out).unwrap(), fits))
        };
        // Applied to its base, the patch gives its target.
        let (out, fits) = ours(&base).unwrap_or_else(|why| panic!("{why}\n{patch}"));
        prop_assert_eq!(&out, &new, "{}", &patch);
        prop_assert!(fits.iter().all(|fit| (fit.offset, fit.fuzz) == (0, 0)), "{:?}\n{}", fits, patch);
        // Applied to another text, it gives the result of another program, or an error.
        let other = changed(&base, &drift);
        let theirs = ["patch", "git"].map(|program| by(program, folder.path(), &other, &patch));
        match ours(&other) {
            Ok((out, fits)) => {
                applied.set(applied.get() + 1);
                prop_assert!(
                    theirs.iter().flatten().any(|theirs| *theirs == out),
                    "{:?}\nwe {:?}\n{:?}\non {:?}\n{}",
                    fits,
                    out,
                    theirs,
                    other,
                    patch
                );
            }
            Err(_) => refused.set(refused.get() + usize::from(theirs.iter().any(Option::is_some))),
        }
        Ok(())
    });
    tried.unwrap();
    let (applied, refused) = (applied.get(), refused.get());
    println!("on something else applied {applied}, refused {refused} that others apply");
    assert!(applied > refused, "{applied} applied, {refused} refused");
}

fn diff(folder: &Path, old: &str, new: &str, context: u8) -> String {
    for (name, text) in [("old", old), ("new", new)] {
        fs::write(folder.join(name), text).unwrap();
    }
    let mut diff = Command::new("diff");
    diff.args(["-a", &format!("-U{context}"), "--label", "a/x", "--label", "b/x", "old", "new"]);
    String::from_utf8(diff.current_dir(folder).output().unwrap().stdout).unwrap()
}

/// Generates random combinations of patch fragments.
fn pieces() -> impl Strategy<Value = String> {
    let name = || {
        prop::sample::select(vec![
            "x",
            "y z",
            "a/x",
            "../o",
            ".git/config",
            "\"\\303\\244\"",
            "x\t2026",
            "/dev/null",
            "d/x",
        ])
    };
    let piece = prop_oneof![
        4 => (name(), name()).prop_map(|(one, other)| format!("--- a/{one}\n+++ b/{other}\n@@ -1 +1 @@\n-a\n+b\n")),
        4 => name().prop_map(|name| format!("--- a/{name}\n+++ b/{name}\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n")),
        2 => name().prop_map(|name| format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+a\n")),
        2 => name().prop_map(|name| format!("--- {name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n")),
        3 => (name(), name()).prop_map(|(one, other)| format!("diff --git a/{one} b/{other}\nrename from {one}\nrename to {other}\n")),
        2 => (name(), name()).prop_map(|(one, other)| format!("diff --git a/{one} b/{other}\ncopy from {one}\ncopy to {other}\n")),
        2 => name().prop_map(|name| format!("diff --git a/{name} b/{name}\nold mode 100644\nnew mode 100755\n")),
        2 => name().prop_map(|name| format!("diff --git a/{name} b/{name}\ndeleted file mode 100644\n")),
        2 => name().prop_map(|name| format!("diff --git a/{name} b/{name}\nnew file mode 100644\n")),
        1 => name().prop_map(|name| format!("*** Add File: {name}\n+a\n")),
        1 => name().prop_map(|name| format!("*** Update File: {name}\n@@\n-a\n+b\n")),
        1 => (name(), name()).prop_map(|(one, other)| format!("*** Update File: {one}\n*** Move to: {other}\n@@\n-a\n+b\n")),
        1 => name().prop_map(|name| format!("*** Delete File: {name}\n")),
        1 => prop::sample::select(vec!["@@ -1 +1 @@\n-a\n+b\n", "\\ No newline at end of file\n", "-- \n2.47\n", "\n", "junk\n", " a\n", "*** End of File\n"]).prop_map(str::to_owned),
    ];
    (prop::collection::vec(piece, 1..5), any::<bool>(), any::<u16>(), 0..6_u8).prop_map(
        |(pieces, enveloped, at, damage)| {
            let text = pieces.concat();
            let text = if enveloped { format!("*** Begin Patch\n{text}*** End Patch\n") } else { text };
            damaged(&text, usize::from(at), damage)
        },
    )
}

/// Damages a line: removes, duplicates or indents it, changes its line end, or swaps it with the next. Usually it does nothing.
fn damaged(text: &str, at: usize, damage: u8) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let at = at % lines.len();
    match damage {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => lines[at].insert(0, ' '),
        3 => lines[at] = lines[at].replace('\n', "\r\n"),
        _ => {}
    }
    lines.concat()
}

proptest! {
    #![proptest_config(cases(2_000))]

    // req: B4, P3
    #[test]
    fn whatever_would_be_changed_was_judged(text in pieces()) {
        let Ok(sections) = parse_patch(&text) else { return Ok(()) };
        let judged = byleave_gate::patch::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let (mut written, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        for change in &judged.changes {
            match change {
                PatchChange::Add(name) | PatchChange::Update(name) => written.insert(name.as_str()),
                PatchChange::Delete(name) => deleted.insert(name.as_str()),
                PatchChange::Compare(_) => false,
            };
        }
        for section in &sections {
            let name = section.name.as_str();
            let is_judged = match &section.operation {
                FileOperation::Add | FileOperation::Update => written.contains(name),
                FileOperation::Delete => deleted.contains(name),
                FileOperation::Move(to) => deleted.contains(name) && written.contains(to.as_str()),
                FileOperation::Copy(to) => written.contains(name) && written.contains(to.as_str()),
            };
            prop_assert!(is_judged, "{:?}\n{}\n{:?}", section, text, judged);
        }
        // A name that was evaluated in addition prevents the application. An undamaged and unambiguous patch has none.
        let ours: BTreeSet<&str> = sections.iter().flat_map(super::FilePatch::names).collect();
        let theirs: BTreeSet<&str> = written.union(&deleted).copied().collect();
        prop_assert!(ours.is_subset(&theirs), "{}", text);
    }
}

// req: B4
#[test]
fn both_readers_agree_about_what_is_well_written() {
    for text in [
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/x b/y\nrename from x\nrename to y\n",
        "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
        "diff --git a/e b/e\ndeleted file mode 100644\nindex e69de29..0000000\n",
        "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n",
        "diff --git \"a/\\303\\244\" b/x y\nrename from \"\\303\\244\"\nrename to x y\n",
        "*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@\n-a\n+b\n*** Delete File: z\n*** End Patch",
    ] {
        let sections = parse_patch(text).unwrap();
        let ours: BTreeSet<String> =
            sections.iter().flat_map(super::FilePatch::names).map(str::to_owned).collect();
        let theirs =
            byleave_gate::patch::parse(text).unwrap().changes.into_iter().map(|change| match change {
                PatchChange::Add(name)
                | PatchChange::Update(name)
                | PatchChange::Delete(name)
                | PatchChange::Compare(name) => name,
            });
        assert_eq!(ours, theirs.collect::<BTreeSet<_>>(), "{text}");
    }
}
