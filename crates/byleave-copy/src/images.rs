//! Before-images: where in the store each path of a commit is as it was.

use std::collections::HashMap;
use std::path::PathBuf;

use byleave_core::change::Changes;
use uuid::Uuid;

use crate::check;
use crate::disk::Beneath;
use crate::fault::{At as _, Fault};
use crate::files::read_json;
use crate::journal::{Act, Done, Journal};
use crate::listing;
use crate::paths::ancestors;
use crate::read::Reader;
use crate::store::{State, Store};

/// A commit that has ended, as the store knows it.
pub(crate) struct Ended {
    pub journal: Journal,
    pub done: Done,
    pub changes: Changes,
}

impl Ended {
    /// By the absolute path: where it is in the store, beneath the copies.
    pub(crate) fn images(&self) -> HashMap<String, String> {
        let mut images = HashMap::new();
        for step in &self.journal.steps {
            let (Act::Take { keep, .. } | Act::Swap { keep, .. }) = &step.act else { continue };
            images.insert(self.journal.path(step), keep.settled(self.journal.id).path);
        }
        images
    }
}

/// Where a path is as it was: an image of its own, or in that of a directory above it.
pub(crate) fn image(images: &HashMap<String, String>, path: &str) -> Option<String> {
    if let Some(own) = images.get(path) {
        return Some(own.clone());
    }
    let above = ancestors(path).find(|above| images.contains_key(*above))?;
    let rest = path.strip_prefix(above)?;
    Some(format!("{}{rest}", images.get(above)?))
}

impl Store {
    /// The changes of a copy, whether it waits or is committed, with the diffs that can still be made.
    pub fn changes(&self, id: Uuid) -> Result<Changes, Fault> {
        if self.state(id)? == State::Open {
            let listing: Option<listing::Listing> = read_json(&self.directory(id).join("listing.json"))?;
            return Ok(listing.ok_or(Fault::Missing(id))?.changes());
        }
        let mut ended = self.ended(id)?;
        let images = ended.images();
        let copies = self.at.join("copies");
        let root = PathBuf::from("/");
        let disk = Beneath::open(&root).at("open", &root)?;
        let mut reader = Reader::new();
        for change in ended.changes.list.iter_mut().filter(|change| change.diff.is_none()) {
            let at = image(&images, &change.path).unwrap_or_default();
            if at.is_empty() && change.before.is_some() {
                continue;
            }
            // Only what is still as the commit left it can be compared.
            let path = change.path.trim_start_matches('/');
            if change.after.is_some() && !check::is_as_left(&disk, change, ended.done.at, &mut reader)? {
                continue;
            }
            change.diff = listing::shown(change, (&copies, &at), (&root, path))?;
        }
        Ok(ended.changes)
    }

    /// A commit that has ended.
    pub(crate) fn ended(&self, id: Uuid) -> Result<Ended, Fault> {
        let at = self.directory(id);
        match self.state(id)? {
            State::Missing | State::Dropped { .. } => return Err(self.missing(id)),
            State::Open => return Err(Fault::Uncommitted(id)),
            State::Interrupted => return Err(Fault::Interrupted(id)),
            State::Committed | State::Undone { .. } => {}
        }
        let missing = || Fault::Missing(id);
        Ok(Ended {
            journal: read_json(&at.join("journal.json"))?.ok_or_else(missing)?,
            done: read_json(&at.join("done.json"))?.ok_or_else(missing)?,
            changes: read_json(&at.join("changes.json"))?.ok_or_else(missing)?,
        })
    }
}
