//! Scratch: directories that builds create again. Their changes are never shown. Those of an allowed run go to the user's directory: see
//! `outputs`. All others stay with the session, one layer for each run, so that the next one finds them.
//!
//! A run that is not shown to anybody must not find the scratch of a rehearsal. Otherwise something could run with more rights
//! than it was reviewed with. So there are two stacks. Rehearsals find both, with their own on top. Granted runs find only the
//! scratch of granted runs. A new granted layer invalidates the layers that rehearsals put on the older ones.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use byleave_core::digest::Digest;
use byleave_files::own;
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::dir_handle;
use crate::error::{Error, IoContext as _};
use crate::gc::disk_usage;
use crate::json_files::{list_names, read_json, write_json};

/// The maximum number of layers of a stack. Then the stack starts over, and the next build builds everything.
pub const DEPTH_MAX: usize = 48;
/// The prefix of the directory beside the layers with the layers of rehearsals. The number of the granted layer follows.
const REHEARSAL_PREFIX: &str = "on-";
/// The file with the number of the last layer that does not count any more, because its contents are on the disk.
const FLOOR_FILE: &str = "floor";
/// The maximum size of the temporary directory of a session.
const TMP_BYTES_MAX: u64 = 1 << 30;
/// The number of layers of a temporary directory that become one.
const TMP_DEPTH_MAX: usize = 12;
const MAX_FOUND: usize = 24;
const MAX_VISITED: usize = 50_000;
const MAX_SEARCH_DEPTH: usize = 8;

/// The name of a scratch directory, and the files beside it that identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScratchName {
    /// One name, or several separated by slashes: the end of a path.
    pub suffix: String,
    /// The name applies only beside one of these files. If there are none, it applies everywhere.
    pub siblings: Vec<String>,
}

impl ScratchName {
    /// Creates a name that applies beside one of these files.
    pub fn new(ends: &str, beside: &[&str]) -> Self {
        Self { suffix: ends.into(), siblings: beside.iter().map(|&name| name.into()).collect() }
    }

    /// Returns the default names: directories that a tool creates in a place of its own, and creates again if they are missing. A name
    /// that people also use for their own files (`target`, `.cache`) applies only beside the file of the tool that creates it.
    pub fn defaults() -> Vec<Self> {
        const GRADLE: [&str; 4] =
            ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
        [
            ("target", ["Cargo.toml", "pom.xml"].as_slice()),
            (".gradle", GRADLE.as_slice()),
            (".cache", &["package.json"]),
            (".next/cache", &["package.json"]),
            (".turbo", &["package.json"]),
            (".parcel-cache", &["package.json"]),
            ("node_modules/.cache", &[]),
            ("__pycache__", &[]),
            (".pytest_cache", &[]),
            (".mypy_cache", &[]),
            (".ruff_cache", &[]),
        ]
        .iter()
        .map(|(ends, beside)| Self::new(ends, beside))
        .collect()
    }

    /// Checks whether the directory at `path` in `root` has this name.
    pub(crate) fn matches(&self, root: &Path, path: &str) -> bool {
        let Some(above) = path.strip_suffix(self.suffix.as_str()) else { return false };
        let Some(above) = (if above.is_empty() { Some("") } else { above.strip_suffix('/') }) else {
            return false;
        };
        self.siblings.is_empty() || self.siblings.iter().any(|name| root.join(above).join(name).is_file())
    }
}

/// The scratch layers of one session.
#[derive(Debug)]
pub struct ScratchLayers {
    path: PathBuf,
}

/// The current layers of one directory. They are not removed as long as this value is held.
#[derive(Debug)]
pub struct LayerStack {
    path: PathBuf,
    layers: Vec<u32>,
    /// The number of the newest layer, or of one that became part of the real directory.
    generation: u32,
    lock: File,
    /// The granted layers below the rehearsed ones.
    lower_stack: Option<Box<LayerStack>>,
}

