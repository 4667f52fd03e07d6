//! The anchor in a file. Keep it where writers of the audit log cannot write.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use byleave_files::own;

use crate::audit_log::Anchor;
use crate::ledger::LedgerError;

/// The file with the anchor.
#[derive(Clone, Debug)]
pub struct AnchorFile(PathBuf);

impl AnchorFile {
    /// Returns the anchor file at this path, whether or not it exists yet.
    pub const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Reads the anchor as it was last written.
    pub fn read(&self) -> Result<Option<Anchor>, LedgerError> {
        let what = || format!("cannot read the anchor `{}`", self.0.display());
        match own::read(&self.0) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|error| LedgerError::new(what(), error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LedgerError::new(what(), error)),
        }
    }

    /// Writes the anchor. It is on the disk when this returns.
    pub fn write(&self, anchor: &Anchor) -> Result<(), LedgerError> {
        let text =
            serde_json::to_vec(anchor).map_err(|error| LedgerError::new("cannot write the anchor", error))?;
        replace(&self.0, &text).map_err(|error| {
            LedgerError::new(format!("cannot write the anchor `{}`", self.0.display()), error)
        })
    }
}

/// Replaces a file atomically. A reader sees either the old or the new one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => own::sync_directory(dir),
        _ => Ok(()),
    }
}
