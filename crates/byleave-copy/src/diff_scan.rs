//! Finds the differences between a copy and its original, in one pass over the paths that the command touched.
//!
//! Reads both sides through handles and follows no link. If a difference cannot be determined exactly, the scan fails: then
//! nothing of the copy can be committed.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use byleave_core::digest::Digest;
use byleave_core::file_change::{FileChange, FileNode, FileNodeKind, GitStatus};
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::caveats::{Caveat, Caveats};
use crate::copied_entries::CopiedEntries;
use crate::dir_handle::{self, FileIdentity, permission_bits, stat_at};
use crate::error::{Error, IoContext as _};
use crate::file_digest::FileReader;
use crate::paths;
use crate::tree_copy;
use crate::whiteout::{self, WhiteoutMarks};
use crate::xattrs;

/// One changed path, with the identities of the file on both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChangedPath {
    pub root: usize,
    pub change: FileChange,
    pub before: Option<FileIdentity>,
    pub after: Option<FileIdentity>,
}

impl ChangedPath {
    /// Checks whether a directory was there and is not there any more.
    pub(crate) fn removes_directory(&self) -> bool {
        is_directory(self.change.before.as_ref()) && !is_directory(self.change.after.as_ref())
    }

    /// Checks whether a directory is there now that was not there before.
    pub(crate) fn adds_directory(&self) -> bool {
        is_directory(self.change.after.as_ref()) && !is_directory(self.change.before.as_ref())
    }
}

/// The parameters of a scan of one root.
pub(crate) struct ScanOptions<'a> {
    pub root: usize,
    pub path: &'a str,
    /// The tree or layer that the command left.
    pub changed: &'a Path,
    /// Whether `changed` is the whole tree, and not only the differences.
    pub is_full_tree: bool,
    pub started_ns: i64,
    /// The entries of a full copy before the command began.
    pub copied: Option<CopiedEntries>,
    /// The paths in the root that were emptied in the copy.
    pub blank: &'a HashSet<String>,
    /// Directories that are mounted over. They are not scanned.
    pub mounted: &'a HashSet<String>,
    /// Tells whether a directory that the command created is scratch.
    pub is_scratch: &'a dyn Fn(&str) -> bool,
}

/// The result of a scan.
#[derive(Default)]
pub(crate) struct ScanResult {
    pub items: Vec<ChangedPath>,
    pub caveats: Caveats,
    /// Removed files that had other names. Removal and rename cannot be distinguished for them.
    pub unlinked: Vec<String>,
    /// By inode of the copy: the number of names of a file, the first name, and how many names are listed.
    pub link_names: HashMap<u64, (u64, String, u64)>,
    /// Scratch directories that the command created, by root and path in the root.
    pub scratch: Vec<(usize, String)>,
}

/// Scans one root.
pub(crate) fn list(
    look: &ScanOptions<'_>,
    reader: &mut FileReader,
    found: &mut ScanResult,
) -> Result<(), Error> {
    let upper = dir_handle::open_resolved(look.changed).context("open", look.changed)?;
    let lower = dir_handle::open_resolved(Path::new(look.path)).context("open", look.path)?;
    let mut walk = LayerScanner { options: look, reader, result: found, has_attributes: false };
    let (is, was) = (
        rustix::fs::fstat(&upper).context("inspect", look.changed)?,
        rustix::fs::fstat(&lower).context("inspect", look.path)?,
    );
    walk.visit_same_directory("", &was, &is);
    walk.visit_directory(&upper, Some(&lower), "", look.is_full_tree)
}

struct LayerScanner<'a, 'b> {
    options: &'a ScanOptions<'b>,
    reader: &'a mut FileReader,
    result: &'a mut ScanResult,
    /// Whether the last file read from the copy has extended attributes of its own.
    has_attributes: bool,
}

/// One name on both sides.
#[derive(Clone, Copy)]
struct EntryPair<'a> {
    upper: &'a OwnedFd,
    lower: Option<&'a OwnedFd>,
    name: &'a CStr,
    inside: &'a str,
}

