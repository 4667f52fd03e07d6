//! The change list of a copy. It is kept in the store, so that only the changes that were shown can be committed.

use std::collections::HashSet;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use byleave_core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind, FileRename};
use byleave_files::{OpenedFile, ReadError};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::caveats::Caveat;
use crate::copy::{NewScratchDir, WorkspaceCopy};
use crate::diff;
use crate::diff_scan::{self, ChangedPath, ScanOptions, ScanResult};
use crate::dir_handle::{self, DirHandle, stat_at};
use crate::error::{Error, IoContext as _};
use crate::file_digest::FileReader;
use crate::git_status;
use crate::json_files::{read_json, write_json};
use crate::layers::{self, CopyMethod};
use crate::paths;
use crate::rename_detection;

/// The changes of a copy, with the data that the commit needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ChangeList {
    pub items: Vec<ChangedPath>,
    pub renames: Vec<FileRename>,
    pub limits: Vec<String>,
    pub harvested: Vec<NewScratchDir>,
}

impl ChangeList {
    pub(crate) fn changes(&self) -> FileChanges {
        FileChanges {
            list: self.items.iter().map(|item| item.change.clone()).collect(),
            renames: self.renames.clone(),
            limits: self.limits.clone(),
        }
    }
}

impl WorkspaceCopy {
    /// Lists the differences from the original. The command and everything that it started must have ended. Diffs are not included:
    /// see [`WorkspaceCopy::show`].
    pub fn changes(&self) -> Result<FileChanges, Error> {
        let mut listing = self.list()?;
        listing.harvested = self.all_harvested()?;
        write_json(&self.at.join("listing.json"), &listing)?;
        Ok(listing.changes())
    }

    /// Returns the text diff of one change, or `None` without text to compare.
    pub fn difference(&self, change: &FileChange) -> Result<Option<String>, Error> {
        let listing = self.listed()?;
        let at = listing.items.binary_search_by(|item| item.change.path.cmp(&change.path));
        let item = at.ok().and_then(|at| listing.items.get(at));
        let root = item.and_then(|item| Some((item.root, self.meta.roots.get(item.root)?)));
        let Some((number, root)) = root else { return Ok(None) };
        let changed = self.at.join(layers::changed(root.method, number));
        let inside = paths::inside(&root.path, &change.path);
        shown(change, (Path::new(&root.path), inside), (&changed, inside))
    }

    /// Fills in the text diffs and stores them with the copy.
    pub fn show(&self, changes: &mut FileChanges) -> Result<(), Error> {
        let mut listing = self.listed()?;
        for item in &mut listing.items {
            let Some(root) = self.meta.roots.get(item.root) else { continue };
            let changed = self.at.join(layers::changed(root.method, item.root));
            let inside = paths::inside(&root.path, &item.change.path);
            item.change.diff = shown(&item.change, (Path::new(&root.path), inside), (&changed, inside))?;
        }
        for change in &mut changes.list {
            let same = listing.items.binary_search_by(|item| item.change.path.cmp(&change.path));
            if let Some(item) = same.ok().and_then(|at| listing.items.get(at)) {
                change.diff.clone_from(&item.change.diff);
            }
        }
        write_json(&self.at.join("listing.json"), &listing)
    }

    /// Returns the scratch directories that the command created. They are not among the changes.
    pub fn harvested(&self) -> Result<Vec<NewScratchDir>, Error> {
        Ok(self.listed()?.harvested)
    }

    /// Returns the number of files that the command changed in scratch.
    pub fn scratch_files(&self) -> Result<u64, Error> {
        let mut counted = NewScratchDir { path: String::new(), files: 0, bytes: 0 };
        for number in 0..self.meta.scratch.len() {
            let mounted = self.at.join(format!("s{number}"));
            let above = dir_handle::open_directory(rustix::fs::CWD, &mounted).at("open", &mounted)?;
            count(&above, c"upper", dir_handle::DEPTH_MAX, &mut counted).at("count", &mounted)?;
        }
        Ok(counted.files + self.harvested()?.iter().map(|one| one.files).sum::<u64>())
    }

    /// Returns the change list as it was shown, or an empty one if none was stored.
    pub(crate) fn listed(&self) -> Result<ChangeList, Error> {
        Ok(read_json(&self.at.join("listing.json"))?.unwrap_or_default())
    }

