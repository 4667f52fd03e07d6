//! The store: access to copies, retention, and scratch directories.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use byleave_copy::scratch::{self, ScratchName};
use byleave_copy::{
    CopyMethod, CopySettings, CopyState, CopyStore, Error, GcRequest, MountSource, OnConflict,
};
use byleave_core::rehearsal::BeforeImageRoom;
use uuid::Uuid;

use crate::place::{CopyFixture, mounted};

#[test]
fn a_copy_belongs_to_one_process_and_a_leftover_to_nobody() {
    let place = CopyFixture::new();
    let id = Uuid::new_v4();
    let roots = [place.root.clone()];
    let copy = place.store.create_copy(id, &roots, CopyMethod::Overlay).unwrap();
    assert!(matches!(place.store.create_copy(id, &roots, CopyMethod::Overlay), Err(Error::Busy(_))));
    assert!(matches!(place.store.reopen(id), Err(Error::Busy(_))));
    let upper = place.store.path().join(format!("copies/{id}/0/upper/left"));
    fs::write(&upper, "left").unwrap();
    drop(copy);
    assert_eq!(place.store.reopen(id).unwrap().changes().unwrap().list.len(), 1);
    let copy = place.store.create_copy(id, &roots, CopyMethod::Overlay).unwrap();
    assert!(!upper.exists());
    copy.discard().unwrap();
    assert_eq!(place.store.state(id).unwrap(), CopyState::Missing);
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let place = CopyFixture::with(CopySettings { max_tree_bytes: 1000, ..CopySettings::default() });
    place.directly("mkdir d; ln -s d l; head -c 2000 /dev/zero > f");
    let copy = |path: PathBuf, method| place.store.create_copy(Uuid::new_v4(), &[path], method);
    assert!(matches!(copy(place.root.join("l"), CopyMethod::Overlay), Err(Error::Root { .. })));
    assert!(matches!(copy(place.root.join("f"), CopyMethod::Overlay), Err(Error::Root { .. })));
    assert!(matches!(
        copy(place.root.parent().unwrap().into(), CopyMethod::Overlay),
        Err(Error::Root { .. })
    ));
    assert!(matches!(
        copy(place.root.clone(), CopyMethod::Tree),
        Err(Error::TooLarge { limit_bytes: 1000, .. })
    ));
    let both = [place.root.clone(), place.root.join("d")];
    assert!(matches!(
        place.store.create_copy(Uuid::new_v4(), &both, CopyMethod::Overlay),
        Err(Error::Root { .. })
    ));
}

#[test]
fn nobody_else_can_look_into_the_store_and_the_owner_of_a_root_can_mount() {
    let place = CopyFixture::new();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(place.store.path().into()), 0o700);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(&place.root, Some(61_003), Some(61_003)).unwrap();
    fs::set_permissions(&place.root, fs::Permissions::from_mode(0o750)).unwrap();
    let copy = place
        .store
        .create_copy(Uuid::new_v4(), std::slice::from_ref(&place.root), CopyMethod::Overlay)
        .unwrap();
    let MountSource::Overlay { upper, work, .. } = copy.mounts().remove(0).source else { panic!() };
    for path in [&upper, &work] {
        assert_eq!(fs::metadata(path).unwrap().uid(), 61_003);
    }
    assert_eq!(mode(upper), 0o750);
    // Others can traverse it, but not list or read it.
    assert_eq!(mode(place.store.path().into()), 0o711);
    assert_eq!(mode(place.store.path().join(format!("copies/{}/0", copy.id()))), 0o700);
}

const HOUR: Duration = Duration::from_secs(3600);

