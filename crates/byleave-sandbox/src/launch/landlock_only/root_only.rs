//! Finds what only root may read in the system paths. A command of root without namespaces has the id of root, so the modes of files
//! do not keep it out.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The system paths with settings and data. In the others there are programs and libraries, for everybody.
const SEARCHED: [&str; 4] = ["/etc", "/opt", "/usr/local", "/var/lib/dpkg"];
/// Kernel interfaces that only root may read.
const KERNEL: [&str; 4] =
    ["/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/firmware/efi"];
/// A system path with more entries is hidden as a whole.
const ENTRIES_MAX: usize = 200_000;

/// Returns the paths to hide.
pub(super) fn paths() -> BTreeSet<PathBuf> {
    let mut found: BTreeSet<PathBuf> = KERNEL.iter().map(PathBuf::from).collect();
    for top in SEARCHED.map(Path::new) {
        let mut closed = BTreeSet::new();
        let mut left = ENTRIES_MAX;
        match search(top, &mut closed, &mut left) {
            true => found.extend(closed),
            false => drop(found.insert(top.to_path_buf())),
        }
    }
    found
}

/// Adds the entries below a directory that others may not read. Returns whether the search came to its end.
fn search(directory: &Path, closed: &mut BTreeSet<PathBuf>, left: &mut usize) -> bool {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        let Ok(found) = entry.metadata() else { continue };
        let path = entry.path();
        if found.is_symlink() {
            continue;
        }
        let needed = if found.is_dir() { 0o5 } else { 0o4 };
        if found.mode() & needed != needed {
            closed.insert(path);
        } else if found.is_dir() && !search(&path, closed, left) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    // req: E2
    #[test]
    fn what_others_may_not_read_is_found_and_a_search_that_does_not_end_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("open", 0o644), ("shadow", 0o640), ("group", 0o604)] {
            fs::write(folder.path().join(name), "").unwrap();
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(folder.path().join("private/inner")).unwrap();
        fs::set_permissions(folder.path().join("private"), fs::Permissions::from_mode(0o750)).unwrap();
        let (mut closed, mut left) = (BTreeSet::new(), 10);
        assert!(search(folder.path(), &mut closed, &mut left));
        assert_eq!(closed, ["private", "shadow"].map(|name| folder.path().join(name)).into());
        let mut left = 2;
        assert!(!search(folder.path(), &mut closed, &mut left));
    }
}
