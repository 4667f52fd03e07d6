//! The journal of a commit: all steps that it will execute, written before the first one.
//!
//! A step names files by their identity and not only by their path. So a later reader of the journal can see from the disk alone
//! which steps were executed.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dir_handle::{DirHandle, FileIdentity};
use crate::error::{Error, IoContext as _};
use crate::layers::CopyRoot;
use crate::paths;
use crate::store::CopyStore;

/// The steps of a commit, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub id: Uuid,
    /// The commit that this one undoes.
    pub undo_of: Option<Uuid>,
    pub roots: Vec<CopyRoot>,
    pub steps: Vec<JournalStep>,
}

impl Journal {
    /// Returns the absolute path of a step.
    pub(crate) fn path(&self, step: &JournalStep) -> String {
        let root = self.roots.get(step.root).map_or("", |root| root.path.as_str());
        paths::absolute(root, &step.inside)
    }
}

/// The record of a completed commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommitCompletion {
    /// The time, by the clock of the filesystem.
    pub at_ns: i64,
    /// The time, by the system clock.
    pub at_time: std::time::SystemTime,
}

/// One action on one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JournalStep {
    pub root: usize,
    pub inside: String,
    pub action: StepAction,
}

/// The action of a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepAction {
    /// Moves the current file to the store, with everything in it.
    Remove { old: FileIdentity, keep: StorageSlot },
    /// Moves a file from the store to a path where nothing exists.
    Put { new: FileIdentity, from: StorageSlot },
    /// Exchanges both files, then moves the old one to where it is kept.
    Swap { old: FileIdentity, new: FileIdentity, from: StorageSlot, keep: StorageSlot },
    /// Changes the mode of a directory.
    Mode { identity: FileIdentity, old_mode: u32, new_mode: u32 },
}

/// A place for a file that is not at its path: in the store, or in a directory of ours on the filesystem of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StorageSlot {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<usize>,
    pub path: String,
}

impl StorageSlot {
    /// Returns the place where a file is kept once the commit has ended.
    pub(crate) fn final_slot(&self, id: Uuid) -> Self {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        Self { root: None, path: format!("{id}/before/{name}") }
    }
}

/// The handles that steps work with.
pub(crate) struct StepContext {
    pub copies: DirHandle,
    pub roots: Vec<DirHandle>,
}

impl StepContext {
    pub(crate) fn open(store: &CopyStore, roots: &[CopyRoot]) -> Result<Self, Error> {
        let copies = store.path.join("copies");
        let copies = DirHandle::open(&copies).context("open", &copies)?;
        let open = |root: &CopyRoot| {
            let path = Path::new(&root.path);
            let opened = DirHandle::open(path).context("open", path)?;
            let is = opened.identity("").context("inspect", path)?;
            if is.is_none_or(|is| (is.dev, is.ino) != (root.dev, root.ino)) {
                return Err(Error::Root {
                    path: path.to_owned(),
                    reason: "the directory was replaced by another one",
                });
            }
            Ok(opened)
        };
        Ok(Self { copies, roots: roots.iter().map(open).collect::<Result<_, _>>()? })
    }

    pub(crate) fn resolve_slot<'a>(
        &'a self,
        slot: &'a StorageSlot,
    ) -> rustix::io::Result<(&'a DirHandle, &'a str)> {
        let within = match slot.root {
            None => &self.copies,
            Some(root) => self.roots.get(root).ok_or(rustix::io::Errno::INVAL)?,
        };
        Ok((within, &slot.path))
    }

    pub(crate) fn resolve_step<'a>(
        &'a self,
        step: &'a JournalStep,
    ) -> rustix::io::Result<(&'a DirHandle, &'a str)> {
        Ok((self.roots.get(step.root).ok_or(rustix::io::Errno::INVAL)?, &step.inside))
    }
}
