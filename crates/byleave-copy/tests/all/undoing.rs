//! Undo restores everything byte for byte. Later changes are never overwritten without a request.

use std::fs;

use byleave_copy::{CopyState, Error, OnConflict};
use uuid::Uuid;

use crate::place::{CopyFixture, SeededRng, differences, number, tree};

const FILES: &str = "mkdir -p d/e; echo one > a; printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n' > b; echo x > d/x; echo y > d/e/y; ln -s a link";

/// The change by the call, the later change, and the paths in conflict.
const SINCE: [(&str, &str, &[&str]); 14] = [
    ("echo mine > a", "true", &[]),
    ("echo mine > a", "echo unrelated > c", &[]),
    ("echo mine > a", "cp a c; mv c a", &[]),
    ("echo mine > a", "touch a", &[]),
    ("echo mine > a", "echo theirs > a", &["a"]),
    ("echo mine > a", "touch -r a t; echo THEM > a; touch -r t a; rm t", &["a"]),
    ("echo mine > a", "chmod 600 a", &["a"]),
    ("echo mine > a", "rm a", &["a"]),
    ("rm a", "echo theirs > a", &["a"]),
    ("echo mine > c", "echo theirs >> c", &["c"]),
    ("mkdir n; echo i > n/i", "echo theirs > n/j", &["n"]),
    ("rm d/e/y", "rmdir d/e", &["d/e/y"]),
    ("ln -sfn b link", "ln -sfn d link", &["link"]),
    ("rm -r d", "mkdir -p d; echo theirs > d/z", &["d"]),
];

// req: E6
#[test]
fn what_was_changed_since_is_a_conflict_unless_that_is_wanted() {
    for (mine, theirs, paths) in SINCE {
        let place = CopyFixture::new();
        place.directly(FILES);
        let before = tree(&place.root);
        let (id, _) = place.commit(&format!("{mine}; echo other > other"));
        place.directly(theirs);
        let since = tree(&place.root);
        let by = Uuid::new_v4();
        let result = place.store.undo(id, by, OnConflict::Refuse);
        if paths.is_empty() {
            result.unwrap_or_else(|fault| panic!("{mine} / {theirs}: {fault}"));
            place.directly("rm -f c");
            assert_eq!(differences(&before, &tree(&place.root)), [""; 0], "{mine} / {theirs}");
            continue;
        }
        let Err(Error::Conflicts(conflicts)) = result else { panic!("{mine} / {theirs}: {result:?}") };
        let found: Vec<_> = conflicts.iter().map(|conflict| conflict.path.clone()).collect();
        assert_eq!(found, paths.iter().map(|path| place.path(path)).collect::<Vec<_>>(), "{mine} / {theirs}");
        assert_eq!(differences(&since, &tree(&place.root)), [""; 0], "{mine} / {theirs}");
        assert_eq!(place.store.state(id).unwrap(), CopyState::Committed);
        if conflicts.iter().any(|conflict| conflict.reason.contains("parent directory no longer exists")) {
            assert!(place.store.undo(id, by, OnConflict::Overwrite).is_err());
            continue;
        }
        place
            .store
            .undo(id, by, OnConflict::Overwrite)
            .unwrap_or_else(|fault| panic!("{mine} / {theirs}: {fault}"));
        assert_eq!(differences(&before, &tree(&place.root)), [""; 0], "{mine} / {theirs}");
        // Overwritten content is kept, so the undo of the undo restores it.
        place
            .store
            .undo(by, Uuid::new_v4(), OnConflict::Refuse)
            .unwrap_or_else(|fault| panic!("{mine} / {theirs}: {fault}"));
        assert_eq!(differences(&since, &tree(&place.root)), [""; 0], "{mine} / {theirs}");
    }
}

// req: E6
#[test]
fn a_new_file_that_somebody_has_removed_is_not_reported_as_undone() {
    let place = CopyFixture::new();
    let (id, _) = place.commit("echo mine > new");
    place.directly("rm new");
    let undone = place.store.undo(id, Uuid::new_v4(), OnConflict::Overwrite).unwrap();
    assert!(undone.changes.list.is_empty(), "{undone:?}");
}

// req: E6
#[test]
fn a_conflict_shows_all_three_sides() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("sed -i s/2/two/ b");
    let mut changes = copy.changes().unwrap();
    copy.fill_diffs(&mut changes).unwrap();
    copy.commit(&changes).unwrap();
    let id = copy.id();
    drop(copy);
    place.directly("sed -i s/7/seven/ b");
    let Err(Error::Conflicts(conflicts)) = place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse) else {
        panic!()
    };
    let texts = conflicts[0].texts.clone().unwrap();
    assert_eq!(texts.base.as_deref(), Some("1\ntwo\n3\n4\n5\n6\n7\n8\n"));
    // Both sides can be merged: the later changes are kept and the call's change is undone.
    assert_eq!(conflicts[0].merge_text().as_deref(), Some("1\n2\n3\n4\n5\n6\nseven\n8\n"));
    place.directly("sed -i s/two/zwei/ b");
    let Err(Error::Conflicts(conflicts)) = place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse) else {
        panic!()
    };
    let merged = conflicts[0].merge_text().unwrap();
    assert!(merged.contains("<<<<<<<") && merged.contains("zwei"), "{merged}");
}

