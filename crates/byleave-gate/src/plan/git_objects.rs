//! Reads commits and trees of a git repository: loose ones, and those in packs. It never runs git.

use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use byleave_files::{LinkPolicy, OpenedFile};
use flate2::read::ZlibDecoder;

/// The maximum size of an object that is read.
const OBJECT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The maximum size of a loose object, which is compressed.
const LOOSE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The longest chain of differences that is followed. Git makes at most 4,095.
const CHAIN_MAX: usize = 4096;
/// The most packs that are looked into.
const PACKS_MAX: usize = 1000;
/// The deepest directory that is read.
const DEPTH_MAX: usize = 200;
/// The most names that are read of a tree and everything beneath it.
const NAMES_MAX: usize = 200_000;

/// The kind of an object, as packs number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl ObjectKind {
    fn numbered(number: u8) -> Option<Self> {
        [Self::Commit, Self::Tree, Self::Blob, Self::Tag].get(usize::from(number).checked_sub(1)?).copied()
    }

    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"commit" => Some(Self::Commit),
            b"tree" => Some(Self::Tree),
            b"blob" => Some(Self::Blob),
            b"tag" => Some(Self::Tag),
            _ => None,
        }
    }
}

/// The objects of a repository.
pub(super) struct GitObjects {
    directory: PathBuf,
    id_bytes: usize,
    packs: Vec<Pack>,
}

struct Pack {
    index: OpenedFile,
    data: OpenedFile,
}

impl GitObjects {
    /// Opens the directory `objects` of a repository whose ids have this many bytes.
    pub(super) fn open(directory: &Path, id_bytes: usize) -> Self {
        let entries = std::fs::read_dir(directory.join("pack")).into_iter().flatten().flatten();
        let indexes =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "idx"));
        let open = |index: PathBuf| {
            let data = byleave_files::open(&index.with_extension("pack"), LinkPolicy::Follow).ok()?;
            Some(Pack { index: byleave_files::open(&index, LinkPolicy::Follow).ok()?, data })
        };
        Self {
            directory: directory.to_owned(),
            id_bytes,
            packs: indexes.take(PACKS_MAX).filter_map(open).collect(),
        }
    }

    /// Returns the paths of all files in the tree of a commit, or `None` if a part of it cannot be read.
    pub(super) fn files_of_commit(&self, id: &[u8]) -> Option<Vec<String>> {
        let commit = self.read(id, ObjectKind::Commit)?;
        let mut names = Vec::new();
        self.add_files(&line_id(&commit, "tree ").next()?, "", 0, &mut names)?;
        Some(names)
    }

    /// Returns the parents of a commit.
    pub(super) fn parents(&self, id: &[u8]) -> Option<Vec<Vec<u8>>> {
        let commit = self.read(id, ObjectKind::Commit)?;
        Some(line_id(&commit, "parent ").collect())
    }

    fn add_files(&self, id: &[u8], above: &str, depth: usize, names: &mut Vec<String>) -> Option<()> {
        let tree = self.read(id, ObjectKind::Tree)?;
        let mut rest = tree.as_slice();
        while !rest.is_empty() {
            let space = rest.iter().position(|byte| *byte == b' ')?;
            let end = rest.iter().position(|byte| *byte == 0)?;
            let name = String::from_utf8_lossy(rest.get(space.checked_add(1)?..end)?).into_owned();
            let (from, to) = (end.checked_add(1)?, end.checked_add(1)?.checked_add(self.id_bytes)?);
            let id = rest.get(from..to)?;
            let path = if above.is_empty() { name } else { format!("{above}/{name}") };
            let is_tree = rest.get(..space)? == b"40000";
            match is_tree {
                true if depth >= DEPTH_MAX => return None,
                true => self.add_files(id, &path, depth.checked_add(1)?, names)?,
                false if names.len() >= NAMES_MAX => return None,
                false => names.push(path),
            }
            rest = rest.get(to..)?;
        }
        Some(())
    }

    fn read(&self, id: &[u8], kind: ObjectKind) -> Option<Vec<u8>> {
        let (found, content) = self.read_any(id)?;
        (found == kind).then_some(content)
    }

    /// Reads an object. `None` if it is not there, or is not as git writes it.
    fn read_any(&self, id: &[u8]) -> Option<(ObjectKind, Vec<u8>)> {
        if let Some(loose) = self.read_loose(id) {
            return Some(loose);
        }
        // Differences, from the object to its base.
        let mut deltas: Vec<Vec<u8>> = Vec::new();
        let (mut pack, mut at) = self.find_packed(id)?;
        loop {
            let entry = PackEntry::read(pack, at, self.id_bytes)?;
            match entry.base {
                PackBase::None(kind) => {
                    let content =
                        deltas.iter().rev().try_fold(entry.content, |base, delta| apply_delta(&base, delta));
                    return Some((kind, content?));
                }
                PackBase::Offset(base) => {
                    deltas.push(entry.content);
                    at = base;
                }
                PackBase::Id(base) => {
                    deltas.push(entry.content);
                    (pack, at) = self.find_packed(&base)?;
                }
            }
            if deltas.len() > CHAIN_MAX {
                return None;
            }
        }
    }

    fn read_loose(&self, id: &[u8]) -> Option<(ObjectKind, Vec<u8>)> {
        let name = to_hex(id);
        let (directory, file) = name.split_at_checked(2)?;
        let path = self.directory.join(directory).join(file);
        let compressed = byleave_files::read(&path, LinkPolicy::Follow, LOOSE_BYTES_MAX).ok()?;
        let content = inflate(ZlibDecoder::new(compressed.as_slice()))?;
        let end = content.iter().position(|byte| *byte == 0)?;
        let kind = content.get(..end)?.split(|byte| *byte == b' ').next()?;
        Some((ObjectKind::named(kind)?, content.get(end.checked_add(1)?..)?.to_vec()))
    }

    /// Finds an object in the packs: its pack, and its place there.
    fn find_packed(&self, id: &[u8]) -> Option<(&Pack, u64)> {
        self.packs.iter().find_map(|pack| Some((pack, pack.find(id)?)))
    }
}

