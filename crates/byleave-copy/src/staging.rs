//! Prepares the files that a commit will move, on the target filesystem, before anything there is changed.

use std::ffi::CString;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use uuid::Uuid;

use crate::commit_plan::SlotAllocator;
use crate::diff_scan::ChangedPath;
use crate::dir_handle::{self, DirHandle, FileIdentity, permission_bits};
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
    pub context: &'a StepContext,
    pub roots: &'a [CopyRoot],
    is_other_filesystem: Vec<bool>,
    count: usize,
    /// The directories of the layer whose mode was relaxed, with their previous modes.
    opened_directories: Vec<(String, u32)>,
}

impl<'a> CommitStaging<'a> {
    /// Creates the staging directories in the store, and on the filesystem of every root that differs from it.
    pub(crate) fn new(
        store: &CopyStore,
        id: Uuid,
        ground: &'a StepContext,
        roots: &'a [CopyRoot],
    ) -> Result<Self, Error> {
        let home = mount_id(&ground.copies).context("inspect", "the store")?;
        let mut is_far = Vec::new();
        for (within, root) in ground.roots.iter().zip(roots) {
            is_far.push(mount_id(within).context("inspect", &root.path)? != home);
        }
        let staging = Self {
            id,
            context: ground,
            roots,
            is_other_filesystem: is_far,
            count: 0,
            opened_directories: Vec::new(),
        };
        for name in ["in", "before"] {
            recreate_dir(&ground.copies, &id.to_string(), name).context("create", name)?;
        }
        if staging.is_other_filesystem.contains(&true) {
            // Written first: if the process is killed from here on, a directory remains in a root, and recovery knows where.
            write_json_durably(&store.entry_path(id).join(TEMP_DIRS_FILE), &roots)?;
        }
        for ((within, root), _) in
            ground.roots.iter().zip(roots).zip(&staging.is_other_filesystem).filter(|(_, far)| **far)
        {
            match create_dir(within, &temp_dir_name(id)) {
                Err(Errno::EXIST) => {}
                other => other.context("create a directory in", &root.path)?,
            }
            for name in ["in", "brought", "before"] {
                recreate_dir(within, &temp_dir_name(id), name)
                    .context("create a directory in", &root.path)?;
            }
        }
        Ok(staging)
    }

    pub(crate) fn is_other_filesystem(&self, root: usize) -> bool {
        self.is_other_filesystem.get(root).copied().unwrap_or_default()
    }

    fn new_slot(&mut self, root: usize, what: &str) -> StorageSlot {
        self.count += 1;
        let number = self.count;
        if self.is_other_filesystem(root) {
            return StorageSlot {
                root: Some(root),
                path: format!("{}/{what}/{number}", temp_dir_name(self.id)),
            };
        }
        StorageSlot { root: None, path: format!("{}/{what}/{number}", self.id) }
    }

    /// Makes a file of the store available on the filesystem of a root. If that is another filesystem, the file is copied.
    pub(crate) fn prepare(
        &mut self,
        root: usize,
        from: StorageSlot,
    ) -> Result<(StorageSlot, FileIdentity), Error> {
        let at = from.path.clone();
        let from = if self.is_other_filesystem(root) {
            let to = self.new_slot(root, "brought");
            copy_slot(self.context, &from, &to).context("copy", &at)?;
            to
        } else {
            from
        };
        let found = self
            .context
            .resolve_slot(&from)
            .and_then(|(within, path)| within.identity(path))
            .context("inspect", &at)?;
        Ok((from, found.ok_or(Errno::NOENT).context("find in the store", at)?))
    }

    /// Restores everything as it was, because the commit was not made.
    pub(crate) fn restore(&self, store: &CopyStore) -> Result<(), Error> {
        remove_temp_dirs(store, self.id, self.context, self.roots)?;
        for (path, mode) in self.opened_directories.iter().rev() {
            if let Some(of) = self.context.copies.identity(path).context("inspect", path)? {
                self.context.copies.set_mode(path, &of, *mode).context("set the mode of", path)?;
            }
        }
        Ok(())
    }

