//! Commits: atomic, partial, and with every kind of obstacle.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use byleave_copy::{CopyMethod, CopyState, Error, OnConflict};
use byleave_core::file_change::FileChanges;
use uuid::Uuid;

use crate::place::{CopyFixture, differences, mounted, tree};

const FILES: &str =
    "mkdir -p d/e out; echo one > a; echo two > b; echo x > d/x; echo y > d/e/y; ln -s a link";

/// The command on the copy, the change made meanwhile, and the paths in conflict.
const MEANWHILE: [(&str, &str, &[&str]); 16] = [
    ("echo mine > a", "echo theirs > a", &["a"]),
    ("echo mine > a", "touch -r a t; echo eno > a; touch -r t a; rm t", &["a"]),
    ("echo mine > a", "chmod 600 a", &["a"]),
    ("echo mine > a", "rm a", &["a"]),
    ("echo mine > a", "rm a; mkdir a", &["a"]),
    ("echo mine > a", "cp a c; mv c a", &["a"]),
    ("echo mine > c", "echo theirs > c", &["c"]),
    ("echo mine > c", "ln -s /etc/passwd c", &["c"]),
    ("rm a", "echo theirs >> a", &["a"]),
    ("rm -r d", "echo theirs > d/e/new", &["d/e"]),
    ("rm -r d", "echo theirs >> d/e/y", &["d/e/y"]),
    ("echo mine > d/e/y", "mv d/e out/; ln -s ../out/e d/e", &["d/e/y"]),
    ("echo mine > d/e/new", "mv d/e out/; ln -s ../out/e d/e", &["d/e/new"]),
    ("echo mine > d/e/new", "rm -r d", &["d/e/new"]),
    ("chmod 700 d", "chmod 711 d", &["d"]),
    ("mkfifo p; ln -sfn b link", "ln -sfn d link; echo > p", &["link", "p"]),
];

// req: E6
#[test]
fn what_changed_meanwhile_is_a_conflict_and_nothing_is_done() {
    for (mine, theirs, paths) in MEANWHILE {
        let place = CopyFixture::new();
        place.directly(FILES);
        // A further change without a conflict is not committed either.
        let copy = place.on_copy(&format!("{mine}; echo other > other"));
        let changes = copy.changes().unwrap();
        place.directly(theirs);
        let before = tree(&place.root);
        let Err(Error::Conflicts(conflicts)) = copy.commit(&changes) else {
            panic!("{mine} / {theirs}: no conflict")
        };
        let found: Vec<_> = conflicts.iter().map(|conflict| conflict.path.clone()).collect();
        let expected: Vec<_> = paths.iter().map(|path| place.path(path)).collect();
        assert_eq!(found, expected, "{mine} / {theirs}");
        assert_eq!(differences(&before, &tree(&place.root)), [""; 0], "{mine} / {theirs}");
        assert_eq!(place.store.state(copy.id()).unwrap(), CopyState::Open);
        // The rest can still be committed.
        copy.commit(&changes.only_paths(&[place.path("other")])).unwrap();
        assert_eq!(fs::read_to_string(place.path("other")).unwrap(), "other\n");
    }
}

// req: E6
#[test]
fn what_changed_while_the_command_ran_is_a_conflict_though_the_listing_saw_it() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("echo mine > a");
    place.directly("touch -r a t; echo eno > a; touch -r t a; rm t");
    let changes = copy.changes().unwrap();
    assert!(matches!(copy.commit(&changes), Err(Error::Conflicts(_))));
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "eno\n");
}

// req: E6
#[test]
fn a_root_that_is_another_one_is_refused() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("echo mine > a");
    let changes = copy.changes().unwrap();
    place.directly("mv $PWD ../old; mkdir ../w; echo one > ../w/a");
    assert!(matches!(copy.commit(&changes), Err(Error::Root { .. })));
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "one\n");
}

#[test]
fn what_was_shown_is_what_is_committed() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("echo mine > a");
    let changes = copy.changes().unwrap();
    let mut other = changes.clone();
    other.list[0].path = place.path("b");
    assert!(matches!(copy.commit(&other), Err(Error::NotListed(_))));
    let mut other = changes.clone();
    other.list[0].after.as_mut().unwrap().mode = 0o4755;
    assert!(matches!(copy.commit(&other), Err(Error::NotListed(_))));
    // The layer differs from the listing.
    let upper = place.store.path().join(format!("copies/{}/0/upper/a", copy.id()));
    fs::write(upper, "evil").unwrap();
    assert!(matches!(copy.commit(&changes), Err(Error::NotListed(_))));
    assert_eq!(fs::read_to_string(place.path("a")).unwrap(), "one\n");
}

