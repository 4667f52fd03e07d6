//! A walker over whole trees: names, types, modes, owners, extended attributes, link targets, hard links and bytes. It shares no code with
//! the program, so a mistake of the program cannot hide itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Everything beneath some directories, by path. The directories themselves are included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WholeTree(pub(crate) BTreeMap<PathBuf, TreeNode>);

/// One path of a tree.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TreeNode {
    /// The type, with the device number for a device.
    kind: String,
    mode: u32,
    owner: (u32, u32),
    attributes: BTreeMap<OsString, Vec<u8>>,
    /// The bytes of a file, or the target of a link. `None` if it cannot be read.
    pub(crate) content: Option<Vec<u8>>,
    /// The first path of the tree that is the same file.
    same_as: Option<PathBuf>,
}

impl TreeNode {
    /// Returns whether it is a device, a pipe, a socket, or a file that runs with the rights of its owner or group.
    pub(crate) fn is_special(&self) -> bool {
        match self.kind.as_str() {
            "file" => self.mode & 0o6000 != 0,
            "directory" | "link" => false,
            _ => true,
        }
    }
}

impl std::fmt::Debug for TreeNode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text: String =
            String::from_utf8_lossy(self.content.as_deref().unwrap_or_default()).chars().take(60).collect();
        write!(out, "{} {:o} {text:?}", self.kind, self.mode)?;
        if !self.attributes.is_empty() {
            write!(out, " {:?}", self.attributes)?;
        }
        if let Some(same) = &self.same_as {
            write!(out, " = {}", same.display())?;
        }
        Ok(())
    }
}

impl WholeTree {
    /// Reads these directories with everything beneath them.
    pub(crate) fn read(roots: &[&str]) -> Self {
        Self::read_without(roots, &|_| false)
    }

    /// Reads these directories, except for the paths for which this is true, with everything beneath them.
    pub(crate) fn read_without(roots: &[&str], is_left_out: &dyn Fn(&Path) -> bool) -> Self {
        let mut tree = BTreeMap::new();
        let mut seen: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
        let mut left: Vec<PathBuf> = roots.iter().rev().map(PathBuf::from).collect();
        while let Some(path) = left.pop() {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if is_left_out(&path) {
                continue;
            }
            if found.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
                entries.sort_by(|one, other| other.cmp(one));
                left.extend(entries);
            }
            let same_as = if found.is_file() && found.nlink() > 1 {
                let first = seen.entry((found.dev(), found.ino())).or_insert_with(|| path.clone());
                (*first != path).then(|| first.clone())
            } else {
                None
            };
            tree.insert(path.clone(), node(&path, &found, same_as));
        }
        Self(tree)
    }

    /// Returns every path that is not the same in both trees, with the node in this tree and in the other one.
    pub(crate) fn differences<'a>(
        &'a self,
        other: &'a Self,
    ) -> BTreeMap<&'a Path, (Option<&'a TreeNode>, Option<&'a TreeNode>)> {
        let paths = self.0.keys().chain(other.0.keys());
        let both = paths.map(|path| (path.as_path(), (self.0.get(path), other.0.get(path))));
        both.filter(|(_, (one, other))| one != other).collect()
    }
}

fn node(path: &Path, found: &fs::Metadata, same_as: Option<PathBuf>) -> TreeNode {
    let kind = found.file_type();
    let (name, content) = match () {
        () if kind.is_file() => ("file".to_owned(), fs::read(path).ok()),
        () if kind.is_dir() => ("directory".to_owned(), None),
        () if kind.is_symlink() => {
            ("link".to_owned(), fs::read_link(path).ok().map(|target| target.into_os_string().into_vec()))
        }
        () if kind.is_fifo() => ("pipe".to_owned(), None),
        () if kind.is_socket() => ("socket".to_owned(), None),
        () => (format!("device {:x}", found.rdev()), None),
    };
    TreeNode {
        kind: name,
        mode: found.mode() & 0o7777,
        owner: (found.uid(), found.gid()),
        attributes: attributes(path),
        content,
        same_as,
    }
}

/// Reads the extended attributes of a path itself, not of what a link leads to.
fn attributes(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut names = vec![0_u8; 65_536];
    let Ok(length) = rustix::fs::llistxattr(path, &mut names) else { return BTreeMap::new() };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let name = OsString::from_vec(name.to_vec());
        let mut value = vec![0_u8; 65_536];
        let length = rustix::fs::lgetxattr(path, &name, &mut value).ok()?;
        value.truncate(length);
        Some((name, value))
    };
    names.filter_map(value).collect()
}
