//! The journal: everything that a commit is going to do, written down before any of it is done.
//!
//! A step names things by their identity, not only by their path, so that whoever reads the journal later can tell from the disk
//! alone what was done already.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dir_handle::{DirHandle, FileIdentity};
use crate::error::{Error, IoContext as _};
use crate::layers::CopyRoot;
use crate::paths;
use crate::store::CopyStore;

/// What a commit does, in its order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub id: Uuid,
    /// The commit that this one takes back.
    pub undoes: Option<Uuid>,
    pub roots: Vec<CopyRoot>,
    pub steps: Vec<JournalStep>,
}

impl Journal {
    /// The absolute path that a step is about.
    pub(crate) fn path(&self, step: &JournalStep) -> String {
        let root = self.roots.get(step.root).map_or("", |root| root.path.as_str());
        paths::absolute(root, &step.inside)
    }
}

/// What a commit is when it has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommitCompletion {
    /// When, by the clock of the filesystem.
    pub at: i64,
    /// When, by the clock of people.
    pub on: std::time::SystemTime,
}

/// One thing that is done to one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JournalStep {
    pub root: usize,
    pub inside: String,
    pub act: StepAction,
}

/// What is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepAction {
    /// What is there goes to the store, with everything in it.
    Take { old: FileIdentity, keep: StorageSlot },
    /// What is in the store comes to where nothing is.
    Put { new: FileIdentity, from: StorageSlot },
    /// Both change places, then the old one goes where it is kept.
    Swap { old: FileIdentity, new: FileIdentity, from: StorageSlot, keep: StorageSlot },
    /// A directory gets another mode.
    Mode { of: FileIdentity, was: u32, is: u32 },
}

/// A place for a thing that is not in its own place: in the store, or in a directory of ours on the filesystem of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StorageSlot {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<usize>,
    pub path: String,
}

impl StorageSlot {
    /// Where a thing is kept once the commit has ended.
    pub(crate) fn settled(&self, id: Uuid) -> Self {
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
        let copies = store.at.join("copies");
        let copies = DirHandle::open(&copies).at("open", &copies)?;
        let open = |root: &CopyRoot| {
            let path = Path::new(&root.path);
            let opened = DirHandle::open(path).at("open", path)?;
            let is = opened.ident("").at("look at", path)?;
            if is.is_none_or(|is| (is.dev, is.ino) != (root.dev, root.ino)) {
                return Err(Error::Root {
                    path: path.to_owned(),
                    why: "it is another directory than it was",
                });
            }
            Ok(opened)
        };
        Ok(Self { copies, roots: roots.iter().map(open).collect::<Result<_, _>>()? })
    }

    pub(crate) fn slot<'a>(&'a self, slot: &'a StorageSlot) -> rustix::io::Result<(&'a DirHandle, &'a str)> {
        let within = match slot.root {
            None => &self.copies,
            Some(root) => self.roots.get(root).ok_or(rustix::io::Errno::INVAL)?,
        };
        Ok((within, &slot.path))
    }

    pub(crate) fn place<'a>(&'a self, step: &'a JournalStep) -> rustix::io::Result<(&'a DirHandle, &'a str)> {
        Ok((self.roots.get(step.root).ok_or(rustix::io::Errno::INVAL)?, &step.inside))
    }
}
