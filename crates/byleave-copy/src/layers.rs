//! Creates the directories of a copy: overlay layers, or a plain copy of the tree. Mounts are described by plain paths.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext as _};
use crate::tree_copy;

/// A directory that is replaced by a copy of it, at the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedDir {
    /// The original directory, which is also the mount point.
    pub root: PathBuf,
    /// The source of the mount.
    pub source: MountSource,
}

/// The source of a mount in place of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// Layers over the directory itself. The directory is the lowest layer and is not named here.
    Overlay {
        /// The layers in between, topmost first.
        lowers: Vec<PathBuf>,
        /// The layer that receives changes.
        upper: PathBuf,
        /// The work directory that the kernel needs beside `upper`.
        work: PathBuf,
    },
    /// A copy of the whole tree.
    Tree {
        /// The path of the copy.
        path: PathBuf,
    },
}

/// The way to create a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyMethod {
    /// Layers for an overlay: a file is copied only when it is changed.
    Overlay,
    /// The whole tree, within the limit of the settings. Blocks are shared if the filesystem supports it.
    Tree,
}

/// One directory of a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CopyRoot {
    pub path: String,
    pub dev: u64,
    pub ino: u64,
    pub method: CopyMethod,
}

/// The owner that a directory must have, so that this owner can mount the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirOwner {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl DirOwner {
    pub(crate) fn from_path(path: &Path) -> Result<Self, Error> {
        let metadata = fs::symlink_metadata(path).context("inspect", path)?;
        Ok(Self { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() & 0o7777 })
    }

    pub(crate) const fn mode(self) -> u32 {
        self.mode
    }

    /// Checks whether it is another user, and this process may give files to them.
    pub(crate) fn is_other_user(self) -> bool {
        rustix::process::geteuid().is_root() && self.uid != 0
    }

    /// Creates a directory that belongs to this owner.
    pub(crate) fn create_dir(self, path: &Path, mode: u32) -> Result<(), Error> {
        DirBuilder::new().mode(0o700).create(path).context("create", path)?;
        if self.is_other_user() {
            chown(path, Some(self.uid), Some(self.gid)).context("change the owner of", path)?;
        }
        fs::set_permissions(path, Permissions::from_mode(mode)).context("set the mode of", path)
    }
}

/// Returns the path of the changed files of a root, relative to the directory of its copy.
pub(crate) fn changes_path(method: CopyMethod, number: usize) -> String {
    match method {
        CopyMethod::Overlay => format!("{number}/upper"),
        CopyMethod::Tree => format!("{number}/tree"),
    }
}

/// Creates the directories of one root.
pub(crate) fn create_layers(
    inside: &Path,
    number: usize,
    root: &CopyRoot,
    limit_bytes: u64,
) -> Result<(), Error> {
    let path = Path::new(&root.path);
    let owner = DirOwner::from_path(path)?;
    owner.create_dir(&inside.join(number.to_string()), 0o700)?;
    let at = inside.join(changes_path(root.method, number));
    match root.method {
        // The command sees the mode of the upper directory as the mode of the root.
        CopyMethod::Overlay => {
            owner.create_dir(&at, owner.mode)?;
            owner.create_dir(&inside.join(format!("{number}/work")), 0o700)
        }
        CopyMethod::Tree => {
            owner.create_dir(&at, owner.mode)?;
            tree_copy::copy_tree(path, &at, limit_bytes)
        }
    }
}

/// Returns the mount of one root.
pub(crate) fn mount_for(inside: &Path, number: usize, root: &CopyRoot) -> CopiedDir {
    let at = inside.join(changes_path(root.method, number));
    let source = match root.method {
        CopyMethod::Overlay => MountSource::Overlay {
            lowers: Vec::new(),
            upper: at,
            work: inside.join(format!("{number}/work")),
        },
        CopyMethod::Tree => MountSource::Tree { path: at },
    };
    CopiedDir { root: PathBuf::from(&root.path), source }
}