// req: E6
#[test]
fn what_is_old_or_too_much_is_forgotten_and_that_is_said() {
    let settings = CopySettings {
        quota_bytes: 3 << 20,
        retention: 100 * HOUR,
        min_retention: Duration::ZERO,
        ..CopySettings::default()
    };
    let place = CopyFixture::with(settings);
    place.directly("for i in 1 2 3; do head -c 2000000 /dev/zero > f$i; done; echo a > a");
    let now = SystemTime::now();
    let (first, _) = place.commit("rm f1");
    let (second, _) = place.commit("rm f2; mkdir closed; chmod 000 closed");
    let tidied = place.store.collect_garbage(now + HOUR).unwrap();
    assert_eq!(tidied.dropped.iter().map(|one| one.id).collect::<Vec<_>>(), [first]);
    assert!(tidied.stored_bytes < 3 << 20 && tidied.dropped[0].bytes > 1_900_000, "{tidied:?}");
    let Err(fault) = place.store.undo(first, Uuid::new_v4(), OnConflict::Refuse) else { panic!() };
    assert!(
        fault.to_string().contains("were dropped on 2")
            && fault.to_string().contains("more than 3145728 bytes"),
        "{fault}"
    );
    assert!(matches!(place.store.state(first).unwrap(), CopyState::Dropped { .. }));
    // A pending copy is removed after a day, a copy in use never, and a committed copy when it is old.
    let (held, waiting) =
        (place.on_copy("echo b > a"), place.on_copy("echo c > a; mkdir k; touch k/k; chmod 000 k"));
    let waits = waiting.id();
    drop(waiting);
    assert_eq!(place.store.collect_garbage(now + 20 * HOUR).unwrap().dropped, []);
    let dropped = place.store.collect_garbage(now + 30 * HOUR).unwrap().dropped;
    assert_eq!(dropped.iter().map(|one| one.id).collect::<Vec<_>>(), [waits]);
    let dropped = place.store.collect_garbage(now + 101 * HOUR).unwrap().dropped;
    assert_eq!(dropped.iter().map(|one| one.id).collect::<Vec<_>>(), [second]);
    assert!(dropped[0].reason.contains("100 hours"), "{dropped:?}");
    assert_eq!(place.store.state(held.id()).unwrap(), CopyState::Open);
}

