//! Prepares the files that a commit will move, on the target filesystem, before anything there is changed.

use std::ffi::CString;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use uuid::Uuid;

use crate::commit_plan::SlotAllocator;
use crate::diff_scan::ChangedPath;
use crate::dir_handle::{self, DirHandle, FileIdentity, bits};
use crate::error::{Error, IoContext as _};
use crate::journal::{Journal, StepAction, StepContext, StorageSlot};
use crate::json_files::write_json_durably;
use crate::layers::{self, CopyRoot};
use crate::paths;
use crate::store::CopyStore;
use crate::tree_copy;
use crate::xattrs;

/// The prepared files of one commit.
pub(crate) struct CommitStaging<'a> {
    pub id: Uuid,
    pub ground: &'a StepContext,
    pub roots: &'a [CopyRoot],
    is_far: Vec<bool>,
    count: usize,
    /// The directories of the layer whose mode was relaxed, with their previous modes.
    opened: Vec<(String, u32)>,
}

impl<'a> CommitStaging<'a> {
    /// Creates the staging directories in the store, and on the filesystem of every root that differs from it.
    pub(crate) fn new(
        store: &CopyStore,
        id: Uuid,
        ground: &'a StepContext,
        roots: &'a [CopyRoot],
    ) -> Result<Self, Error> {
        let home = mount(&ground.copies).at("look at", "the store")?;
        let mut is_far = Vec::new();
        for (within, root) in ground.roots.iter().zip(roots) {
            is_far.push(mount(within).at("look at", &root.path)? != home);
        }
        let staging = Self { id, ground, roots, is_far, count: 0, opened: Vec::new() };
        for name in ["in", "before"] {
            afresh(&ground.copies, &id.to_string(), name).at("make", name)?;
        }
        if staging.is_far.contains(&true) {
            // Written first: if the process is killed from here on, a directory remains in a root, and recovery knows where.
            write_json_durably(&store.directory(id).join(OUTPOSTS), &roots)?;
        }
        for ((within, root), _) in
            ground.roots.iter().zip(roots).zip(&staging.is_far).filter(|(_, far)| **far)
        {
            match make(within, &outpost(id)) {
                Err(Errno::EXIST) => {}
                other => other.at("make a directory in", &root.path)?,
            }
            for name in ["in", "brought", "before"] {
                afresh(within, &outpost(id), name).at("make a directory in", &root.path)?;
            }
        }
        Ok(staging)
    }

    pub(crate) fn is_far(&self, root: usize) -> bool {
        self.is_far.get(root).copied().unwrap_or_default()
    }

    fn slot(&mut self, root: usize, what: &str) -> StorageSlot {
        self.count += 1;
        let number = self.count;
        if self.is_far(root) {
            return StorageSlot { root: Some(root), path: format!("{}/{what}/{number}", outpost(self.id)) };
        }
        StorageSlot { root: None, path: format!("{}/{what}/{number}", self.id) }
    }

    /// Makes a file of the store available on the filesystem of a root. If that is another filesystem, the file is copied.
    pub(crate) fn bring(
        &mut self,
        root: usize,
        from: StorageSlot,
    ) -> Result<(StorageSlot, FileIdentity), Error> {
        let at = from.path.clone();
        let from = if self.is_far(root) {
            let to = self.slot(root, "brought");
            copy(self.ground, &from, &to).at("copy", &at)?;
            to
        } else {
            from
        };
        let found =
            self.ground.slot(&from).and_then(|(within, path)| within.ident(path)).at("look at", &at)?;
        Ok((from, found.ok_or(Errno::NOENT).at("find in the store", at)?))
    }

    /// Restores everything as it was, because the commit was not made.
    pub(crate) fn restore(&self, store: &CopyStore) -> Result<(), Error> {
        leave(store, self.id, self.ground, self.roots)?;
        for (path, mode) in self.opened.iter().rev() {
            if let Some(of) = self.ground.copies.ident(path).at("look at", path)? {
                self.ground.copies.set_mode(path, &of, *mode).at("set the mode of", path)?;
            }
        }
        Ok(())
    }

    /// Opens a directory of the layer that is closed for its owner. Root does not need this.
    fn open_layer(&mut self, path: &str) -> Result<(), Error> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let above = paths::above(path);
        let Some(of) = self.ground.copies.ident(above).at("look at", above)? else { return Ok(()) };
        let mode = bits(of.mode);
        if mode & 0o300 != 0o300 {
            self.opened.push((above.into(), mode));
            self.ground.copies.set_mode(above, &of, mode | 0o700).at("set the mode of", above)?;
        }
        Ok(())
    }

    /// Creates a directory like one of the layer, open for its owner until it is filled.
    fn directory(&mut self, root: usize, like: &str) -> Result<(StorageSlot, FileIdentity), Error> {
        let slot = self.slot(root, "in");
        let (within, path) = self.ground.slot(&slot).at("make", like)?;
        let made = || -> Result<FileIdentity, Errno> {
            make(within, path)?;
            let (source, target) = (
                self.ground.copies.open_at(like, OFlags::RDONLY | OFlags::DIRECTORY)?,
                within.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?,
            );
            let stat = rustix::fs::fstat(&source)?;
            if rustix::process::geteuid().is_root() {
                let owner = rustix::fs::Uid::from_raw(stat.st_uid);
                rustix::fs::fchown(&target, Some(owner), Some(rustix::fs::Gid::from_raw(stat.st_gid)))?;
            }
            xattrs::copy(&source, &target)?;
            rustix::fs::fchmod(&target, Mode::from_raw_mode(bits(stat.st_mode) | 0o700))?;
            Ok(FileIdentity::of(&rustix::fs::fstat(&target)?))
        };
        let ident = made().at("make a directory like", like)?;
        Ok((slot, ident))
    }
}

