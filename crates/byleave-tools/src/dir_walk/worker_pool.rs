//! The worker threads of a walk and their shared task queue. Every worker takes tasks from it and adds new ones.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::dir_entry::OpenDirectory;
use super::options::WalkOptions;
use crate::workspace_files::Files;

/// The summary of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalkSummary {
    /// The number of entries omitted because a rule hides them.
    pub(crate) kept: u64,
    /// The number of entries omitted because they are dotfiles or ignored.
    pub(crate) skipped: u64,
    /// The number of unreadable directories.
    pub(crate) unread: u64,
    /// Whether there were more entries than the limit.
    pub(crate) is_cut: bool,
    /// Whether there were directories beyond the built-in depth limit.
    pub(crate) is_deeper: bool,
}

pub(super) enum WalkTask {
    /// A subdirectory to enter.
    Enter(Arc<OpenDirectory>, Box<CStr>),
    /// Entries of a directory to visit.
    Visit(Arc<OpenDirectory>, Vec<(Box<CStr>, FileType)>),
}

pub(super) struct TaskQueue {
    pub(super) left: VecDeque<WalkTask>,
    pub(super) busy: usize,
}

impl TaskQueue {
    /// Takes the newest task, so that few directories are open at a time.
    pub(super) fn take(&mut self) -> Option<WalkTask> {
        let work = self.left.pop_back()?;
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
    pub(super) begins: usize,
    pub(super) queue: Mutex<TaskQueue>,
    pub(super) more: Condvar,
    pub(super) entries: AtomicU64,
    pub(super) kept: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) unread: AtomicU64,
    pub(super) is_cut: AtomicBool,
    pub(super) is_deeper: AtomicBool,
}

impl WorkerPool<'_> {
    pub(super) fn lock(&self) -> MutexGuard<'_, TaskQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn done(&self) {
        let mut queue = self.lock();
        queue.busy -= 1;
        if queue.busy == 0 && queue.left.is_empty() {
            self.more.notify_all();
        }
    }

    pub(super) fn push(&self, work: impl Iterator<Item = WalkTask>) {
        let mut queue = self.lock();
        let before = queue.left.len();
        queue.left.extend(work);
        match queue.left.len() - before {
            0 => {}
            1 => self.more.notify_one(),
            _ => self.more.notify_all(),
        }
    }

    /// Returns the next task, or `None` when all tasks are done.
    pub(super) fn next(&self) -> Option<WalkTask> {
        let mut queue = self.lock();
        loop {
            if self.is_over() {
                queue.left.clear();
            }
            if let Some(work) = queue.take() {
                return Some(work);
            }
            if queue.busy == 0 {
                self.more.notify_all();
                return None;
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.is_cut.load(Ordering::Relaxed)
    }

    pub(super) fn told(&self) -> WalkSummary {
        let [kept, skipped, unread] =
            [&self.kept, &self.skipped, &self.unread].map(|count| count.load(Ordering::Relaxed));
        let [is_cut, is_deeper] = [&self.is_cut, &self.is_deeper].map(|said| said.load(Ordering::Relaxed));
        WalkSummary { kept, skipped, unread, is_cut, is_deeper }
    }
}

/// A guard that marks a task as done, even after a panic.
pub(super) struct TaskDoneGuard<'a>(pub(super) &'a WorkerPool<'a>);

impl Drop for TaskDoneGuard<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}
