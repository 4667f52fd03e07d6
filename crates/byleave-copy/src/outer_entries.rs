//! The entries of Git's index outside of a directory, for a command that works in a part of a working tree.
//!
//! Such a command does not see the files beside its directory. Git would take them for deleted, and `git add -A` would stage that. So the
//! index on the copy says of them that they need not be in the working tree, as for a sparse checkout. Afterwards the marks are removed
//! again. A command that changed such an entry is refused, because the files outside did not change with it.
//!
//! An agent can write the index. The sizes in it decide nothing about memory, and an index in an unknown form is not marked at all.

use std::io;
use std::path::Path;

use byleave_files::OpenedFile;
use rustix::fs::OFlags;
use sha1::{Digest as _, Sha1};

use crate::copy::WorkspaceCopy;
use crate::dir_handle::{self, DirHandle};
use crate::error::{Error, IoContext as _};
use crate::layers::{self, CopyMethod};
use crate::paths;

/// The maximum size of an index that is marked.
pub const INDEX_BYTES_MAX: u64 = 128 << 20;
/// The limit for all names, which an index of version 4 shortens.
const NAME_BYTES_MAX: usize = 256 << 20;

const HEADER_LEN: usize = 12;
const HASH_LEN: usize = 20;
/// The times, numbers, mode, owner, size and hash of an entry, before its flags.
const FIXED_LEN: usize = 60;
/// The flag of an entry that has a second word of flags.
const EXTENDED: u16 = 0x4000;
/// The part of an unfinished merge that an entry stands for.
const STAGE: u16 = 0x3000;
/// In the second word: the file need not be in the working tree.
const SKIP_WORKTREE: u16 = 0x4000;

/// Extensions that hold entries elsewhere, or stand for many.
const UNSUPPORTED: [&[u8]; 2] = [b"link", b"sdir"];
/// Extensions with positions in the file, which Git works without.
const POSITIONS: [&[u8]; 2] = [b"EOIE", b"IEOT"];

/// The entries of an index outside of a directory, and the index in which they are marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterEntries {
    prefix: Vec<u8>,
    entries: Vec<OuterEntry>,
    marked: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OuterEntry {
    name: Vec<u8>,
    mode: Vec<u8>,
    hash: Vec<u8>,
    stage: u16,
    /// Whether it was marked before.
    is_skipped: bool,
}

/// The reason why an index after a run cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OuterEntriesError {
    /// The index is damaged, or in a form that is not known here.
    #[error("the index of the repository can no longer be read")]
    Unreadable,
    /// An entry outside of the directory differs.
    #[error(
        "git would change `{0}`, which lies outside of the workspace; limit the command to the workspace, or start the agent at the top of the repository"
    )]
    Changed(String),
}

/// Checks whether an index that this module can mark has something beneath a directory. The directory is relative to the working tree.
pub fn tracks_beneath(index: &[u8], directory: &str) -> bool {
    let prefix = prefix(directory);
    ParsedIndex::parse(index)
        .is_some_and(|parsed| parsed.entries.iter().any(|entry| entry.name.starts_with(&prefix)))
}

impl OuterEntries {
    /// Marks the entries outside of a directory. Returns `None` for an index that cannot be marked.
    pub fn mark(index: &[u8], directory: &str) -> Option<Self> {
        let (parsed, prefix) = (ParsedIndex::parse(index)?, prefix(directory));
        let is_outer = |entry: &Entry<'_>| !entry.name.starts_with(&prefix);
        let marked = parsed.build(|entry| match is_outer(entry) {
            true => entry.more | SKIP_WORKTREE,
            false => entry.more,
        });
        let entries = parsed.entries.iter().filter(|entry| is_outer(entry)).map(Entry::to_outer).collect();
        Some(Self { entries, marked, prefix })
    }

