//! One copy: its directories, its lock, its mounts, and how it is discarded.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use byleave_core::effect::SESSION_TMP;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dir_handle;
use crate::error::{Error, IoContext as _};
use crate::git_status::TrackedDirectories;
use crate::json_files::{read_json, write_json};
use crate::layers::{self, CopiedDir, CopyMethod, CopyRoot, DirOwner, MountSource};
use crate::scratch::{LayerStack, ScratchScope};
use crate::store::{CopyLock, CopyStore};

/// The directory beneath the layers of the temporary directory.
const EMPTY: &str = "empty";

/// A copy that this process works with. Dropping it leaves the copy in the store.
#[derive(Debug)]
pub struct WorkspaceCopy {
    pub(crate) store: CopyStore,
    pub(crate) path: PathBuf,
    pub(crate) meta: CopyMetadata,
    /// The time by the clock of the filesystem when its paths were adopted.
    pub(crate) ready_ns: i64,
    /// Held until the copy is dropped.
    pub(crate) _lock: CopyLock,
}

/// The data of a copy that is known when it is created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CopyMetadata {
    pub id: Uuid,
    pub roots: Vec<CopyRoot>,
    /// The start time, by the clock of the filesystem.
    pub started_ns: i64,
    pub session: Option<String>,
    pub scratch: Vec<MountedScratch>,
    /// The runs that find its scratch again.
    #[serde(default)]
    pub visibility: ScratchScope,
    /// Files and directories of full copies without their content.
    #[serde(default)]
    pub blank: Vec<String>,
}

/// A scratch directory that has layers of its own in this copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountedScratch {
    pub path: PathBuf,
    pub lowers: Vec<PathBuf>,
    /// See [`LayerStack::granted_generation`].
    #[serde(default)]
    pub generation: u32,
}

/// A scratch directory that the command created. It is not one of the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewScratchDir {
    /// The absolute path.
    pub path: String,
    /// The number of files in it.
    pub files: u64,
    /// The total length of these files.
    pub size: u64,
}

impl CopyStore {
    /// Creates a copy of these directories. The remains of an ended process under this id are removed first.
    pub fn create_copy(
        &self,
        id: Uuid,
        roots: &[PathBuf],
        method: CopyMethod,
    ) -> Result<WorkspaceCopy, Error> {
        let (at, lock) = self.create_entry(id)?;
        let roots =
            roots.iter().map(|path| self.prepare_root(path, method)).collect::<Result<Vec<_>, _>>()?;
        for (number, root) in roots.iter().enumerate() {
            let above = |other: &CopyRoot| Path::new(&root.path).starts_with(&other.path);
            if roots.iter().enumerate().any(|(other, one)| other != number && above(one)) {
                return Err(Error::Root {
                    path: (&root.path).into(),
                    reason: "the directory is inside another copied directory",
                });
            }
        }
        let mut another = false;
        for root in &roots {
            another |= DirOwner::from_path(Path::new(&root.path))?.is_other_user();
        }
        if another {
            for directory in [&self.path, &self.path.join("copies"), &self.path.join("scratch"), &at] {
                fs::set_permissions(directory, Permissions::from_mode(0o711))
                    .context("set the mode of", directory)?;
            }
        }
        let started = self.filesystem_now(&at)?;
        for (number, root) in roots.iter().enumerate() {
            layers::create_layers(&at, number, root, self.settings.max_tree_bytes)?;
        }
        let meta = CopyMetadata {
            id,
            roots,
            started_ns: started,
            session: None,
            scratch: Vec::new(),
            visibility: ScratchScope::default(),
            blank: Vec::new(),
        };
        write_json(&at.join("copy.json"), &meta)?;
        Ok(WorkspaceCopy { store: self.clone(), path: at, meta, ready_ns: 0, _lock: lock })
    }

    /// Opens an existing copy in order to inspect, commit or discard it.
    pub fn reopen(&self, id: Uuid) -> Result<WorkspaceCopy, Error> {
        let at = self.entry_path(id);
        if !at.exists() {
            return Err(self.missing_error(id));
        }
        let lock = self.lock(id)?;
        if at.join("done.json").exists() {
            return Err(Error::Exists(id));
        }
        let meta = read_json(&at.join("copy.json"))?.ok_or(Error::Missing(id))?;
        Ok(WorkspaceCopy { store: self.clone(), path: at, meta, ready_ns: 0, _lock: lock })
    }

