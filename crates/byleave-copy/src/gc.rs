//! Drops old copies, and the oldest ones beyond the quota. Each drop is reported now and to later requests for the copy.

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
use crate::json_files::{list_names, read_json, write_json_durably};
use crate::store::{CopyState, CopyStore, Tombstone};

/// A file of at most this part of the quota needs no measuring of the whole store.
const SMALL_PART: u64 = 100;

/// The dropped copies and the remaining size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The dropped copies, oldest first.
    pub dropped: Vec<DroppedCopy>,
    /// The bytes that the store still holds, scratch included.
    pub stored_bytes: u64,
}

/// One dropped copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedCopy {
    /// The id of the copy.
    pub id: Uuid,
    /// The bytes that it held.
    pub bytes: u64,
    /// The reason as text.
    pub reason: String,
}

struct RetainedCopy {
    id: Uuid,
    since: SystemTime,
    bytes: u64,
    is_committed: bool,
}

impl CopyStore {
    /// Drops copies older than the settings allow, and the oldest beyond the quota. It never drops a copy in use or an interrupted
    /// commit.
    pub fn collect_garbage(&self, now: SystemTime) -> Result<GcReport, Error> {
        let mut all = Vec::new();
        for id in self.ids()? {
            all.extend(self.load_entry(id)?);
        }
        all.sort_by_key(|held| held.since);
        let mut dropped = Vec::new();
        let held_bytes = all.iter().map(|held| held.bytes).sum::<u64>();
        // Drops scratch first, because it can be rebuilt. Otherwise a full scratch could displace before-images.
        let scratch_max = self.settings.quota_bytes.saturating_sub(held_bytes);
        let mut total = self.collect_scratch(now, scratch_max)? + held_bytes;
        for held in all {
            let age = now.duration_since(held.since).unwrap_or_default();
            let Some(why) = self.drop_reason(&held, age, total) else { continue };
            if self.drop_entry(&held, now, &why)? {
                total = total.saturating_sub(held.bytes);
                dropped.push(DroppedCopy { id: held.id, bytes: held.bytes, reason: why });
            }
        }
        Ok(GcReport { dropped, stored_bytes: total })
    }

    /// Returns whether this much can be kept without pushing other before-images out of the store. A small part of the quota always can.
    pub fn has_room_for(&self, bytes: u64) -> Result<bool, Error> {
        let quota = self.settings.quota_bytes;
        if bytes <= quota / SMALL_PART {
            return Ok(true);
        }
        let mut held = 0_u64;
        for id in self.ids()? {
            held = held.saturating_add(disk_usage(&self.entry_path(id))?);
        }
        Ok(held.saturating_add(bytes) <= quota)
    }

    /// Drops one copy regardless of the settings. Its before-images are lost for good. Returns whether the copy existed.
    pub fn forget_copy(&self, id: Uuid, now: SystemTime, why: &str) -> Result<bool, Error> {
        match self.state(id)? {
            CopyState::Interrupted => return Err(Error::Interrupted(id)),
            CopyState::Missing | CopyState::Dropped { .. } => return Ok(false),
            CopyState::Open | CopyState::ExternalEdit | CopyState::Committed | CopyState::Undone { .. } => {}
        }
        let Some(held) = self.load_entry(id)? else { return Ok(false) };
        if self.drop_entry(&held, now, why)? { Ok(true) } else { Err(Error::Busy(id)) }
    }

    fn drop_reason(&self, held: &RetainedCopy, age: Duration, total: u64) -> Option<String> {
        let settings = &self.settings;
        let limit = if held.is_committed { settings.retention } else { settings.open_copy_retention };
        if age > limit {
            let hours = limit.as_secs() / 3600;
            let what = if held.is_committed { "committed" } else { "created and never committed" };
            return Some(format!("it was {what} more than {hours} hours ago"));
        }
        let quota = settings.quota_bytes;
        (total > quota)
            .then(|| format!("the store had more than {quota} bytes, and this copy was the oldest"))
    }

