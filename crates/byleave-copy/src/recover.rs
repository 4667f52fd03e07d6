//! Recovery: commits that were interrupted are finished, or taken back where that is not possible. Can itself be interrupted.

use uuid::Uuid;

use crate::commit::{abandon, clear, finish, take_back, tidy_up};
use crate::fault::Fault;
use crate::files::read_json;
use crate::journal::{Ground, Journal};
use crate::layers::Root;
use crate::staging::{OUTPOSTS, leave};
use crate::steps;
use crate::store::Store;

/// What became of a commit that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Which.
    pub id: Uuid,
    /// How it ended.
    pub end: End,
}

/// How an interrupted commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is committed.
    Finished,
    /// Nothing of it remains; a copy waits again.
    TakenBack,
    /// Somebody else changed these meanwhile, so that neither was possible. Nothing of theirs was overwritten.
    Stuck(Vec<String>),
    /// Its directories cannot be opened any more.
    Lost(String),
}

impl Store {
    /// Ends every commit that was interrupted. What another process works with is left to it.
    pub fn recover(&self) -> Result<Vec<Recovered>, Fault> {
        let mut all = Vec::new();
        for id in self.ids()? {
            let at = self.directory(id);
            if !at.join("journal.json").exists() && !at.join(OUTPOSTS).exists() {
                continue;
            }
            let _lock = match self.lock(id) {
                Err(Fault::Busy(_)) => continue,
                other => other?,
            };
            // Asked again: whoever had the lock may have finished.
            let journal = read_json::<Journal>(&at.join("journal.json"))?;
            let Some(journal) = journal.filter(|_| !at.join("done.json").exists()) else {
                self.clear(id)?;
                continue;
            };
            all.push(Recovered { id, end: self.end(&journal)? });
        }
        Ok(all)
    }

    /// Removes what a commit that has ended, or never began, left behind.
    fn clear(&self, id: Uuid) -> Result<(), Fault> {
        let at = self.directory(id);
        if let Some(roots) = read_json::<Vec<Root>>(&at.join(OUTPOSTS))?
            && let Ok(ground) = Ground::open(self, &roots)
        {
            leave(self, id, &ground, &roots)?;
        }
        if at.join("done.json").exists() { tidy_up(self, id) } else { Ok(()) }
    }

    fn end(&self, journal: &Journal) -> Result<End, Fault> {
        let ground = match Ground::open(self, &journal.roots) {
            Ok(ground) => ground,
            Err(fault) => return Ok(End::Lost(fault.to_string())),
        };
        if self.directory(journal.id).join("abandoned.json").exists() {
            abandon(self, journal, &ground)?;
            return Ok(End::TakenBack);
        }
        if journal.steps.iter().all(|step| steps::forward(step, &ground).is_ok()) {
            finish(self, journal, &ground)?;
            clear(self, journal, &ground)?;
            return Ok(End::Finished);
        }
        ground.copies.forget();
        let left = take_back(journal, journal.steps.len(), &ground);
        if !left.is_empty() {
            return Ok(End::Stuck(left));
        }
        abandon(self, journal, &ground)?;
        Ok(End::TakenBack)
    }
}
