//! What allowed runs write into scratch directories is on the disk, and goes back when their call is undone.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use byleave_copy::{CopyMethod, CopyState, GcRequest, OnConflict, OutputReport, OutputRule, WorkspaceCopy};
use byleave_core::file_change::FileChange;
use uuid::Uuid;

use super::place::{CopyFixture, differences, directly, mounted, tree};

fn fixture() -> CopyFixture {
    let place = CopyFixture::new();
    prepare(&place);
    place
}

fn prepare(place: &CopyFixture) {
    place.directly("echo > Cargo.toml; mkdir -p src target/debug target/old; echo 1 > target/debug/a; echo 1 > target/debug/b; echo 1 > target/old/o; echo s > src/s");
}

/// Runs a script on a copy in which `target` is scratch.
fn run(place: &CopyFixture, is_rehearsal: bool, script: &str) -> WorkspaceCopy {
    let mut copy = place
        .store
        .create_copy(Uuid::new_v4(), std::slice::from_ref(&place.root), CopyMethod::Overlay)
        .unwrap();
    let mut paths: Vec<PathBuf> = place.store.scratch("s").paths().unwrap();
    paths.extend(Some(place.root.join("target")).filter(|path| path.is_dir()));
    paths.dedup();
    let stacks = match is_rehearsal {
        true => copy.with_rehearsal_scratch("s", &paths).unwrap(),
        false => copy.with_scratch("s", &paths).unwrap(),
    };
    mounted(&copy.mounts(), &place.root, script);
    drop(stacks);
    copy
}

fn place_all(copy: &WorkspaceCopy) -> OutputReport {
    place_if(copy, &|_| true)
}

fn place_if(copy: &WorkspaceCopy, filter: &dyn Fn(&FileChange) -> bool) -> OutputReport {
    let changes = copy.changes().unwrap();
    match changes.is_empty() {
        true => copy.end_unchanged_with(OutputRule::Place(filter)).unwrap(),
        false => {
            let committed = copy.commit_with(&changes, OutputRule::Place(filter)).unwrap();
            assert_eq!(committed.cleanup_error, None);
            committed.outputs
        }
    }
}