impl LayerScanner<'_, '_> {
    fn visit_directory(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        inside: &str,
        whole: bool,
    ) -> Result<(), Error> {
        let marks = match whiteout::read_marks(upper).context("read the attributes of", self.path(inside))? {
            Ok(marks) => marks,
            Err(what) => return Err(Error::UnsupportedLayer { path: self.path(inside), attribute: what }),
        };
        let whole = whole || marks.is_opaque;
        let names = dir_handle::list_names(upper).context("list", self.path(inside))?;
        for name in &names {
            let path = self.join(inside, name)?;
            self.visit_name(EntryPair { upper, lower, name, inside: &path }, whole, marks)?;
        }
        let Some(lower) = lower.filter(|_| whole) else { return Ok(()) };
        let there: HashSet<&CStr> = names.iter().map(|name| &**name).collect();
        for name in dir_handle::list_names(lower).context("list", self.path(inside))? {
            if !there.contains(&*name) && !self.is_of_others(inside, &name) {
                let path = self.join(inside, &name)?;
                self.visit_removed(lower, &name, &path)?;
            }
        }
        Ok(())
    }

    fn visit_name(&mut self, pair: EntryPair<'_>, whole: bool, marks: WhiteoutMarks) -> Result<(), Error> {
        let at = || self.path(pair.inside);
        let Some(is) = stat_at(pair.upper, pair.name).context("inspect", at())? else { return Ok(()) };
        if self.is_whiteout(pair, &is, marks)? {
            return pair.lower.map_or(Ok(()), |lower| self.visit_removed(lower, pair.name, pair.inside));
        }
        let was =
            pair.lower.map(|lower| stat_at(lower, pair.name)).transpose().context("inspect", at())?.flatten();
        if let (Some(was), Some(lower)) = (&was, pair.lower)
            && self.options.is_full_tree
            && tree_copy::is_placeholder((lower.as_fd(), pair.name), was, &is)
        {
            return Ok(());
        }
        if self.options.blank.contains(pair.inside) {
            return match self.is_still_blank(pair, &is)? {
                true => Ok(()),
                false => Err(self.changed_hidden(pair.inside)),
            };
        }
        let is_directory = FileType::from_raw_mode(is.st_mode) == FileType::Directory;
        let copied = self.options.copied.as_ref().and_then(|copied| copied.get(pair.inside));
        if copied.is_some_and(|copied| copied.is_untouched(&is)) {
            return if is_directory {
                self.visit_untouched_directory(pair, was.as_ref(), &is)
            } else {
                Ok(())
            };
        }
        if is_directory {
            self.visit_new_directory(pair, was.as_ref(), &is, whole)
        } else {
            self.visit_leaf(pair, was.as_ref(), &is)
        }
    }

    /// Checks whether others created an original after the full copy was made.
    fn is_of_others(&self, inside: &str, name: &CStr) -> bool {
        let Some(copied) = &self.options.copied else { return false };
        name.to_str().is_ok_and(|name| {
            let path = if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") };
            !copied.contains_key(&path)
        })
    }

    /// Compares what is in a directory of a full copy that was there before the command began, whatever became of the original.
    fn visit_untouched_directory(
        &mut self,
        pair: EntryPair<'_>,
        was: Option<&Stat>,
        is: &Stat,
    ) -> Result<(), Error> {
        if self.options.mounted.contains(pair.inside) {
            return Ok(());
        }
        let upper = dir_handle::open_owned(pair.upper.as_fd(), pair.name, is)
            .context("open", self.path(pair.inside))?;
        let is_directory = |was: &&Stat| FileType::from_raw_mode(was.st_mode) == FileType::Directory;
        let lower = match (was.filter(is_directory), pair.lower) {
            (Some(_), Some(lower)) => {
                Some(dir_handle::open_directory(lower, pair.name).context("open", self.path(pair.inside))?)
            }
            _ => None,
        };
        self.visit_directory(&upper, lower.as_ref(), pair.inside, true)
    }

    /// Returns the error for a command that changed what stands in for a hidden file. The file itself must not be replaced by it.
    fn changed_hidden(&self, inside: &str) -> Error {
        let reason =
            "a rule hides it from commands, and the command changed the empty file or directory in its place";
        Error::CannotWrite { path: self.path(inside), reason }
    }