    /// Opens a directory of the layer that is closed for its owner. Root does not need this.
    fn open_layer(&mut self, path: &str) -> Result<(), Error> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let above = paths::parent(path);
        let Some(of) = self.context.copies.identity(above).context("inspect", above)? else { return Ok(()) };
        let mode = permission_bits(of.mode);
        if mode & 0o300 != 0o300 {
            self.opened_directories.push((above.into(), mode));
            self.context.copies.set_mode(above, &of, mode | 0o700).context("set the mode of", above)?;
        }
        Ok(())
    }

    /// Gives an incoming file the group that it would have without a copy: the one of the file that it replaces, or of a directory that
    /// passes on its group. In the copy of an ordinary user it can only have their own. They may give away no group but those that they
    /// are in; it is kept as it is then.
    fn keep_group(&self, root: usize, inside: &str, incoming: &StorageSlot) -> Result<(), Errno> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let Some(within) = self.context.roots.get(root) else { return Ok(()) };
        let group = match within.stat(inside) {
            Ok(Some(replaced)) => Some(replaced.st_gid),
            _ => match within.stat(paths::parent(inside)) {
                Ok(Some(above)) if Mode::from_raw_mode(above.st_mode).contains(Mode::SGID) => {
                    Some(above.st_gid)
                }
                _ => None,
            },
        };
        let (handle, path) = self.context.resolve_slot(incoming)?;
        let Some((group, is)) = group.zip(handle.stat(path)?) else { return Ok(()) };
        // A change of the group would take these bits from a file.
        let special = Mode::from_raw_mode(is.st_mode).intersects(Mode::SUID | Mode::SGID);
        let is_directory = FileType::from_raw_mode(is.st_mode) == FileType::Directory;
        if is.st_gid == group || (special && !is_directory) {
            return Ok(());
        }
        let (above, name) = handle.parent(path)?;
        let group = Some(rustix::fs::Gid::from_raw(group));
        match rustix::fs::chownat(&*above, name, None, group, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::PERM) => Ok(()),
            other => other,
        }
    }

    /// Creates a directory like one of the layer, open for its owner until it is filled.
    fn directory(&mut self, root: usize, like: &str) -> Result<(StorageSlot, FileIdentity), Error> {
        let slot = self.new_slot(root, "in");
        let (within, path) = self.context.resolve_slot(&slot).context("create", like)?;
        let made = || -> Result<FileIdentity, Errno> {
            create_dir(within, path)?;
            let (source, target) = (
                self.context.copies.open_at(like, OFlags::RDONLY | OFlags::DIRECTORY)?,
                within.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?,
            );
            let stat = rustix::fs::fstat(&source)?;
            if rustix::process::geteuid().is_root() {
                let owner = rustix::fs::Uid::from_raw(stat.st_uid);
                rustix::fs::fchown(&target, Some(owner), Some(rustix::fs::Gid::from_raw(stat.st_gid)))?;
            }
            xattrs::copy_all(&source, &target)?;
            rustix::fs::fchmod(&target, Mode::from_raw_mode(permission_bits(stat.st_mode) | 0o700))?;
            Ok(FileIdentity::from_stat(&rustix::fs::fstat(&target)?))
        };
        let ident = made().context("create a directory like", like)?;
        Ok((slot, ident))
    }
}

impl SlotAllocator for CommitStaging<'_> {
    fn prepare_incoming(
        &mut self,
        item: &ChangedPath,
        inside: &str,
    ) -> Result<(StorageSlot, FileIdentity), Error> {
        let method = self.roots.get(item.root).map_or(layers::CopyMethod::Overlay, |root| root.method);
        let path = format!("{}/{}/{inside}", self.id, layers::changes_path(method, item.root));
        self.open_layer(&path)?;
        if item.after.is_some_and(|is| is.is_directory()) {
            let made = self.directory(item.root, &path)?;
            self.keep_group(item.root, inside, &made.0).context("keep the group of", inside)?;
            return Ok(made);
        }
        let now = self.context.copies.identity(&path).context("inspect", &path)?;
        // Only the file that was shown may be committed.
        let same = |now: &FileIdentity| {
            item.after
                .is_some_and(|is| is.is_same(now) && permission_bits(is.mode) == permission_bits(now.mode))
        };
        if !now.as_ref().is_some_and(same) {
            return Err(Error::NotListed(item.change.path.clone()));
        }
        let slot = StorageSlot { root: None, path };
        self.keep_group(item.root, inside, &slot).context("keep the group of", inside)?;
        self.prepare(item.root, slot)
    }

    fn new_slot(&mut self, root: usize) -> StorageSlot {
        self.new_slot(root, "before")
    }

    fn closed_directory(&mut self, root: usize, inside: &str) -> Result<Option<FileIdentity>, Error> {
        if rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let Some(within) = self.context.roots.get(root) else { return Ok(None) };
        let ident = within.identity(inside).context("inspect", inside)?;
        Ok(ident.filter(|ident| ident.is_directory() && permission_bits(ident.mode) & 0o300 != 0o300))
    }
}

