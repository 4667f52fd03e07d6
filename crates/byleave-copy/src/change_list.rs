//! The change list of a copy. It is kept in the store, so that only the changes that were shown can be committed.

use std::cell::RefCell;
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
use crate::git_status::{self, TrackedDirectories};
use crate::json_files::{read_json, write_json};
use crate::layers::{self, CopyMethod, CopyRoot};
use crate::paths;
use crate::rename_detection;

/// The changes of a copy, with the data that the commit needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ChangeList {
    pub items: Vec<ChangedPath>,
    pub renames: Vec<FileRename>,
    pub caveats: Vec<String>,
    pub scratch_dirs: Vec<NewScratchDir>,
}

impl ChangeList {
    pub(crate) fn changes(&self) -> FileChanges {
        FileChanges {
            list: self.items.iter().map(|item| item.change.clone()).collect(),
            renames: self.renames.clone(),
            caveats: self.caveats.clone(),
        }
    }
}

impl WorkspaceCopy {
    /// Lists the differences from the original. The command and everything that it started must have ended. Diffs are not included:
    /// see [`WorkspaceCopy::fill_diffs`].
    pub fn changes(&self) -> Result<FileChanges, Error> {
        let mut listing = self.list_changes()?;
        listing.scratch_dirs = self.all_scratch_dirs()?;
        write_json(&self.path.join("listing.json"), &listing)?;
        Ok(listing.changes())
    }

    /// Returns the text diff of one change, or `None` without text to compare.
    pub fn diff(&self, change: &FileChange) -> Result<Option<String>, Error> {
        let Some((root, changed)) = self.sides(change)? else { return Ok(None) };
        let inside = paths::inside(&root.path, &change.path);
        diff_change(change, (Path::new(&root.path), inside), (&changed, inside))
    }

    /// Returns the content of a file before and after a change. Something that did not exist is empty. Returns nothing if one of both is not
    /// a file, or not text, or too large to compare.
    pub fn texts(&self, change: &FileChange) -> Result<Option<(String, String)>, Error> {
        let Some((root, changed)) = self.sides(change)? else { return Ok(None) };
        let inside = paths::inside(&root.path, &change.path);
        let before = read_side(change.before.as_ref(), (Path::new(&root.path), inside))?;
        let after = read_side(change.after.as_ref(), (&changed, inside))?;
        let text = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text(before).zip(text(after)))
    }

    /// Returns the copied directory that a recorded change is in, and the directory with its changes.
    fn sides(&self, change: &FileChange) -> Result<Option<(&CopyRoot, PathBuf)>, Error> {
        let listing = self.recorded_list()?;
        let at = listing.items.binary_search_by(|item| item.change.path.cmp(&change.path));
        let item = at.ok().and_then(|at| listing.items.get(at));
        Ok(item.and_then(|item| {
            let root = self.meta.roots.get(item.root)?;
            Some((root, self.path.join(layers::changes_path(root.method, item.root))))
        }))
    }

    /// Fills in the text diffs and stores them with the copy.
    pub fn fill_diffs(&self, changes: &mut FileChanges) -> Result<(), Error> {
        let mut listing = self.recorded_list()?;
        for item in &mut listing.items {
            let Some(root) = self.meta.roots.get(item.root) else { continue };
            let changed = self.path.join(layers::changes_path(root.method, item.root));
            let inside = paths::inside(&root.path, &item.change.path);
            item.change.diff =
                diff_change(&item.change, (Path::new(&root.path), inside), (&changed, inside))?;
        }
        for change in &mut changes.list {
            let same = listing.items.binary_search_by(|item| item.change.path.cmp(&change.path));
            if let Some(item) = same.ok().and_then(|at| listing.items.get(at)) {
                change.diff.clone_from(&item.change.diff);
            }
        }
        write_json(&self.path.join("listing.json"), &listing)
    }

    /// Returns the scratch directories that the command created. They are not among the changes.
    pub fn new_scratch_dirs(&self) -> Result<Vec<NewScratchDir>, Error> {
        Ok(self.recorded_list()?.scratch_dirs)
    }

    /// Returns the number of files that the command changed in scratch.
    pub fn scratch_files(&self) -> Result<u64, Error> {
        let mut counted = NewScratchDir { path: String::new(), files: 0, size: 0 };
        for number in 0..self.meta.scratch.len() {
            let mounted = self.path.join(format!("s{number}"));
            let above = dir_handle::open_directory(rustix::fs::CWD, &mounted).context("open", &mounted)?;
            count_files(&above, c"upper", dir_handle::DEPTH_MAX, &mut counted).context("count", &mounted)?;
        }
        Ok(counted.files + self.new_scratch_dirs()?.iter().map(|one| one.files).sum::<u64>())
    }

    /// Returns the change list as it was shown, or an empty one if none was stored.
    pub(crate) fn recorded_list(&self) -> Result<ChangeList, Error> {
        Ok(read_json(&self.path.join("listing.json"))?.unwrap_or_default())
    }

    fn list_changes(&self) -> Result<ChangeList, Error> {
        let mut reader = FileReader::new();
        let mut found = ScanResult::default();
        let tracked = RefCell::new(TrackedDirectories::default());
        let mut copied = self.remembered_entries()?;
        for (number, root) in self.meta.roots.iter().enumerate() {
            let path = Path::new(&root.path);
            let mounted: HashSet<String> = self
                .meta
                .scratch
                .iter()
                .filter_map(|mounted| Some(mounted.path.strip_prefix(path).ok()?.to_str()?.to_owned()))
                .collect();
            let blank =
                self.meta.blank.iter().map(Path::new).filter_map(|hidden| hidden.strip_prefix(path).ok());
            let blank = blank.filter_map(|inside| Some(inside.to_str()?.to_owned())).collect();
            let look = ScanOptions {
                root: number,
                path: &root.path,
                changed: &self.path.join(layers::changes_path(root.method, number)),
                is_full_tree: root.method == CopyMethod::Tree,
                started_ns: self.meta.started_ns,
                copied: copied.get_mut(number).and_then(Option::take),
                blank: &blank,
                mounted: &mounted,
                is_scratch: &|inside| {
                    self.store.settings.scratch.iter().any(|name| name.matches(path, inside))
                        && !tracked.borrow_mut().holds_tracked(&path.join(inside))
                },
            };
            diff_scan::list(&look, &mut reader, &mut found)?;
        }
        let ScanResult { mut items, caveats: mut limits, unlinked: linked, link_names: names, scratch } =
            found;
        // A removed file may exist now under a new name, where it is not linked to its other names any more.
        if items.iter().any(|item| item.after.is_some()) {
            linked.iter().for_each(|path| limits.add(Caveat::HardLinkBroken, path));
        }
        // Only listed paths are committed: a name that is not listed keeps the old content.
        for (_, path, _) in names.values().filter(|(all, _, listed)| listed < all) {
            limits.add(Caveat::HardLinkBroken, path);
        }
        items.sort_unstable_by(|one, other| one.change.path.cmp(&other.change.path));
        let renames = rename_detection::find_renames(&mut items, &mut reader)?;
        rename_detection::possible_links(&items, &renames)
            .iter()
            .for_each(|path| limits.add(Caveat::HardLinkUnclear, path));
        git_status::fill_git_status(&mut items);
        for (root, inside) in scratch {
            self.move_scratch_out(root, &inside)?;
        }
        Ok(ChangeList { items, renames, caveats: limits.to_messages(), scratch_dirs: Vec::new() })
    }

    /// Moves a scratch directory out of the changes.
    fn move_scratch_out(&self, root: usize, inside: &str) -> Result<(), Error> {
        let Some(whose) = self.meta.roots.get(root) else { return Ok(()) };
        let harvest = self.path.join("harvest");
        match DirBuilder::new().mode(0o711).create(&harvest) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.context("create", &harvest)?,
        }
        let number =
            crate::json_files::list_names(&harvest)?.iter().filter(|name| !name.ends_with(".json")).count();
        let from = DirHandle::open(&self.path).context("open", &self.path)?;
        let changed = format!("{}/{inside}", layers::changes_path(whose.method, root));
        let to = format!("harvest/{number}");
        dir_handle::rename_to_empty((&from, &changed), (&from, &to))
            .context("move to scratch", paths::absolute(&whose.path, inside))?;
        let mut counted = NewScratchDir { path: paths::absolute(&whose.path, inside), files: 0, size: 0 };
        let above = dir_handle::open_directory(rustix::fs::CWD, &harvest).context("open", &harvest)?;
        let name =
            std::ffi::CString::new(number.to_string()).map_err(io::Error::from).context("open", &harvest)?;
        match count_files(&above, &name, dir_handle::DEPTH_MAX, &mut counted) {
            Err(Errno::NAMETOOLONG) => return Err(Error::TooDeep { path: counted.path.into() }),
            other => other.context("count", &harvest)?,
        }
        write_json(&harvest.join(format!("{number}.json")), &counted)
    }

    /// Returns the scratch directories that this listing and earlier ones moved out.
    pub(crate) fn all_scratch_dirs(&self) -> Result<Vec<NewScratchDir>, Error> {
        let harvest = self.path.join("harvest");
        let mut all = Vec::new();
        while let Some(one) = read_json(&harvest.join(format!("{}.json", all.len())))? {
            all.push(one);
        }
        Ok(all)
    }
}

