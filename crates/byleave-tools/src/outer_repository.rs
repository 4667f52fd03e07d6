//! Finds the repository of a workspace if it lies outside: beside a linked working tree, above a submodule, or above a package.
//!
//! An agent can write in the workspace, so nothing in there decides. A `.git` file counts only if the repository that it names says that
//! this is its working tree: by the back pointer of a linked working tree, or by `core.worktree` of a submodule. A repository above counts
//! only if it tracks files of the workspace. Everything must belong to the owner of the workspace, as Git requires.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use byleave_copy::outer_entries;
use byleave_files::LinkPolicy;
use byleave_gate::core::git_settings::parse_settings;

/// The maximum size of the small files that lead from one directory to the other.
const POINTER_BYTES_MAX: u64 = 1 << 16;
/// The maximum size of the settings.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// The bit of a mode that lets everybody write.
const EVERYBODY_WRITES: u32 = 0o002;
/// The files that Git reads in the directories above the workspace.
const READ_ABOVE: [&str; 2] = [".gitattributes", ".gitignore"];

/// The repository of a workspace that lies outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterRepository {
    /// The top of the working tree: the workspace, or a directory above it.
    pub top: PathBuf,
    /// The directory of the repository, with its references, objects and settings.
    pub directory: PathBuf,
    /// The index of the working tree.
    pub index: PathBuf,
    /// Tracked files above the workspace that Git reads.
    pub read_above: Vec<PathBuf>,
}

impl OuterRepository {
    /// Finds the repository of a workspace. Paths are absolute and resolved. Returns nothing if it is in the workspace, if there is none,
    /// or if it is not certain that it belongs to the workspace.
    pub fn find(workspace: &Path, home: Option<&Path>) -> Option<Self> {
        let top =
            workspace.ancestors().find(|directory| fs::symlink_metadata(directory.join(".git")).is_ok())?;
        // The home directory is never opened by a repository in it or above it.
        if top.parent().is_none() || home.is_some_and(|home| home.starts_with(top)) {
            return None;
        }
        let entry = top.join(".git");
        let kind = fs::symlink_metadata(&entry).ok()?;
        let (directory, own) = match () {
            () if kind.is_dir() && top == workspace => return None,
            () if kind.is_dir() => (entry.clone(), entry.clone()),
            () if kind.is_file() => named_directory(top, &entry)?,
            () => return None,
        };
        let is_apart = !directory.starts_with(workspace)
            && !workspace.starts_with(&directory)
            && own.starts_with(&directory)
            && home.is_none_or(|home| !home.starts_with(&directory));
        let owner = fs::symlink_metadata(workspace).ok()?.uid();
        let is_own = [top, &entry, &directory, &own].into_iter().all(|path| {
            fs::symlink_metadata(path)
                .is_ok_and(|found| found.uid() == owner && found.mode() & EVERYBODY_WRITES == 0)
        });
        // Rules know the settings and hooks of a repository by this name.
        let is_known = directory.to_str().is_some_and(|path| path.split('/').any(|name| name == ".git"));
        if !is_apart || !is_own || !is_known {
            return None;
        }
        let mut found =
            Self { top: top.to_path_buf(), directory, index: own.join("index"), read_above: Vec::new() };
        if let Some(inside) = found.workspace_in_tree(workspace) {
            let index =
                byleave_files::read(&found.index, LinkPolicy::Never, outer_entries::INDEX_BYTES_MAX).ok()?;
            if !outer_entries::tracks_beneath(&index, inside) {
                return None;
            }
            found.read_above = tracked_above(top, workspace, &index, inside)?;
        }
        Some(found)
    }

    /// Checks whether this is the same repository, for the same working tree.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.top, &self.directory, &self.index) == (&other.top, &other.directory, &other.index)
    }

    /// Returns the path of the workspace in the working tree, if the working tree is larger.
    pub fn workspace_in_tree<'a>(&self, workspace: &'a Path) -> Option<&'a str> {
        let inside = workspace.strip_prefix(&self.top).ok()?.to_str()?;
        (!inside.is_empty()).then_some(inside)
    }

    /// Returns the directories from the top to the one above the workspace.
    pub fn directories_above(&self, workspace: &Path) -> Vec<PathBuf> {
        let above = workspace.ancestors().skip(1);
        above.take_while(|directory| directory.starts_with(&self.top)).map(Path::to_path_buf).collect()
    }

    /// Returns the files outside of the workspace that Git reads, besides the repository.
    pub(crate) fn read_files(&self, workspace: &Path) -> Vec<PathBuf> {
        let mut files = self.read_above.clone();
        let link = self.top.join(".git");
        if self.top != workspace && link != self.directory {
            files.push(link);
        }
        files
    }
}

/// Returns the repository that a `.git` file names, and the directory of this working tree in it.
fn named_directory(top: &Path, entry: &Path) -> Option<(PathBuf, PathBuf)> {
    let named = read_pointer(entry)?;
    let own = top.join(named.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    match read_pointer(&own.join("commondir")) {
        Some(common) => {
            let common = own.join(common.trim()).canonicalize().ok()?;
            let back = own.join(read_pointer(&own.join("gitdir"))?.trim());
            // The name of a link is not resolved, because Git writes the path of the file itself.
            let leads_back = back.parent()?.canonicalize().ok()? == top && back.file_name()? == ".git";
            let is_listed = own.parent()? == common.join("worktrees");
            (leads_back && is_listed).then_some((common, own))
        }
        None => {
            let settings =
                byleave_files::read_text(&own.join("config"), LinkPolicy::Never, SETTINGS_BYTES_MAX).ok()?;
            let settings = parse_settings(&settings)?;
            let last = settings.iter().rfind(|setting| setting.key == "core.worktree")?;
            let tree = own.join(last.value.as_ref()?).canonicalize().ok()?;
            let is_module = own.to_str()?.contains("/.git/modules/");
            (is_module && tree == top).then(|| (own.clone(), own))
        }
    }
}

fn read_pointer(path: &Path) -> Option<String> {
    byleave_files::read_text(path, LinkPolicy::Never, POINTER_BYTES_MAX).ok()
}

/// Returns the files with patterns and attributes above the workspace, as far as they are plain files that Git tracks.
fn tracked_above(top: &Path, workspace: &Path, index: &[u8], inside: &str) -> Option<Vec<PathBuf>> {
    let outer = outer_entries::OuterEntries::mark(index, inside)?;
    let names = outer.names().filter_map(|name| std::str::from_utf8(name).ok());
    let is_read = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| READ_ABOVE.contains(&name))
            && path.parent().is_some_and(|above| workspace.starts_with(above))
            && fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
    };
    Some(names.map(|name| top.join(name)).filter(is_read).collect())
}