/// The command, the chosen paths, and the committed paths or the missing one.
type PartialCommitCase =
    (&'static str, &'static [&'static str], Result<&'static [&'static str], &'static str>);

const CHOICES: [PartialCommitCase; 6] = [
    ("echo 1 > a; echo 2 > b", &["a"], Ok(&["a"])),
    ("mkdir -p n/o; echo 1 > n/o/p; echo 2 > n/q", &["n/o/p"], Ok(&["n", "n/o", "n/o/p"])),
    ("rm -r d", &["d/e/y"], Ok(&["d/e/y"])),
    ("rm -r d", &["d/e"], Ok(&["d/e", "d/e/y"])),
    ("rm a; mkdir a; echo 1 > a/i", &["a/i"], Err("a")),
    ("echo 1 > a", &[], Ok(&[])),
];

// req: E6
#[test]
fn a_part_is_committed_with_what_it_needs_or_not_at_all() {
    for (script, chosen, expected) in CHOICES {
        let place = CopyFixture::new();
        place.directly(FILES);
        let copy = place.on_copy(script);
        let paths: Vec<_> = chosen.iter().map(|path| place.path(path)).collect();
        let changes = copy.changes().unwrap().only_paths(&paths);
        match (copy.commit(&changes), expected) {
            (Ok(committed), Ok(expected)) => {
                let found: Vec<_> = committed.changes.list.iter().map(|change| change.path.clone()).collect();
                assert_eq!(
                    found,
                    expected.iter().map(|path| place.path(path)).collect::<Vec<_>>(),
                    "{script}"
                );
            }
            (Err(Error::Incomplete { needs, .. }), Err(expected)) => assert_eq!(needs, place.path(expected)),
            (other, _) => panic!("{script}: {other:?}"),
        }
    }
    // A directory cannot be removed without its content.
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("rm -r d");
    let mut changes = copy.changes().unwrap();
    changes.list.retain(|change| change.path != place.path("d/x"));
    assert!(matches!(copy.commit(&changes), Err(Error::Incomplete { .. })));
}

// req: E6
#[test]
fn a_store_on_another_filesystem_commits_and_undoes_as_well() {
    let place = CopyFixture::apart();
    place.directly(&format!("{FILES}; mkdir gone; echo g > gone/g; chmod 640 b"));
    let before = tree(&place.root);
    let script = "echo mine > a; chmod 600 b; rm -r gone; mkdir -p n/o; echo p > n/o/p; ln -sfn b link; mkfifo n/f; rm d/x; mkdir d/x";
    let (id, _) = place.commit(script);
    let after = tree(&place.root);
    assert_eq!(fs::read_to_string(place.path("n/o/p")).unwrap(), "p\n");
    assert!(!fs::exists(place.path("gone")).unwrap());
    let (undo, redo) = (Uuid::new_v4(), Uuid::new_v4());
    place.store.undo(id, undo, OnConflict::Refuse).unwrap();
    assert_eq!(differences(&before, &tree(&place.root)), [""; 0]);
    place.store.undo(undo, redo, OnConflict::Refuse).unwrap();
    assert_eq!(differences(&after, &tree(&place.root)), [""; 0]);
}

#[test]
fn a_commit_of_nothing_is_a_commit() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let copy = place.on_copy("true");
    copy.commit(&FileChanges::default()).unwrap();
    assert_eq!(place.store.state(copy.id()).unwrap(), CopyState::Committed);
    assert!(matches!(copy.commit(&FileChanges::default()), Err(Error::Exists(_))));
}

// req: E6
#[test]
fn a_step_that_fails_takes_back_those_before_it() {
    for place in [CopyFixture::new(), CopyFixture::apart()] {
        place.directly(&format!("{FILES}; mkdir z; echo z > z/z; chmod 750 d"));
        let before = tree(&place.root);
        let script = "echo mine > a; rm b; rm -r d; mkdir -p n/o; echo p > n/o/p; ln -sfn b link; echo more > z/z; chmod 700 .";
        let copy = place.on_copy(script);
        let changes = copy.changes().unwrap();
        // The directory is immutable, so that nothing can be moved in or out. This shows only when it is
        // tried.
        let fixed =
            |how: &str| std::process::Command::new("chattr").arg(how).arg(place.root.join("z")).status();
        if !fixed("+i").is_ok_and(|status| status.success()) {
            return;
        }
        let result = copy.commit(&changes);
        let is = tree(&place.root);
        assert!(fixed("-i").unwrap().success());
        assert!(
            matches!(&result, Err(Error::RolledBack { path, .. }) if *path == place.path("z/z")),
            "{result:?}"
        );
        assert_eq!(differences(&before, &is), [""; 0]);
        assert_eq!(place.store.state(copy.id()).unwrap(), CopyState::Open);
        // Moving files away and back changed their times. The copy is based on the earlier state, so it cannot be committed any
        // more.
        assert_eq!(place.store.recover().unwrap(), []);
        assert!(matches!(copy.commit(&changes), Err(Error::Conflicts(_))));
    }
}

// req: E6
#[test]
fn nothing_lands_elsewhere_while_somebody_swaps_a_directory_for_a_link() {
    let place = CopyFixture::new();
    place.directly("mkdir -p d/e away; for i in $(seq 1 30); do echo $i > d/e/f$i; done");
    let outside = place.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (inside, away) = (place.root.join("d"), place.root.join("away/d"));
    std::os::unix::fs::symlink(&outside, &away).unwrap();
    let swap = || {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &inside, rustix::fs::CWD, &away, flags).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                swap();
                swap();
            }
        });
        let mut tried = 0;
        while tried < 20 {
            // The layer is made by hand, because a mount would require that the workspace does not change.
            let copy = place.store.create_copy(
                Uuid::new_v4(),
                std::slice::from_ref(&place.root),
                CopyMethod::Overlay,
            );
            let copy = copy.unwrap();
            let upper = place.store.path().join(format!("copies/{}/0/upper/d/e", copy.id()));
            fs::create_dir_all(&upper).unwrap();
            for number in 1..30 {
                fs::write(upper.join(format!("f{number}")), "mine").unwrap();
            }
            fs::create_dir(upper.join("new")).unwrap();
            fs::write(upper.join("new/n"), "mine").unwrap();
            let Ok(changes) = copy.changes() else { continue };
            // If the link was there during the listing, the commit replaces the link. Another test covers
            // that.
            if changes.list.iter().any(|change| !change.path.starts_with(&place.path("d/e/"))) {
                continue;
            }
            tried += 1;
            // The commit may succeed, be refused or be rolled back. Nothing may be written outside.
            drop(copy.commit(&changes));
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!((1..30).all(|number| inside.join(format!("e/f{number}")).exists()));
}

