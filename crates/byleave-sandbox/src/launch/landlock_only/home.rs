//! The home directory of a command without namespaces: a directory of its own with links to what it may see of the real one.

use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;
use std::{fs, io};

use crate::confinement::FileConfinement;
use crate::launch::{LaunchError, internal_error};
use crate::plan::UserIdentity;

/// Creates the home directory in the temporary directory of a command, and returns its path. It has links to the toolchains and to
/// the copies.
pub(super) fn make(
    files: &FileConfinement,
    scratch: &Path,
    owner: UserIdentity,
) -> Result<String, LaunchError> {
    let failed = internal_error("making a home directory");
    let ours = scratch.join("home");
    create(&ours, owner).map_err(&failed)?;
    if let Some(home) = &files.home {
        let copies = files.writable.iter().map(|path| (path.clone(), files.path_on_copy(path)));
        let seen = files.home_readable.iter().map(|path| (path.clone(), path.clone()));
        for (from, to) in seen.chain(copies) {
            let Ok(inside) = from.strip_prefix(home) else { continue };
            let link = ours.join(inside);
            if inside.as_os_str().is_empty() || link.symlink_metadata().is_ok() {
                continue;
            }
            create(link.parent().unwrap_or(&ours), owner).map_err(&failed)?;
            symlink(to, link).map_err(&failed)?;
        }
    }
    Ok(ours.to_string_lossy().into_owned())
}

/// Creates a directory, and those above it, for a user who may be another one than that of the launcher.
fn create(directory: &Path, owner: UserIdentity) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(above) = directory.parent() {
        create(above, owner)?;
    }
    fs::create_dir(directory)?;
    if fs::metadata(directory)?.uid() == owner.uid {
        return Ok(());
    }
    chown(directory, Some(owner.uid), Some(owner.gid))
}
