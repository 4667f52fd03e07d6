//! Recovery: commits that were interrupted are finished, or taken back where that is not possible. Can itself be interrupted.

use uuid::Uuid;

use crate::commit::{abandon, clear, finish, take_back, tidy_up};
use crate::error::Error;
use crate::journal::{Journal, StepContext};
use crate::journal_steps;
use crate::json_files::read_json;
use crate::layers::CopyRoot;
use crate::staging::{OUTPOSTS, leave};
use crate::store::CopyStore;

/// What became of a commit that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Which.
    pub id: Uuid,
    /// How it ended.
    pub end: RecoveryOutcome,
}

/// How an interrupted commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// It is committed.
    Finished,
    /// Nothing of it remains; a copy waits again.
    TakenBack,
    /// Somebody else changed these meanwhile, so that neither was possible. Nothing of theirs was overwritten.
    Stuck(Vec<String>),
    /// Its directories cannot be opened any more.
    Lost(String),
}

impl CopyStore {
    /// Ends every commit that was interrupted. What another process works with is left to it.
    pub fn recover(&self) -> Result<Vec<RecoveryReport>, Error> {
        let mut all = Vec::new();
        for id in self.ids()? {
            let at = self.directory(id);
            if !at.join("journal.json").exists() && !at.join(OUTPOSTS).exists() {
                continue;
            }
            let _lock = match self.lock(id) {
                Err(Error::Busy(_)) => continue,
                other => other?,
            };
            // Asked again: whoever had the lock may have finished.
            let journal = read_json::<Journal>(&at.join("journal.json"))?;
            let Some(journal) = journal.filter(|_| !at.join("done.json").exists()) else {
                self.clear(id)?;
                continue;
            };
            all.push(RecoveryReport { id, end: self.end(&journal)? });
        }
        Ok(all)
    }

    /// Removes what a commit that has ended, or never began, left behind.
    fn clear(&self, id: Uuid) -> Result<(), Error> {
        let at = self.directory(id);
        if let Some(roots) = read_json::<Vec<CopyRoot>>(&at.join(OUTPOSTS))?
            && let Ok(ground) = StepContext::open(self, &roots)
        {
            leave(self, id, &ground, &roots)?;
        }
        if at.join("done.json").exists() { tidy_up(self, id) } else { Ok(()) }
    }

    fn end(&self, journal: &Journal) -> Result<RecoveryOutcome, Error> {
        let ground = match StepContext::open(self, &journal.roots) {
            Ok(ground) => ground,
            Err(fault) => return Ok(RecoveryOutcome::Lost(fault.to_string())),
        };
        if self.directory(journal.id).join("abandoned.json").exists() {
            abandon(self, journal, &ground)?;
            return Ok(RecoveryOutcome::TakenBack);
        }
        if journal.steps.iter().all(|step| journal_steps::forward(step, &ground).is_ok()) {
            finish(self, journal, &ground)?;
            clear(self, journal, &ground)?;
            return Ok(RecoveryOutcome::Finished);
        }
        ground.copies.forget();
        let left = take_back(journal, journal.steps.len(), &ground);
        if !left.is_empty() {
            return Ok(RecoveryOutcome::Stuck(left));
        }
        abandon(self, journal, &ground)?;
        Ok(RecoveryOutcome::TakenBack)
    }
}
