//! Files written to a copy directly, without a command.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use byleave_copy::{CopyMethod, Error, OnConflict, WorkspaceCopy};
use uuid::Uuid;

use crate::place::{CopyFixture, differences, tree};

fn copy(place: &CopyFixture) -> WorkspaceCopy {
    place.store.create_copy(Uuid::new_v4(), std::slice::from_ref(&place.root), CopyMethod::Overlay).unwrap()
}

// req: B7, E6
#[test]
fn what_is_put_is_committed_and_taken_back() {
    for place in [CopyFixture::new(), CopyFixture::apart()] {
        let at = |name: &str| place.root.join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/old"), "old").unwrap();
        fs::set_permissions(at("a/b/old"), fs::Permissions::from_mode(0o750)).unwrap();
        fs::write(at("gone"), "gone").unwrap();
        let before = tree(&place.root);
        let copy = copy(&place);
        copy.write_file(&at("a/b/old"), b"new", None).unwrap();
        copy.write_file(&at("a/c/d/fresh"), b"fresh", None).unwrap();
        copy.remove_file(&at("gone")).unwrap();
        assert!(differences(&tree(&place.root), &before).is_empty(), "nothing is touched before the commit");
        let changes = copy.changes().unwrap();
        let paths: Vec<_> =
            changes.list.iter().map(|change| change.path.rsplit('/').next().unwrap()).collect();
        assert_eq!(paths, ["old", "c", "d", "fresh", "gone"]);
        let committed = copy.commit(&changes).unwrap();
        assert_eq!(fs::read(at("a/b/old")).unwrap(), b"new");
        assert_eq!(fs::metadata(at("a/b/old")).unwrap().permissions().mode() & 0o7777, 0o750);
        assert_eq!(fs::read(at("a/c/d/fresh")).unwrap(), b"fresh");
        assert!(!at("gone").exists());
        drop(copy);
        place.store.undo(committed.id, Uuid::new_v4(), OnConflict::Refuse).unwrap();
        assert_eq!(differences(&tree(&place.root), &before), Vec::<String>::new());
    }
}

#[test]
fn only_plain_files_of_the_copied_directories_are_put() {
    let place = CopyFixture::new();
    let at = |name: &str| place.root.join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("f"), "").unwrap();
    symlink("/", at("l")).unwrap();
    let copy = copy(&place);
    for path in ["d", "f/x", "l", "l/x", "../x", ""] {
        let put = copy.write_file(&at(path), b"x", None);
        assert!(matches!(put, Err(Error::CannotWrite { .. } | Error::Io { .. })), "{path}: {put:?}");
    }
    for path in ["d", "nothing", "f/x", "l/x"] {
        let taken = copy.remove_file(&at(path));
        assert!(matches!(taken, Err(Error::CannotWrite { .. } | Error::Io { .. })), "{path}: {taken:?}");
    }
    assert!(copy.changes().unwrap().list.iter().all(|change| change.after.is_none()), "{copy:?}");
}
