//! Edits that another program makes itself: the before-images are kept first, and undo restores every byte of what was made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use byleave_copy::{
    CopyMethod, CopySettings, CopyState, Error, ExpectedContent, ExternalEditState, OnConflict, WorkspaceCopy,
};
use byleave_core::rehearsal::BeforeImageRoom;
use uuid::Uuid;

use crate::place::{CopyFixture, differences, tree};

const FILES: &str =
    "mkdir d; printf one > a; chmod 640 a; printf same > same; printf '#!/bin/sh' > run; chmod 755 run";

/// Lists an edit on a copy, as a judge of it sees it.
fn listed(place: &CopyFixture, inside: &str, accepted: &[&str]) -> WorkspaceCopy {
    let path = place.path(inside);
    let before = fs::read(&path).ok();
    let copy = place
        .store
        .create_copy(Uuid::new_v4(), std::slice::from_ref(&place.root), CopyMethod::Overlay)
        .unwrap();
    copy.write_file(path.as_ref(), accepted[0].as_bytes(), None).unwrap();
    copy.changes().unwrap();
    let accepted: Vec<Vec<u8>> = accepted.iter().map(|text| text.as_bytes().to_vec()).collect();
    let expected = ExpectedContent { path: &path, before: before.as_deref(), accepted: &accepted };
    copy.expect_external_edit(&[expected]).unwrap();
    copy
}

fn kept(place: &CopyFixture, inside: &str, accepted: &[&str]) -> Uuid {
    let copy = listed(place, inside, accepted);
    copy.keep_before_images().unwrap();
    assert_eq!(place.store.state(copy.id()).unwrap(), CopyState::ExternalEdit);
    copy.id()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    AsExpected,
    Different,
}

/// The file, its accepted contents, what the program did, and what is found.
const EDITS: [(&str, &[&str], &str, Came); 14] = [
    ("a", &["two"], "printf two > a", Came::AsExpected),
    ("a", &["two"], "printf two > t; chmod 640 t; mv t a", Came::AsExpected),
    ("a", &["1\n2\n", "1\r\n2\r\n"], "printf '1\\r\\n2\\r\\n' > a", Came::AsExpected),
    ("run", &["#!/bin/bash"], "printf '#!/bin/bash' > run", Came::AsExpected),
    ("new", &["x"], "printf x > new", Came::AsExpected),
    ("n/m/new", &["x"], "mkdir -p n/m; printf x > n/m/new", Came::AsExpected),
    ("a", &["two"], "printf TWO > a", Came::Different),
    ("a", &["two"], "printf 'two, and much more' > a", Came::Different),
    ("a", &["two"], "printf two > a; chmod 755 a", Came::Different),
    ("a", &["two"], "rm a", Came::Different),
    ("a", &["two"], "rm a; ln -s run a", Came::Different),
    ("a", &["two"], "rm a; mkdir a; printf x > a/x", Came::Different),
    ("new", &["x"], "printf x > new; chmod 755 new", Came::Different),
    ("n/new", &["x"], "mkdir n", Came::Different),
];

// req: E6, E9
#[test]
fn what_another_program_made_is_compared_and_undone_byte_for_byte() {
    for apart in [false, true] {
        for (inside, accepted, script, came) in EDITS {
            let place = if apart { CopyFixture::apart() } else { CopyFixture::new() };
            place.directly(FILES);
            let before = tree(&place.root);
            let id = kept(&place, inside, accepted);
            place.directly(script);
            let after = tree(&place.root);
            let state = place.store.finish_external_edit(id).unwrap();
            match came {
                Came::AsExpected => assert_eq!(state, ExternalEditState::AsExpected, "{script}"),
                Came::Different => {
                    assert_eq!(state, ExternalEditState::Different(vec![place.path(inside)]), "{script}");
                }
            }
            assert_eq!(place.store.state(id).unwrap(), CopyState::Committed, "{script}");
            assert!(!place.store.changes(id).unwrap().is_empty(), "{script}");
            let by = Uuid::new_v4();
            place.store.undo(id, by, OnConflict::Refuse).unwrap_or_else(|fault| panic!("{script}: {fault}"));
            assert_eq!(differences(&before, &tree(&place.root)), [""; 0], "{script}");
            place.store.undo(by, Uuid::new_v4(), OnConflict::Refuse).unwrap();
            assert_eq!(differences(&after, &tree(&place.root)), [""; 0], "{script}");
        }
    }
}

