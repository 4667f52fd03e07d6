//! One copy: its directories, its lock, what is mounted where; and its end, if nobody wants it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dir_handle;
use crate::error::{Error, IoContext as _};
use crate::json_files::{read_json, write_json};
use crate::layers::{self, CopiedDir, CopyMethod, CopyRoot, DirOwner, MountSource};
use crate::scratch::{LayerStack, ScratchScope};
use crate::store::{CopyLock, CopyStore};

/// A copy that this process works with. Dropped, it stays in the store for later.
#[derive(Debug)]
pub struct WorkspaceCopy {
    pub(crate) store: CopyStore,
    pub(crate) at: PathBuf,
    pub(crate) meta: CopyMetadata,
    /// Held until the copy is dropped.
    pub(crate) _lock: CopyLock,
}

/// What is known of a copy from its beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CopyMetadata {
    pub id: Uuid,
    pub roots: Vec<CopyRoot>,
    /// When it began, by the clock of the filesystem.
    pub started: i64,
    pub session: Option<String>,
    pub scratch: Vec<MountedScratch>,
    /// Who finds its scratch again.
    #[serde(default)]
    pub kept: ScratchScope,
}

/// A scratch directory that has layers of its own in this copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountedScratch {
    pub path: PathBuf,
    pub lowers: Vec<PathBuf>,
}

/// A scratch directory that the command made: it is not one of the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewScratchDir {
    /// Where.
    pub path: String,
    /// How many files are in it.
    pub files: u64,
    /// How long they are together.
    pub bytes: u64,
}

impl CopyStore {
    /// Makes a copy of these directories. What an ended process left under this name is removed first.
    pub fn copy(&self, id: Uuid, roots: &[PathBuf], method: CopyMethod) -> Result<WorkspaceCopy, Error> {
        let (at, lock) = self.begin(id)?;
        let roots = roots.iter().map(|path| self.root(path, method)).collect::<Result<Vec<_>, _>>()?;
        for (number, root) in roots.iter().enumerate() {
            let above = |other: &CopyRoot| Path::new(&root.path).starts_with(&other.path);
            if roots.iter().enumerate().any(|(other, one)| other != number && above(one)) {
                return Err(Error::Root {
                    path: (&root.path).into(),
                    why: "it lies in another that is copied",
                });
            }
        }
        let mut another = false;
        for root in &roots {
            another |= DirOwner::of(Path::new(&root.path))?.is_another();
        }
        if another {
            for directory in [&self.at, &self.at.join("copies"), &self.at.join("scratch"), &at] {
                fs::set_permissions(directory, Permissions::from_mode(0o711))
                    .at("set the mode of", directory)?;
            }
        }
        let started = self.now(&at)?;
        for (number, root) in roots.iter().enumerate() {
            layers::make(&at, number, root, self.settings.tree_bytes_max)?;
        }
        let meta = CopyMetadata {
            id,
            roots,
            started,
            session: None,
            scratch: Vec::new(),
            kept: ScratchScope::default(),
        };
        write_json(&at.join("copy.json"), &meta)?;
        Ok(WorkspaceCopy { store: self.clone(), at, meta, _lock: lock })
    }

    /// Opens a copy that was made before, to look at it, commit it or discard it.
    pub fn reopen(&self, id: Uuid) -> Result<WorkspaceCopy, Error> {
        let at = self.directory(id);
        if !at.exists() {
            return Err(self.missing(id));
        }
        let lock = self.lock(id)?;
        if at.join("done.json").exists() {
            return Err(Error::Exists(id));
        }
        let meta = read_json(&at.join("copy.json"))?.ok_or(Error::Missing(id))?;
        Ok(WorkspaceCopy { store: self.clone(), at, meta, _lock: lock })
    }

    fn root(&self, path: &Path, method: CopyMethod) -> Result<CopyRoot, Error> {
        let wrong = |why| Error::Root { path: path.to_owned(), why };
        let resolved = path.canonicalize().at("find", path)?;
        if resolved != path {
            return Err(wrong("it is not the resolved path"));
        }
        if self.at.starts_with(path) {
            return Err(wrong("the store lies in it"));
        }
        let metadata = fs::metadata(path).at("look at", path)?;
        if !metadata.is_dir() {
            return Err(wrong("it is not a directory"));
        }
        let text = path.to_str().ok_or_else(|| Error::NotText { path: path.to_owned() })?;
        Ok(CopyRoot { path: text.into(), dev: metadata.dev(), ino: metadata.ino(), method })
    }
}