    /// Returns whether everything in the index lies in the directory.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the name of every entry, relative to the working tree.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| entry.name.as_slice())
    }

    /// Removes the marks from an index that a command left.
    pub fn unmark(&self, index: &[u8]) -> Result<Vec<u8>, OuterEntriesError> {
        let parsed = ParsedIndex::parse(index).ok_or(OuterEntriesError::Unreadable)?;
        let is_outer = |entry: &&Entry<'_>| !entry.name.starts_with(&self.prefix);
        let mut before = self.entries.iter();
        for entry in parsed.entries.iter().filter(is_outer) {
            let now = entry.to_outer();
            let then = before.next();
            if then.is_none_or(|then| !then.is_same(&now)) {
                let name = then.map_or(&now.name, |then| (&then.name).min(&now.name));
                return Err(changed(name));
            }
        }
        if let Some(gone) = before.next() {
            return Err(changed(&gone.name));
        }
        let skipped: Vec<&[u8]> =
            self.entries.iter().filter(|entry| entry.is_skipped).map(|entry| entry.name.as_slice()).collect();
        Ok(parsed.build(|entry| match is_outer(&entry) && skipped.binary_search(&&*entry.name).is_err() {
            true => entry.more & !SKIP_WORKTREE,
            false => entry.more,
        }))
    }
}

fn prefix(directory: &str) -> Vec<u8> {
    format!("{directory}/").into_bytes()
}

fn changed(name: &[u8]) -> OuterEntriesError {
    OuterEntriesError::Changed(String::from_utf8_lossy(name).escape_debug().to_string())
}

impl OuterEntry {
    fn is_same(&self, other: &Self) -> bool {
        let what = |one: &Self| (one.name.clone(), one.mode.clone(), one.hash.clone(), one.stage);
        what(self) == what(other)
    }
}

/// An index of version 2, 3 or 4 with hashes of 20 bytes, in its parts.
struct ParsedIndex<'a> {
    version: u8,
    entries: Vec<Entry<'a>>,
    /// Each with its header.
    extensions: Vec<&'a [u8]>,
}

struct Entry<'a> {
    fixed: &'a [u8],
    flags: u16,
    /// The second word of flags.
    more: u16,
    /// The name as it is written, with its end in version 4.
    text: &'a [u8],
    name: Vec<u8>,
}

impl Entry<'_> {
    fn to_outer(&self) -> OuterEntry {
        OuterEntry {
            name: self.name.clone(),
            mode: self.fixed.get(24..28).unwrap_or_default().to_vec(),
            hash: self.fixed.get(40..FIXED_LEN).unwrap_or_default().to_vec(),
            stage: self.flags & STAGE,
            is_skipped: self.more & SKIP_WORKTREE != 0,
        }
    }
}

impl<'a> ParsedIndex<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let [b'D', b'I', b'R', b'C', 0, 0, 0, version @ 2..=4, count @ ..] = bytes.get(..HEADER_LEN)? else {
            return None;
        };
        let count = u32::from_be_bytes(count.try_into().ok()?);
        let mut reader = Reader { rest: bytes.get(HEADER_LEN..bytes.len().checked_sub(HASH_LEN)?)? };
        let (mut entries, mut name, mut name_bytes) = (Vec::new(), Vec::new(), 0_usize);
        for _ in 0..count {
            let entry = reader.entry(*version, &mut name)?;
            name_bytes = name_bytes.checked_add(name.len()).filter(|bytes| *bytes <= NAME_BYTES_MAX)?;
            entries.push(entry);
        }
        let mut extensions = Vec::new();
        while !reader.rest.is_empty() {
            let length = u32::from_be_bytes(reader.rest.get(4..8)?.try_into().ok()?);
            let extension = reader.take(usize::try_from(length).ok()?.checked_add(8)?)?;
            let kind = extension.get(..4)?;
            if UNSUPPORTED.contains(&kind) {
                return None;
            }
            if !POSITIONS.contains(&kind) {
                extensions.push(extension);
            }
        }
        Some(Self { version: *version, entries, extensions })
    }

    /// Writes the index with these second words of flags.
    fn build(&self, more: impl Fn(&Entry<'a>) -> u16) -> Vec<u8> {
        let words: Vec<u16> = self.entries.iter().map(more).collect();
        let version = match self.version {
            4 => 4,
            _ if words.iter().any(|word| *word != 0) => 3,
            _ => 2,
        };
        let mut bytes = b"DIRC\0\0\0".to_vec();
        bytes.push(version);
        bytes.extend(u32::try_from(self.entries.len()).unwrap_or(u32::MAX).to_be_bytes());
        for (entry, more) in self.entries.iter().zip(words) {
            let start = bytes.len();
            let flags = if more == 0 { entry.flags & !EXTENDED } else { entry.flags | EXTENDED };
            bytes.extend(entry.fixed);
            bytes.extend(flags.to_be_bytes());
            if more != 0 {
                bytes.extend(more.to_be_bytes());
            }
            bytes.extend(entry.text);
            if version < 4 {
                bytes.push(0);
                let length = bytes.len().saturating_sub(start).next_multiple_of(8);
                bytes.resize(start.saturating_add(length), 0);
            }
        }
        self.extensions.iter().for_each(|extension| bytes.extend(*extension));
        let hash = Sha1::digest(&bytes);
        bytes.extend(hash.as_slice());
        bytes
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn entry(&mut self, version: u8, name: &mut Vec<u8>) -> Option<Entry<'a>> {
        let before = self.rest.len();
        let fixed = self.take(FIXED_LEN)?;
        let flags = self.word()?;
        let more = if version >= 3 && flags & EXTENDED != 0 { self.word()? } else { 0 };
        let text = self.rest;
        let kept = if version == 4 { name.len().checked_sub(self.number()?)? } else { 0 };
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        name.truncate(kept);
        name.extend(self.take(length)?);
        if version == 4 {
            self.take(1)?;
            let text = text.get(..text.len().checked_sub(self.rest.len())?)?;
            return Some(Entry { fixed, flags, more, text, name: name.clone() });
        }
        let used = before.checked_sub(self.rest.len())?;
        self.take((used.checked_add(1)?).checked_next_multiple_of(8)?.checked_sub(used)?)?;
        Some(Entry { fixed, flags, more, text: text.get(..length)?, name: name.clone() })
    }

    /// Reads a number of variable length, encoded as the offsets in pack files.
    fn number(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        }
        Some(value)
    }
}

