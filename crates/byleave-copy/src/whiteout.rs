//! The marks that an overlay leaves in its upper layer: what was removed, which directory hides what is below.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};

use crate::xattrs;

/// What the marks of a directory say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhiteoutMarks {
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
    Ok(xattrs::names(file)?.iter().any(|name| name == "user.overlay.whiteout"))
}

/// The marks of a directory, or the name of one that no layer of ours has.
pub(crate) fn marks(directory: &OwnedFd) -> Result<std::result::Result<WhiteoutMarks, String>> {
    let mut marks = WhiteoutMarks::default();
    for (name, value) in allowed(directory, || xattrs::list(directory))? {
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
    for name in xattrs::names(file)? {
        if matches!(name.as_str(), "user.overlay.redirect" | "user.overlay.metacopy") {
            return Ok(Some(name));
        }
        // Where the file came from is of no use to anybody once it is committed, and would confuse a later overlay.
        if name.starts_with("user.overlay.") {
            allowed(file, || rustix::fs::fremovexattr(file, &*name))?;
        }
    }
    Ok(None)
}

/// The attributes of a file of the layer.
pub(crate) fn attributes(file: &OwnedFd) -> Result<xattrs::ExtendedAttributes> {
    allowed(file, || xattrs::list(file))
}

/// Does something with the attributes of a thing of ours, for which its mode counts even when it is open: allowed for that moment.
fn allowed<T>(file: &OwnedFd, act: impl Fn() -> Result<T>) -> Result<T> {
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
