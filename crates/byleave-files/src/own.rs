//! Reads files that no agent can write: the program's own state, its configuration, its certificates, what the kernel shows in `/proc`.
//!
//! A call of these functions says that its path is such a file. A file that an agent can make or replace is read by [`crate::read`].

#![expect(
    clippy::disallowed_methods,
    reason = "these are the functions to use instead, for files that no agent can write"
)]

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Reads all bytes of a file.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Reads all of a file, which is text.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Opens a file or a directory to read it.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    File::open(path)
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: impl AsRef<Path>) -> io::Result<()> {
    open(path)?.sync_all()
}
