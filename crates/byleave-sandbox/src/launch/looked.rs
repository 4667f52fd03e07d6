//! Looking before a command and after it: what it must not see or change is found, and what it planted.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::LaunchError;
use crate::confinement::{Asked, Confinement, Files};
use crate::index::{AnyIndex, Index, Marked, Marker};
use crate::tripwire::{self, Tripwire};

/// The index of what a command may touch, made by this.
pub(super) fn index(
    files: &Files,
    make: fn(Vec<PathBuf>, Option<Arc<dyn Marker + Send + Sync>>) -> AnyIndex,
) -> AnyIndex {
    let mut roots = files.writable.clone();
    roots.extend(files.asked.iter().flat_map(|asked| asked.roots.iter().cloned()));
    roots.sort();
    // What lies in another is looked through with it.
    roots.dedup_by(|inner, outer| inner.starts_with(outer));
    make(roots, files.asked.as_ref().map(|asked| Arc::clone(&asked.marker)))
}

/// What was found in the directories of one confinement after the other, kept warm: as long as they are the same, and the same must
/// not be seen or changed in them, only what has changed is looked at again. For commands that are started by themselves; a session
/// has its own. Watches every directory as long as it lives.
#[derive(Debug, Default)]
pub struct Warm {
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    writable: Vec<PathBuf>,
    asked: Option<Asked>,
    index: Arc<Mutex<AnyIndex>>,
}

impl Warm {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn index(&self, files: &Files) -> Arc<Mutex<AnyIndex>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.is_of(files)) {
            return Arc::clone(&known.index);
        }
        let index = Arc::new(Mutex::new(index(files, Index::new)));
        let (writable, asked) = (files.writable.clone(), files.asked.clone());
        *known = Some(Known { writable, asked, index: Arc::clone(&index) });
        index
    }
}

impl Known {
    fn is_of(&self, files: &Files) -> bool {
        let same_asked = match (&self.asked, &files.asked) {
            (None, None) => true,
            (Some(known), Some(asked)) => {
                known.roots == asked.roots && (known == asked || known.marker.agrees_with(&*asked.marker))
            }
            _ => false,
        };
        self.writable == files.writable && same_asked
    }
}

/// For one command: its confinement with all that has to be hidden or held, and the tripwire for what it plants.
pub(super) fn once(
    confinement: &Confinement,
    warm: Option<&Warm>,
) -> Result<(Confinement, Tripwire), LaunchError> {
    let files = &confinement.files;
    let marker = files.asked.as_ref().map(|asked| &asked.marker);
    let earlier = match &files.unfinished {
        Some(directory) => tripwire::settle(directory, &files.writable, marker)?,
        None => Vec::new(),
    };
    // Kept warm where somebody is asked: afterwards only what has changed is asked about again. On a copy nobody looks afterwards.
    let make = if files.asked.is_some() && files.copied.is_empty() { Index::new } else { Index::cold };
    let looked = warm.map_or_else(|| Arc::new(Mutex::new(index(files, make))), |warm| warm.index(files));
    let marked = looked.lock().unwrap_or_else(PoisonError::into_inner).marked()?;
    let marked = with_marked(confinement, &marked);
    let written = files.written_for_real();
    // In what there is a copy of, whatever is new is somebody else's.
    let looked = match files.copied.is_empty() {
        true => looked,
        false => Arc::new(Mutex::new(Index::cold(written.clone(), marker.cloned()))),
    };
    let tripwire = Tripwire::on(&looked)?.after(earlier);
    let tripwire = match &files.unfinished {
        Some(directory) if !written.is_empty() => tripwire.noted_in(directory)?,
        _ => tripwire,
    };
    Ok((marked, tripwire))
}

/// A confinement with what was marked besides.
pub(super) fn with_marked(confinement: &Confinement, marked: &Marked) -> Confinement {
    let mut confinement = confinement.clone();
    // A symbolic link is no content: what it leads to is marked by its own path.
    let is_link = |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    for (to, from) in [
        (&mut confinement.files.hidden, &marked.hidden),
        (&mut confinement.files.protected, &marked.protected),
    ] {
        to.extend(from.iter().filter(|path| !is_link(path)).cloned());
        to.sort();
        to.dedup();
    }
    confinement
}
