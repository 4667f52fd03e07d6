//! The tripwire: what a command left in its workspace for somebody else to run later, found and put out of action.
//!
//! What exists can be protected by a mount; what does not exist yet cannot. So the places where editors, shells and git look for
//! something to run are listed before a command, and what is new there afterwards gets a name under which nothing runs it. It
//! follows no symbolic link, and deletes nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Access, CWD, Mode, OFlags, RenameFlags, ResolveFlags, access, openat2, renameat_with};
use rustix::io::Errno;

use crate::index::{AnyIndex, MarkFault, Places};

const QUARANTINED: &str = "quarantined";

/// The list of what was there before a command.
#[derive(Clone, Debug)]
pub struct Tripwire {
    index: Arc<Mutex<AnyIndex>>,
    before: Arc<Places>,
    unseen: BTreeMap<PathBuf, io::ErrorKind>,
}

/// Something that was planted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Where it was.
    pub path: PathBuf,
    /// Where it is now.
    pub quarantined: PathBuf,
}

/// Why it is not known what was planted, or something that was is still where it was.
#[derive(Debug, thiserror::Error)]
pub enum TripFault {
    /// The workspace cannot be looked through.
    #[error("cannot look for what was planted: {0}")]
    Unseen(#[from] MarkFault),
    /// Something cannot be put out of action.
    #[error("cannot put `{path}` out of action, which was planted to be run later: {error}; look at it and remove it", path = path.display())]
    InAction {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl Tripwire {
    /// Lists what an index has.
    pub fn on(index: &Arc<Mutex<AnyIndex>>) -> Result<Self, TripFault> {
        let mut looked = index.lock().unwrap_or_else(PoisonError::into_inner);
        let before = looked.places()?;
        Ok(Self { index: Arc::clone(index), before, unseen: looked.unseen() })
    }

    /// Puts what is new out of action, and says what it was. While several commands run, it is not told whose it was.
    pub fn spring(&self) -> Result<Vec<Planted>, TripFault> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let after = index.places()?;
        // As long as nothing has changed, it is the same list.
        if Arc::ptr_eq(&after, &self.before) {
            return Ok(Vec::new());
        }
        let mut planted: Vec<Planted> = Vec::new();
        let mut in_action = None;
        // A link that leads elsewhere than before is as good as a new one.
        for (path, _) in after.iter().filter(|(path, leads_to)| self.before.get(*path) != Some(leads_to)) {
            // What lies in something that was moved went with it.
            if planted.iter().any(|above| path.starts_with(&above.path)) {
                continue;
            }
            match quarantine(path) {
                Ok(Some(quarantined)) => planted.push(Planted { path: path.clone(), quarantined }),
                // Another command's tripwire was quicker.
                Ok(None) => {}
                // The others are put out of action all the same.
                Err(error) => {
                    in_action = in_action.or(Some(TripFault::InAction { path: path.clone(), error }))
                }
            }
        }
        if let Some(fault) = in_action {
            return Err(fault);
        }
        // What could be looked into before and cannot any more was made so by a command. One that cannot be entered either is of no
        // use to anybody, and when it is opened again what is in it is new.
        let is_open = |path: &Path| access(path, Access::EXEC_OK) != Err(Errno::ACCESS);
        let mut unseen = index.unseen().into_iter();
        match unseen.find(|(path, _)| !self.unseen.contains_key(path) && is_open(path)) {
            Some((path, kind)) => Err(MarkFault::Unreadable { path, error: kind.into() }.into()),
            None => Ok(planted),
        }
    }
}

/// Renames within the directory, which is opened without following any link: another command may be moving things about.
fn quarantine(path: &Path) -> io::Result<Option<PathBuf>> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = match openat2(CWD, above, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    for number in 0..1000 {
        let mut to = name.to_os_string();
        to.push(format!(".{QUARANTINED}-{number}"));
        match renameat_with(&above, name, &above, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(Some(path.with_file_name(to))),
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many of them already"))
}