/// Another user, to whom file modes apply.
const SOMEBODY: u32 = 61_002;

// req: E6
#[test]
fn an_owner_who_is_not_root_commits_into_closed_directories_or_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let status = std::process::Command::new("/proc/self/exe")
        .args(["committing::as_somebody", "--exact", "--ignored", "--nocapture"])
        .env("BYLEAVE_PLACE", folder.path())
        .env("TMPDIR", folder.path())
        .uid(SOMEBODY)
        .gid(SOMEBODY)
        .output()
        .unwrap();
    assert!(
        status.status.success(),
        "{}{}",
        String::from_utf8_lossy(&status.stdout),
        String::from_utf8_lossy(&status.stderr)
    );
}

#[test]
#[ignore = "a part of the test above, run as another user"]
fn as_somebody() {
    if std::env::var_os("BYLEAVE_PLACE").is_none() {
        return;
    }
    for script in [
        "chmod u+w d; echo new > d/new; echo more >> d/x; chmod u-w d",
        "chmod -R u+w d; rm -r d",
        "chmod 755 d; rm d/x; chmod 000 a; mkdir c; echo k > c/k; chmod 555 c",
        "chmod u+w d; mkdir d/c; echo k > d/c/k; chmod 500 d/c d",
    ] {
        let place = CopyFixture::new();
        place.directly(&format!("{FILES}; chmod 555 d d/e"));
        let before = tree(&place.root);
        let (id, _) = place.commit(script);
        let undo = Uuid::new_v4();
        place.store.undo(id, undo, OnConflict::Refuse).unwrap_or_else(|fault| panic!("{script}: {fault}"));
        assert_eq!(before, tree(&place.root), "{script}");
        // The test must be able to remove the files.
        place.directly("chmod -R u+rwx .");
    }
}

// req: E5
#[test]
fn what_others_do_meanwhile_is_no_change_of_a_full_copy() {
    let place = CopyFixture::new();
    place.directly(
        "mkdir -p d/in e gone/in was; for f in a b c d/x gone/in/y gone/z was/w; do echo 1 > $f; done; ln -s a link",
    );
    let roots = std::slice::from_ref(&place.root);
    let copy = place.store.create_copy(Uuid::new_v4(), roots, CopyMethod::Tree).unwrap();
    copy.remember_entries().unwrap();
    mounted(&copy.mounts(), &place.root, "echo 2 > b; echo 2 > made; rm c; chmod 700 was; mkdir e/new");
    place.directly(
        "echo mine > a; echo mine > new; mkdir empty; chmod 700 d; echo mine > d/in/m; rm -r gone; ln -sfn b link; rm d/x; echo mine > .env",
    );
    let before = tree(&place.root);
    let changes = copy.changes().unwrap();
    assert_eq!(
        place.short(&changes),
        ["changed b", "deleted c", "created e/new", "created made", "mode or time was"]
    );
    copy.commit(&changes).unwrap();
    let after = tree(&place.root);
    for (path, entry) in &before {
        let is_changed = ["b", "c", "was", "", "e"].contains(&path.as_str());
        assert!(is_changed || after.get(path) == Some(entry), "{path}");
    }
    // Where both changed something, nothing is lost.
    let copy = place.store.create_copy(Uuid::new_v4(), roots, CopyMethod::Tree).unwrap();
    copy.remember_entries().unwrap();
    mounted(&copy.mounts(), &place.root, "rm -r was; echo 3 > a");
    place.directly("echo mine > was/more; echo mine again > a");
    let changes = copy.changes().unwrap();
    let Err(Error::Conflicts(conflicts)) = copy.commit(&changes) else { panic!("no conflict") };
    let paths: Vec<&str> = conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
    assert_eq!(paths, [place.path("a"), place.path("was")]);
}