// req: E6
#[test]
fn an_edit_that_was_not_made_is_neither_a_commit_nor_lost() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let before = tree(&place.root);
    let id = kept(&place, "a", &["two"]);
    assert_eq!(place.store.compare_external_edit(id).unwrap(), ExternalEditState::NotMade);
    assert_eq!(place.store.finish_external_edit(id).unwrap(), ExternalEditState::NotMade);
    let undone = place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse);
    assert!(matches!(undone, Err(Error::NotCommitted(_))), "{undone:?}");
    // An undo alone takes what is there now.
    place.directly("printf two > a");
    assert!(!place.store.drop_unmade_edit(id).unwrap());
    place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    assert_eq!(differences(&before, &tree(&place.root)), [""; 0]);

    let id = kept(&place, "a", &["two"]);
    assert!(place.store.drop_unmade_edit(id).unwrap());
    assert_eq!(place.store.state(id).unwrap(), CopyState::Missing);
    // An edit that should change nothing must change nothing.
    let id = kept(&place, "same", &["same"]);
    assert_eq!(place.store.compare_external_edit(id).unwrap(), ExternalEditState::AsExpected);
    place.directly("printf SAME > same");
    let state = place.store.finish_external_edit(id).unwrap();
    assert_eq!(state, ExternalEditState::Different(vec![place.path("same")]));
    place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse).unwrap();
    assert_eq!(differences(&before, &tree(&place.root)), [""; 0]);
}

// req: E6, E9
#[test]
fn a_file_that_is_not_as_it_was_judged_is_not_handed_over() {
    let changes = [
        ("a", "printf ONE > a"),
        ("a", "rm a"),
        ("a", "rm a; ln -s run a"),
        ("a", "ln a other"),
        ("new", "printf y > new"),
        ("d/new", "rmdir d; ln -s . d"),
    ];
    for (inside, script) in changes {
        let place = CopyFixture::new();
        place.directly(FILES);
        let copy = listed(&place, inside, &["two"]);
        place.directly(script);
        let result = copy.keep_before_images();
        assert!(matches!(result, Err(Error::Conflicts(_))), "{script}: {result:?}");
        assert_eq!(place.store.state(copy.id()).unwrap(), CopyState::Open, "{script}");
    }
}

// req: E6
#[test]
fn a_file_that_was_changed_since_is_a_conflict() {
    let place = CopyFixture::new();
    place.directly(FILES);
    let id = kept(&place, "a", &["two"]);
    place.directly("printf two > a");
    place.store.finish_external_edit(id).unwrap();
    place.directly("printf three > a");
    let undone = place.store.undo(id, Uuid::new_v4(), OnConflict::Refuse);
    assert!(matches!(undone, Err(Error::Conflicts(_))), "{undone:?}");
    assert_eq!(fs::read(place.path("a")).unwrap(), b"three");
    place.store.undo(id, Uuid::new_v4(), OnConflict::Overwrite).unwrap();
    assert_eq!(fs::read(place.path("a")).unwrap(), b"one");
    assert_eq!(fs::metadata(place.path("a")).unwrap().permissions().mode() & 0o777, 0o640);
}

// req: E6
#[test]
fn kept_files_take_space_like_those_of_a_commit() {
    let place = CopyFixture::with(CopySettings { quota_bytes: 1 << 20, ..CopySettings::default() });
    place.directly(FILES);
    let room = |bytes| place.store.before_image_room(bytes, SystemTime::now()).unwrap();
    assert_eq!([room(1 << 20), room((1 << 20) + 1)], [BeforeImageRoom::Available, BeforeImageRoom::Exceeds]);
    let id = kept(&place, "a", &["two"]);
    assert_eq!(room(1 << 20), BeforeImageRoom::Displaces);
    // It is kept longer than a copy that nobody committed, because the program may have made the edit.
    let later = |days: u64| SystemTime::now() + Duration::from_secs(days * 24 * 3600);
    assert_eq!(place.store.collect_garbage(later(7)).unwrap().dropped, []);
    let dropped = place.store.collect_garbage(later(31)).unwrap().dropped;
    assert_eq!(dropped.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
    assert!(matches!(place.store.state(id).unwrap(), CopyState::Dropped { .. }));
}