impl Pack {
    /// Finds the place of an object by the index of the pack, version 2.
    fn find(&self, id: &[u8]) -> Option<u64> {
        const FANOUT_AT: u64 = 8;
        const NAMES_AT: u64 = FANOUT_AT + 256 * 4;
        let number = |at: u64| {
            let mut bytes = [0; 4];
            self.index.file.read_exact_at(&mut bytes, at).ok()?;
            Some(u32::from_be_bytes(bytes))
        };
        if number(0)? != 0xff74_4f63 || number(4)? != 2 {
            return None;
        }
        let first = u64::from(*id.first()?);
        let before = |byte: u64| number(FANOUT_AT.checked_add(byte.checked_mul(4)?)?).map(u64::from);
        let (mut low, mut high) =
            (if first == 0 { 0 } else { before(first.checked_sub(1)?)? }, before(first)?);
        let (all, id_bytes) = (before(255)?, u64::try_from(id.len()).ok()?);
        let mut name = vec![0; id.len()];
        while low < high {
            let middle = low.checked_add(high)?.checked_div(2)?;
            self.index
                .file
                .read_exact_at(&mut name, NAMES_AT.checked_add(middle.checked_mul(id_bytes)?)?)
                .ok()?;
            match name.as_slice().cmp(id) {
                std::cmp::Ordering::Less => low = middle.checked_add(1)?,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    // Behind the names are the checksums.
                    let offsets = NAMES_AT.checked_add(all.checked_mul(id_bytes.checked_add(4)?)?)?;
                    let offset = number(offsets.checked_add(middle.checked_mul(4)?)?)?;
                    if offset & 0x8000_0000 == 0 {
                        return Some(u64::from(offset));
                    }
                    let large = offsets.checked_add(all.checked_mul(4)?)?;
                    let at = large.checked_add(u64::from(offset & 0x7fff_ffff).checked_mul(8)?)?;
                    return Some((u64::from(number(at)?) << 32) | u64::from(number(at.checked_add(4)?)?));
                }
            }
        }
        None
    }
}

