//! A workspace and a store next to it. Runs commands on a copy that is mounted as in the sandbox, and
//! compares trees.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use byleave_copy::{CopiedDir, CopyMethod, CopySettings, CopyStore, MountSource, WorkspaceCopy};
use byleave_core::digest::Digest;
use byleave_core::file_change::FileChanges;
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) struct CopyFixture {
    _folders: Vec<TempDir>,
    pub(crate) root: PathBuf,
    pub(crate) store: CopyStore,
}

impl CopyFixture {
    pub(crate) fn new() -> Self {
        Self::with(CopySettings::default())
    }

    pub(crate) fn with(settings: CopySettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        let root = at.join("w");
        fs::create_dir(&root).unwrap();
        let store = CopyStore::open(&at.join("store"), settings).unwrap();
        Self { _folders: vec![folder], root, store }
    }

    /// Creates the store on another filesystem than the workspace.
    pub(crate) fn apart() -> Self {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let root = folder.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        let store = CopyStore::open(&elsewhere.path().join("store"), CopySettings::default()).unwrap();
        Self { _folders: vec![folder, elsewhere], root, store }
    }

    /// Runs a script in the workspace itself.
    pub(crate) fn directly(&self, script: &str) {
        directly(&self.root, script);
    }

    /// Runs a script on a copy.
    pub(crate) fn on_copy(&self, script: &str) -> WorkspaceCopy {
        self.on_copy_by(CopyMethod::Overlay, script)
    }

    pub(crate) fn on_copy_by(&self, method: CopyMethod, script: &str) -> WorkspaceCopy {
        let copy = self.store.create_copy(Uuid::new_v4(), std::slice::from_ref(&self.root), method).unwrap();
        mounted(&copy.mounts(), &self.root, script);
        copy
    }

    /// Runs a script on a copy and commits everything.
    pub(crate) fn commit(&self, script: &str) -> (Uuid, FileChanges) {
        let copy = self.on_copy(script);
        let changes = copy.changes().unwrap();
        let committed = copy.commit(&changes).unwrap_or_else(|fault| panic!("{script}: {fault}"));
        (committed.id, changes)
    }

    pub(crate) fn path(&self, inside: &str) -> String {
        self.root.join(inside).to_str().unwrap().to_owned()
    }

    /// Formats the changes as kind and path, in the order of the list.
    pub(crate) fn short(&self, changes: &FileChanges) -> Vec<String> {
        let root = format!("{}/", self.root.display());
        let inside = |path: &str| path.strip_prefix(&root).unwrap_or(".").to_owned();
        changes.list.iter().map(|change| format!("{} {}", change.kind(), inside(&change.path))).collect()
    }
}

pub(crate) fn directly(root: &Path, script: &str) {
    let status =
        Command::new("sh").arg("-c").arg(script).current_dir(root).env("LC_ALL", "C").output().unwrap();
    assert!(status.status.success(), "{script}: {}", String::from_utf8_lossy(&status.stderr));
}

/// Runs a script in its own mount namespace, in which the copies are mounted over the originals.
pub(crate) fn mounted(copies: &[CopiedDir], root: &Path, script: &str) {
    let mut whole = String::from("set -e\n");
    for CopiedDir { root, source } in copies {
        let root = root.display();
        match source {
            MountSource::Overlay { lowers, upper, work } => {
                let lowers: String = lowers.iter().map(|lower| format!("{}:", lower.display())).collect();
                writeln!(
                    whole,
                    "mount -t overlay overlay -o 'lowerdir={lowers}{root},upperdir={},workdir={},userxattr,volatile' '{root}'",
                    upper.display(),
                    work.display()
                )
                .unwrap();
            }
            MountSource::Tree { path: at } => {
                writeln!(whole, "mount --bind '{}' '{root}'", at.display()).unwrap()
            }
        }
    }
    writeln!(whole, "set +e\ncd '{}'\n{script}", root.display()).unwrap();
    let mut command = Command::new("unshare");
    command.arg(if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" });
    let output = command.args(["sh", "-c", &whole]).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Everything observable about a tree, by path.
pub(crate) type TreeSnapshot = BTreeMap<String, TreeEntry>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    pub(crate) what: String,
    pub(crate) mode: u32,
    /// Only of files.
    pub(crate) modified: i128,
    /// The first path that is the same file.
    pub(crate) first: String,
}

pub(crate) fn tree(root: &Path) -> TreeSnapshot {
    let mut all = TreeSnapshot::new();
    let mut first = BTreeMap::new();
    look(root, root, &mut all, &mut first);
    all
}

fn look(root: &Path, at: &Path, all: &mut TreeSnapshot, first: &mut BTreeMap<u64, String>) {
    let metadata = fs::symlink_metadata(at).unwrap();
    let path = at.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    let kind = metadata.file_type();
    let mut modified = 0;
    let what = if kind.is_dir() {
        "directory".into()
    } else if kind.is_symlink() {
        format!("link to {}", fs::read_link(at).unwrap().display())
    } else if kind.is_file() {
        modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        format!("file {}", Digest::compute(&fs::read(at).unwrap()))
    } else if kind.is_fifo() {
        "pipe".into()
    } else {
        "special".into()
    };
    let mode = if kind.is_symlink() { 0 } else { metadata.mode() & 0o7777 };
    let names = first.entry(metadata.ino()).or_insert_with(|| path.clone()).clone();
    all.insert(path, TreeEntry { what, mode, modified, first: names });
    if kind.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
        inside.sort();
        for path in inside {
            look(root, &path, all, first);
        }
    }
}

/// The first few differences between two trees.
pub(crate) fn differences(one: &TreeSnapshot, other: &TreeSnapshot) -> Vec<String> {
    let paths: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    paths
        .into_iter()
        .filter(|path| one.get(*path) != other.get(*path))
        .map(|path| format!("{path}: {:?} / {:?}", one.get(path), other.get(path)))
        .take(10)
        .collect()
}

pub(crate) fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A pseudo-random generator that gives the same sequence for the same seed.
pub(crate) struct SeededRng(pub(crate) u64);

impl SeededRng {
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.roll(all.len())]
    }
}
