//! Extended attributes of open files.

use std::os::fd::OwnedFd;

use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};

/// Extended attributes, by name.
pub(crate) type ExtendedAttributes = Vec<(String, Vec<u8>)>;

/// Returns the extended attributes of an open file, sorted by name.
pub(crate) fn read_all(file: &OwnedFd) -> Result<ExtendedAttributes> {
    let mut all = Vec::new();
    for name in names(file)? {
        let mut value = vec![0_u8; 65_536];
        let length = rustix::fs::fgetxattr(file, &*name, &mut *value)?;
        value.truncate(length);
        all.push((name, value));
    }
    all.sort();
    Ok(all)
}

/// Returns the names of the extended attributes of an open file.
pub(crate) fn names(file: &OwnedFd) -> Result<Vec<String>> {
    // Most files have none, so this asks first without a buffer.
    if !has_any(file)? {
        return Ok(Vec::new());
    }
    let mut space = vec![0_u8; 65_536];
    let length = rustix::fs::flistxattr(file, &mut *space)?;
    let names =
        space.get(..length).unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Checks whether an open file has extended attributes.
pub(crate) fn has_any(file: &OwnedFd) -> Result<bool> {
    match rustix::fs::flistxattr_query(file) {
        Err(Errno::OPNOTSUPP) => Ok(false),
        other => Ok(other? > 0),
    }
}

/// Copies the extended attributes. Those of overlays are skipped, because they belong to the layer and not to the file.
pub(crate) fn copy_all(source: &OwnedFd, target: &OwnedFd) -> Result<()> {
    for (name, value) in read_all(source)? {
        if !name.starts_with("user.overlay.") {
            rustix::fs::fsetxattr(target, &*name, &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}