impl SlotAllocator for CommitStaging<'_> {
    fn incoming(&mut self, item: &ChangedPath, inside: &str) -> Result<(StorageSlot, FileIdentity), Error> {
        let method = self.roots.get(item.root).map_or(layers::CopyMethod::Overlay, |root| root.method);
        let path = format!("{}/{}/{inside}", self.id, layers::changed(method, item.root));
        self.open_layer(&path)?;
        if item.is.is_some_and(|is| is.is_directory()) {
            return self.directory(item.root, &path);
        }
        let now = self.ground.copies.ident(&path).at("look at", &path)?;
        // Only the file that was shown may be committed.
        let same =
            |now: &FileIdentity| item.is.is_some_and(|is| is.is_same(now) && bits(is.mode) == bits(now.mode));
        if !now.as_ref().is_some_and(same) {
            return Err(Error::NotListed(item.change.path.clone()));
        }
        self.bring(item.root, StorageSlot { root: None, path })
    }

    fn keep(&mut self, root: usize) -> StorageSlot {
        self.slot(root, "before")
    }

    fn closed(&mut self, root: usize, inside: &str) -> Result<Option<FileIdentity>, Error> {
        if rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let Some(within) = self.ground.roots.get(root) else { return Ok(None) };
        let ident = within.ident(inside).at("look at", inside)?;
        Ok(ident.filter(|ident| ident.is_directory() && bits(ident.mode) & 0o300 != 0o300))
    }
}

/// Copies the before-images on the filesystem of a root to the store. It can be repeated.
pub(crate) fn settle(journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    for step in &journal.steps {
        let (StepAction::Take { keep, .. } | StepAction::Swap { keep, .. }) = &step.act else { continue };
        if keep.root.is_some() {
            let to = keep.settled(journal.id);
            let (within, path) = ground.slot(&to).at("find", &to.path)?;
            let (above, name) = within.parent(path).at("find", path)?;
            let name = CString::new(name).map_err(std::io::Error::from).at("find", path)?;
            dir_handle::remove(above.as_fd(), &name).at("remove", path)?;
            copy(ground, keep, &to).at("copy to the store", paths::absolute(".", &step.inside))?;
        }
    }
    Ok(())
}

/// The file that lists the roots in which we have a directory.
pub(crate) const OUTPOSTS: &str = "outposts.json";

/// Removes the directories that were created in roots, and then the file that lists them.
pub(crate) fn leave(
    store: &CopyStore,
    id: Uuid,
    ground: &StepContext,
    roots: &[CopyRoot],
) -> Result<(), Error> {
    let mark = store.directory(id).join(OUTPOSTS);
    if !mark.exists() {
        return Ok(());
    }
    let name = CString::new(outpost(id)).map_err(std::io::Error::from).at("remove from", "a root")?;
    for (within, root) in ground.roots.iter().zip(roots) {
        let (above, _) = within.parent("").at("open", &root.path)?;
        dir_handle::remove(above.as_fd(), &name).at("remove our directory from", &root.path)?;
    }
    std::fs::remove_file(&mark).at("remove", &mark)
}

/// Returns the name of our directory in a root on another filesystem, for the duration of the commit.
fn outpost(id: Uuid) -> String {
    format!(".byleave-{id}")
}

fn copy(ground: &StepContext, from: &StorageSlot, to: &StorageSlot) -> Result<(), Errno> {
    let ((source, from), (target, to)) = (ground.slot(from)?, ground.slot(to)?);
    let ((source, from), (target, to)) = (source.parent(from)?, target.parent(to)?);
    let named = |name: &str| CString::new(name).map_err(|_| Errno::INVAL);
    tree_copy::one((source.as_fd(), &named(from)?), (target.as_fd(), &named(to)?))
}

fn make(within: &DirHandle, path: &str) -> Result<(), Errno> {
    let (above, name) = within.parent(path)?;
    rustix::fs::mkdirat(&*above, name, Mode::RWXU)
}

/// Creates an empty directory and removes any remains at its path.
fn afresh(within: &DirHandle, above: &str, name: &str) -> Result<(), Errno> {
    let path = format!("{above}/{name}");
    let (handle, _) = within.parent(&path)?;
    dir_handle::remove(handle.as_fd(), &CString::new(name).map_err(|_| Errno::INVAL)?)?;
    make(within, &path)
}

/// Returns the mount of a directory. A rename cannot cross mounts, even within one filesystem.
fn mount(within: &DirHandle) -> Result<(u64, u32, u32), Errno> {
    let (handle, _) = within.parent("")?;
    let found =
        rustix::fs::statx(&*handle, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID | StatxFlags::BASIC_STATS)?;
    Ok((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))
}
