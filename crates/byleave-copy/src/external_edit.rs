//! Edits that another program makes itself, such as an agent with its own tools.
//!
//! The before-images are on the disk before the program may begin. Afterwards, the files are compared with what the program should have
//! left, and the edit becomes a commit like any other: undo, diffs and garbage collection treat it the same. This module never changes
//! a file of the user.

use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::SystemTime;

use byleave_core::digest::Digest;
use byleave_core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::change_list::{self, ChangeList};
use crate::commit;
use crate::copy::{CopyMetadata, WorkspaceCopy};
use crate::dir_handle::{self, DirHandle, FileIdentity};
use crate::error::{Conflict, Error, IoContext as _};
use crate::file_digest::FileReader;
use crate::journal::{CommitCompletion, Journal, JournalStep, StepAction, StepContext, StorageSlot};
use crate::json_files::{read_json, write_json, write_json_durably};
use crate::paths;
use crate::preconditions;
use crate::store::{CopyState, CopyStore};
use crate::tree_copy;

/// The file that lists what the program should leave.
const EXPECTED: &str = "expected.json";
/// The file that says that all before-images are on the disk.
pub(crate) const KEPT: &str = "kept.json";
/// The permission bits that a program may give to a new file.
const NEW_FILE_BITS: u32 = 0o666;

/// The content that a program should leave in a file.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedContent<'a> {
    /// The path, absolute and resolved.
    pub path: &'a str,
    /// The content that the edit was computed from. `None` if there is no file.
    pub before: Option<&'a [u8]>,
    /// The accepted contents. A program may keep the line endings of a file, so there can be several. Without any, it deletes the file.
    pub accepted: &'a [Vec<u8>],
}

