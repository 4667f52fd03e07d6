//! Forgetting: what is old, and the oldest of what is too much. What was forgotten is said, now and to whoever asks for it later.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use uuid::Uuid;

use crate::dir_handle;
use crate::error::{Error, IoContext as _};
use crate::journal::CommitCompletion;
use crate::json_files::{names, read_json, write_json_durably};
use crate::store::{CopyState, CopyStore, Tombstone};

/// What was forgotten, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// What was forgotten, oldest first.
    pub dropped: Vec<DroppedCopy>,
    /// How much the store still holds, scratch included.
    pub kept_bytes: u64,
}

/// One that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedCopy {
    /// Which.
    pub id: Uuid,
    /// How much it held.
    pub bytes: u64,
    /// Why, in words.
    pub why: String,
}

struct RetainedCopy {
    id: Uuid,
    since: SystemTime,
    bytes: u64,
    is_committed: bool,
}

impl CopyStore {
    /// Forgets what is older than the settings say, and the oldest beyond the quota. Never what somebody works with, and never a
    /// commit that was interrupted.
    pub fn tidy(&self, now: SystemTime) -> Result<GcReport, Error> {
        let mut all = Vec::new();
        for id in self.ids()? {
            all.extend(self.held(id)?);
        }
        all.sort_by_key(|held| held.since);
        let mut dropped = Vec::new();
        let held_bytes = all.iter().map(|held| held.bytes).sum::<u64>();
        // Scratch first, which can be made again: whoever fills it must not be able to drive out what was there before a commit.
        let scratch_max = self.settings.quota_bytes.saturating_sub(held_bytes);
        let mut total = self.tidy_scratch(now, scratch_max)? + held_bytes;
        for held in all {
            let age = now.duration_since(held.since).unwrap_or_default();
            let Some(why) = self.why(&held, age, total) else { continue };
            if self.forget(&held, now, &why)? {
                total = total.saturating_sub(held.bytes);
                dropped.push(DroppedCopy { id: held.id, bytes: held.bytes, why });
            }
        }
        Ok(GcReport { dropped, kept_bytes: total })
    }

    /// Forgets one, whatever the settings say: what was there before it is gone for good. Says whether there was one.
    pub fn forget_one(&self, id: Uuid, now: SystemTime, why: &str) -> Result<bool, Error> {
        match self.state(id)? {
            CopyState::Interrupted => return Err(Error::Interrupted(id)),
            CopyState::Missing | CopyState::Dropped { .. } => return Ok(false),
            CopyState::Open | CopyState::Committed | CopyState::Undone { .. } => {}
        }
        let Some(held) = self.held(id)? else { return Ok(false) };
        if self.forget(&held, now, why)? { Ok(true) } else { Err(Error::Busy(id)) }
    }

    fn why(&self, held: &RetainedCopy, age: Duration, total: u64) -> Option<String> {
        let settings = &self.settings;
        let limit = if held.is_committed { settings.keep_for } else { settings.wait_for };
        if age > limit {
            let hours = limit.as_secs() / 3600;
            let what = if held.is_committed { "committed" } else { "made and never committed" };
            return Some(format!("it was {what} more than {hours} hours ago"));
        }
        let quota = settings.quota_bytes;
        (total > quota).then(|| format!("the store held more than {quota} bytes, and this was the oldest"))
    }

    fn held(&self, id: Uuid) -> Result<Option<RetainedCopy>, Error> {
        let at = self.directory(id);
        let is_committed = match self.state(id)? {
            CopyState::Interrupted => return Ok(None),
            CopyState::Committed | CopyState::Undone { .. } => true,
            CopyState::Open | CopyState::Missing | CopyState::Dropped { .. } => false,
        };
        let since = match read_json::<CommitCompletion>(&at.join("done.json"))? {
            Some(done) => done.on,
            None => {
                std::fs::symlink_metadata(&at).and_then(|metadata| metadata.modified()).at("look at", &at)?
            }
        };
        Ok(Some(RetainedCopy { id, since, bytes: bytes(&at)?, is_committed }))
    }

    fn forget(&self, held: &RetainedCopy, now: SystemTime, why: &str) -> Result<bool, Error> {
        let _lock = match self.lock(held.id) {
            Err(Error::Busy(_)) => return Ok(false),
            other => other?,
        };
        if held.is_committed {
            write_json_durably(&self.tombstone(held.id), &Tombstone { at: now, why: why.into() })?;
        }
        let at = self.directory(held.id);
        dir_handle::remove_path(&at).at("remove", &at)?;
        Ok(true)
    }

    /// Scratch that nobody added to for long goes, and the oldest beyond this; it says nothing, since it can be made again.
    fn tidy_scratch(&self, now: SystemTime, max_bytes: u64) -> Result<u64, Error> {
        let scratch = self.at.join("scratch");
        let mut all = Vec::new();
        for session in names(&scratch)? {
            let at = scratch.join(session);
            let used =
                std::fs::symlink_metadata(&at).and_then(|metadata| metadata.modified()).at("look at", &at)?;
            all.push((used, bytes(&at)?, at));
        }
        all.sort();
        let mut total = all.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        for (used, bytes, at) in all {
            let is_old = now.duration_since(used).unwrap_or_default() > self.settings.keep_for;
            if !is_old && total <= max_bytes {
                continue;
            }
            if let Some(_held) = unused(&at)? {
                dir_handle::remove_path(&at).at("remove", &at)?;
                total = total.saturating_sub(bytes);
            }
        }
        Ok(total)
    }
}

/// The locks of a session's scratch, if nobody has any of it mounted.
fn unused(session: &Path) -> Result<Option<Vec<File>>, Error> {
    let mut locks = Vec::new();
    for name in names(session)? {
        let at = session.join(name).join("lock");
        let lock = File::create(&at).at("open", &at)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            other => other.at("lock", &at)?,
        }
        locks.push(lock);
    }
    Ok(Some(locks))
}

/// How much a directory holds on the disk.
fn bytes(at: &Path) -> Result<u64, Error> {
    let mut total = 0_u64;
    let mut ahead = vec![at.to_owned()];
    while let Some(path) = ahead.pop() {
        let looked = match std::fs::symlink_metadata(&path) {
            // Deeper than paths reach: a command made it so, and it must not keep the rest from being counted.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NAMETOOLONG) => continue,
            other => other.at("look at", &path)?,
        };
        total = total.saturating_add(looked.blocks().saturating_mul(512));
        if looked.is_dir() {
            let listing = match std::fs::read_dir(&path) {
                // The kernel's own directory beside an upper, and what a command closed: small, or counted when it is removed.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => continue,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NAMETOOLONG) => continue,
                other => other.at("list", &path)?,
            };
            for entry in listing {
                ahead.push(entry.at("list", &path)?.path());
            }
        }
    }
    Ok(total)
}
