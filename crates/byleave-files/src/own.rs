//! Reads of files that no agent can write: the program's own state, its configuration, its certificates, and `/proc`.
//!
//! The caller asserts that its path is such a file. A file that an agent can create or replace must be read by [`crate::read`].

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

/// Reads a whole text file.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Opens a file or a directory for reading.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    File::open(path)
}

/// Makes the entries of a directory durable.
pub fn sync_directory(path: impl AsRef<Path>) -> io::Result<()> {
    open(path)?.sync_all()
}