    fn load_entry(&self, id: Uuid) -> Result<Option<RetainedCopy>, Error> {
        let at = self.entry_path(id);
        let is_committed = match self.state(id)? {
            CopyState::Interrupted => return Ok(None),
            // Another program may have made the edit, so its before-images are kept as long as those of a commit.
            CopyState::Committed | CopyState::Undone { .. } | CopyState::ExternalEdit => true,
            CopyState::Open | CopyState::Missing | CopyState::Dropped { .. } => false,
        };
        let since = match read_json::<CommitCompletion>(&at.join("done.json"))? {
            Some(done) => done.at_time,
            None => std::fs::symlink_metadata(&at)
                .and_then(|metadata| metadata.modified())
                .context("inspect", &at)?,
        };
        Ok(Some(RetainedCopy { id, since, bytes: disk_usage(&at)?, is_committed }))
    }

    fn drop_entry(&self, held: &RetainedCopy, now: SystemTime, why: &str) -> Result<bool, Error> {
        let _lock = match self.lock(held.id) {
            Err(Error::Busy(_)) => return Ok(false),
            other => other?,
        };
        if held.is_committed {
            write_json_durably(&self.tombstone_path(held.id), &Tombstone { at: now, reason: why.into() })?;
        }
        let at = self.entry_path(held.id);
        dir_handle::remove_path(&at).context("remove", &at)?;
        Ok(true)
    }

    /// Drops scratch that was not extended for long, and the oldest beyond the limit. It leaves no report, because scratch can be rebuilt.
    fn collect_scratch(&self, now: SystemTime, max_bytes: u64) -> Result<u64, Error> {
        let scratch = self.path.join("scratch");
        let mut all = Vec::new();
        for session in list_names(&scratch)? {
            let at = scratch.join(session);
            let used = std::fs::symlink_metadata(&at)
                .and_then(|metadata| metadata.modified())
                .context("inspect", &at)?;
            all.push((used, disk_usage(&at)?, at));
        }
        all.sort();
        let mut total = all.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        for (used, bytes, at) in all {
            let is_old = now.duration_since(used).unwrap_or_default() > self.settings.retention;
            if !is_old && total <= max_bytes {
                continue;
            }
            if let Some(_held) = unused_scratch_locks(&at)? {
                dir_handle::remove_path(&at).context("remove", &at)?;
                total = total.saturating_sub(bytes);
            }
        }
        Ok(total)
    }
}

/// Takes the locks of a session's scratch, if none of it is mounted.
fn unused_scratch_locks(session: &Path) -> Result<Option<Vec<File>>, Error> {
    let mut locks = Vec::new();
    for name in list_names(session)? {
        let at = session.join(name).join("lock");
        let lock = File::create(&at).context("open", &at)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            other => other.context("lock", &at)?,
        }
        locks.push(lock);
    }
    Ok(Some(locks))
}

/// Returns the disk usage of a directory.
fn disk_usage(at: &Path) -> Result<u64, Error> {
    let mut total = 0_u64;
    let mut ahead = vec![at.to_owned()];
    while let Some(path) = ahead.pop() {
        let looked = match std::fs::symlink_metadata(&path) {
            // The path is longer than the kernel accepts. A command made it so, and it must not prevent the rest from being added up.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NAMETOOLONG) => continue,
            other => other.context("inspect", &path)?,
        };
        total = total.saturating_add(looked.blocks().saturating_mul(512));
        if looked.is_dir() {
            let listing = match std::fs::read_dir(&path) {
                // The kernel's own work directory, or a directory that a command closed. It is small, or included when it is removed.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => continue,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NAMETOOLONG) => continue,
                other => other.context("list", &path)?,
            };
            for entry in listing {
                ahead.push(entry.context("list", &path)?.path());
            }
        }
    }
    Ok(total)
}
