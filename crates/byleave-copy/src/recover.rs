//! Finishes interrupted commits, or reverts them if they cannot be finished. Recovery can itself be interrupted.

use uuid::Uuid;

use crate::commit::{abandon, clear, finish, take_back, tidy_up};
use crate::error::Error;
use crate::journal::{Journal, StepContext};
use crate::journal_steps;
use crate::json_files::read_json;
use crate::layers::CopyRoot;
use crate::staging::{OUTPOSTS, leave};
use crate::store::CopyStore;

/// The outcome of the recovery of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The id of the commit.
    pub id: Uuid,
    /// The outcome.
    pub end: RecoveryOutcome,
}

/// The ways in which an interrupted commit can end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// The commit is complete.
    Finished,
    /// The commit was reverted completely. A copy is open again.
    TakenBack,
    /// Others changed these paths meanwhile, so that neither was possible. None of their changes was overwritten.
    Stuck(Vec<String>),
    /// Its directories cannot be opened any more.
    Lost(String),
}

impl CopyStore {
    /// Ends every interrupted commit. Copies that another process has locked are skipped.
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
            // Checks again, because the previous holder of the lock may have finished.
            let journal = read_json::<Journal>(&at.join("journal.json"))?;
            let Some(journal) = journal.filter(|_| !at.join("done.json").exists()) else {
                self.clear(id)?;
                continue;
            };
            all.push(RecoveryReport { id, end: self.end(&journal)? });
        }
        Ok(all)
    }

    /// Removes the remains of a commit that has ended or never began.
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
