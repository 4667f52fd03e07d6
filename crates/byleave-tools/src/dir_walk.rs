//! Walks a directory tree by handles. It opens every directory relative to its parent, and every file relative to its directory, without
//! following links. A path component that is replaced by a link leads nowhere. There is no gap between check and open that could be
//! exploited.
//!
//! The walk omits hidden files as if they did not exist, and counts them. It must never open a path by its text.

mod dir_entry;
mod display_name;
mod ignore_rules;
mod options;
#[cfg(test)]
mod tests;
mod worker_pool;

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dir_entry::{OpenDirectory, for_each_name_with_buffer, is_hidden, open_directory, write_joined};
use ignore_rules::{IgnoreMarkers, IgnoreMatch, IgnoreStack};
use options::MAX_DEPTH;
use parking_lot::{Condvar, Mutex};
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use worker_pool::{TaskDoneGuard, TaskQueue, WalkTask, WorkerPool};

use crate::workspace_files::Files;

pub(crate) use dir_entry::WalkEntry;
pub(crate) use display_name::display_name;
pub(crate) use options::{MAX_ENTRIES, WalkOptions};
pub(crate) use worker_pool::WalkSummary;

/// The maximum number of threads.
const THREADS_MAX: usize = 12;
/// The number of tasks that are done before more threads start. A small directory is read faster than a thread starts.
const ALONE: usize = 8;
/// The number of files in one task, so that threads share a large directory.
const BATCH: usize = 64;

/// A visitor for the entries of a walk, one for each thread.
pub(crate) trait WalkVisitor: Send {
    /// Handles an entry. The order of entries is not specified.
    fn visit(&mut self, found: &WalkEntry<'_>);
}

/// Walks everything beneath a directory that the plan allows to read. Returns the visitors.
pub(crate) fn walk<V: WalkVisitor>(
    files: &Files,
    path: &str,
    options: &WalkOptions,
    cancel: &CancellationToken,
    visitor: impl Fn() -> V + Sync,
) -> Result<(Vec<V>, WalkSummary), String> {
    let handle = files.open_directory(path)?;
    let (above, inside) = files.open_parents(path);
    let workspace = path.strip_suffix(inside.to_str().unwrap_or_default()).unwrap_or(path);
    let level = ignore_rules::for_open_directories(&above, &inside, workspace.trim_end_matches('/'), files);
    let inside = inside.as_os_str().as_bytes().to_vec();
    let crew = WorkerPool {
        files,
        options,
        cancel,
        root_len: if inside.is_empty() { 0 } else { inside.len() + 1 },
        queue: Mutex::new(TaskQueue { pending: VecDeque::new(), busy: 0 }),
        work_available: Condvar::new(),
        entries: AtomicU64::new(0),
        hidden: AtomicU64::new(0),
        skipped: AtomicU64::new(0),
        unread: AtomicU64::new(0),
        is_truncated: AtomicBool::new(false),
        hit_depth_limit: AtomicBool::new(false),
    };
    let absolute = path.trim_end_matches('/').to_owned();
    let start = WalkRoot { handle, path: inside, absolute, level };
    let mut first = visitor();
    let mut worker = WalkWorker::new(&crew);
    worker.look(start, 0, &mut first);
    // One thread is enough as long as there are few tasks.
    for _ in 0..ALONE {
        let Some(work) = crew.lock().take() else { break };
        worker.work(work, &mut first);
        crew.finish_task();
    }
    let others = if crew.lock().pending.is_empty() { 0 } else { threads().saturating_sub(1) };
    let mut visitors = std::thread::scope(|scope| {
        let others: Vec<_> = (0..others)
            .map(|_| {
                scope.spawn(|| {
                    let mut visits = visitor();
                    WalkWorker::new(&crew).until_done(&mut visits);
                    visits
                })
            })
            .collect();
        worker.until_done(&mut first);
        // A thread that panicked has lost its entries, so there is no result.
        others.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Result<Vec<V>, _>>()
    })
    .map_err(|_| "internal error while searching".to_owned())?;
    if cancel.is_cancelled() {
        return Err("the call was cancelled".into());
    }
    visitors.push(first);
    Ok((visitors, crew.summary()))
}

/// Returns the number of threads.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

struct WalkRoot {
    handle: OwnedFd,
    path: Vec<u8>,
    absolute: String,
    level: Arc<IgnoreStack>,
}

/// A worker thread with reusable buffers.
struct WalkWorker<'a> {
    crew: &'a WorkerPool<'a>,
    names: Vec<(Box<CStr>, FileType)>,
    path: Vec<u8>,
    room: Vec<u8>,
}

impl<'a> WalkWorker<'a> {
    fn new(crew: &'a WorkerPool<'a>) -> Self {
        Self { crew, names: Vec::new(), path: Vec::new(), room: Vec::with_capacity(32_768) }
    }

    fn until_done(&mut self, visits: &mut impl WalkVisitor) {
        while let Some(work) = self.crew.next_task() {
            // The guard also runs if a visitor panics; otherwise the other threads would wait forever.
            let _done = TaskDoneGuard(self.crew);
            self.work(work, visits);
        }
    }

