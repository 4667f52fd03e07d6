//! Writes and removes whole files on a copy directly, for callers that know the content without running anything. Nothing is
//! mounted: the layer is written as an overlay would have left it. This module never touches the original files.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use byleave_core::effect::is_resolved;
use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use crate::copy::WorkspaceCopy;
use crate::dir_handle::{DirHandle, bits};
use crate::error::{Error, IoContext as _};
use crate::layers::{self, CopyMethod};
use crate::paths;
use crate::xattrs;

/// The modes of a new file, and of a directory that it needs.
const NEW_FILE: u32 = 0o644;
const NEW_DIRECTORY: u32 = 0o755;

impl WorkspaceCopy {
    /// Writes a whole file to the copy. A replaced file passes on its owner, its attributes and, if `mode` is absent, its mode. A new
    /// file gets the owner of its directory. Missing directories are created.
    pub fn put(&self, path: &Path, content: &[u8], mode: Option<u32>) -> Result<(), Error> {
        let spot = self.spot(path)?;
        let there = spot.there.as_ref().map(|there| (there, FileType::from_raw_mode(there.st_mode)));
        let like = match there {
            None => None,
            Some((there, FileType::RegularFile)) => Some(there),
            Some(_) => return Err(wrong(path, "something else than a file is there")),
        };
        let (above, name) = spot.directory(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = rustix::fs::openat(&*above, name, flags, Mode::RUSR | Mode::WUSR).at("make", path)?;
        match like {
            Some(like) => {
                owned_like(&made, like).at("keep the owner of", path)?;
                let source =
                    spot.below.open_at(&spot.inside, OFlags::RDONLY | OFlags::NONBLOCK).at("open", path)?;
                xattrs::copy(&source, &made).at("keep the attributes of", path)?;
            }
            None => {
                owned_like(&made, &rustix::fs::fstat(&*above).at("look at", path)?).at("give away", path)?
            }
        }
        let mut file = File::from(made);
        file.write_all(content).at("write", path)?;
        // The mode is set last, because writing clears the setuid and setgid bits.
        let mode = mode.or_else(|| like.map(|like| bits(like.st_mode))).unwrap_or(NEW_FILE);
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).at("set the mode of", path)
    }

    /// Removes a file or a link on the copy.
    pub fn take(&self, path: &Path) -> Result<(), Error> {
        let spot = self.spot(path)?;
        match spot.there.as_ref().map(|there| FileType::from_raw_mode(there.st_mode)) {
            None => return Err(wrong(path, "nothing is there")),
            Some(FileType::Directory) => return Err(wrong(path, "a directory is there")),
            Some(_) => {}
        }
        let (above, name) = spot.directory(path)?;
        let none = rustix::fs::makedev(0, 0);
        rustix::fs::mknodat(&*above, name, FileType::CharacterDevice, Mode::empty(), none)
            .at("mark as removed", path)
    }

    fn spot(&self, path: &Path) -> Result<LayerLocation, Error> {
        let text = path.to_str().ok_or_else(|| Error::NotText { path: path.to_owned() })?;
        if !is_resolved(text) {
            return Err(wrong(path, "it is not the resolved path"));
        }
        let (number, root) = self
            .root_of(path)
            .ok_or_else(|| wrong(path, "it lies in none of the directories that are copied"))?;
        if root.method != CopyMethod::Overlay {
            return Err(wrong(path, "only on layers files are put by hand"));
        }
        let below = DirHandle::open(Path::new(&root.path)).at("open", &root.path)?;
        let layer = self.at.join(layers::changed(root.method, number));
        let layer = DirHandle::open(&layer).at("open", layer)?;
        let inside = paths::inside(&root.path, text).to_owned();
        let there = below.stat(&inside).at("look at", path)?;
        Ok(LayerLocation { below, layer, inside, there })
    }
}

/// A location in a copy: the original below, and its place in the layer.
struct LayerLocation {
    below: DirHandle,
    layer: DirHandle,
    inside: String,
    there: Option<Stat>,
}

impl LayerLocation {
    /// Returns the directory of the layer that contains it. Missing directories are created as they are below.
    fn directory(&self, path: &Path) -> Result<(std::rc::Rc<rustix::fd::OwnedFd>, &str), Error> {
        let steps = self.inside.match_indices('/').filter_map(|(at, _)| self.inside.get(..at));
        for step in steps {
            let below = self.below.stat(step).at("look at", path)?;
            if below.is_some_and(|below| FileType::from_raw_mode(below.st_mode) != FileType::Directory) {
                return Err(wrong(path, "it lies beneath something that is no directory"));
            }
            let (above, name) = self.layer.parent(step).at("find", path)?;
            match rustix::fs::mkdirat(&*above, name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                other => other.at("make a directory for", path)?,
            }
            let made = self.layer.open_at(step, OFlags::RDONLY | OFlags::DIRECTORY).at("open", path)?;
            let mode = match &below {
                Some(below) => {
                    owned_like(&made, below).at("keep the owner of what holds", path)?;
                    bits(below.st_mode)
                }
                None => {
                    let like = rustix::fs::fstat(&*above).at("look at", path)?;
                    owned_like(&made, &like).at("give away", path)?;
                    NEW_DIRECTORY
                }
            };
            rustix::fs::fchmod(&made, Mode::from_raw_mode(mode)).at("set the mode of what holds", path)?;
        }
        self.layer.parent(&self.inside).at("find", path)
    }
}

/// Gives a new file the owner of another one. The kernel returns an error if this needs a permission that the process lacks.
fn owned_like(made: &impl std::os::fd::AsFd, like: &Stat) -> Result<(), Errno> {
    let is = rustix::fs::fstat(made)?;
    if (is.st_uid, is.st_gid) == (like.st_uid, like.st_gid) {
        return Ok(());
    }
    rustix::fs::fchown(made, Some(Uid::from_raw(like.st_uid)), Some(Gid::from_raw(like.st_gid)))
}

fn wrong(path: &Path, why: &'static str) -> Error {
    Error::Put { path: path.to_owned(), why }
}
