//! Finishes interrupted commits, or reverts them if they cannot be finished. Recovery can itself be interrupted.

use uuid::Uuid;

use crate::commit::{abandon_journal, mark_done, remove_leftovers, remove_store_leftovers, roll_back};
use crate::error::Error;
use crate::journal::{Journal, StepContext};
use crate::journal_steps;
use crate::json_files::read_json;
use crate::layers::CopyRoot;
use crate::staging::{TEMP_DIRS_FILE, remove_temp_dirs};
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
    RolledBack,
    /// Others changed these paths meanwhile, so that neither was possible. None of their changes was overwritten.
    Conflicted(Vec<String>),
    /// Its directories cannot be opened any more.
    Unreachable(String),
}

impl CopyStore {
    /// Ends every interrupted commit. Copies that another process has locked are skipped.
    pub fn recover(&self) -> Result<Vec<RecoveryReport>, Error> {
        self.recover_outputs()?;
        let mut all = Vec::new();
        for id in self.ids()? {
            let at = self.entry_path(id);
            if !at.join("journal.json").exists() && !at.join(TEMP_DIRS_FILE).exists() {
                continue;
            }
            let _lock = match self.lock(id) {
                Err(Error::Busy(_)) => continue,
                other => other?,
            };
            // Checks again, because the previous holder of the lock may have finished.
            let journal = read_json::<Journal>(&at.join("journal.json"))?;
            let Some(journal) = journal.filter(|_| !at.join("done.json").exists()) else {
                self.remove_leftovers(id)?;
                continue;
            };
            all.push(RecoveryReport { id, end: self.recover_one(&journal)? });
        }
        Ok(all)
    }

    /// Removes the remains of a commit that has ended or never began.
    fn remove_leftovers(&self, id: Uuid) -> Result<(), Error> {
        let at = self.entry_path(id);
        if let Some(roots) = read_json::<Vec<CopyRoot>>(&at.join(TEMP_DIRS_FILE))?
            && let Ok(ground) = StepContext::open(self, &roots)
        {
            remove_temp_dirs(self, id, &ground, &roots)?;
        }
        if at.join("done.json").exists() { remove_store_leftovers(self, id) } else { Ok(()) }
    }

    fn recover_one(&self, journal: &Journal) -> Result<RecoveryOutcome, Error> {
        let ground = match StepContext::open(self, &journal.roots) {
            Ok(ground) => ground,
            Err(fault) => return Ok(RecoveryOutcome::Unreachable(fault.to_string())),
        };
        if self.entry_path(journal.id).join("abandoned.json").exists() {
            abandon_journal(self, journal, &ground)?;
            return Ok(RecoveryOutcome::RolledBack);
        }
        if journal.steps.iter().all(|step| journal_steps::apply(step, &ground).is_ok()) {
            mark_done(self, journal, &ground)?;
            remove_leftovers(self, journal, &ground)?;
            return Ok(RecoveryOutcome::Finished);
        }
        ground.copies.clear_handles();
        let left = roll_back(journal, journal.steps.len(), &ground);
        if !left.is_empty() {
            return Ok(RecoveryOutcome::Conflicted(left));
        }
        abandon_journal(self, journal, &ground)?;
        Ok(RecoveryOutcome::RolledBack)
    }
}
