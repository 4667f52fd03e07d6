//! Drops old copies, and the oldest ones beyond the quota. Each drop is reported now and to later requests for the copy.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use byleave_core::file_change::FileChanges;
use byleave_core::rehearsal::BeforeImageRoom;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use uuid::Uuid;

use crate::copy::WorkspaceCopy;
use crate::dir_handle;
use crate::error::{Error, IoContext as _};
use crate::external_edit;
use crate::journal::CommitCompletion;
use crate::json_files::{list_names, read_json, write_json, write_json_durably};
use crate::store::{CopyState, CopyStore, Tombstone};

/// The file with the size of a commit.
const SIZE_FILE: &str = "size.json";

/// What a garbage collection drops beyond the settings of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcRequest {
    /// Drops before-images that are older than this.
    pub older_than: Option<Duration>,
    /// Drops also before-images that the settings keep in any case. The calls can then no longer be undone.
    pub recent: bool,
    /// Drops all scratch that is not in use.
    pub scratch: bool,
    /// Drops nothing, and reports what would be dropped.
    pub dry_run: bool,
}

/// The dropped copies and the remaining size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The dropped copies, oldest first.
    pub dropped: Vec<DroppedCopy>,
    /// The bytes of the dropped scratch.
    pub scratch_bytes: u64,
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
    /// The time of its commit, or of its last change.
    pub since: SystemTime,
    /// Whether it had before-images, so that a call can no longer be undone.
    pub is_committed: bool,
    /// The reason as text.
    pub reason: String,
}

/// The space that the store takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// The number of calls that can be undone.
    pub commits: usize,
    /// The bytes of their before-images.
    pub before_image_bytes: u64,
    /// The part of these bytes that is kept in any case, because it is recent.
    pub recent_bytes: u64,
    /// The bytes of copies that are neither committed nor discarded.
    pub open_copy_bytes: u64,
    /// The bytes of scratch, which can be rebuilt.
    pub scratch_bytes: u64,
    /// The maximum size of the store.
    pub quota_bytes: u64,
}

impl StoreUsage {
    /// Returns the size of the whole store.
    pub const fn total_bytes(&self) -> u64 {
        self.before_image_bytes.saturating_add(self.open_copy_bytes).saturating_add(self.scratch_bytes)
    }
}

struct RetainedCopy {
    id: Uuid,
    since: SystemTime,
    bytes: u64,
    is_committed: bool,
}

impl CopyStore {
    /// Drops copies older than the settings allow, and the oldest beyond the quota. It never drops a copy in use, an interrupted
    /// commit, or before-images that the settings keep in any case.
    pub fn collect_garbage(&self, now: SystemTime) -> Result<GcReport, Error> {
        self.collect_requested_garbage(now, &GcRequest::default())
    }

    /// Does the same, and drops what a person asks for in addition.
    pub fn collect_requested_garbage(&self, now: SystemTime, request: &GcRequest) -> Result<GcReport, Error> {
        let all = self.retained_copies()?;
        let mut report = GcReport::default();
        let held_bytes = all.iter().map(|held| held.bytes).sum::<u64>();
        // Drops scratch first, because it can be rebuilt. Otherwise a full scratch could displace before-images.
        let scratch_max =
            if request.scratch { 0 } else { self.settings.quota_bytes.saturating_sub(held_bytes) };
        let (dropped_bytes, kept_bytes) = self.collect_scratch(now, scratch_max, request.dry_run)?;
        report.scratch_bytes = dropped_bytes;
        if request.scratch {
            report.scratch_bytes += self.replaced_output_bytes()?;
            if !request.dry_run {
                self.prune_outputs(0)?;
            }
        }
        let mut total = kept_bytes + held_bytes;
        for held in all {
            let age = now.duration_since(held.since).unwrap_or_default();
            let Some(reason) = self.drop_reason(&held, age, total, request) else { continue };
            if request.dry_run || self.drop_entry(&held, now, &reason)? {
                total = total.saturating_sub(held.bytes);
                let RetainedCopy { id, since, bytes, is_committed } = held;
                report.dropped.push(DroppedCopy { id, bytes, since, is_committed, reason });
            }
        }
        report.stored_bytes = total;
        Ok(report)
    }

    /// Returns whether before-images of this size fit beside those that must be kept.
    pub fn before_image_room(&self, bytes: u64, now: SystemTime) -> Result<BeforeImageRoom, Error> {
        let quota = self.settings.quota_bytes;
        if bytes > quota {
            return Ok(BeforeImageRoom::Exceeds);
        }
        let mut kept = 0_u64;
        for id in self.ids()? {
            let at = self.entry_path(id);
            // A copy that is neither committed nor discarded has no before-images.
            let since = match read_json::<CommitCompletion>(&at.join("done.json"))? {
                Some(done) => done.at_time,
                None if at.join(external_edit::KEPT).exists() => now,
                None => continue,
            };
            if self.is_recent(now.duration_since(since).unwrap_or_default()) {
                kept = kept.saturating_add(entry_bytes(&at)?);
            }
        }
        let fits = kept.saturating_add(bytes) <= quota;
        Ok(if fits { BeforeImageRoom::Available } else { BeforeImageRoom::Displaces })
    }