    fn work(&mut self, work: WalkTask, visits: &mut impl WalkVisitor) {
        match work {
            WalkTask::Visit(directory, names) => self.visit(&directory, names.iter(), visits),
            WalkTask::Enter(above, name) => {
                let handle = match open_directory(&above.handle, &name) {
                    Ok(handle) => handle,
                    // It is gone or has another type by now, so it is skipped.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return,
                    Err(_) => {
                        self.crew.unread.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                };
                let mut path = Vec::new();
                write_joined(&mut path, &above.path, name.to_bytes());
                let absolute = format!("{}/{}", above.absolute, name.to_string_lossy());
                let start = WalkRoot { handle, path, absolute, level: Arc::clone(&above.ignore_stack) };
                drop(name);
                self.look(start, above.depth + 1, visits);
            }
        }
    }

    /// Reads a directory. Its entries are visited, and its subdirectories are queued.
    fn look(&mut self, start: WalkRoot, depth: usize, visits: &mut impl WalkVisitor) {
        let WalkRoot { handle, path, absolute, level } = start;
        let (mut seen, options) = (IgnoreMarkers::default(), self.crew.options);
        let mut found = std::mem::take(&mut self.names);
        found.clear();
        let read = for_each_name_with_buffer(&handle, &mut self.room, |name, kind| {
            if !options.include_ignored {
                seen.note_name(name.to_bytes());
            }
            found.push((name.into(), kind));
        });
        if read.is_err() {
            self.crew.unread.fetch_add(1, Ordering::Relaxed);
        }
        let before = self.crew.entries.fetch_add(found.len() as u64, Ordering::Relaxed);
        if before + found.len() as u64 > options.max_entries {
            self.crew.is_truncated.store(true, Ordering::Relaxed);
            found.truncate(usize::try_from(options.max_entries.saturating_sub(before)).unwrap_or(usize::MAX));
        }
        let level = IgnoreStack::for_subdirectory(&level, &handle, seen, (&path, &absolute), self.crew.files);
        let is_near = self.crew.files.hidden_prefilter().must_check_directory(&absolute);
        let directory = Arc::new(OpenDirectory {
            handle,
            path,
            absolute,
            ignore_stack: level,
            depth,
            must_check_names: is_near,
        });
        found.retain_mut(|(name, kind)| self.is_wanted(&directory, name, kind));
        let may_enter = depth + 1 < options.max_depth.min(MAX_DEPTH);
        if !may_enter && options.max_depth >= MAX_DEPTH && found.iter().any(|(_, kind)| kind.is_dir()) {
            self.crew.hit_depth_limit.store(true, Ordering::Relaxed);
        }
        // `.git` is large, and no search needs it.
        let enter =
            found.iter().filter(|(name, kind)| may_enter && kind.is_dir() && name.to_bytes() != b".git");
        let enter = enter.map(|(name, _)| WalkTask::Enter(Arc::clone(&directory), name.clone()));
        let mut work: Vec<WalkTask> = enter.collect();
        while found.len() > BATCH {
            let rest = found.split_off(found.len() - BATCH);
            work.push(WalkTask::Visit(Arc::clone(&directory), rest));
        }
        if !work.is_empty() {
            self.crew.push(work.into_iter());
        }
        self.visit(&directory, found.iter(), visits);
        self.names = found;
    }

    fn visit<'n>(
        &mut self,
        directory: &OpenDirectory,
        names: impl Iterator<Item = &'n (Box<CStr>, FileType)>,
        visits: &mut impl WalkVisitor,
    ) {
        if self.crew.cancel.is_cancelled() {
            return;
        }
        let base = directory.path.get(self.crew.root_len..).unwrap_or_default();
        for (name, kind) in names {
            write_joined(&mut self.path, base, name.to_bytes());
            let found = WalkEntry { directory, name, kind: *kind, path: &self.path, files: self.crew.files };
            visits.visit(&found);
        }
    }

    /// Checks whether an entry is to be visited or entered.
    fn is_wanted(&mut self, directory: &OpenDirectory, name: &CStr, kind: &mut FileType) -> bool {
        let options = self.crew.options;
        let bytes = name.to_bytes();
        if options.path_prefix.get(directory.depth).is_some_and(|step| step != bytes) {
            return false;
        }
        if *kind == FileType::Unknown {
            match statat(&directory.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => *kind = FileType::from_raw_mode(stat.st_mode),
                Err(_) => return false,
            }
        }
        write_joined(&mut self.path, &directory.path, bytes);
        match says(options, &directory.ignore_stack, &self.path, self.crew.root_len, kind.is_dir()) {
            IgnoreMatch::Ignored => {
                self.crew.skipped.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            IgnoreMatch::Unspecified
                if bytes.starts_with(b".") && !options.include_ignored && !options.include_dotfiles =>
            {
                self.crew.skipped.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            IgnoreMatch::Unspecified | IgnoreMatch::Included => {}
        }
        let is_hidden = is_hidden(self.crew.files, (&directory.absolute, directory.must_check_names), name);
        if is_hidden {
            self.crew.hidden.fetch_add(1, Ordering::Relaxed);
        }
        !is_hidden
    }
}

/// Returns what globs, ignore files and types say of a path, in ripgrep's order.
fn says(options: &WalkOptions, level: &IgnoreStack, path: &[u8], begins: usize, is_dir: bool) -> IgnoreMatch {
    let beneath = || Path::new(OsStr::from_bytes(path.get(begins..).unwrap_or_default()));
    if !options.globs.is_empty() {
        let said = IgnoreMatch::from_match(&options.globs.matched(beneath(), is_dir));
        if said != IgnoreMatch::Unspecified {
            return said;
        }
    }
    let said =
        if options.include_ignored { IgnoreMatch::Unspecified } else { level.match_path(path, is_dir) };
    if said == IgnoreMatch::Ignored || options.types.is_empty() {
        return said;
    }
    match IgnoreMatch::from_match(&options.types.matched(beneath(), is_dir)) {
        IgnoreMatch::Unspecified => said,
        by_type => by_type,
    }
}
