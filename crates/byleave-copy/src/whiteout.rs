//! The marks that an overlay leaves in its upper layer: what was removed, which directory hides what is below.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};

use crate::tree;

/// What the marks of a directory say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Nothing of the lower directory is seen through it.
    pub is_opaque: bool,
    /// Empty files in it may be marks of removal.
    pub has_whiteout_files: bool,
}

/// Whether a thing in an upper layer says that something was removed: the device 0:0.
pub(crate) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Whether an empty file says that something was removed: the other way, where devices cannot be made.
pub(crate) fn is_whiteout_file(file: &OwnedFd) -> Result<bool> {
    Ok(tree::list_attributes(file)?.iter().any(|(name, _)| name == "user.overlay.whiteout"))
}

/// The marks of a directory, or the name of one that no layer of ours has.
pub(crate) fn marks(directory: &OwnedFd) -> Result<std::result::Result<Marks, String>> {
    let mut marks = Marks::default();
    for (name, value) in tree::list_attributes(directory)? {
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

/// Takes the marks of the layer off a file; or gives the name of one that no layer of ours has.
pub(crate) fn take_marks_off(file: &OwnedFd) -> Result<Option<String>> {
    for (name, _) in tree::list_attributes(file)? {
        if matches!(name.as_str(), "user.overlay.redirect" | "user.overlay.metacopy") {
            return Ok(Some(name));
        }
        if name.starts_with("user.overlay.") {
            take_off(file, &name)?;
        }
    }
    Ok(None)
}

/// Where the file came from is of no use to anybody once it is committed, and would confuse a later overlay.
fn take_off(file: &OwnedFd, name: &str) -> Result<()> {
    match rustix::fs::fremovexattr(file, name) {
        Err(Errno::ACCESS | Errno::PERM) => {
            let mode = rustix::fs::Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode & 0o7777);
            rustix::fs::fchmod(file, mode | rustix::fs::Mode::WUSR)?;
            let taken = rustix::fs::fremovexattr(file, name);
            rustix::fs::fchmod(file, mode)?;
            taken
        }
        other => other,
    }
}
