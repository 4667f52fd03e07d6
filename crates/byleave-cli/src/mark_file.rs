//! Files that a living process holds the lock of. If the process is killed, the file stays and its lock is free.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Returns the options to open a mark. A link would lead elsewhere, and a pipe would block.
#[expect(clippy::disallowed_methods, reason = "in our own state directory, with flags of its own")]
pub(crate) fn open_options() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options
}

/// Returns whether no process holds the mark.
pub(crate) fn is_free(path: &Path) -> bool {
    open_options().open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Removes a mark. One that cannot be removed is found free later.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(%error, path = %path.display(), "cannot remove the mark of a call");
    }
}
