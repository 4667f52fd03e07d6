//! Secrets in files that only their owner can read.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use byleave_files::LinkPolicy;
use byleave_gate::secret::Secret;

/// An upper limit for the secret of a client, a worker or a service.
const SECRET_BYTES_MAX: u64 = 4_096;

/// Reads a secret from a file that only its owner can read.
pub(crate) fn read_private(path: &Path) -> io::Result<Secret> {
    let opened = byleave_files::open(path, LinkPolicy::Follow).map_err(io::Error::other)?;
    if opened.metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("other users can read the file"));
    }
    let text = opened.read_text(SECRET_BYTES_MAX).map_err(io::Error::other)?;
    Ok(Secret::new(text.trim().to_owned()))
}
