//! Remembers each entry of a full copy as it was before the command began. A full copy is compared with the originals as they are when the
//! command has ended. What others did to an original meanwhile is no change of the command.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::copy::WorkspaceCopy;
use crate::dir_handle::{self, FileIdentity, permission_bits, stat_at};
use crate::error::{Error, IoContext as _};
use crate::json_files::{read_json, write_json};
use crate::layers::{self, CopyMethod};

const FILE: &str = "copied.json";

/// An entry of a full copy before the command began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopiedEntry {
    #[serde(rename = "i")]
    ino: u64,
    #[serde(rename = "c")]
    changed: i64,
    #[serde(rename = "m")]
    mode: u32,
}

impl CopiedEntry {
    fn from_stat(stat: &Stat) -> Self {
        let identity = FileIdentity::from_stat(stat);
        Self { ino: identity.ino, changed: identity.changed, mode: permission_bits(identity.mode) }
    }

    /// Checks whether the command did nothing to the entry. Of a directory, its entries do not count.
    pub(crate) fn is_untouched(&self, is: &Stat) -> bool {
        let now = Self::from_stat(is);
        let is_directory = FileType::from_raw_mode(is.st_mode) == FileType::Directory;
        self.ino == now.ino && self.mode == now.mode && (is_directory || self.changed == now.changed)
    }
}

/// The entries of one full copy, by path in its root.
pub(crate) type CopiedEntries = HashMap<String, CopiedEntry>;

impl WorkspaceCopy {
    /// Remembers the entries of full copies. Call it when nothing but the command will change them any more.
    pub fn remember_entries(&self) -> Result<(), Error> {
        let mut all: Vec<Option<CopiedEntries>> = Vec::new();
        for (number, root) in self.meta.roots.iter().enumerate() {
            if root.method != CopyMethod::Tree {
                all.push(None);
                continue;
            }
            let tree = self.path.join(layers::changes_path(root.method, number));
            let mut entries = CopiedEntries::new();
            let top = dir_handle::open_resolved(&tree).context("open", &tree)?;
            collect(&top, "", &mut entries, dir_handle::DEPTH_MAX).context("inspect", &tree)?;
            all.push(Some(entries));
        }
        let newest = all.iter().flatten().flat_map(HashMap::values).map(|entry| entry.changed).max();
        let Some(newest) = newest else { return Ok(()) };
        write_json(&self.path.join(FILE), &all)?;
        // The clock advances in steps. What the command changes must have a later time.
        while self.store.filesystem_now(&self.path)? <= newest {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns the remembered entries of each root. Without them, every difference counts.
    pub(crate) fn remembered_entries(&self) -> Result<Vec<Option<CopiedEntries>>, Error> {
        Ok(read_json(&self.path.join(FILE))?.unwrap_or_default())
    }
}

fn collect(
    directory: &std::os::fd::OwnedFd,
    inside: &str,
    entries: &mut CopiedEntries,
    steps_down: usize,
) -> rustix::io::Result<()> {
    let steps_down = steps_down.checked_sub(1).ok_or(rustix::io::Errno::NAMETOOLONG)?;
    for name in dir_handle::list_names(directory)? {
        // A path that is not text cannot be committed, so it is not compared.
        let Ok(text) = name.to_str() else { continue };
        let Some(is) = stat_at(directory, &*name)? else { continue };
        let path = if inside.is_empty() { text.to_owned() } else { format!("{inside}/{text}") };
        if FileType::from_raw_mode(is.st_mode) == FileType::Directory {
            let inner = dir_handle::open_owned(directory.as_fd(), &name, &is)?;
            collect(&inner, &path, entries, steps_down)?;
        }
        // Opening a directory that is closed for its owner changes its mode for a moment.
        let Some(is) = stat_at(directory, &*name)? else { continue };
        entries.insert(path, CopiedEntry::from_stat(&is));
    }
    Ok(())
}
