//! Digests of files, computed with a reused buffer.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use byleave_core::digest::Digest;
use rustix::io::{Errno, Result};

use crate::dir_handle;
use crate::xattrs;

/// A reader of files with a reused buffer.
pub(crate) struct FileReader {
    buffer: Vec<u8>,
}

impl FileReader {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; 128 * 1024] }
    }

    /// Computes the digest of an open file.
    pub(crate) fn digest(&mut self, file: impl AsFd) -> Result<Digest> {
        let file = file.as_fd();
        let length = rustix::io::read(file, &mut *self.buffer)?;
        let first = self.buffer.get(..length).unwrap_or_default();
        if length < self.buffer.len() {
            // Most files fit into one read.
            return Ok(Digest::compute(first));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(first);
        loop {
            match rustix::io::read(file, &mut *self.buffer) {
                Ok(0) => return Ok(Digest::from_bytes(hasher.finalize().into())),
                Ok(length) => _ = hasher.update(self.buffer.get(..length).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Returns the digest of a named file and whether it has extended attributes, or `None` if it is unreadable or gone.
    pub(crate) fn digest_if_readable(
        &mut self,
        above: &OwnedFd,
        name: &CStr,
    ) -> Result<Option<(Digest, bool)>> {
        match dir_handle::open_file(above, name) {
            Ok(file) => Ok(Some((self.digest(&file)?, xattrs::has_any(&file)?))),
            Err(Errno::ACCESS | Errno::NOENT | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}
