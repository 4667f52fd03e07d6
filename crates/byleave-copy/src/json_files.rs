//! The small JSON files of the store: written atomically, and read if they exist.

use std::fs;
use std::io;
use std::path::Path;

use byleave_files::own;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::dir_handle;
use crate::error::{Error, IoContext as _};

/// Returns the names in a directory, or none if it does not exist.
pub(crate) fn list_names(directory: &Path) -> Result<Vec<String>, Error> {
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context("list", directory)?,
    };
    let names = listing.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<Vec<_>>>().context("list", directory)
}

/// Writes a file atomically. This does not hold across a power cut.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let draft = path.with_extension("draft");
    fs::write(&draft, json(path, value)?).context("write", &draft)?;
    fs::rename(&draft, path).context("write", path)
}

/// Writes a file atomically and durably, also across a power cut.
pub(crate) fn write_json_durably<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    dir_handle::write_atomically(path, &json(path, value)?).context("write", path)
}

fn json<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|source| Error::InvalidFile { path: path.to_owned(), source })
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match own::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("read", path),
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| Error::InvalidFile { path: path.to_owned(), source }),
    }
}