    /// Checks whether the command left a file or directory empty that was emptied for it.
    fn is_still_blank(&self, pair: EntryPair<'_>, is: &Stat) -> Result<bool, Error> {
        match FileType::from_raw_mode(is.st_mode) {
            FileType::RegularFile => Ok(is.st_size == 0),
            FileType::Directory => {
                let at = || self.path(pair.inside);
                let opened =
                    dir_handle::open_owned(pair.upper.as_fd(), pair.name, is).context("open", at())?;
                Ok(dir_handle::list_names(&opened).context("list", at())?.is_empty())
            }
            _ => Ok(false),
        }
    }

    fn visit_new_directory(
        &mut self,
        pair: EntryPair<'_>,
        was: Option<&Stat>,
        is: &Stat,
        whole: bool,
    ) -> Result<(), Error> {
        if self.options.mounted.contains(pair.inside) {
            return Ok(());
        }
        if was.is_none() && (self.options.is_scratch)(pair.inside) {
            self.result.scratch.push((self.options.root, pair.inside.into()));
            return Ok(());
        }
        let upper = dir_handle::open_owned(pair.upper.as_fd(), pair.name, is)
            .context("open", self.path(pair.inside))?;
        let was_directory = was.filter(|was| FileType::from_raw_mode(was.st_mode) == FileType::Directory);
        let lower = match (was_directory, pair.lower) {
            (Some(was), Some(lower)) => {
                self.visit_same_directory(pair.inside, was, is);
                Some(dir_handle::open_directory(lower, pair.name).context("open", self.path(pair.inside))?)
            }
            _ => {
                let before =
                    was.map(|was| self.node(pair.lower.map(|lower| lower.as_fd()), pair, was)).transpose()?;
                if was.is_some_and(|was| was.st_nlink > 1) {
                    let path = self.text(pair.inside);
                    self.result.unlinked.push(path);
                }
                self.add(pair.inside, before.zip(was), Some((directory(is), is)));
                None
            }
        };
        self.visit_directory(&upper, lower.as_ref(), pair.inside, whole)
    }

    /// Compares a directory that exists on both sides: its mode can differ, and its owner if this process is root. The command of an
    /// ordinary user gives a directory no other owner, but the directories of a copy can only be their own.
    fn visit_same_directory(&mut self, inside: &str, was: &Stat, is: &Stat) {
        if permission_bits(was.st_mode) != permission_bits(is.st_mode) {
            self.add(inside, Some((directory(was), was)), Some((directory(is), is)));
        }
        if rustix::process::geteuid().is_root() && owner(was) != owner(is) {
            let path = self.text(inside);
            self.result.caveats.add(Caveat::OwnerChanged, &path);
        }
    }

    fn visit_leaf(&mut self, pair: EntryPair<'_>, was: Option<&Stat>, is: &Stat) -> Result<(), Error> {
        let mut after = self.node(None, pair, is)?;
        let Some((was, lower)) = was.zip(pair.lower) else {
            self.add(pair.inside, None, Some((after, is)));
            return Ok(());
        };
        if FileType::from_raw_mode(was.st_mode) == FileType::Directory {
            self.add(pair.inside, Some((directory(was), was)), Some((after, is)));
            let inner =
                dir_handle::open_directory(lower, pair.name).context("open", self.path(pair.inside))?;
            return self.visit_all_removed(&inner, pair.inside);
        }
        let mut before = self.node(Some(lower.as_fd()), pair, was)?;
        let mut other_attributes = false;
        if let (
            FileNodeKind::File { size: old, digest: before },
            FileNodeKind::File { size: new, digest: after },
        ) = (&mut before.kind, &mut after.kind)
        {
            let mut attributes = self.has_attributes;
            if old == new {
                let read = self.reader.digest_if_readable(lower, pair.name);
                let read = read.context("read", self.path(pair.inside))?;
                *before = read.map(|(digest, _)| digest);
                attributes |= read.is_some_and(|(_, attributes)| attributes);
            }
            other_attributes =
                attributes && old == new && before == after && self.attributes_differ(pair, is)?;
        }
        // In the whole tree of an ordinary user, every file is their own.
        let is_kept = rustix::process::geteuid().is_root() || !self.options.is_full_tree;
        let other_owner = is_kept && owner(was) != owner(is);
        // It is linked to a file that the command created. The link is lost unless both are committed.
        let is_linked = is.st_nlink > 1 && is.st_nlink != was.st_nlink;
        // A whole tree has all names of a file. A layer has only the touched ones.
        let loses_names =
            if self.options.is_full_tree { was.st_nlink > is.st_nlink } else { was.st_nlink > 1 };
        if before == after && !other_attributes && !other_owner && !is_linked {
            if loses_names && !self.options.is_full_tree {
                let path = self.text(pair.inside);
                self.result.caveats.add(Caveat::HardLinkBroken, &path);
            }
            return Ok(());
        }
        let path = self.text(pair.inside);
        for (limit, met) in [
            (Caveat::AttributesChanged, other_attributes),
            (Caveat::OwnerChanged, other_owner),
            (Caveat::HardLinkBroken, loses_names),
            (Caveat::LowerChanged, FileIdentity::from_stat(was).changed > self.options.started_ns),
        ] {
            if met {
                self.result.caveats.add(limit, &path);
            }
        }
        self.add(pair.inside, Some((before, was)), Some((after, is)));
        Ok(())
    }