fn count_files(
    above: &std::os::fd::OwnedFd,
    name: &std::ffi::CStr,
    steps_down: usize,
    counted: &mut NewScratchDir,
) -> rustix::io::Result<()> {
    let Some(stat) = stat_at(above, name)? else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let steps_down = steps_down.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
        let inner = dir_handle::open_owned(above.as_fd(), name, &stat)?;
        for name in dir_handle::list_names(&inner)? {
            count_files(&inner, &name, steps_down, counted)?;
        }
    } else {
        counted.files += 1;
        counted.size += u64::try_from(stat.st_size).unwrap_or_default();
    }
    Ok(())
}

/// Computes the text diff of a change from the places of both sides.
pub(crate) fn diff_change(
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
    let (Some(old), Some(new)) =
        (read_side(change.before.as_ref(), before)?, read_side(change.after.as_ref(), after)?)
    else {
        return Ok(None);
    };
    Ok(diff::unified_diff(&old, &new).filter(|diff| !diff.is_empty()))
}

/// Returns the content of one side, empty if nothing is there, or `None` if it is not comparable text.
fn read_side(node: Option<&FileNode>, at: (&Path, &str)) -> Result<Option<Vec<u8>>, Error> {
    match node.map(|node| &node.kind) {
        None => Ok(Some(Vec::new())),
        Some(FileNodeKind::File { size, .. }) if *size <= diff::BYTES_MAX => read_content(at.0, at.1),
        Some(_) => Ok(None),
    }
}

/// Returns the content of a file below a directory, or `None` if it is unreadable or gone.
pub(crate) fn read_content(root: &Path, inside: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = || -> PathBuf { root.join(inside) };
    let root = DirHandle::open(root).context("open", root)?;
    let Ok(file) = root.open_at(inside, OFlags::RDONLY | OFlags::NONBLOCK) else { return Ok(None) };
    match OpenedFile::from_handle(file).and_then(|file| file.read(diff::BYTES_MAX)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(error)) => Err(error).context("read", path()),
        Err(_) => Ok(None),
    }
}