/// Waits until the clock of the filesystem, which advances in steps, has advanced.
fn tick(place: &CopyFixture) {
    let now = || {
        let path = place.root.parent().unwrap().join("now");
        fs::write(&path, "").unwrap();
        let found = fs::metadata(&path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let first = now();
    while now() == first {
        std::thread::yield_now();
    }
}

/// Changes of all kinds in `target`, and one change beside it.
const BUILD: &str = "echo 2 > target/debug/a; rm target/debug/b; mkdir -p target/new/deep; echo n > target/new/deep/n; ln target/new/deep/n target/new/m; rm -r target/old; mkdir target/old; echo 2 > target/old/p; ln -s debug/a target/link; chmod 700 target/debug; echo t > src/t";

fn check_build(place: &CopyFixture) {
    let before = tree(&place.root);
    let copy = run(place, false, BUILD);
    let id = copy.id();
    let report = place_all(&copy);
    assert_eq!(report.placed, [place.path("target")], "{report:?}");
    assert!(report.not_placed.is_empty() && report.left_out.is_empty(), "{report:?}");
    drop(copy);
    // It is what a direct run would have left.
    let placed = tree(&place.root);
    let other = CopyFixture::new();
    prepare(&other);
    other.directly(BUILD);
    let (expected, mut found) = (tree(&other.root), placed.clone());
    for (path, entry) in &mut found {
        entry.modified = expected.get(path).map_or(entry.modified, |one| one.modified);
    }
    assert_eq!(differences(&expected, &found), Vec::<String>::new());
    // An undo restores everything, and its undo everything again.
    let by = Uuid::new_v4();
    let undone = place.store.undo(id, by, OnConflict::Refuse).unwrap();
    assert_eq!(undone.outputs.placed, [place.path("target")], "{undone:?}");
    assert_eq!(differences(&before, &tree(&place.root)), Vec::<String>::new());
    place.store.undo(by, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    assert_eq!(differences(&placed, &tree(&place.root)), Vec::<String>::new());
}

// req: E6
#[test]
fn outputs_of_an_allowed_run_are_on_the_disk_and_go_back() {
    check_build(&fixture());
}

#[test]
fn outputs_reach_another_filesystem() {
    let place = CopyFixture::apart();
    prepare(&place);
    let copy = run(&place, false, BUILD);
    let id = copy.id();
    assert_eq!(place_all(&copy).not_placed, []);
    drop(copy);
    assert_eq!(fs::read_to_string(place.root.join("target/new/m")).unwrap(), "n\n");
    assert!(!place.root.join("target/debug/b").exists() && !place.root.join("target/old/o").exists());
    place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    assert!(place.root.join("target/debug/b").exists() && place.root.join("target/old/o").exists());
    assert!(!place.root.join("target/new").exists());
}

#[test]
fn a_new_directory_of_outputs_is_moved_and_a_pure_build_can_be_undone() {
    let place = CopyFixture::new();
    place.directly("echo > Cargo.toml");
    let copy = run(&place, false, "mkdir -p target/debug; echo 1 > target/debug/a");
    let id = copy.id();
    assert_eq!(place_all(&copy).placed, [place.path("target")]);
    drop(copy);
    let inode = |name: &str| fs::metadata(place.root.join(name)).unwrap().ino();
    let first = inode("target/debug/a");
    assert_eq!(place.store.state(id).unwrap(), CopyState::Committed);
    // The next run works on what is there.
    let copy = run(&place, false, "test $(cat target/debug/a) = 1 && echo 2 > target/debug/b");
    let second = copy.id();
    place_all(&copy);
    drop(copy);
    assert_eq!(inode("target/debug/a"), first, "what is unchanged is not copied");
    place.store.undo(second, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    assert!(place.root.join("target/debug/a").exists() && !place.root.join("target/debug/b").exists());
    place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    assert!(!place.root.join("target").exists());
}

// req: E6
#[test]
fn outputs_of_a_run_that_nobody_allowed_reach_neither_the_disk_nor_an_allowed_run() {
    let place = fixture();
    let before = tree(&place.root);
    let rehearsal = run(&place, true, "echo evil > target/debug/a; echo evil > target/evil");
    assert!(rehearsal.changes().unwrap().is_empty());
    rehearsal.end_unchanged().unwrap();
    drop(rehearsal);
    assert_eq!(differences(&before, &tree(&place.root)), Vec::<String>::new());
    let look = "test $(cat target/debug/a) = 1 && test ! -e target/evil";
    let granted = run(&place, false, &format!("{look} || exit 1"));
    granted.discard().unwrap();
    // A rehearsal finds it. What is made on it does not reach the disk either, even if a person allows that.
    let built_on = run(&place, true, "test -e target/evil && echo more > target/more");
    let report = place_all(&built_on);
    drop(built_on);
    assert_eq!(report.placed, Vec::<String>::new());
    assert_eq!(report.not_placed.len(), 1, "{report:?}");
    assert_eq!(differences(&before, &tree(&place.root)), Vec::<String>::new());
    // The outputs of an allowed run end the layers of rehearsals, also of one that is still running.
    let late = run(&place, true, "echo late > target/late");
    let granted =
        run(&place, false, &format!("({look} && test ! -e target/more) || exit 1; echo 3 > target/c"));
    place_all(&granted);
    drop(granted);
    assert!(late.changes().unwrap().is_empty());
    late.end_unchanged().unwrap();
    drop(late);
    let rehearsal = run(&place, true, "test -e target/c && test ! -e target/evil && test ! -e target/late");
    rehearsal.discard().unwrap();
}

#[test]
fn what_a_filter_refuses_stays_off_the_disk() {
    let place = fixture();
    let is_allowed = |change: &FileChange| {
        change.is_plain(place.root.to_str().unwrap())
            && !change.path.contains("secret")
            && !change.path.ends_with("/b")
    };
    let copy = run(
        &place,
        false,
        "echo 2 > target/debug/a; echo x > target/secret; mkdir -p target/secrets/d; echo x > target/secrets/d/f; rm target/debug/b; mkfifo target/pipe; cp target/debug/a target/setid; chmod u+s target/setid; ln -s /etc/passwd target/etc; ln -s /root/x target/out; rm -r target/debug/../old; echo f > target/old",
    );
    let report = place_if(&copy, &is_allowed);
    drop(copy);
    assert_eq!(report.placed, [place.path("target")], "{report:?}");
    assert_eq!((report.left_out_count, report.left_out.len()), (7, 5), "{report:?}");
    let there = |name: &str| place.root.join("target").join(name).symlink_metadata().is_ok();
    for gone in ["secret", "secrets", "pipe", "setid", "out", "etc"] {
        assert!(!there(gone), "{gone}");
    }
    assert!(there("debug/b"));
    assert!(place.root.join("target/old").is_file());
    assert_eq!(fs::read_to_string(place.root.join("target/debug/a")).unwrap(), "2\n");
}

#[test]
fn a_directory_that_changed_meanwhile_keeps_its_contents() {
    for script in ["echo mine > target/debug/a", "echo mine > target/old/o", "echo mine > target/c"] {
        let place = fixture();
        let copy = run(
            &place,
            false,
            "echo 2 > target/debug/a; rm -r target/old; echo 2 > target/c; echo 2 > target/d",
        );
        tick(&place);
        directly(&place.root, script);
        let mine = tree(&place.root);
        let report = place_all(&copy);
        assert!(report.placed.is_empty() && report.not_placed.len() == 1, "{script}: {report:?}");
        assert_eq!(differences(&mine, &tree(&place.root)), Vec::<String>::new(), "{script}");
    }
}

#[test]
fn an_undo_leaves_outputs_that_were_changed_since() {
    let place = fixture();
    let copy = run(&place, false, "echo 2 > target/debug/a; echo t > src/t");
    let id = copy.id();
    place_all(&copy);
    drop(copy);
    tick(&place);
    place.directly("echo mine > target/debug/a");
    let undone = place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    assert_eq!((undone.outputs.placed.len(), undone.outputs.not_placed.len()), (0, 1), "{undone:?}");
    assert!(!place.root.join("src/t").exists());
    assert_eq!(fs::read_to_string(place.root.join("target/debug/a")).unwrap(), "mine\n");
}

#[test]
fn what_outputs_replaced_is_dropped_with_scratch() {
    let place = fixture();
    let copy = run(&place, false, "echo 2 > target/debug/a");
    let id = copy.id();
    place_all(&copy);
    drop(copy);
    let now = std::time::SystemTime::now();
    assert!(place.store.usage(now).unwrap().scratch_bytes > 0);
    let request = GcRequest { scratch: true, ..GcRequest::default() };
    assert!(place.store.collect_requested_garbage(now, &request).unwrap().scratch_bytes > 0);
    assert_eq!(place.store.output_dirs(id).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_to_string(place.root.join("target/debug/a")).unwrap(), "2\n");
}