impl WorkspaceCopy {
    /// Marks on the copy the entries of an index outside of a directory. Returns nothing if there are none.
    pub fn mark_outer_entries(&self, index: &Path, directory: &str) -> Result<Option<OuterEntries>, Error> {
        let bytes = byleave_files::open(index, byleave_files::LinkPolicy::Never)
            .and_then(|file| file.read(INDEX_BYTES_MAX))
            .map_err(io::Error::other)
            .context("read", index)?;
        let unknown = || Error::CannotWrite { path: index.to_owned(), reason: "its form is not known" };
        let outer = OuterEntries::mark(&bytes, directory).ok_or_else(unknown)?;
        if outer.is_empty() {
            return Ok(None);
        }
        match self.root_for(index) {
            Some((number, root)) if root.method == CopyMethod::Tree => {
                let on_copy = self.path.join(layers::changes_path(root.method, number));
                let path = on_copy.join(paths::inside(&root.path, &index.to_string_lossy()));
                std::fs::write(&path, &outer.marked).context("write", &path)?;
            }
            _ => self.write_file(index, &outer.marked, None)?,
        }
        Ok(Some(outer))
    }

    /// Removes the marks on the copy after a run. An index that the command did not change is as it was.
    pub fn unmark_outer_entries(
        &self,
        index: &Path,
        outer: &OuterEntries,
    ) -> Result<Result<(), OuterEntriesError>, Error> {
        let Some((number, root)) = self.root_for(index) else { return Ok(Ok(())) };
        let changed = self.path.join(layers::changes_path(root.method, number));
        let inside = paths::inside(&root.path, &index.to_string_lossy()).to_owned();
        let layer = DirHandle::open(&changed).context("open", &changed)?;
        // A removed index, or anything else in its place, is judged as a change.
        let Ok(file) = layer.open_at(&inside, OFlags::RDONLY | OFlags::NONBLOCK) else { return Ok(Ok(())) };
        let Ok(bytes) = OpenedFile::from_handle(file).and_then(|file| file.read(INDEX_BYTES_MAX)) else {
            return Ok(Err(OuterEntriesError::Unreadable));
        };
        let path = changed.join(&inside);
        if bytes != outer.marked {
            let unmarked = match outer.unmark(&bytes) {
                Ok(unmarked) => unmarked,
                Err(why) => return Ok(Err(why)),
            };
            let file = layer.open_at(&inside, OFlags::WRONLY | OFlags::TRUNC).context("open", &path)?;
            let written = io::Write::write_all(&mut std::fs::File::from(file), &unmarked);
            return written.context("write", &path).map(Ok);
        }
        if root.method == CopyMethod::Overlay {
            let (above, name) = layer.parent(&inside).context("find", &path)?;
            let name = std::ffi::CString::new(name).map_err(io::Error::from).context("find", &path)?;
            dir_handle::remove(rustix::fd::AsFd::as_fd(&*above), &name).context("remove", &path)?;
        } else {
            let original = byleave_files::read(index, byleave_files::LinkPolicy::Never, INDEX_BYTES_MAX)
                .map_err(io::Error::other)
                .context("read", index)?;
            let file = layer.open_at(&inside, OFlags::WRONLY | OFlags::TRUNC).context("open", &path)?;
            io::Write::write_all(&mut std::fs::File::from(file), &original).context("write", &path)?;
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn git(directory: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments).current_dir(directory);
        let ended = git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", directory).output().unwrap();
        assert!(ended.status.success(), "{arguments:?} {ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    }

    // req: E9
    #[test]
    fn the_entries_outside_are_marked_for_git_and_afterwards_as_before() {
        for version in ["2", "3", "4"] {
            let made = tempfile::tempdir().unwrap();
            let top = made.path();
            git(top, &["init", "-q", "."]);
            for name in ["a", "pkg/b", "pkg/c/d", "pkg-x/e", "zz/f"] {
                fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
                fs::write(top.join(name), name).unwrap();
            }
            git(top, &["add", "."]);
            git(top, &["commit", "-qm", "i"]);
            match version {
                "3" => git(top, &["update-index", "--skip-worktree", "zz/f"]),
                other => git(top, &["update-index", "--index-version", other]),
            };
            let index = top.join(".git/index");
            let before = fs::read(&index).unwrap();
            let outer = OuterEntries::mark(&before, "pkg").unwrap();
            assert_eq!(outer.names().collect::<Vec<_>>(), [&b"a"[..], b"pkg-x/e", b"zz/f"], "{version}");
            fs::write(&index, &outer.marked).unwrap();
            for gone in ["a", "pkg-x/e", "zz/f"] {
                fs::remove_file(top.join(gone)).unwrap();
            }
            assert_eq!(git(top, &["status", "--porcelain"]), "", "{version}");
            fs::write(top.join("pkg/b"), "new").unwrap();
            git(top, &["add", "-A"]);
            git(top, &["fsck", "--no-dangling"]);
            let unmarked = outer.unmark(&fs::read(&index).unwrap()).unwrap();
            fs::write(&index, &unmarked).unwrap();
            let marks = git(top, &["ls-files", "-v"]);
            let kept = if version == "3" { "S zz/f" } else { "H zz/f" };
            assert_eq!(marks.lines().collect::<Vec<_>>(), ["H a", "H pkg-x/e", "H pkg/b", "H pkg/c/d", kept]);
            git(top, &["commit", "-qm", "second"]);
            assert_eq!(git(top, &["show", "--name-only", "--format="]), "pkg/b\n", "{version}");
        }
    }

    // req: E9
    #[test]
    fn a_change_of_an_entry_outside_is_found() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path();
        git(top, &["init", "-q", "."]);
        for name in ["a", "pkg/b", "z"] {
            fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
            fs::write(top.join(name), name).unwrap();
        }
        git(top, &["add", "."]);
        let index = top.join(".git/index");
        let outer = OuterEntries::mark(&fs::read(&index).unwrap(), "pkg").unwrap();
        let changed = || outer.unmark(&fs::read(&index).unwrap()).unwrap_err();
        git(top, &["update-index", "--force-remove", "z"]);
        assert_eq!(changed(), OuterEntriesError::Changed("z".into()));
        git(top, &["add", "z"]);
        fs::write(top.join("a"), "other").unwrap();
        git(top, &["add", "a"]);
        assert_eq!(changed(), OuterEntriesError::Changed("a".into()));
        fs::write(top.join("a"), "a").unwrap();
        git(top, &["add", "a"]);
        fs::write(top.join("y"), "").unwrap();
        git(top, &["add", "y"]);
        assert_eq!(changed(), OuterEntriesError::Changed("y".into()));
        let whole = fs::read(&index).unwrap();
        for length in 0..whole.len() {
            drop(OuterEntries::mark(&whole[..length], "pkg"));
        }
        assert!(tracks_beneath(&whole, "pkg") && !tracks_beneath(&whole, "pk"));
        git(top, &["update-index", "--split-index"]);
        assert!(OuterEntries::mark(&fs::read(&index).unwrap(), "pkg").is_none());
    }
}
