//! Secrets in files that only their owner can read.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use byleave::secret::Secret;

/// No client and no worker has a longer secret.
const SECRET_BYTES_MAX: u64 = 4_096;

/// A secret in a file that only its owner can read.
pub(crate) fn read_private(path: &Path) -> io::Result<Secret> {
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other("others could read it"));
    }
    let mut text = String::new();
    file.by_ref().take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Secret::new(text.trim().to_owned()))
}