    fn prepare_root(&self, path: &Path, method: CopyMethod) -> Result<CopyRoot, Error> {
        let wrong = |why| Error::Root { path: path.to_owned(), reason: why };
        let resolved = path.canonicalize().context("find", path)?;
        if resolved != path {
            return Err(wrong("the path is not resolved"));
        }
        if self.path.starts_with(path) {
            return Err(wrong("the directory contains the store"));
        }
        let metadata = fs::metadata(path).context("inspect", path)?;
        if !metadata.is_dir() {
            return Err(wrong("the path is not a directory"));
        }
        let text = path.to_str().ok_or_else(|| Error::NotText { path: path.to_owned() })?;
        Ok(CopyRoot { path: text.into(), dev: metadata.dev(), ino: metadata.ino(), method })
    }
}

impl WorkspaceCopy {
    /// Returns the id of the copy.
    pub const fn id(&self) -> Uuid {
        self.meta.id
    }

    /// Gives these scratch directories layers of their own, over the layers that the session left. The returned stacks hold the layers:
    /// keep them until the command has ended. Paths outside the copied directories, without a parent directory, or with tracked files are
    /// skipped.
    pub fn with_scratch(&mut self, session: &str, paths: &[PathBuf]) -> Result<Vec<LayerStack>, Error> {
        self.add_scratch(session, paths, ScratchScope::Session)
    }

    /// Does the same for a rehearsal: it also finds the scratch of rehearsals, and only rehearsals find its own.
    pub fn with_rehearsal_scratch(
        &mut self,
        session: &str,
        paths: &[PathBuf],
    ) -> Result<Vec<LayerStack>, Error> {
        self.add_scratch(session, paths, ScratchScope::Rehearsals)
    }

    /// Does the same for existing directories in a directory that is not copied, because the command sees it as it is.
    pub fn with_scratch_alone(&mut self, session: &str, paths: &[PathBuf]) -> Result<Vec<LayerStack>, Error> {
        let existing: Vec<PathBuf> = paths.iter().filter(|path| path.is_dir()).cloned().collect();
        self.add_scratch_beneath(session, &existing, ScratchScope::Session, false)
    }

    /// Gives the run the temporary directory of its session, in the place of [`SESSION_TMP`]. The returned stack holds its layers: keep it
    /// until the command has ended.
    pub fn with_tmp(&mut self, session: &str) -> Result<LayerStack, Error> {
        self.add_tmp(session, ScratchScope::Session)
    }

    /// Does the same for a rehearsal, as [`WorkspaceCopy::with_rehearsal_scratch`].
    pub fn with_rehearsal_tmp(&mut self, session: &str) -> Result<LayerStack, Error> {
        self.add_tmp(session, ScratchScope::Rehearsals)
    }

    fn add_tmp(&mut self, session: &str, kept: ScratchScope) -> Result<LayerStack, Error> {
        let path = PathBuf::from(SESSION_TMP);
        let stack = self.store.scratch(session).open_stack_for(&path, kept)?;
        let like = self.meta.roots.first().map_or(self.path.as_path(), |root| Path::new(&root.path));
        let owner = DirOwner::from_path(like)?;
        let inside = self.path.join(format!("s{}", self.meta.scratch.len()));
        owner.create_dir(&inside, 0o700)?;
        owner.create_dir(&inside.join("upper"), 0o1777)?;
        owner.create_dir(&inside.join("work"), 0o700)?;
        owner.create_dir(&inside.join(EMPTY), 0o755)?;
        self.meta.scratch.push(MountedScratch {
            path,
            lowers: stack.lower_layers(),
            generation: stack.granted_generation(),
        });
        self.meta.session = Some(session.into());
        self.meta.visibility = kept;
        write_json(&self.path.join("copy.json"), &self.meta)?;
        Ok(stack)
    }

    fn add_scratch(
        &mut self,
        session: &str,
        paths: &[PathBuf],
        kept: ScratchScope,
    ) -> Result<Vec<LayerStack>, Error> {
        self.add_scratch_beneath(session, paths, kept, true)
    }