/// Copies the before-images on the filesystem of a root to the store. It can be repeated.
pub(crate) fn move_to_store(journal: &Journal, ground: &StepContext) -> Result<(), Error> {
    for step in &journal.steps {
        let (StepAction::Remove { keep, .. } | StepAction::Swap { keep, .. }) = &step.action else {
            continue;
        };
        if keep.root.is_some() {
            let to = keep.final_slot(journal.id);
            let (within, path) = ground.resolve_slot(&to).context("find", &to.path)?;
            let (above, name) = within.parent(path).context("find", path)?;
            let name = CString::new(name).map_err(std::io::Error::from).context("find", path)?;
            dir_handle::remove(above.as_fd(), &name).context("remove", path)?;
            copy_slot(ground, keep, &to).context("copy to the store", paths::absolute(".", &step.inside))?;
        }
    }
    Ok(())
}

/// The file that lists the roots in which we have a directory.
pub(crate) const TEMP_DIRS_FILE: &str = "outposts.json";

/// Removes the directories that were created in roots, and then the file that lists them.
pub(crate) fn remove_temp_dirs(
    store: &CopyStore,
    id: Uuid,
    ground: &StepContext,
    roots: &[CopyRoot],
) -> Result<(), Error> {
    let mark = store.entry_path(id).join(TEMP_DIRS_FILE);
    if !mark.exists() {
        return Ok(());
    }
    let name =
        CString::new(temp_dir_name(id)).map_err(std::io::Error::from).context("remove from", "a root")?;
    for (within, root) in ground.roots.iter().zip(roots) {
        let (above, _) = within.parent("").context("open", &root.path)?;
        dir_handle::remove(above.as_fd(), &name).context("remove our directory from", &root.path)?;
    }
    std::fs::remove_file(&mark).context("remove", &mark)
}

/// Returns the name of our directory in a root on another filesystem, for the duration of the commit.
fn temp_dir_name(id: Uuid) -> String {
    format!(".byleave-{id}")
}

fn copy_slot(ground: &StepContext, from: &StorageSlot, to: &StorageSlot) -> Result<(), Errno> {
    let ((source, from), (target, to)) = (ground.resolve_slot(from)?, ground.resolve_slot(to)?);
    let ((source, from), (target, to)) = (source.parent(from)?, target.parent(to)?);
    let named = |name: &str| CString::new(name).map_err(|_| Errno::INVAL);
    tree_copy::copy_entry((source.as_fd(), &named(from)?), (target.as_fd(), &named(to)?))
}

fn create_dir(within: &DirHandle, path: &str) -> Result<(), Errno> {
    let (above, name) = within.parent(path)?;
    rustix::fs::mkdirat(&*above, name, Mode::RWXU)
}

/// Creates an empty directory and removes any remains at its path.
fn recreate_dir(within: &DirHandle, above: &str, name: &str) -> Result<(), Errno> {
    let path = format!("{above}/{name}");
    let (handle, _) = within.parent(&path)?;
    dir_handle::remove(handle.as_fd(), &CString::new(name).map_err(|_| Errno::INVAL)?)?;
    create_dir(within, &path)
}

/// Returns the mount of a directory. A rename cannot cross mounts, even within one filesystem.
fn mount_id(within: &DirHandle) -> Result<(u64, u32, u32), Errno> {
    let (handle, _) = within.parent("")?;
    let found =
        rustix::fs::statx(&*handle, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID | StatxFlags::BASIC_STATS)?;
    Ok((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))
}