/// An object in a pack, or its difference to another one.
struct PackEntry {
    base: PackBase,
    content: Vec<u8>,
}

enum PackBase {
    None(ObjectKind),
    Offset(u64),
    Id(Vec<u8>),
}

impl PackEntry {
    fn read(pack: &Pack, at: u64, id_bytes: usize) -> Option<Self> {
        /// The kind and the size, the place or the id of the base.
        const HEAD_BYTES_MAX: usize = 64;
        let mut head = vec![0; HEAD_BYTES_MAX];
        let read = pack.data.file.read_at(&mut head, at).ok()?;
        head.truncate(read);
        let kind = head.first()? >> 4 & 7;
        let mut next = head.iter().position(|byte| byte & 0x80 == 0)?.checked_add(1)?;
        let base = match kind {
            6 => {
                let mut byte = *head.get(next)?;
                let mut distance = u64::from(byte & 0x7f);
                while byte & 0x80 != 0 {
                    next = next.checked_add(1)?;
                    byte = *head.get(next)?;
                    distance =
                        distance.checked_add(1)?.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
                }
                next = next.checked_add(1)?;
                PackBase::Offset(at.checked_sub(distance).filter(|_| distance > 0)?)
            }
            7 => {
                let end = next.checked_add(id_bytes)?;
                let id = head.get(next..end)?.to_vec();
                next = end;
                PackBase::Id(id)
            }
            kind => PackBase::None(ObjectKind::numbered(kind)?),
        };
        let from = at.checked_add(u64::try_from(next).ok()?)?;
        let content = inflate(ZlibDecoder::new(FileFrom { file: &pack.data.file, at: from }))?;
        Some(Self { base, content })
    }
}

/// A file from a place on.
struct FileFrom<'a> {
    file: &'a std::fs::File,
    at: u64,
}

impl std::io::Read for FileFrom<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(room, self.at)?;
        self.at = self.at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

fn inflate(compressed: impl std::io::Read) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let read = compressed.take(OBJECT_BYTES_MAX.checked_add(1)?).read_to_end(&mut content).ok()?;
    (u64::try_from(read).ok()? <= OBJECT_BYTES_MAX).then_some(content)
}

