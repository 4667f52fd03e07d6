//! An entry of a walk, identified by the handle of its directory and its name there.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, openat, statat};
use rustix::io::Errno;

use super::ignore_rules::IgnoreStack;
use crate::workspace_files::{Files, is_on_procfs};

/// An entry of a walk.
pub(crate) struct WalkEntry<'a> {
    pub(super) directory: &'a OpenDirectory,
    pub(super) name: &'a CStr,
    /// The type when it was found.
    pub(crate) kind: FileType,
    /// The path relative to the start of the walk.
    pub(crate) path: &'a [u8],
    pub(super) files: &'a Files,
}

impl WalkEntry<'_> {
    /// Opens the entry, whatever its type is by now, except for a link. Never blocks on a pipe.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        openat(&self.directory.handle, self.name, flags, Mode::empty())
    }

    /// Returns the status of the entry, or of the link itself.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        statat(&self.directory.handle, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Checks whether the entry is a hard link to a hidden file.
    pub(crate) fn is_hidden_alias(&self, stat: &Stat) -> bool {
        self.files.is_hidden_alias(stat)
    }

    /// Returns the target of a link as text.
    pub(crate) fn link_target(&self) -> Option<Vec<u8>> {
        let target = rustix::fs::readlinkat(&self.directory.handle, self.name, Vec::new()).ok()?;
        Some(target.into_bytes())
    }

    /// Counts the entries of a directory without hidden ones.
    pub(crate) fn count_entries(&self) -> Option<usize> {
        let handle = open_directory(&self.directory.handle, self.name).ok()?;
        let absolute = format!("{}/{}", self.directory.absolute, self.name.to_string_lossy());
        let is_near = self.files.hidden_prefilter().must_check_directory(&absolute);
        let mut count = 0;
        for_each_name(&handle, |name, _| {
            count += usize::from(!is_hidden(self.files, (&absolute, is_near), name));
        })
        .ok()?;
        Some(count)
    }

    /// Checks whether the path is valid text, so that rules can match it reliably.
    pub(crate) const fn is_text(&self) -> bool {
        std::str::from_utf8(self.path).is_ok()
    }
}

/// An open directory. It stays open while its entries are being visited.
pub(super) struct OpenDirectory {
    pub(super) handle: OwnedFd,
    /// The path relative to the workspace, for ignore files. Outside of the workspace it is relative to the start.
    pub(super) path: Vec<u8>,
    /// The absolute path, as rules use it.
    pub(super) absolute: String,
    pub(super) ignore_stack: Arc<IgnoreStack>,
    pub(super) depth: usize,
    pub(super) must_check_names: bool,
}

/// Checks whether a name in a directory is hidden. The policy is evaluated only if the prefilter cannot exclude the directory and the name.
pub(super) fn is_hidden(files: &Files, (directory, is_near): (&str, bool), name: &CStr) -> bool {
    (is_near || files.hidden_prefilter().must_check_name(name.to_bytes()))
        && files.is_hidden(&format!("{directory}/{}", name.to_string_lossy()))
}

pub(super) fn write_joined(path: &mut Vec<u8>, directory: &[u8], name: &[u8]) {
    path.clear();
    path.extend_from_slice(directory);
    if !directory.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

pub(super) fn open_directory(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(above, name, flags, Mode::empty())?;
    if is_on_procfs(&directory) { Err(Errno::ACCESS) } else { Ok(directory) }
}

pub(super) fn for_each_name(directory: &OwnedFd, take: impl FnMut(&CStr, FileType)) -> Result<(), Errno> {
    for_each_name_with_buffer(directory, &mut Vec::with_capacity(8_192), take)
}

pub(super) fn for_each_name_with_buffer(
    directory: &OwnedFd,
    room: &mut Vec<u8>,
    mut take: impl FnMut(&CStr, FileType),
) -> Result<(), Errno> {
    room.clear();
    let room: &mut [MaybeUninit<u8>] = room.spare_capacity_mut();
    let mut entries = RawDir::new(directory, room);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            take(entry.file_name(), entry.file_type());
        }
    }
    Ok(())
}