    fn visit_removed(&mut self, lower: &OwnedFd, name: &CStr, inside: &str) -> Result<(), Error> {
        let Some(was) = stat_at(lower, name).context("inspect", self.path(inside))? else { return Ok(()) };
        if self.options.blank.contains(inside) {
            return Err(self.changed_hidden(inside));
        }
        if self.options.mounted.contains(inside) {
            return Ok(());
        }
        if FileType::from_raw_mode(was.st_mode) == FileType::Directory {
            self.add(inside, Some((directory(&was), &was)), None);
            let inner = dir_handle::open_directory(lower, name).context("open", self.path(inside))?;
            return self.visit_all_removed(&inner, inside);
        }
        let pair = EntryPair { upper: lower, lower: Some(lower), name, inside };
        let before = self.node(Some(lower.as_fd()), pair, &was)?;
        let path = self.text(inside);
        if FileIdentity::from_stat(&was).changed > self.options.started_ns {
            self.result.caveats.add(Caveat::LowerChanged, &path);
        }
        if was.st_nlink > 1 {
            self.result.unlinked.push(path);
        }
        self.add(inside, Some((before, &was)), None);
        Ok(())
    }

    fn visit_all_removed(&mut self, directory: &OwnedFd, inside: &str) -> Result<(), Error> {
        for name in dir_handle::list_names(directory).context("list", self.path(inside))? {
            if self.is_of_others(inside, &name) {
                continue;
            }
            let path = self.join(inside, &name)?;
            self.visit_removed(directory, &name, &path)?;
        }
        Ok(())
    }

    fn is_whiteout(&self, pair: EntryPair<'_>, is: &Stat, marks: WhiteoutMarks) -> Result<bool, Error> {
        if whiteout::is_whiteout(is) {
            return Ok(true);
        }
        let may_be = marks.has_whiteout_files
            && is.st_size == 0
            && FileType::from_raw_mode(is.st_mode) == FileType::RegularFile;
        if !may_be {
            return Ok(false);
        }
        let file = dir_handle::open_owned(pair.upper.as_fd(), pair.name, is)
            .context("open", self.path(pair.inside))?;
        whiteout::is_whiteout_file(&file).context("read the attributes of", self.path(pair.inside))
    }

    fn attributes_differ(&self, pair: EntryPair<'_>, is: &Stat) -> Result<bool, Error> {
        let Some(lower) = pair.lower else { return Ok(false) };
        let Ok(lower) = dir_handle::open_file(lower, pair.name) else { return Ok(true) };
        let below = xattrs::read_all(&lower).context("read the attributes of", self.path(pair.inside))?;
        let above = dir_handle::open_owned(pair.upper.as_fd(), pair.name, is)
            .context("open", self.path(pair.inside))?;
        let above = whiteout::attributes(&above).context("read the attributes of", self.path(pair.inside))?;
        Ok(below != above)
    }