#[test]
fn undo_says_what_became_of_a_call_and_follows_undos_of_undos() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let undo = |id, by| place.store.undo(id, by, OnConflict::Refuse);
    let (first, second, third, fourth) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    assert!(matches!(undo(first, second), Err(Error::Missing(_))));
    let copy = place.on_copy("echo mine > a");
    let waiting = copy.id();
    drop(copy);
    assert!(matches!(undo(waiting, second), Err(Error::NotCommitted(_))));
    let (id, changes) = place.commit("echo mine > a");
    assert_eq!(place.store.changes(id).unwrap().list[0].diff.as_deref(), Some("@@ -1 +1 @@\n-one\n+mine\n"));
    assert_eq!(place.store.changes(id).unwrap().digest(), changes.digest());
    undo(id, first).unwrap();
    assert!(matches!(undo(id, second), Err(Error::AlreadyUndone { undo_id: by, .. }) if by == first));
    undo(first, second).unwrap();
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "mine\n");
    undo(id, third).unwrap();
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "one\n");
    assert!(matches!(undo(id, fourth), Err(Error::AlreadyUndone { .. })));
}

/// A realistic workspace.
fn workspace(files: usize) -> String {
    let binary = files * 5000;
    format!(
        "git init -q . && git config user.email a@b && git config user.name n; git config gc.auto 0; mkdir -p build empty/inner big; \
         i=0; while [ $i -lt {files} ]; do d=src/m$((i % 40))/p$((i % 7)); [ -d $d ] || mkdir -p $d; echo \"file $i\" > $d/f$i.txt; i=$((i + 1)); done; \
         printf 'build/\\n*.o\\n' > .gitignore; git add -A; git commit -qm all; \
         for i in $(seq 1 60); do echo o > build/x$i.o; echo u > src/m$((i % 40))/untracked$i; ln -s ../m0 src/m$((i % 40))/l$i; done; \
         chmod 600 src/m1/untracked1; chmod 750 src/m2; chmod 4755 src/m3/untracked3; head -c {binary} /dev/urandom > big/binary; cp -r src/m0 tree"
    )
}

fn call(dice: &mut SeededRng, number: usize) -> String {
    let (one, other) = (dice.roll(40), dice.roll(40));
    match dice.roll(15) {
        0 => format!("find src/m{one} -name '*.txt' -exec sed -i s/file/line/ {{}} +"),
        1 => "git clean -qfdx".into(),
        2 => "rm -rf build".into(),
        3 => format!("find src/m{one} -type f -delete"),
        4 => format!("mv src/m{one} moved{number}"),
        5 => format!("mv moved* src/ ; mkdir -p build; echo {number} > build/new{number}.o"),
        6 => format!("chmod -R go-rwx src/m{one}"),
        7 => format!("cp -a src/m{one} src/copy{number}"),
        8 => format!("echo {number} >> big/binary"),
        9 => format!("git checkout -q -- . ; echo {number} > src/n{number}"),
        10 => format!("rm -rf tree; ln -s src/m{other} tree"),
        11 => format!("rm -f tree; mkdir -p tree; cp -r src/m{other}/. tree/"),
        12 => format!("rmdir empty/inner empty; mkdir -p empty/other{number}"),
        13 => format!("for f in src/m{one}/p*/*; do echo {number} >> \"$f\"; done"),
        _ => format!("git add -A; git commit -qm c{number}; mv src src2; mv src2 src"),
    }
}

// req: E6
#[test]
fn a_workspace_comes_back_byte_for_byte_and_goes_again() {
    let (files, calls) = (number("BYLEAVE_UNDO_FILES", 1000), number("BYLEAVE_UNDO_CALLS", 20));
    let place = CopyFixture::new();
    place.directly(&workspace(files));
    let mut dice = SeededRng(number("BYLEAVE_SEED", 7) as u64 | 1);
    let before = tree(&place.root);
    let mut ids = Vec::new();
    for number in 0..calls {
        ids.push(place.commit(&format!("{} ; true", call(&mut dice, number))).0);
    }
    let after = tree(&place.root);
    assert_ne!(before, after);
    let mut undone = Vec::new();
    for id in ids.iter().rev() {
        let by = Uuid::new_v4();
        place.store.undo(*id, by, OnConflict::Refuse).unwrap_or_else(|fault| panic!("undo: {fault}"));
        undone.push(by);
    }
    assert_eq!(differences(&before, &tree(&place.root)), [""; 0]);
    for id in undone.iter().rev() {
        place
            .store
            .undo(*id, Uuid::new_v4(), OnConflict::Refuse)
            .unwrap_or_else(|fault| panic!("undo of undo: {fault}"));
    }
    assert_eq!(differences(&after, &tree(&place.root)), [""; 0]);
}

// req: E6
#[test]
fn an_index_that_git_has_only_refreshed_is_no_conflict() {
    const COMMIT: &str = "echo more >> a; git add -A; git commit -qm second";
    for (since, is_conflict) in
        [("touch -d '2001-01-01' a b; git status -s", false), ("echo staged > new; git add new", true)]
    {
        let place = CopyFixture::new();
        place.directly(
            "git init -q . && git config user.email a@b && git config user.name n; git config gc.auto 0",
        );
        place.directly("echo one > a; echo two > b; git add -A; git commit -qm first");
        let (id, _) = place.commit(COMMIT);
        let left = fs::read(place.path(".git/index")).unwrap();
        place.directly(since);
        assert_ne!(fs::read(place.path(".git/index")).unwrap(), left, "{since}: Git wrote nothing");
        // The times of a file that the commit did not change are no matter of it.
        let result = place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse);
        match is_conflict {
            false => {
                result.unwrap_or_else(|fault| panic!("{since}: {fault}"));
                assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "one\n");
            }
            true => {
                let Err(Error::Conflicts(conflicts)) = result else { panic!("{since}: {result:?}") };
                assert!(conflicts.iter().any(|conflict| conflict.path.ends_with("/.git/index")));
            }
        }
    }
}