/// The state of an edit that another program makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalEditState {
    /// All files are as before.
    NotMade,
    /// The files are as expected.
    AsExpected,
    /// These paths are neither as before nor as expected.
    Different(Vec<String>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ExpectedFile {
    root: usize,
    inside: String,
    before: Option<Digest>,
    /// Sizes and digests. None if the program deletes the file.
    accepted: Vec<(u64, Digest)>,
}

impl ExpectedFile {
    /// Checks whether the program may leave the file as it is.
    fn is_unchanged(&self) -> bool {
        self.before.is_some_and(|before| self.accepted.iter().any(|(_, digest)| *digest == before))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptFile {
    root: usize,
    inside: String,
    /// The file as it was, and the identity of its image in the store. `None` if there was no file.
    image: Option<(FileNode, FileIdentity)>,
    /// The directories above it that did not exist, the outermost first.
    missing_directories: Vec<String>,
}

impl WorkspaceCopy {
    /// Notes what another program should leave. The copy must already have the first accepted contents.
    pub fn expect_external_edit(&self, contents: &[ExpectedContent<'_>]) -> Result<(), Error> {
        let file = |content: &ExpectedContent<'_>| {
            let (root, top) = self.root_for(Path::new(content.path)).ok_or_else(|| Error::CannotWrite {
                path: content.path.into(),
                reason: "the path is not in a copied directory",
            })?;
            Ok(ExpectedFile {
                root,
                inside: paths::inside(&top.path, content.path).to_owned(),
                before: content.before.map(Digest::compute),
                accepted: content
                    .accepted
                    .iter()
                    .map(|bytes| (bytes.len() as u64, Digest::compute(bytes)))
                    .collect(),
            })
        };
        let files = contents.iter().map(file).collect::<Result<Vec<_>, Error>>()?;
        write_json(&self.path.join(EXPECTED), &files)
    }

    /// Keeps the before-images durably, so that another program may make the edit. Fails if a file is not as the edit was computed from.
    pub fn keep_before_images(&self) -> Result<(), Error> {
        let id = self.meta.id;
        let files: Vec<ExpectedFile> =
            read_json(&self.path.join(EXPECTED))?.ok_or(Error::NotCommitted(id))?;
        let ground = StepContext::open(&self.store, &self.meta.roots)?;
        let directory = self.path.join("before");
        dir_handle::remove_path(&directory).context("remove", &directory)?;
        std::fs::create_dir(&directory).context("create", &directory)?;
        let mut reader = FileReader::new();
        let kept = files
            .iter()
            .enumerate()
            .map(|(number, file)| self.keep_one(file, number, &ground, &mut reader))
            .collect::<Result<Vec<_>, _>>()?;
        byleave_files::own::sync_directory(&directory).context("write to the disk", &directory)?;
        write_json_durably(&self.path.join(KEPT), &kept)
    }

    fn keep_one(
        &self,
        file: &ExpectedFile,
        number: usize,
        ground: &StepContext,
        reader: &mut FileReader,
    ) -> Result<KeptFile, Error> {
        let root = ground.roots.get(file.root).ok_or(Error::Missing(self.meta.id))?;
        let path = absolute(&self.meta, file.root, &file.inside);
        let conflict = |reason| {
            let actual = preconditions::read_node(root, &file.inside).ok().flatten();
            let path = path.clone();
            Error::Conflicts(vec![Conflict { path, expected: None, actual, reason, texts: None }])
        };
        let found = match root.stat(&file.inside) {
            Err(Errno::LOOP) => return Err(conflict("a symbolic link is in its path")),
            other => other.context("inspect", &path)?,
        };
        let image = match (&found, file.before) {
            (None, None) => None,
            (None, Some(_)) => return Err(conflict("the file no longer exists")),
            (Some(_), None) => return Err(conflict("something was created there meanwhile")),
            (Some(stat), Some(digest)) => {
                let was = FileIdentity::from_stat(stat);
                if was.kind() != FileType::RegularFile || FileIdentity::link_count(stat) != 1 {
                    return Err(conflict("the path is not a regular file with one name"));
                }
                let at = image_place(self.meta.id, number);
                let mut copied = || -> Result<_, Errno> {
                    let ((from, name), (to, image)) =
                        (root.parent(&file.inside)?, ground.copies.parent(&at)?);
                    let named = |name: &str| CString::new(name).map_err(|_| Errno::INVAL);
                    tree_copy::copy_entry((from.as_fd(), &named(name)?), (to.as_fd(), &named(image)?))?;
                    let image = ground.copies.open_at(&at, OFlags::RDONLY)?;
                    rustix::fs::fsync(&image)?;
                    Ok((reader.digest(&image)?, FileIdentity::from_stat(&rustix::fs::fstat(&image)?)))
                };
                let (kept, identity) = copied().context("keep", &path)?;
                let is_untouched = root
                    .identity(&file.inside)
                    .context("inspect", &path)?
                    .is_some_and(|is| is.is_untouched(&was));
                if kept != digest || !is_untouched {
                    return Err(conflict("the file was modified"));
                }
                let mut node =
                    preconditions::node_from_identity(root, &file.inside, &was).context("inspect", &path)?;
                node.kind = FileNodeKind::File { size: was.size, digest: Some(digest) };
                Some((node, identity))
            }
        };
        let mut missing_directories = Vec::new();
        for above in paths::ancestors(&file.inside).filter(|above| !above.is_empty()) {
            if root.stat(above).context("inspect", &path)?.is_none() {
                missing_directories.push(above.to_owned());
            }
        }
        missing_directories.sort();
        Ok(KeptFile { root: file.root, inside: file.inside.clone(), image, missing_directories })
    }
}

/// The difference between the before-images and the files.
struct MadeEdit {
    meta: CopyMetadata,
    steps: Vec<JournalStep>,
    changes: FileChanges,
    /// The paths that are not as expected.
    different: Vec<String>,
    /// The paths that are as before, although a change was expected.
    unmade: Vec<String>,
    /// Whether an edit that changes nothing was expected.
    expects_nothing: bool,
}

impl CopyStore {
    /// Compares the files of an edit that another program makes with what was expected.
    pub fn compare_external_edit(&self, id: Uuid) -> Result<ExternalEditState, Error> {
        Ok(self.made_edit(id)?.state())
    }

    /// Returns the files of an edit that another program makes.
    pub fn external_edit_paths(&self, id: Uuid) -> Result<Vec<String>, Error> {
        let at = self.entry_path(id);
        let missing = || self.missing_error(id);
        let meta: CopyMetadata = read_json(&at.join("copy.json"))?.ok_or_else(missing)?;
        let kept: Vec<KeptFile> = read_json(&at.join(KEPT))?.ok_or_else(missing)?;
        Ok(kept.iter().map(|file| absolute(&meta, file.root, &file.inside)).collect())
    }

    /// Makes what another program has done a commit, as far as it was done. An edit that was not made stays as it is.
    pub fn finish_external_edit(&self, id: Uuid) -> Result<ExternalEditState, Error> {
        let _lock = self.lock(id)?;
        if self.state(id)? != CopyState::ExternalEdit {
            return Err(Error::Exists(id));
        }
        let made = self.made_edit(id)?;
        let state = made.state();
        let at = self.entry_path(id);
        if made.changes.is_empty() {
            if made.expects_nothing {
                dir_handle::remove_path(&at).context("remove", &at)?;
            }
            return Ok(state);
        }
        let journal = Journal { id, undo_of: None, roots: made.meta.roots, steps: made.steps };
        write_json_durably(&at.join("changes.json"), &made.changes)?;
        write_json_durably(&at.join("journal.json"), &journal)?;
        let done = CommitCompletion { at_ns: self.filesystem_now(&at)?, at_time: SystemTime::now() };
        write_json_durably(&at.join("done.json"), &done)?;
        commit::remove_store_leftovers(self, id)?;
        Ok(state)
    }

    /// Drops the before-images of an edit that was not made. Returns whether it was dropped.
    pub fn drop_unmade_edit(&self, id: Uuid) -> Result<bool, Error> {
        let _lock = self.lock(id)?;
        if self.state(id)? != CopyState::ExternalEdit || !self.made_edit(id)?.changes.is_empty() {
            return Ok(false);
        }
        let at = self.entry_path(id);
        dir_handle::remove_path(&at).context("remove", &at).map(|()| true)
    }

    /// Returns what another program has changed so far or, if it has changed nothing, what it should change.
    pub(crate) fn external_changes(&self, id: Uuid) -> Result<FileChanges, Error> {
        let made = self.made_edit(id)?;
        if !made.changes.is_empty() {
            return Ok(made.changes);
        }
        let listing: Option<ChangeList> = read_json(&self.entry_path(id).join("listing.json"))?;
        Ok(listing.ok_or(Error::Missing(id))?.changes())
    }

    fn made_edit(&self, id: Uuid) -> Result<MadeEdit, Error> {
        let at = self.entry_path(id);
        let missing = || self.missing_error(id);
        let meta: CopyMetadata = read_json(&at.join("copy.json"))?.ok_or_else(missing)?;
        let expected: Vec<ExpectedFile> = read_json(&at.join(EXPECTED))?.ok_or_else(missing)?;
        let kept: Vec<KeptFile> = read_json(&at.join(KEPT))?.ok_or_else(missing)?;
        let listing: ChangeList = read_json(&at.join("listing.json"))?.unwrap_or_default();
        let ground = StepContext::open(self, &meta.roots)?;
        let mut comparison = Comparison {
            made: MadeEdit {
                meta,
                steps: Vec::new(),
                changes: FileChanges::default(),
                different: Vec::new(),
                unmade: Vec::new(),
                expects_nothing: expected.iter().all(ExpectedFile::is_unchanged),
            },
            listing,
            ground,
            copies: self.path.join("copies"),
            reader: FileReader::new(),
        };
        for (number, (kept, expected)) in kept.iter().zip(&expected).enumerate() {
            for directory in &kept.missing_directories {
                comparison.compare_directory(kept.root, directory)?;
            }
            comparison.compare_file(kept, expected, number)?;
        }
        let mut made = comparison.made;
        // A part of the edit is something else than the edit.
        if !made.changes.is_empty() {
            made.different.append(&mut made.unmade);
        }
        made.changes.list.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(made)
    }
}

impl MadeEdit {
    fn state(&self) -> ExternalEditState {
        if !self.different.is_empty() {
            ExternalEditState::Different(self.different.clone())
        } else if self.changes.is_empty() && !self.expects_nothing {
            ExternalEditState::NotMade
        } else {
            ExternalEditState::AsExpected
        }
    }
}

struct Comparison {
    made: MadeEdit,
    listing: ChangeList,
    ground: StepContext,
    copies: std::path::PathBuf,
    reader: FileReader,
}

impl Comparison {
    /// Compares a directory that did not exist.
    fn compare_directory(&mut self, root: usize, inside: &str) -> Result<(), Error> {
        let path = absolute(&self.made.meta, root, inside);
        if self.made.changes.list.iter().any(|change| change.path == path) {
            return Ok(());
        }
        let Some(identity) = self.identity(root, inside, &path)? else { return Ok(()) };
        if !identity.is_directory() {
            self.made.different.push(path.clone());
        }
        let after = self.node(root, inside, &identity)?;
        let action = StepAction::Put { new: identity, from: self.no_slot() };
        self.add((root, inside), (None, Some(after)), action, "")
    }

    fn compare_file(&mut self, kept: &KeptFile, expected: &ExpectedFile, number: usize) -> Result<(), Error> {
        let (root, inside) = (kept.root, kept.inside.as_str());
        let path = absolute(&self.made.meta, root, inside);
        let image = image_place(self.made.meta.id, number);
        let keep = StorageSlot { root: None, path: image.clone() };
        let now = self.identity(root, inside, &path)?;
        let (before, old) = match &kept.image {
            Some((node, identity)) => (Some(node.clone()), Some(*identity)),
            None => (None, None),
        };
        let Some(now) = now else {
            let Some(old) = old else {
                self.made.unmade.push(path);
                return Ok(());
            };
            if !expected.accepted.is_empty() {
                self.made.different.push(path);
            }
            return self.add((root, inside), (before, None), StepAction::Remove { old, keep }, &image);
        };
        let mut after = self.node(root, inside, &now)?;
        let was_size = before.as_ref().and_then(|node| match node.kind {
            FileNodeKind::File { size, .. } => Some(size),
            _ => None,
        });
        // The digest of a file of another size would tell nothing.
        let is_candidate =
            expected.accepted.iter().any(|(size, _)| *size == now.size) || was_size == Some(now.size);
        if let FileNodeKind::File { digest, .. } = &mut after.kind
            && is_candidate
        {
            *digest = self.digest(root, inside, &path)?;
        }
        let is_same = |before: &FileNode| before.kind == after.kind && before.mode == after.mode;
        if before.as_ref().is_some_and(is_same) {
            if !expected.is_unchanged() {
                self.made.unmade.push(path);
            }
            return Ok(());
        }
        let is_expected = match &after.kind {
            FileNodeKind::File { size, digest: Some(digest) } => {
                expected.accepted.contains(&(*size, *digest))
                    && before
                        .as_ref()
                        .map_or(after.mode & !NEW_FILE_BITS == 0, |before| before.mode == after.mode)
            }
            _ => false,
        };
        if !is_expected {
            self.made.different.push(path);
        }
        let action = match old {
            Some(old) => StepAction::Swap { old, new: now, from: self.no_slot(), keep },
            None => StepAction::Put { new: now, from: self.no_slot() },
        };
        self.add((root, inside), (before, Some(after)), action, &image)
    }

    fn add(
        &mut self,
        (root, inside): (usize, &str),
        (before, after): (Option<FileNode>, Option<FileNode>),
        action: StepAction,
        image: &str,
    ) -> Result<(), Error> {
        let path = absolute(&self.made.meta, root, inside);
        let listed = self.listing.items.iter().find(|item| item.change.path == path);
        let git_status = listed.map(|item| item.change.git_status).unwrap_or_default();
        let mut change = FileChange { path, before, after, git_status, diff: None };
        let top = self.made.meta.roots.get(root).map_or("/", |root| root.path.as_str());
        change.diff = change_list::diff_change(&change, (&self.copies, image), (Path::new(top), inside))?;
        self.made.changes.list.push(change);
        self.made.steps.push(JournalStep { root, inside: inside.to_owned(), action });
        Ok(())
    }

    /// Returns the identity of the file that is there now. A path through a link names no file of the workspace.
    fn identity(&self, root: usize, inside: &str, path: &str) -> Result<Option<FileIdentity>, Error> {
        match self.root(root)?.identity(inside) {
            Err(Errno::LOOP) => Ok(None),
            other => other.context("inspect", path),
        }
    }

    fn node(&self, root: usize, inside: &str, identity: &FileIdentity) -> Result<FileNode, Error> {
        preconditions::node_from_identity(self.root(root)?, inside, identity).context("inspect", inside)
    }

    fn digest(&mut self, root: usize, inside: &str, path: &str) -> Result<Option<Digest>, Error> {
        let opened = self.root(root)?.open_at(inside, OFlags::RDONLY | OFlags::NONBLOCK);
        match opened {
            Err(Errno::ACCESS | Errno::NOENT | Errno::LOOP) => Ok(None),
            other => {
                let file = other.context("open", path)?;
                self.reader.digest(&file).context("read", path).map(Some)
            }
        }
    }

    fn root(&self, root: usize) -> Result<&DirHandle, Error> {
        self.ground.roots.get(root).ok_or(Error::Missing(self.made.meta.id))
    }

    /// Returns a place where nothing is. The program put the file in place itself.
    fn no_slot(&self) -> StorageSlot {
        StorageSlot { root: None, path: format!("{}/in/none", self.made.meta.id) }
    }
}

fn image_place(id: Uuid, number: usize) -> String {
    format!("{id}/before/{}", number + 1)
}

fn absolute(meta: &CopyMetadata, root: usize, inside: &str) -> String {
    paths::absolute(meta.roots.get(root).map_or("", |root| root.path.as_str()), inside)
}
