//! Detects renames: a removed file and a new file with the same content are one renamed file.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use byleave_core::digest::Digest;
use byleave_core::file_change::{FileNode, FileNodeKind, FileRename};

use crate::diff_scan::ChangedPath;
use crate::dir_handle::{self, DirHandle};
use crate::error::{Error, IoContext as _};
use crate::file_digest::FileReader;

/// Finds the renames among the items, and fills in the digests that it needed.
pub(crate) fn find_renames(
    items: &mut [ChangedPath],
    reader: &mut FileReader,
) -> Result<Vec<FileRename>, Error> {
    let made: HashSet<u64> = items
        .iter()
        .filter(|item| item.change.before.is_none())
        .filter_map(|item| size(item.change.after.as_ref()))
        .collect();
    if made.is_empty() {
        return Ok(Vec::new());
    }
    let disk = DirHandle::open(Path::new("/")).context("open", "/")?;
    let mut gone: HashMap<Digest, Vec<String>> = HashMap::new();
    for item in items.iter_mut().filter(|item| item.change.after.is_none()) {
        if !size(item.change.before.as_ref()).is_some_and(|size| made.contains(&size)) {
            continue;
        }
        let path = item.change.path.clone();
        let opened = disk
            .parent(path.trim_start_matches('/'))
            .and_then(|(above, name)| dir_handle::open_file(&*above, name));
        let Ok(file) = opened else { continue };
        let digest = reader.digest(&file).context("read", &path)?;
        if let Some(FileNode { kind: FileNodeKind::File { digest: known, .. }, .. }) = &mut item.change.before
        {
            *known = Some(digest);
        }
        gone.entry(digest).or_default().push(path);
    }
    // Among several files with the same content, the one with the same file name matches. Otherwise the first one does.
    let mut renames = Vec::new();
    for item in items.iter().filter(|item| item.change.before.is_none()) {
        let Some(FileNode { kind: FileNodeKind::File { digest: Some(digest), .. }, .. }) = &item.change.after
        else {
            continue;
        };
        let Some(candidates) = gone.get_mut(digest).filter(|all| !all.is_empty()) else { continue };
        let name = item.change.path.rsplit('/').next();
        let best = candidates.iter().position(|from| from.rsplit('/').next() == name).unwrap_or(0);
        renames.push(FileRename { from: candidates.remove(best), to: item.change.path.clone() });
    }
    Ok(renames)
}

/// Returns files that may have been one. An overlay copies the contents of a moved directory. Then two names of one file become two
/// files that are identical to the nanosecond, and nothing else shows it.
pub(crate) fn possible_links<'a>(items: &'a [ChangedPath], renames: &[FileRename]) -> Vec<&'a str> {
    if !items.iter().any(ChangedPath::removes_directory) {
        return Vec::new();
    }
    // A file that existed under another name was a single file, or is reported as linked.
    let moved: HashSet<&str> = renames.iter().map(|rename| rename.to.as_str()).collect();
    let mut alike: HashMap<(Digest, u32, i64), Vec<&str>> = HashMap::new();
    for change in items.iter().map(|item| &item.change).filter(|change| !moved.contains(change.path.as_str()))
    {
        if let Some(FileNode {
            kind: FileNodeKind::File { size: 1.., digest: Some(digest) },
            mode,
            modified_ns: modified,
        }) = &change.after
        {
            alike.entry((*digest, *mode, *modified)).or_default().push(&change.path);
        }
    }
    let mut paths: Vec<&str> = alike.into_values().filter(|all| all.len() > 1).flatten().collect();
    paths.sort_unstable();
    paths
}

fn size(node: Option<&FileNode>) -> Option<u64> {
    match node?.kind {
        FileNodeKind::File { size, .. } if size > 0 => Some(size),
        _ => None,
    }
}