/// The runs that find the scratch of a run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScratchScope {
    /// Everything that runs later in the session.
    #[default]
    Session,
    /// Other rehearsals.
    Rehearsals,
}

impl ScratchLayers {
    pub(crate) fn new(above: &Path, session: &str) -> Self {
        // The session name comes from others, so it must not be used as a path.
        Self { path: above.join(Digest::compute(session.as_bytes()).short_hex()) }
    }

    /// Opens and holds the layers of a directory that every run of the session finds.
    pub fn open_stack(&self, path: &Path) -> Result<LayerStack, Error> {
        use std::os::unix::ffi::OsStrExt as _;
        let at = self.path.join(Digest::compute(path.as_os_str().as_bytes()).short_hex());
        let stack = LayerStack::open(at)?;
        fs::write(stack.path.join("path"), path.as_os_str().as_bytes()).context("write", &stack.path)?;
        Ok(stack)
    }

    /// Opens and holds the layers of a directory that a run with this scope finds.
    pub(crate) fn open_stack_for(&self, path: &Path, kept: ScratchScope) -> Result<LayerStack, Error> {
        let granted = self.open_stack(path)?;
        match kept {
            ScratchScope::Session => Ok(granted),
            ScratchScope::Rehearsals => {
                let at = granted.path.join(format!("{REHEARSAL_PREFIX}{}", granted.generation));
                let rehearsed = LayerStack::open(at)?;
                Ok(LayerStack { lower_stack: Some(Box::new(granted)), ..rehearsed })
            }
        }
    }

    /// Returns the layers of a directory, topmost first.
    pub fn lower_layers(&self, path: &Path) -> Result<Vec<PathBuf>, Error> {
        Ok(self.open_stack(path)?.lower_layers())
    }

    /// Returns the directories that have layers.
    pub fn paths(&self) -> Result<Vec<PathBuf>, Error> {
        let mut all = Vec::new();
        for name in list_names(&self.path)? {
            let path = self.path.join(name).join("path");
            match own::read_text(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                text => all.push(PathBuf::from(text.context("read", &path)?)),
            }
        }
        all.sort();
        Ok(all)
    }

    /// Removes all layers of the session.
    pub fn remove_all(self) -> Result<(), Error> {
        dir_handle::remove_path(&self.path).context("remove", &self.path)
    }
}

impl LayerStack {
    fn open(at: PathBuf) -> Result<Self, Error> {
        DirBuilder::new().recursive(true).mode(0o711).create(&at).context("create", &at)?;
        let lock = File::create(at.join("lock")).context("open", at.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockShared).context("lock", &at)?;
        let mut layers: Vec<u32> = list_names(&at)?.iter().filter_map(|name| name.parse().ok()).collect();
        let floor = read_json(&at.join(FLOOR_FILE))?.unwrap_or_default();
        layers.retain(|layer| *layer > floor);
        layers.sort_unstable_by(|one, other| other.cmp(one));
        let generation = layers.first().copied().unwrap_or(floor);
        Ok(Self { path: at, layers, generation, lock, lower_stack: None })
    }

    /// Returns the number that tells on which granted layers, and on which state of the real directory, a run works.
    pub(crate) fn granted_generation(&self) -> u32 {
        self.lower_stack.as_ref().map_or(self.generation, |granted| granted.generation)
    }

