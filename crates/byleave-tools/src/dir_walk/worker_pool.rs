//! The worker threads of a walk and their shared task queue. Every worker takes tasks from it and adds new ones.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::dir_entry::OpenDirectory;
use super::options::WalkOptions;
use crate::workspace_files::Files;

/// The summary of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalkSummary {
    /// The number of entries omitted because a rule hides them.
    pub(crate) hidden: u64,
    /// The number of entries omitted because they are dotfiles or ignored.
    pub(crate) skipped: u64,
    /// The number of unreadable directories.
    pub(crate) unread: u64,
    /// Whether there were more entries than the limit.
    pub(crate) is_truncated: bool,
    /// Whether there were directories beyond the built-in depth limit.
    pub(crate) hit_depth_limit: bool,
}

pub(super) enum WalkTask {
    /// A subdirectory to enter.
    Enter(Arc<OpenDirectory>, Box<CStr>),
    /// Entries of a directory to visit.
    Visit(Arc<OpenDirectory>, Vec<(Box<CStr>, FileType)>),
}

pub(super) struct TaskQueue {
    pub(super) pending: VecDeque<WalkTask>,
    pub(super) busy: usize,
}

impl TaskQueue {
    /// Takes the newest task, so that few directories are open at a time.
    pub(super) fn take(&mut self) -> Option<WalkTask> {
        let work = self.pending.pop_back()?;
        self.busy += 1;
        Some(work)
    }
}

/// The shared state of the worker threads.
pub(super) struct WorkerPool<'a> {
    pub(super) files: &'a Files,
    pub(super) options: &'a WalkOptions,
    pub(super) cancel: &'a CancellationToken,
    /// The length of the start's path in bytes, including the slash after it.
    pub(super) root_len: usize,
    pub(super) queue: Mutex<TaskQueue>,
    pub(super) work_available: Condvar,
    pub(super) entries: AtomicU64,
    pub(super) hidden: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) unread: AtomicU64,
    pub(super) is_truncated: AtomicBool,
    pub(super) hit_depth_limit: AtomicBool,
}

impl WorkerPool<'_> {
    pub(super) fn lock(&self) -> MutexGuard<'_, TaskQueue> {
        self.queue.lock()
    }

    pub(super) fn finish_task(&self) {
        let mut queue = self.lock();
        queue.busy -= 1;
        if queue.busy == 0 && queue.pending.is_empty() {
            self.work_available.notify_all();
        }
    }

    pub(super) fn push(&self, work: impl Iterator<Item = WalkTask>) {
        let mut queue = self.lock();
        let before = queue.pending.len();
        queue.pending.extend(work);
        match queue.pending.len() - before {
            0 => {}
            1 => {
                self.work_available.notify_one();
            }
            _ => {
                self.work_available.notify_all();
            }
        }
    }

    /// Returns the next task, or `None` when all tasks are done.
    pub(super) fn next_task(&self) -> Option<WalkTask> {
        let mut queue = self.lock();
        loop {
            if self.is_over() {
                queue.pending.clear();
            }
            if let Some(work) = queue.take() {
                return Some(work);
            }
            if queue.busy == 0 {
                self.work_available.notify_all();
                return None;
            }
            self.work_available.wait(&mut queue);
        }
    }

    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.is_truncated.load(Ordering::Relaxed)
    }

    pub(super) fn summary(&self) -> WalkSummary {
        let [kept, skipped, unread] =
            [&self.hidden, &self.skipped, &self.unread].map(|count| count.load(Ordering::Relaxed));
        let [is_cut, is_deeper] =
            [&self.is_truncated, &self.hit_depth_limit].map(|said| said.load(Ordering::Relaxed));
        WalkSummary { hidden: kept, skipped, unread, is_truncated: is_cut, hit_depth_limit: is_deeper }
    }
}

/// A guard that marks a task as done, even after a panic.
pub(super) struct TaskDoneGuard<'a>(pub(super) &'a WorkerPool<'a>);

impl Drop for TaskDoneGuard<'_> {
    fn drop(&mut self) {
        self.0.finish_task();
    }
}
