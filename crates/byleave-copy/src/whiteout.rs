//! The marks of an overlay in its upper layer: removed files, and directories that hide the ones below.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};

use crate::xattrs;

/// The marks of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhiteoutMarks {
    /// Whether the directory hides the lower directory completely.
    pub is_opaque: bool,
    /// Whether empty files in the directory may mark removed files.
    pub has_whiteout_files: bool,
}

/// Checks whether an entry of an upper layer marks a removed file: the device 0:0.
pub(crate) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Checks whether an empty file marks a removed file. This form is used where devices cannot be created.
pub(crate) fn is_whiteout_file(file: &OwnedFd) -> Result<bool> {
    Ok(xattrs::names(file)?.iter().any(|name| name == "user.overlay.whiteout"))
}

/// Returns the marks of a directory, or the name of a mark that our layers never have.
pub(crate) fn read_marks(directory: &OwnedFd) -> Result<std::result::Result<WhiteoutMarks, String>> {
    let mut marks = WhiteoutMarks::default();
    for (name, value) in with_permission(directory, || xattrs::read_all(directory))? {
        match name.as_str() {
            "user.overlay.opaque" => {
                marks.is_opaque |= value == b"y";
                marks.has_whiteout_files |= value == b"x";
            }
            "user.overlay.whiteouts" => marks.has_whiteout_files = true,
            "user.overlay.redirect" | "user.overlay.metacopy" => return Ok(Err(name)),
            _ => {}
        }
    }
    Ok(Ok(marks))
}

/// Marks a directory as one that hides the lower directory completely.
pub(crate) fn mark_opaque(directory: &OwnedFd) -> Result<()> {
    let set =
        || rustix::fs::fsetxattr(directory, "user.overlay.opaque", b"y", rustix::fs::XattrFlags::empty());
    with_permission(directory, set)
}

/// Removes the marks of the layer from a file, or returns the name of a mark that our layers never have.
pub(crate) fn remove_marks(file: &OwnedFd) -> Result<Option<String>> {
    for name in xattrs::names(file)? {
        if matches!(name.as_str(), "user.overlay.redirect" | "user.overlay.metacopy") {
            return Ok(Some(name));
        }
        // The origin of the file is useless once it is committed, and would confuse a later overlay.
        if name.starts_with("user.overlay.") {
            with_permission(file, || rustix::fs::fremovexattr(file, &*name))?;
        }
    }
    Ok(None)
}

/// Returns the extended attributes of a file of the layer.
pub(crate) fn attributes(file: &OwnedFd) -> Result<xattrs::ExtendedAttributes> {
    with_permission(file, || xattrs::read_all(file))
}

/// Accesses the attributes of a file of ours. The mode applies even to an open file, so it is relaxed for that moment.
fn with_permission<T>(file: &OwnedFd, act: impl Fn() -> Result<T>) -> Result<T> {
    match act() {
        Err(Errno::ACCESS | Errno::PERM) => {
            let mode = rustix::fs::Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode & 0o7777);
            rustix::fs::fchmod(file, mode | rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
            let done = act();
            rustix::fs::fchmod(file, mode)?;
            done
        }
        other => other,
    }
}
