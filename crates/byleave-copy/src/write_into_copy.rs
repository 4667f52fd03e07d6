//! Writes and removes whole files on a copy directly, for callers that know the content without running anything. Nothing is
//! mounted: the layer is written as an overlay would have left it. This module never touches the original files.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use byleave_core::effect::is_resolved;
use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use crate::copy::WorkspaceCopy;
use crate::dir_handle::{DirHandle, permission_bits};
use crate::error::{Error, IoContext as _};
use crate::layers::{self, CopyMethod};
use crate::paths;
use crate::xattrs;

/// The modes of a new file, and of a directory that it needs.
const NEW_FILE_MODE: u32 = 0o644;
const NEW_DIRECTORY_MODE: u32 = 0o755;
/// The bits that let a program run as the owner or group of its file.
const SET_ID_BITS: u32 = 0o6000;

impl WorkspaceCopy {
    /// Writes a whole file to the copy. A replaced file passes on its owner and group as far as this process may give them, its
    /// attributes and, if `mode` is absent, its mode. A new file gets those of its directory. Missing directories are created.
    pub fn write_file(&self, path: &Path, content: &[u8], mode: Option<u32>) -> Result<(), Error> {
        let spot = self.locate(path)?;
        let there = spot.existing.as_ref().map(|there| (there, FileType::from_raw_mode(there.st_mode)));
        let like = match there {
            None => None,
            Some((there, FileType::RegularFile)) => Some(there),
            Some(_) => return Err(cannot_write(path, "the path is not a regular file")),
        };
        let (above, name) = spot.create_parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made =
            rustix::fs::openat(&*above, name, flags, Mode::RUSR | Mode::WUSR).context("create", path)?;
        let mut is_same_owner = true;
        match like {
            Some(like) => {
                if !rustix::process::geteuid().is_root() && like.st_uid != rustix::process::geteuid().as_raw()
                {
                    return Err(cannot_write(path, "the file belongs to another user"));
                }
                is_same_owner = copy_owner(&made, like).context("keep the owner of", path)?;
                let source = spot
                    .below
                    .open_at(&spot.inside, OFlags::RDONLY | OFlags::NONBLOCK)
                    .context("open", path)?;
                xattrs::copy_all(&source, &made).context("keep the attributes of", path)?;
            }
            None => {
                let directory = rustix::fs::fstat(&*above).context("inspect", path)?;
                copy_owner(&made, &directory).context("change the owner of", path)?;
            }
        }
        let mut file = File::from(made);
        file.write_all(content).context("write", path)?;
        // The mode is set last, because writing clears the setuid and setgid bits.
        let mut mode =
            mode.or_else(|| like.map(|like| permission_bits(like.st_mode))).unwrap_or(NEW_FILE_MODE);
        if !is_same_owner {
            mode &= !SET_ID_BITS;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).context("set the mode of", path)
    }

    /// Removes a file or a link on the copy.
    pub fn remove_file(&self, path: &Path) -> Result<(), Error> {
        let spot = self.locate(path)?;
        match spot.existing.as_ref().map(|there| FileType::from_raw_mode(there.st_mode)) {
            None => return Err(cannot_write(path, "the path does not exist")),
            Some(FileType::Directory) => return Err(cannot_write(path, "the path is a directory")),
            Some(_) => {}
        }
        let (above, name) = spot.create_parent(path)?;
        let none = rustix::fs::makedev(0, 0);
        rustix::fs::mknodat(&*above, name, FileType::CharacterDevice, Mode::empty(), none)
            .context("mark as removed", path)
    }

    fn locate(&self, path: &Path) -> Result<LayerLocation, Error> {
        let text = path.to_str().ok_or_else(|| Error::NotText { path: path.to_owned() })?;
        if !is_resolved(text) {
            return Err(cannot_write(path, "the path is not resolved"));
        }
        let (number, root) =
            self.root_for(path).ok_or_else(|| cannot_write(path, "the path is not in a copied directory"))?;
        if root.method != CopyMethod::Overlay {
            return Err(cannot_write(path, "single files can be written only to an overlay copy"));
        }
        let below = DirHandle::open(Path::new(&root.path)).context("open", &root.path)?;
        let layer = self.path.join(layers::changes_path(root.method, number));
        let layer = DirHandle::open(&layer).context("open", layer)?;
        let inside = paths::inside(&root.path, text).to_owned();
        let there = below.stat(&inside).context("inspect", path)?;
        Ok(LayerLocation { below, layer, inside, existing: there })
    }
}

/// A location in a copy: the original below, and its place in the layer.
struct LayerLocation {
    below: DirHandle,
    layer: DirHandle,
    inside: String,
    existing: Option<Stat>,
}

impl LayerLocation {
    /// Returns the directory of the layer that contains it. Missing directories are created as they are below.
    fn create_parent(&self, path: &Path) -> Result<(std::rc::Rc<rustix::fd::OwnedFd>, &str), Error> {
        let steps = self.inside.match_indices('/').filter_map(|(at, _)| self.inside.get(..at));
        for step in steps {
            let below = self.below.stat(step).context("inspect", path)?;
            if below.is_some_and(|below| FileType::from_raw_mode(below.st_mode) != FileType::Directory) {
                return Err(cannot_write(path, "a parent of the path is not a directory"));
            }
            let (above, name) = self.layer.parent(step).context("find", path)?;
            match rustix::fs::mkdirat(&*above, name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                other => other.context("create a directory for", path)?,
            }
            let made = self.layer.open_at(step, OFlags::RDONLY | OFlags::DIRECTORY).context("open", path)?;
            let mode = match &below {
                Some(below) => {
                    copy_owner(&made, below).context("keep the owner of the parent of", path)?;
                    permission_bits(below.st_mode)
                }
                None => {
                    let like = rustix::fs::fstat(&*above).context("inspect", path)?;
                    copy_owner(&made, &like).context("change the owner of", path)?;
                    NEW_DIRECTORY_MODE
                }
            };
            rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))
                .context("set the mode of the parent of", path)?;
        }
        self.layer.parent(&self.inside).context("find", path)
    }
}

/// Gives a new file the owner and group of another one, as far as this process may, and returns whether it did. An ordinary user who
/// replaces a file of another group gives it their own, as with every program that writes a new file and renames it.
fn copy_owner(made: &impl std::os::fd::AsFd, like: &Stat) -> Result<bool, Errno> {
    let is = rustix::fs::fstat(made)?;
    let (uid, gid) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
    if (is.st_uid, is.st_gid) == (like.st_uid, like.st_gid) {
        return Ok(true);
    }
    match rustix::fs::fchown(made, Some(uid), Some(gid)) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => {
            // A member of a group may give the group alone.
            match rustix::fs::fchown(made, None, Some(gid)) {
                Ok(()) | Err(Errno::PERM) => Ok(false),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

fn cannot_write(path: &Path, why: &'static str) -> Error {
    Error::CannotWrite { path: path.to_owned(), reason: why }
}