impl WorkspaceCopy {
    /// Its name.
    pub const fn id(&self) -> Uuid {
        self.meta.id
    }

    /// Gives these scratch directories layers of their own, over those that the session left. Held by the stacks: keep them
    /// until the command has ended. A path that is in none of the copied directories, or has no directory to lie in, is left out.
    pub fn with_scratch(&mut self, session: &str, paths: &[PathBuf]) -> Result<Vec<LayerStack>, Error> {
        self.scratch_for(session, paths, ScratchScope::ForAll)
    }

    /// The same for a rehearsal: it finds what rehearsals left as well, and what it leaves only they find.
    pub fn with_rehearsed_scratch(
        &mut self,
        session: &str,
        paths: &[PathBuf],
    ) -> Result<Vec<LayerStack>, Error> {
        self.scratch_for(session, paths, ScratchScope::ForRehearsals)
    }

    fn scratch_for(
        &mut self,
        session: &str,
        paths: &[PathBuf],
        kept: ScratchScope,
    ) -> Result<Vec<LayerStack>, Error> {
        let scratch = self.store.scratch(session);
        let mut stacks = Vec::new();
        for path in paths {
            let Some((number, root)) = self.root_of(path) else { continue };
            let Some(above) = path.parent().filter(|above| above.is_dir()) else { continue };
            let owner = DirOwner::of(above)?;
            let stack = scratch.stack_for(path, kept)?;
            if !path.exists() {
                // Of nothing there is no overlay: if the command makes it, that is found when it has ended.
                if root.method != CopyMethod::Overlay || stack.lowers().is_empty() {
                    continue;
                }
                // There must be something to mount on; a listing knows that it is not a change.
                self.mount_point(number, path, owner)?;
            }
            let inside = self.at.join(format!("s{}", self.meta.scratch.len()));
            owner.make(&inside, 0o700)?;
            owner.make(&inside.join("upper"), 0o755)?;
            owner.make(&inside.join("work"), 0o700)?;
            self.meta.scratch.push(MountedScratch { path: path.clone(), lowers: stack.lowers() });
            stacks.push(stack);
        }
        self.meta.session = Some(session.into());
        self.meta.kept = kept;
        write_json(&self.at.join("copy.json"), &self.meta)?;
        Ok(stacks)
    }

    /// What is to be mounted where: the directories first, then the scratch in them.
    pub fn copied(&self) -> Vec<CopiedDir> {
        let roots = self.meta.roots.iter().enumerate();
        let mut all: Vec<_> = roots.map(|(number, root)| layers::copied(&self.at, number, root)).collect();
        for (number, mounted) in self.meta.scratch.iter().enumerate() {
            let inside = self.at.join(format!("s{number}"));
            let source = MountSource::Overlay {
                lowers: mounted.lowers.clone(),
                upper: inside.join("upper"),
                work: inside.join("work"),
            };
            all.push(CopiedDir { root: mounted.path.clone(), source });
        }
        all
    }

    /// Removes it: nothing of what the command did remains, its scratch included.
    pub fn discard(self) -> Result<(), Error> {
        if self.at.join("journal.json").exists() {
            return Err(Error::Interrupted(self.meta.id));
        }
        dir_handle::remove_path(&self.at).at("remove", &self.at)
    }

    /// The directory that a path lies in, and its number.
    pub(crate) fn root_of(&self, path: &Path) -> Option<(usize, &CopyRoot)> {
        let holds = |root: &CopyRoot| path != Path::new(&root.path) && path.starts_with(&root.path);
        self.meta.roots.iter().enumerate().find(|(_, root)| holds(root))
    }

    /// Makes a directory in the upper layer, with those above it as they are below.
    fn mount_point(&self, number: usize, path: &Path, owner: DirOwner) -> Result<(), Error> {
        let Some(root) = self.meta.roots.get(number) else { return Ok(()) };
        let upper = self.at.join(layers::changed(root.method, number));
        let Ok(inside) = path.strip_prefix(&root.path) else { return Ok(()) };
        let mut below = PathBuf::from(&root.path);
        let mut at = upper;
        for name in inside.components() {
            below.push(name);
            at.push(name);
            if !at.exists() {
                match DirOwner::of(&below) {
                    Ok(like) => like.make(&at, like.mode())?,
                    Err(_) => owner.make(&at, 0o755)?,
                }
            }
        }
        Ok(())
    }
}