    fn list(&self) -> Result<ChangeList, Error> {
        let mut reader = FileReader::new();
        let mut found = ScanResult::default();
        for (number, root) in self.meta.roots.iter().enumerate() {
            let path = Path::new(&root.path);
            let mounted: HashSet<String> = self
                .meta
                .scratch
                .iter()
                .filter_map(|mounted| Some(mounted.path.strip_prefix(path).ok()?.to_str()?.to_owned()))
                .collect();
            let look = ScanOptions {
                root: number,
                path: &root.path,
                changed: &self.at.join(layers::changed(root.method, number)),
                is_whole: root.method == CopyMethod::Tree,
                started: self.meta.started,
                mounted: &mounted,
                is_scratch: &|inside| self.store.settings.scratch.iter().any(|name| name.is(path, inside)),
            };
            diff_scan::list(&look, &mut reader, &mut found)?;
        }
        let ScanResult { mut items, mut limits, linked, names, scratch } = found;
        // A removed file may exist now under a new name, where it is not linked to its other names any more.
        if items.iter().any(|item| item.is.is_some()) {
            linked.iter().for_each(|path| limits.met(Caveat::Unlinked, path));
        }
        // Only listed paths are committed: a name that is not listed keeps the old content.
        for (_, path, _) in names.values().filter(|(all, _, listed)| listed < all) {
            limits.met(Caveat::Unlinked, path);
        }
        items.sort_unstable_by(|one, other| one.change.path.cmp(&other.change.path));
        let renames = rename_detection::fold(&mut items, &mut reader)?;
        rename_detection::twins(&items, &renames).iter().for_each(|path| limits.met(Caveat::Apart, path));
        git_status::tell(&mut items);
        for (root, inside) in scratch {
            self.harvest(root, &inside)?;
        }
        Ok(ChangeList { items, renames, limits: limits.told(), harvested: Vec::new() })
    }

    /// Moves a scratch directory out of the changes.
    fn harvest(&self, root: usize, inside: &str) -> Result<(), Error> {
        let Some(whose) = self.meta.roots.get(root) else { return Ok(()) };
        let harvest = self.at.join("harvest");
        match DirBuilder::new().mode(0o711).create(&harvest) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.at("make", &harvest)?,
        }
        let number =
            crate::json_files::names(&harvest)?.iter().filter(|name| !name.ends_with(".json")).count();
        let from = DirHandle::open(&self.at).at("open", &self.at)?;
        let changed = format!("{}/{inside}", layers::changed(whose.method, root));
        let to = format!("harvest/{number}");
        dir_handle::move_to((&from, &changed), (&from, &to))
            .at("move to scratch", paths::absolute(&whose.path, inside))?;
        let mut counted = NewScratchDir { path: paths::absolute(&whose.path, inside), files: 0, bytes: 0 };
        let above = dir_handle::open_directory(rustix::fs::CWD, &harvest).at("open", &harvest)?;
        let name =
            std::ffi::CString::new(number.to_string()).map_err(io::Error::from).at("open", &harvest)?;
        match count(&above, &name, dir_handle::DEPTH_MAX, &mut counted) {
            Err(Errno::NAMETOOLONG) => return Err(Error::TooDeep { path: counted.path.into() }),
            other => other.at("count", &harvest)?,
        }
        write_json(&harvest.join(format!("{number}.json")), &counted)
    }

    /// Returns the scratch directories that this listing and earlier ones moved out.
    pub(crate) fn all_harvested(&self) -> Result<Vec<NewScratchDir>, Error> {
        let harvest = self.at.join("harvest");
        let mut all = Vec::new();
        while let Some(one) = read_json(&harvest.join(format!("{}.json", all.len())))? {
            all.push(one);
        }
        Ok(all)
    }
}

fn count(
    above: &std::os::fd::OwnedFd,
    name: &std::ffi::CStr,
    steps_down: usize,
    counted: &mut NewScratchDir,
) -> rustix::io::Result<()> {
    let Some(stat) = stat_at(above, name)? else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let steps_down = steps_down.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
        let inner = dir_handle::open_ours(above.as_fd(), name, &stat)?;
        for name in dir_handle::names(&inner)? {
            count(&inner, &name, steps_down, counted)?;
        }
    } else {
        counted.files += 1;
        counted.bytes += u64::try_from(stat.st_size).unwrap_or_default();
    }
    Ok(())
}

/// Computes the text diff of a change from the places of both sides.
pub(crate) fn shown(
    change: &FileChange,
    before: (&Path, &str),
    after: (&Path, &str),
) -> Result<Option<String>, Error> {
    let is_other = match (&change.before, &change.after) {
        (Some(before), Some(after)) => before.kind != after.kind,
        _ => true,
    };
    if !is_other {
        return Ok(None);
    }
    let (Some(old), Some(new)) = (text(change.before.as_ref(), before)?, text(change.after.as_ref(), after)?)
    else {
        return Ok(None);
    };
    Ok(diff::unified(&old, &new).filter(|diff| !diff.is_empty()))
}

/// Returns the content of one side, empty if nothing is there, or `None` if it is not comparable text.
fn text(node: Option<&FileNode>, at: (&Path, &str)) -> Result<Option<Vec<u8>>, Error> {
    match node.map(|node| &node.kind) {
        None => Ok(Some(Vec::new())),
        Some(FileNodeKind::File { size, .. }) if *size <= diff::BYTES_MAX => content(at.0, at.1),
        Some(_) => Ok(None),
    }
}

/// Returns the content of a file below a directory, or `None` if it is unreadable or gone.
pub(crate) fn content(root: &Path, inside: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = || -> PathBuf { root.join(inside) };
    let root = DirHandle::open(root).at("open", root)?;
    let Ok(file) = root.open_at(inside, OFlags::RDONLY | OFlags::NONBLOCK) else { return Ok(None) };
    match OpenedFile::regular(file).and_then(|file| file.read(diff::BYTES_MAX)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(error)) => Err(error).at("read", path()),
        Err(_) => Ok(None),
    }
}