    /// Ends all layers, because the real directory has changed. What is mounted is removed the next time.
    pub(crate) fn end_layers(self) -> Result<(), Error> {
        write_json(&self.path.join(FLOOR_FILE), &self.generation.saturating_add(1))?;
        if rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            for layer in self.own_layers() {
                dir_handle::remove_path(&layer).context("remove", &layer)?;
            }
        }
        self.remove_rehearsal_layers()
    }

    /// Returns the layers, topmost first.
    pub fn lower_layers(&self) -> Vec<PathBuf> {
        let mut all = self.own_layers();
        all.extend(self.lower_stack.iter().flat_map(|beneath| beneath.own_layers()));
        all
    }

    fn own_layers(&self) -> Vec<PathBuf> {
        self.layers.iter().map(|layer| self.path.join(layer.to_string())).collect()
    }

    /// Adds a layer on top, if it is not empty and the layers below are still those that it was made on. Returns whether it did. At the
    /// depth limit, the stack starts over.
    pub(crate) fn push(self, layer: &Path, made_on: &[PathBuf]) -> Result<bool, Error> {
        // A run that left nothing changes nothing for others. Most granted runs are like that.
        if self.lower_layers() != made_on || list_names(layer)?.is_empty() {
            return Ok(false);
        }
        if made_on.len() >= DEPTH_MAX {
            // Mounted layers stay: a deeper stack is slower, but not wrong.
            if rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                for layer in self.own_layers() {
                    dir_handle::remove_path(&layer).context("remove", &layer)?;
                }
                return Ok(false);
            }
        }
        let next = self.generation.saturating_add(1);
        let to = self.path.join(next.to_string());
        match rustix::fs::renameat_with(CWD, layer, CWD, &to, RenameFlags::NOREPLACE) {
            // Another run of the session was faster.
            Err(Errno::EXIST) => return Ok(false),
            other => other.context("move to scratch", &to)?,
        }
        if self.lower_stack.is_none() {
            self.remove_rehearsal_layers()?;
        }
        Ok(true)
    }

    /// Adds a layer of a temporary directory. It is not added if all of them would be too large. Many layers become one, because nothing
    /// creates their files again.
    pub(crate) fn push_tmp(self, layer: &Path, made_on: &[PathBuf]) -> Result<bool, Error> {
        let size = |layer: &Path| disk_usage(layer);
        let sizes = self.lower_layers().iter().map(|own| size(own)).sum::<Result<u64, Error>>()?;
        if sizes.saturating_add(size(layer)?) > TMP_BYTES_MAX {
            return Ok(false);
        }
        let at = self.path.clone();
        let added = self.push(layer, made_on)?;
        let stack = Self::open(at)?;
        if stack.layers.len() >= TMP_DEPTH_MAX
            && rustix::fs::flock(&stack.lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            stack.merge()?;
        }
        Ok(added)
    }

    /// Makes one layer of all own layers. Nothing may use them.
    fn merge(&self) -> Result<(), Error> {
        let own = self.own_layers();
        let Some((oldest, newer)) = own.split_last() else { return Ok(()) };
        for layer in newer.iter().rev() {
            merge_into(layer, oldest, dir_handle::DEPTH_MAX)?;
        }
        // The newest number stays, because layers of rehearsals are made on it.
        if let Some(newest) = newer.first() {
            for layer in newer {
                dir_handle::remove_path(layer).context("remove", layer)?;
            }
            fs::rename(oldest, newest).context("move", oldest)?;
        }
        Ok(())
    }

    /// Removes the rehearsal layers on layers that are not topmost any more. Mounted ones are removed the next time.
    fn remove_rehearsal_layers(&self) -> Result<(), Error> {
        for name in list_names(&self.path)?.iter().filter(|name| name.starts_with(REHEARSAL_PREFIX)) {
            let at = self.path.join(name);
            let lock = File::create(at.join("lock")).context("open", at.join("lock"))?;
            if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                dir_handle::remove_path(&at).context("remove", &at)?;
            }
        }
        Ok(())
    }
}

