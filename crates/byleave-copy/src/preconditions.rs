//! Checks before a commit that everything is still as it was when the copy was made. It reads and never writes.

use std::collections::HashSet;

use byleave_core::file_change::{FileChange, FileNode, FileNodeKind};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::diff_scan::{ChangedPath, node_of_kind, special_kind_name};
use crate::dir_handle::{self, DirHandle, FileIdentity, permission_bits};
use crate::error::{Conflict, Error, IoContext as _};
use crate::file_digest::FileReader;

/// Returns the conflict of one item, if there is one. `inside` is its path in its root.
pub(crate) fn find_conflict(
    item: &ChangedPath,
    (root, inside): (&DirHandle, &str),
    started: i64,
) -> Result<Option<Conflict>, Error> {
    let change = &item.change;
    let now = match root.identity(inside) {
        Err(Errno::LOOP) => {
            return Ok(Some(new_conflict(
                change.before.clone(),
                change,
                None,
                "a symbolic link is in its path",
            )));
        }
        other => other.context("inspect", &change.path)?,
    };
    let why = match (&item.before, &now) {
        (None, None) => return Ok(None),
        (None, Some(_)) => "something was created there meanwhile",
        (Some(_), None) => "the file no longer exists",
        (Some(was), Some(now)) if !now.is_same(was) => "the file was replaced by another one",
        (Some(was), Some(now)) if permission_bits(was.mode) != permission_bits(now.mode) => {
            "its mode changed"
        }
        (Some(was), Some(now)) if !now.is_untouched(was) => "the file was modified",
        (Some(_), Some(now)) if !now.is_directory() && now.changed > started => {
            "the file was changed while the copy was in use"
        }
        (Some(_), Some(_)) => return Ok(None),
    };
    Ok(Some(new_conflict(change.before.clone(), change, read_node(root, inside)?, why)))
}

/// Checks whether a directory that will be removed contains an unlisted entry. `listed` are paths in the root.
pub(crate) fn has_unlisted(root: &DirHandle, inside: &str, listed: &HashSet<&str>) -> Result<bool, Errno> {
    let opened = root.open_at(inside, OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(dir_handle::list_names(&opened)?.iter().any(|name| match name.to_str() {
        Ok(name) => !listed.contains(format!("{inside}/{name}").as_str()),
        Err(_) => true,
    }))
}

/// Describes the file at a path, without its content.
pub(crate) fn read_node(root: &DirHandle, inside: &str) -> Result<Option<FileNode>, Error> {
    let Ok(Some(ident)) = root.identity(inside) else { return Ok(None) };
    Ok(Some(node_from_identity(root, inside, &ident).context("inspect", inside)?))
}

pub(crate) fn node_from_identity(
    root: &DirHandle,
    inside: &str,
    ident: &FileIdentity,
) -> Result<FileNode, Errno> {
    let kind = match ident.kind() {
        FileType::Directory => FileNodeKind::Directory,
        FileType::RegularFile => FileNodeKind::File { size: ident.size, digest: None },
        FileType::Symlink => {
            let (above, name) = root.parent(inside)?;
            let to = rustix::fs::readlinkat(&*above, name, Vec::new())?;
            FileNodeKind::Link { target: to.to_string_lossy().into_owned() }
        }
        kind => FileNodeKind::Special { kind: special_kind_name(kind).into() },
    };
    Ok(node_of_kind(kind, ident))
}

/// Checks whether a path is as a commit left it: untouched since, or with the same content again.
pub(crate) fn is_unchanged_since(
    disk: &DirHandle,
    change: &FileChange,
    done_at: i64,
    reader: &mut FileReader,
) -> Result<bool, Error> {
    let inside = change.path.trim_start_matches('/');
    let ident = match disk.identity(inside) {
        Err(Errno::LOOP) => None,
        other => other.context("inspect", &change.path)?,
    };
    let (Some(after), Some(ident)) = (&change.after, &ident) else {
        return Ok(change.after.is_none() && ident.is_none());
    };
    let now = node_from_identity(disk, inside, ident).context("inspect", &change.path)?;
    if now.mode != after.mode {
        return Ok(false);
    }
    match (&now.kind, &after.kind) {
        (FileNodeKind::File { size, .. }, FileNodeKind::File { size: left, digest }) => {
            if size != left {
                return Ok(false);
            }
            if now.modified_ns == after.modified_ns && ident.changed <= done_at {
                return Ok(true);
            }
            let file =
                disk.open_at(inside, OFlags::RDONLY | OFlags::NONBLOCK).context("open", &change.path)?;
            Ok(digest.is_some() && *digest == Some(reader.digest(&file).context("read", &change.path)?))
        }
        (now, left) => Ok(now == left),
    }
}

/// Builds a conflict without texts.
pub(crate) fn new_conflict(
    was: Option<FileNode>,
    change: &FileChange,
    is: Option<FileNode>,
    why: &'static str,
) -> Conflict {
    Conflict { path: change.path.clone(), expected: was, actual: is, reason: why, texts: None }
}