/// Makes an object from its base and the difference.
fn apply_delta(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta.iter().copied();
    let mut size = || {
        let (mut value, mut shift) = (0_usize, 0_u32);
        loop {
            let byte = rest.next()?;
            value |= usize::from(byte & 0x7f).checked_shl(shift)?;
            shift = shift.checked_add(7)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    };
    let (from, to) = (size()?, size()?);
    if from != base.len() || u64::try_from(to).ok()? > OBJECT_BYTES_MAX {
        return None;
    }
    let mut made = Vec::with_capacity(to);
    while let Some(command) = rest.next() {
        if command & 0x80 == 0 {
            let own: Vec<u8> = rest.by_ref().take(usize::from(command)).collect();
            if command == 0 || own.len() != usize::from(command) {
                return None;
            }
            made.extend(own);
            continue;
        }
        let mut number = |bits: std::ops::Range<u8>| {
            let (mut value, mut shift) = (0_usize, 0_u32);
            for bit in bits {
                if command >> bit & 1 == 1 {
                    value |= usize::from(rest.next()?).checked_shl(shift)?;
                }
                shift = shift.checked_add(8)?;
            }
            Some(value)
        };
        let (at, length) = (number(0..4)?, number(4..7)?);
        let length = if length == 0 { 0x1_0000 } else { length };
        made.extend(base.get(at..at.checked_add(length)?)?);
        if made.len() > to {
            return None;
        }
    }
    (made.len() == to).then_some(made)
}

/// Returns the ids of the header lines of a commit that begin with a word.
fn line_id<'a>(commit: &'a [u8], word: &'a str) -> impl Iterator<Item = Vec<u8>> + 'a {
    let lines = commit.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    lines.filter_map(move |line| from_hex(line.strip_prefix(word.as_bytes())?))
}

/// Reads an id as git writes it.
pub(super) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let at = (0..text.len()).step_by(2);
    let bytes = at.map(|at| u8::from_str_radix(text.get(at..at.checked_add(2)?)?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().filter(|bytes| matches!(bytes.len(), 20 | 32))
}

fn to_hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn git(directory: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments).current_dir(directory);
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", directory);
        let ended = git.output().unwrap();
        assert!(ended.status.success(), "{arguments:?} {ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    }

    // req: P5
    #[test]
    fn the_files_of_each_commit_are_those_that_git_lists() {
        for format in ["sha1", "sha256"] {
            let made = tempfile::tempdir().unwrap();
            let top = made.path();
            git(top, &["init", "-q", &format!("--object-format={format}"), "."]);
            fs::create_dir_all(top.join("a directory/b")).unwrap();
            for name in 0..60 {
                fs::write(top.join(format!("a directory/b/{name}")), name.to_string()).unwrap();
            }
            // Each tree is a small difference to another one.
            for number in 0..12 {
                fs::write(top.join(format!("a directory/b/{number} more")), number.to_string()).unwrap();
                git(top, &["add", "-A"]);
                git(top, &["commit", "-q", "-m", &number.to_string()]);
            }
            for step in ["loose", "packed", "by id"] {
                if step != "loose" {
                    let offsets = format!("repack.useDeltaBaseOffset={}", step == "packed");
                    git(
                        top,
                        &["-c", &offsets, "repack", "-q", "-a", "-d", "-f", "--depth=20", "--window=50"],
                    );
                    let pack = fs::read_dir(top.join(".git/objects/pack")).unwrap().flatten();
                    let mut index = pack
                        .map(|entry| entry.path())
                        .filter(|path| path.extension().is_some_and(|end| end == "idx"));
                    let index = index.next().unwrap();
                    assert!(
                        git(top, &["verify-pack", "-v", index.to_str().unwrap()])
                            .contains("chain length = 2")
                    );
                }
                let mut commits = 0;
                for id in git(top, &["rev-list", "HEAD"]).lines() {
                    let id = from_hex(id.as_bytes()).unwrap();
                    let objects = GitObjects::open(&top.join(".git/objects"), id.len());
                    let listed = git(
                        top,
                        &["-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", &to_hex(&id)],
                    );
                    assert_eq!(
                        objects.files_of_commit(&id).unwrap(),
                        Vec::from_iter(listed.lines()),
                        "{format} {step}"
                    );
                    let parents: Vec<String> =
                        objects.parents(&id).unwrap().iter().map(|id| to_hex(id)).collect();
                    let wanted = git(top, &["log", "-1", "--format=%P", &to_hex(&id)]);
                    assert_eq!(parents, Vec::from_iter(wanted.split_whitespace()), "{format} {step}");
                    commits += 1;
                }
                assert_eq!(commits, 12);
            }
        }
    }

    // req: P5
    #[test]
    fn a_spoiled_difference_or_object_is_none() {
        let base = b"some text that is copied";
        let delta = [24, 9, 0x90, 4, 5, b'-', b'-', b'-', b'-', b'-'];
        assert_eq!(apply_delta(base, &delta).unwrap(), b"some-----");
        for length in 0..delta.len() {
            assert_eq!(apply_delta(base, &delta[..length]), None, "{length}");
        }
        // Another base, beyond its end, and a command that git does not use.
        for spoiled in [
            &[23, 4, 0x90, 4][..],
            &[24, 4, 0x91, 22, 4],
            &[24, 1, 0],
            &[24, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 1],
        ] {
            assert_eq!(apply_delta(base, spoiled), None, "{spoiled:?}");
        }
        let made = tempfile::tempdir().unwrap();
        let objects = GitObjects::open(made.path(), 20);
        assert_eq!(objects.files_of_commit(&[0; 20]), None);
        fs::create_dir(made.path().join("00")).unwrap();
        fs::write(made.path().join("00").join("0".repeat(38)), "no object").unwrap();
        assert_eq!(objects.files_of_commit(&[0; 20]), None);
    }
}