    /// Describes a file. Files of the copy are read. Files of the user are not: `lower` is set for those.
    fn node(
        &mut self,
        lower: Option<BorrowedFd<'_>>,
        pair: EntryPair<'_>,
        stat: &Stat,
    ) -> Result<FileNode, Error> {
        let ident = FileIdentity::from_stat(stat);
        let kind = match ident.kind() {
            FileType::Directory => FileNodeKind::Directory,
            FileType::RegularFile if lower.is_some() => FileNodeKind::File { size: ident.size, digest: None },
            FileType::RegularFile => {
                FileNodeKind::File { size: ident.size, digest: Some(self.digest_changed(pair, stat)?) }
            }
            FileType::Symlink => {
                let above = lower.unwrap_or_else(|| pair.upper.as_fd());
                let to = rustix::fs::readlinkat(above, pair.name, Vec::with_capacity(256));
                let to = to.context("read", self.path(pair.inside))?.into_string();
                FileNodeKind::Link {
                    target: to.map_err(|_| Error::NotText { path: self.path(pair.inside) })?,
                }
            }
            kind => FileNodeKind::Special { kind: special_kind_name(kind).into() },
        };
        Ok(node_of_kind(kind, &ident))
    }

    /// Returns the digest of a file of the copy, after removing the marks of the layer.
    fn digest_changed(&mut self, pair: EntryPair<'_>, stat: &Stat) -> Result<Digest, Error> {
        let at = || self.path(pair.inside);
        let file = dir_handle::open_owned(pair.upper.as_fd(), pair.name, stat).context("open", at())?;
        if let Some(what) = whiteout::remove_marks(&file).context("read the attributes of", at())? {
            return Err(Error::UnsupportedLayer { path: at(), attribute: what });
        }
        self.has_attributes = xattrs::has_any(&file).context("read the attributes of", at())?;
        self.reader.digest(&file).context("read", self.path(pair.inside))
    }

    fn add(&mut self, inside: &str, was: Option<(FileNode, &Stat)>, is: Option<(FileNode, &Stat)>) {
        let ident =
            |side: &Option<(FileNode, &Stat)>| side.as_ref().map(|(_, stat)| FileIdentity::from_stat(stat));
        let (old, new) = (ident(&was), ident(&is));
        if let Some((_, is)) =
            is.as_ref().filter(|(node, is)| is.st_nlink > 1 && node.kind != FileNodeKind::Directory)
        {
            let path = self.text(inside);
            let names = self
                .result
                .link_names
                .entry(FileIdentity::from_stat(is).ino)
                .or_insert_with(|| (FileIdentity::link_count(is), path, 0));
            names.2 += 1;
        }
        let change = FileChange {
            path: self.text(inside),
            before: was.map(|(node, _)| node),
            after: is.map(|(node, _)| node),
            git_status: GitStatus::default(),
            diff: None,
        };
        self.result.items.push(ChangedPath { root: self.options.root, change, before: old, after: new });
    }

    fn join(&self, inside: &str, name: &CStr) -> Result<String, Error> {
        let Ok(name) = name.to_str() else {
            use std::os::unix::ffi::OsStrExt as _;
            let name = std::ffi::OsStr::from_bytes(name.to_bytes());
            return Err(Error::NotText { path: self.path(inside).join(name) });
        };
        // Such a depth is an attempt to exhaust handles or the stack.
        if inside.bytes().filter(|byte| *byte == b'/').count() >= dir_handle::DEPTH_MAX {
            return Err(Error::TooDeep { path: self.options.path.into() });
        }
        Ok(if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") })
    }

    fn text(&self, inside: &str) -> String {
        paths::absolute(self.options.path, inside)
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.text(inside).into()
    }
}

const fn owner(stat: &Stat) -> (u32, u32) {
    (stat.st_uid, stat.st_gid)
}

/// Checks whether the node is a directory.
pub(crate) fn is_directory(node: Option<&FileNode>) -> bool {
    node.is_some_and(|node| node.kind == FileNodeKind::Directory)
}

fn directory(stat: &Stat) -> FileNode {
    node_of_kind(FileNodeKind::Directory, &FileIdentity::from_stat(stat))
}

/// Returns a node of this kind with its mode and time.
pub(crate) fn node_of_kind(kind: FileNodeKind, ident: &FileIdentity) -> FileNode {
    let mode = if matches!(kind, FileNodeKind::Link { .. }) { 0 } else { permission_bits(ident.mode) };
    let modified = if matches!(kind, FileNodeKind::File { .. }) { ident.modified } else { 0 };
    FileNode { kind, mode, modified_ns: modified }
}

/// Names a file type that is neither file, directory nor link.
pub(crate) const fn special_kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        _ => "unknown",
    }
}