/// Moves the entries of an overlay layer into the layer beneath it.
fn merge_into(layer: &Path, beneath: &Path, steps_down: usize) -> Result<(), Error> {
    let steps_down = steps_down.checked_sub(1).ok_or_else(|| Error::TooDeep { path: layer.to_owned() })?;
    for entry in fs::read_dir(layer).context("list", layer)? {
        let from = entry.context("list", layer)?.path();
        let Some(name) = from.file_name() else { continue };
        let to = beneath.join(name);
        let is = fs::symlink_metadata(&from).context("inspect", &from)?;
        let was = fs::symlink_metadata(&to).ok();
        if is.is_dir() && was.as_ref().is_some_and(fs::Metadata::is_dir) && !is_opaque(&from) {
            merge_into(&from, &to, steps_down)?;
            fs::set_permissions(&to, is.permissions()).context("set the mode of", &to)?;
            continue;
        }
        if was.is_some() {
            dir_handle::remove_path(&to).context("remove", &to)?;
        }
        // A device without a number marks a removed file.
        if !(is.file_type().is_char_device() && is.rdev() == 0) {
            fs::rename(&from, &to).context("move", &from)?;
        }
    }
    Ok(())
}

/// Checks whether a directory of a layer hides the one beneath it.
fn is_opaque(directory: &Path) -> bool {
    let mut value = [0_u8; 1];
    let read = rustix::fs::lgetxattr(directory, "user.overlay.opaque", &mut value[..]);
    read.is_ok_and(|length| length == 1) && value == *b"y"
}

/// What a copy of a directory must take into account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeSurvey {
    /// The scratch directories that exist, sorted.
    pub scratch: Vec<PathBuf>,
    /// A directory that belongs to another user, or to another group than the one of this process. The kernel cannot give such an owner
    /// to a file of an overlay that an ordinary user mounts: each change beneath it fails with `EOVERFLOW`.
    pub other_owner: Option<PathBuf>,
}

/// Looks for scratch directories, and for directories of another owner. The search is bounded: a scratch directory that it misses is
/// shown as a change.
pub fn survey(root: &Path, scratch: &[ScratchName]) -> Result<TreeSurvey, Error> {
    let mut other_owner = has_other_owner(root)?.then(|| root.to_owned());
    let mut found = Vec::new();
    // Nothing in a repository is scratch, whatever its name is.
    if root.iter().any(|name| name == ".git") {
        return Ok(TreeSurvey { scratch: found, other_owner });
    }
    let mut looked_at = 0;
    let mut ahead = vec![(String::new(), 0)];
    while let Some((inside, depth)) = ahead.pop() {
        let directory = root.join(&inside);
        let listing = match fs::read_dir(&directory) {
            // The directory is unreadable or gone, so it has no scratch.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) =>
            {
                continue;
            }
            other => other.context("list", &directory)?,
        };
        for entry in listing {
            let entry = entry.context("list", &directory)?;
            looked_at += 1;
            if looked_at > MAX_VISITED || found.len() >= MAX_FOUND {
                return Ok(TreeSurvey { scratch: found, other_owner });
            }
            if !entry.file_type().context("inspect", entry.path())?.is_dir() {
                continue;
            }
            if other_owner.is_none() && has_other_owner(&entry.path())? {
                other_owner = Some(entry.path());
            }
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let path = if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") };
            if scratch.iter().any(|one| one.matches(root, &path)) {
                found.push(root.join(path));
            } else if name == "node_modules" {
                let cache = format!("{path}/.cache");
                if scratch.iter().any(|one| one.matches(root, &cache)) && root.join(&cache).is_dir() {
                    found.push(root.join(cache));
                }
            } else if name != ".git" && depth < MAX_SEARCH_DEPTH {
                ahead.push((path, depth + 1));
            }
        }
    }
    found.sort();
    Ok(TreeSurvey { scratch: found, other_owner })
}

/// Checks whether an ordinary user's overlay could not give a file the owner of this directory. Root can give any owner.
fn has_other_owner(directory: &Path) -> Result<bool, Error> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() {
        return Ok(false);
    }
    match fs::symlink_metadata(directory) {
        Ok(found) => Ok((found.uid(), found.gid()) != (uid.as_raw(), gid.as_raw())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context("inspect", directory),
    }
}