    fn add_scratch_beneath(
        &mut self,
        session: &str,
        paths: &[PathBuf],
        kept: ScratchScope,
        needs_root: bool,
    ) -> Result<Vec<LayerStack>, Error> {
        let scratch = self.store.scratch(session);
        let mut stacks = Vec::new();
        let mut tracked = TrackedDirectories::default();
        for path in paths {
            let root = self.root_for(path);
            if root.is_none() && needs_root {
                continue;
            }
            if tracked.holds_tracked(path) {
                continue;
            }
            let Some(above) = path.parent().filter(|above| above.is_dir()) else { continue };
            let owner = DirOwner::from_path(above)?;
            let stack = scratch.open_stack_for(path, kept)?;
            if !path.exists() {
                // A missing directory cannot be overlaid. If the command creates it, it is found after the command has ended.
                let Some((number, root)) = root else { continue };
                if root.method != CopyMethod::Overlay || stack.lower_layers().is_empty() {
                    continue;
                }
                // The mount needs a mount point. The listing knows that it is not a change.
                self.create_mount_point(number, path, owner)?;
            }
            let inside = self.path.join(format!("s{}", self.meta.scratch.len()));
            owner.create_dir(&inside, 0o700)?;
            owner.create_dir(&inside.join("upper"), 0o755)?;
            owner.create_dir(&inside.join("work"), 0o700)?;
            self.meta.scratch.push(MountedScratch {
                path: path.clone(),
                lowers: stack.lower_layers(),
                generation: stack.granted_generation(),
            });
            stacks.push(stack);
        }
        self.meta.session = Some(session.into());
        self.meta.visibility = kept;
        write_json(&self.path.join("copy.json"), &self.meta)?;
        Ok(stacks)
    }

    /// Returns the mounts: the directories first, then the scratch in them.
    pub fn mounts(&self) -> Vec<CopiedDir> {
        let roots = self.meta.roots.iter().enumerate();
        let mut all: Vec<_> =
            roots.map(|(number, root)| layers::mount_for(&self.path, number, root)).collect();
        for (number, mounted) in self.meta.scratch.iter().enumerate() {
            let inside = self.path.join(format!("s{number}"));
            let mut lowers = mounted.lowers.clone();
            // The real directory is not beneath the layers.
            lowers.extend((mounted.path == Path::new(SESSION_TMP)).then(|| inside.join(EMPTY)));
            let source =
                MountSource::Overlay { lowers, upper: inside.join("upper"), work: inside.join("work") };
            all.push(CopiedDir { root: mounted.path.clone(), source });
        }
        all
    }

    /// Removes the copy with everything that the command did, including its scratch.
    pub fn discard(self) -> Result<(), Error> {
        if self.path.join("journal.json").exists() {
            return Err(Error::Interrupted(self.meta.id));
        }
        dir_handle::remove_path(&self.path).context("remove", &self.path)
    }

    /// Checks whether a path is in the store, where all copies are.
    pub fn is_in_store(&self, path: &Path) -> bool {
        path.starts_with(&self.store.path)
    }

    /// Returns the root that contains a path, and its number.
    pub(crate) fn root_for(&self, path: &Path) -> Option<(usize, &CopyRoot)> {
        let holds = |root: &CopyRoot| path != Path::new(&root.path) && path.starts_with(&root.path);
        self.meta.roots.iter().enumerate().find(|(_, root)| holds(root))
    }

    /// Creates a directory in the upper layer, with the directories above it as they are below.
    fn create_mount_point(&self, number: usize, path: &Path, owner: DirOwner) -> Result<(), Error> {
        let Some(root) = self.meta.roots.get(number) else { return Ok(()) };
        let upper = self.path.join(layers::changes_path(root.method, number));
        let Ok(inside) = path.strip_prefix(&root.path) else { return Ok(()) };
        let mut below = PathBuf::from(&root.path);
        let mut at = upper;
        for name in inside.components() {
            below.push(name);
            at.push(name);
            if !at.exists() {
                match DirOwner::from_path(&below) {
                    Ok(like) => like.create_dir(&at, like.mode())?,
                    Err(_) => owner.create_dir(&at, 0o755)?,
                }
            }
        }
        Ok(())
    }
}