// req: E6
#[test]
fn nothing_recent_is_dropped_for_space() {
    let place = CopyFixture::with(CopySettings { quota_bytes: 3 << 20, ..CopySettings::default() });
    place.directly("for i in 1 2; do head -c 2000000 /dev/zero > f$i; done; echo a > a");
    let now = SystemTime::now();
    let room = |bytes, days: u32| place.store.before_image_room(bytes, now + days * 24 * HOUR).unwrap();
    assert_eq!(room(3 << 20, 0), BeforeImageRoom::Available);
    assert_eq!(room((3 << 20) + 1, 0), BeforeImageRoom::Exceeds);
    let (first, _) = place.commit("rm f1");
    assert_eq!(
        [room(1 << 20, 0), room(2 << 20, 0)],
        [BeforeImageRoom::Available, BeforeImageRoom::Displaces]
    );
    let (second, _) = place.commit("rm f2");
    // Even the smallest change has no room now, and nothing makes room for it.
    assert_eq!(room(1, 0), BeforeImageRoom::Displaces);
    assert_eq!(place.store.collect_garbage(now + 6 * 24 * HOUR).unwrap().dropped, []);
    let usage = place.store.usage(now).unwrap();
    assert!(usage.commits == 2 && usage.recent_bytes > usage.quota_bytes, "{usage:?}");
    assert_eq!(usage.recent_bytes, usage.before_image_bytes);
    place.store.undo(first, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    // After the minimum, the oldest give way until the rest fits.
    assert_eq!(room(3 << 20, 8), BeforeImageRoom::Available);
    let dropped = place.store.collect_garbage(now + 8 * 24 * HOUR).unwrap().dropped;
    assert_eq!(dropped.iter().map(|one| one.id).collect::<Vec<_>>(), [first]);
    assert_eq!(place.store.state(second).unwrap(), CopyState::Committed);
}

// req: E6
#[test]
fn a_person_drops_what_is_old_and_what_is_recent_only_on_request() {
    let place = CopyFixture::new();
    place.directly("echo a > a; echo b > b");
    let now = SystemTime::now();
    let (first, _) = place.commit("echo 1 > a");
    let collect = |days: u32, request: GcRequest| {
        let report = place.store.collect_requested_garbage(now + days * 24 * HOUR, &request).unwrap();
        report.dropped.iter().map(|one| (one.id, one.is_committed)).collect::<Vec<_>>()
    };
    let old = GcRequest { older_than: Some(24 * HOUR), ..GcRequest::default() };
    assert_eq!(collect(6, old), [], "recent ones are kept whatever the age");
    assert_eq!(collect(8, GcRequest { dry_run: true, ..old }), [(first, true)]);
    assert_eq!(place.store.state(first).unwrap(), CopyState::Committed, "a trial drops nothing");
    assert_eq!(collect(8, old), [(first, true)]);
    assert!(matches!(place.store.state(first).unwrap(), CopyState::Dropped { .. }));
    // A copy that waits for an answer is not a before-image.
    drop(place.on_copy("echo 2 > a"));
    let (second, _) = place.commit("echo 1 > b");
    let all = GcRequest { older_than: Some(Duration::ZERO), recent: true, ..GcRequest::default() };
    assert_eq!(collect(0, all), [(second, true)]);
}

// req: E5
#[test]
fn scratch_stays_with_the_session_and_is_no_change() {
    let place = CopyFixture::new();
    place.directly(
        "echo > Cargo.toml; mkdir -p node_modules/.cache src other/target; echo > other/target/mine",
    );
    let found = || scratch::survey(&place.root, &ScratchName::defaults()).unwrap().scratch;
    // A directory that only has the name of a scratch directory is not scratch.
    assert_eq!(found(), [place.root.join("node_modules/.cache")]);
    let run = |session: &str, script: &str| {
        let mut copy = place
            .store
            .create_copy(Uuid::new_v4(), std::slice::from_ref(&place.root), CopyMethod::Overlay)
            .unwrap();
        let mut paths = found();
        paths.extend(place.store.scratch(session).paths().unwrap());
        paths.sort();
        paths.dedup();
        let stacks = copy.with_scratch(session, &paths).unwrap();
        // As in the sandbox: below a scratch directory lies what the copy of the workspace has there.
        mounted(&copy.mounts(), &place.root, script);
        drop(stacks);
        let changes = copy.changes().unwrap();
        (copy, changes)
    };
    let (copy, changes) = run(
        "s",
        "mkdir -p target/debug src/__pycache__; echo 1 > target/debug/a; echo p > src/__pycache__/p; echo c > node_modules/.cache/c; echo s > src/s",
    );
    assert_eq!(place.short(&changes), ["created src/s"]);
    let harvested: Vec<_> =
        copy.new_scratch_dirs().unwrap().into_iter().map(|one| (one.path, one.files)).collect();
    let mut expected = vec![(place.path("src/__pycache__"), 1), (place.path("target"), 1)];
    expected.sort();
    let mut sorted = harvested;
    sorted.sort();
    assert_eq!(sorted, expected);
    copy.commit(&changes).unwrap();
    drop(copy);
    assert!(!place.root.join("target").exists());
    // The next run of the session sees and extends it. Discarded files are gone afterwards.
    let look = "test $(cat target/debug/a) = 1 && test $(cat node_modules/.cache/c) = c";
    let (copy, changes) =
        run("s", &format!("({look} && test ! -e target/debug/b) || exit 1; echo 2 > target/debug/b"));
    assert!(changes.is_empty(), "{changes:?}");
    copy.discard().unwrap();
    let (copy, changes) = run(
        "s",
        &format!(
            "({look} && test ! -e target/debug/b) || exit 1; echo 2 > target/debug/b; rm node_modules/.cache/c"
        ),
    );
    copy.commit(&changes).unwrap();
    drop(copy);
    let (copy, _) = run("s", "(test $(cat target/debug/b) = 2 && test ! -e node_modules/.cache/c) || exit 1");
    copy.discard().unwrap();
    // Another session has its own scratch.
    let (copy, _) = run("other", "test ! -e target || exit 1");
    copy.discard().unwrap();
    place.store.scratch("s").remove_all().unwrap();
    let (copy, _) = run("s", "test ! -e target || exit 1");
    copy.discard().unwrap();
}

#[test]
fn a_stack_that_is_too_deep_starts_over() {
    let place = CopyFixture::with(CopySettings {
        scratch: vec![ScratchName::new("target", &[])],
        ..CopySettings::default()
    });
    place.directly("mkdir target");
    let paths = [place.root.join("target")];
    let mut deepest = 0;
    for number in 0..scratch::DEPTH_MAX + 3 {
        let mut copy = place
            .store
            .create_copy(Uuid::new_v4(), std::slice::from_ref(&place.root), CopyMethod::Overlay)
            .unwrap();
        drop(copy.with_scratch("s", &paths).unwrap());
        let MountSource::Overlay { upper, lowers, .. } = copy.mounts().remove(1).source else { panic!() };
        deepest = deepest.max(lowers.len());
        fs::write(upper.join(number.to_string()), "").unwrap();
        let changes = copy.changes().unwrap();
        copy.commit(&changes).unwrap();
    }
    assert_eq!(deepest, scratch::DEPTH_MAX);
    assert_eq!(place.store.scratch("s").lower_layers(&paths[0]).unwrap().len(), 2);
}

#[test]
fn a_store_of_somebody_else_is_refused() {
    if rustix::process::geteuid().is_root() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(61_004), None).unwrap();
        assert!(matches!(CopyStore::open(folder.path(), CopySettings::default()), Err(Error::Root { .. })));
    }
}