    /// Returns the space that the store takes.
    pub fn usage(&self, now: SystemTime) -> Result<StoreUsage, Error> {
        let mut usage = StoreUsage { quota_bytes: self.settings.quota_bytes, ..StoreUsage::default() };
        for held in self.retained_copies()? {
            if !held.is_committed {
                usage.open_copy_bytes += held.bytes;
                continue;
            }
            usage.commits += 1;
            usage.before_image_bytes += held.bytes;
            if self.is_recent(now.duration_since(held.since).unwrap_or_default()) {
                usage.recent_bytes += held.bytes;
            }
        }
        usage.scratch_bytes = self.scratch_sizes()?.iter().map(|(_, bytes, _)| bytes).sum::<u64>()
            + self.replaced_output_bytes()?;
        Ok(usage)
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

    /// Checks whether before-images of this age are kept in any case.
    fn is_recent(&self, age: Duration) -> bool {
        age < self.settings.min_retention
    }

    fn drop_reason(
        &self,
        held: &RetainedCopy,
        age: Duration,
        total: u64,
        request: &GcRequest,
    ) -> Option<String> {
        let settings = &self.settings;
        let is_kept = held.is_committed && self.is_recent(age);
        if is_kept && !request.recent {
            return None;
        }
        let limit = if held.is_committed { settings.retention } else { settings.open_copy_retention };
        if age > limit {
            let hours = limit.as_secs() / 3600;
            let what = if held.is_committed { "committed" } else { "created and never committed" };
            return Some(format!("it was {what} more than {hours} hours ago"));
        }
        if held.is_committed && request.older_than.is_some_and(|limit| age >= limit) {
            return Some("a person dropped it with `byleave gc`".to_owned());
        }
        let quota = settings.quota_bytes;
        (total > quota && !is_kept)
            .then(|| format!("the store had more than {quota} bytes, and this copy was the oldest"))
    }

    /// Returns everything that may be dropped, oldest first.
    fn retained_copies(&self) -> Result<Vec<RetainedCopy>, Error> {
        let mut all = Vec::new();
        for id in self.ids()? {
            all.extend(self.load_entry(id)?);
        }
        all.sort_by_key(|held| held.since);
        Ok(all)
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
        Ok(Some(RetainedCopy { id, since, bytes: entry_bytes(&at)?, is_committed }))
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
        self.drop_outputs(held.id)?;
        Ok(true)
    }

    /// Returns the scratch of each session with its last use and its size, the oldest first.
    fn scratch_sizes(&self) -> Result<Vec<(SystemTime, u64, PathBuf)>, Error> {
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
        Ok(all)
    }

    /// Drops scratch that was not extended for long, and the oldest beyond the limit. It leaves no report, because scratch can be rebuilt.
    /// Returns the dropped bytes and the remaining ones.
    fn collect_scratch(&self, now: SystemTime, max_bytes: u64, dry_run: bool) -> Result<(u64, u64), Error> {
        let all = self.scratch_sizes()?;
        let before = all.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        let mut total = before;
        for (used, bytes, at) in all {
            let is_old = now.duration_since(used).unwrap_or_default() > self.settings.retention;
            if !is_old && total <= max_bytes {
                continue;
            }
            if let Some(_held) = unused_scratch_locks(&at)? {
                if !dry_run {
                    dir_handle::remove_path(&at).context("remove", &at)?;
                }
                total = total.saturating_sub(bytes);
            }
        }
        Ok((before - total, total))
    }
}

/// Returns the disk usage of an entry of the store. A commit never changes again, so its size is counted once.
fn entry_bytes(at: &Path) -> Result<u64, Error> {
    let file = at.join(SIZE_FILE);
    if let Some(bytes) = read_json(&file)? {
        return Ok(bytes);
    }
    let bytes = disk_usage(at)?;
    if at.join("done.json").exists() {
        // If it cannot be stored, it is counted again the next time.
        write_json(&file, &bytes).unwrap_or_default();
    }
    Ok(bytes)
}

impl WorkspaceCopy {
    /// Returns whether the before-images of these changes fit beside those that the store must keep.
    pub fn before_image_room(&self, changes: &FileChanges) -> Result<BeforeImageRoom, Error> {
        match changes.before_image_bytes() {
            0 => Ok(BeforeImageRoom::Available),
            bytes => self.store.before_image_room(bytes, SystemTime::now()),
        }
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
pub(crate) fn disk_usage(at: &Path) -> Result<u64, Error> {
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
