//! The rules of ignore files: `.gitignore` and `.git/info/exclude` in a Git repository, and `.ignore` everywhere, with ripgrep's
//! precedence.
//!
//! Ignore files are read by handle, relative to their directory. A user's global excludes, `.rgignore` and ignore files that are links
//! are not supported. Nor are the excludes of a repository whose `.git` is not a directory.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use byleave_copy::patterns::{self, PatternBudget};
use byleave_files::LinkPolicy;
use ignore::Match;
use ignore::gitignore::Gitignore;
use rustix::fs::{Mode, OFlags, fstat, openat};

use crate::workspace_files::Files;

/// The names in a directory that affect what is ignored in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IgnoreMarkers {
    ignore: bool,
    gitignore: bool,
    git: bool,
}

impl IgnoreMarkers {
    /// Notes a name.
    pub(super) fn note_name(&mut self, name: &[u8]) {
        match name {
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" | b".jj" => self.git = true,
            _ => {}
        }
    }

    const fn nothing(self) -> bool {
        !self.ignore && !self.gitignore && !self.git
    }
}

/// The ignore rules of one directory and of those above it.
#[derive(Default)]
pub(crate) struct IgnoreStack {
    above: Option<Arc<IgnoreStack>>,
    /// The length of this directory's path in bytes, including the slash after it.
    skip: usize,
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    is_repository: bool,
    is_in_repository: bool,
    /// The remaining budget for compiled patterns. Every directory on the way down uses some of it.
    budget: PatternBudget,
}

/// The result of the ignore rules for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreMatch {
    Unspecified,
    Ignored,
    /// Explicitly not ignored. Such a path is shown even if its name begins with a dot.
    Included,
}

impl IgnoreMatch {
    pub(super) fn from_match<T>(matched: &Match<T>) -> Self {
        match matched {
            Match::None => Self::Unspecified,
            Match::Ignore(_) => Self::Ignored,
            Match::Whitelist(_) => Self::Included,
        }
    }

    fn or(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::Unspecified { other() } else { self }
    }
}

impl IgnoreStack {
    /// Creates the rules of a directory that contains these names. `path` is the path of the directory without a slash at its end.
    /// `absolute` is the absolute path, as rules use it.
    pub(super) fn for_subdirectory(
        above: &Arc<Self>,
        directory: impl AsFd,
        seen: IgnoreMarkers,
        (path, absolute): (&[u8], &str),
        files: &Files,
    ) -> Arc<Self> {
        if seen.nothing() {
            return Arc::clone(above);
        }
        let directory = directory.as_fd();
        let mut budget = above.budget.clone();
        // Paths are already relative to the directory.
        let mut compiled = |text: Option<String>| {
            let patterns = patterns::compile(Path::new("."), &text?, &mut budget);
            if patterns.is_none() {
                tracing::debug!(directory = absolute, "an ignore file has too many patterns and is not used");
            }
            patterns.filter(|patterns| !patterns.is_empty())
        };
        let text_of = |is_there: bool, name: &CStr| {
            let shown = format!("{absolute}/{}", name.to_string_lossy());
            if is_there { text(directory, name, &shown, files) } else { None }
        };
        let is_in_repository = above.is_in_repository || seen.git;
        let ignore = compiled(text_of(seen.ignore, c".ignore"));
        // As in ripgrep, it has no effect outside of a repository. The root of the repository may be further up.
        let gitignore = compiled(text_of(seen.gitignore, c".gitignore"));
        let exclude = compiled(if seen.git { excludes(directory, absolute, files) } else { None });
        Arc::new(Self {
            skip: if path.is_empty() { 0 } else { path.len() + 1 },
            ignore,
            gitignore,
            exclude,
            budget,
            is_repository: seen.git,
            is_in_repository,
            above: Some(Arc::clone(above)),
        })
    }

    /// Returns what the rules say of a path beneath.
    pub(super) fn match_path(&self, path: &[u8], is_dir: bool) -> IgnoreMatch {
        let (mut ignore, mut gitignore, mut exclude) =
            (IgnoreMatch::Unspecified, IgnoreMatch::Unspecified, IgnoreMatch::Unspecified);
        let mut is_beyond = !self.is_in_repository;
        let mut level = Some(self);
        while let Some(here) = level {
            let rest = path.get(here.skip..).unwrap_or_default();
            let ask = |patterns: &Option<Gitignore>| match patterns {
                Some(patterns) => {
                    IgnoreMatch::from_match(&patterns.matched(Path::new(OsStr::from_bytes(rest)), is_dir))
                }
                None => IgnoreMatch::Unspecified,
            };
            ignore = ignore.or(|| ask(&here.ignore));
            if !is_beyond {
                gitignore = gitignore.or(|| ask(&here.gitignore));
                exclude = exclude.or(|| ask(&here.exclude));
            }
            // Rules from above a repository do not apply inside it.
            is_beyond = is_beyond || here.is_repository;
            level = here.above.as_deref();
        }
        ignore.or(|| gitignore).or(|| exclude)
    }
}

/// Returns the rules of nested open directories, the last of which has this path.
pub(super) fn for_open_directories(
    directories: &[OwnedFd],
    inside: &Path,
    workspace: &str,
    files: &Files,
) -> Arc<IgnoreStack> {
    let mut level = Arc::new(IgnoreStack::default());
    let mut path = Vec::new();
    let mut absolute = workspace.to_owned();
    let mut steps = inside.iter();
    for directory in directories {
        let mut seen = IgnoreMarkers::default();
        for name in [c".ignore", c".gitignore", c".git", c".jj"] {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            if rustix::fs::statat(directory, name, flags).is_ok() {
                seen.note_name(name.to_bytes());
            }
        }
        level = IgnoreStack::for_subdirectory(&level, directory, seen, (&path, &absolute), files);
        let Some(step) = steps.next() else { break };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(step.as_bytes());
        absolute = format!("{absolute}/{}", step.to_string_lossy());
    }
    level
}

fn excludes(directory: impl AsFd, absolute: &str, files: &Files) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let git = openat(directory, c".git", flags, Mode::empty()).ok()?;
    let info = openat(git, c"info", flags, Mode::empty()).ok()?;
    text(info, c"exclude", &format!("{absolute}/.git/info/exclude"), files)
}

/// Reads an ignore file as far as it is text. A hidden file is treated as missing.
fn text(directory: impl AsFd, name: &CStr, absolute: &str, files: &Files) -> Option<String> {
    if files.is_hidden(absolute) {
        return None;
    }
    let opened =
        byleave_files::open_at(directory, Path::new(OsStr::from_bytes(name.to_bytes())), LinkPolicy::Never)
            .ok()?;
    if files.is_hidden_alias(&fstat(&opened.file).ok()?) {
        return None;
    }
    let bytes = opened.read(patterns::FILE_BYTES_MAX).ok()?;
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            // Like ripgrep, use the lines before the first one that is not valid text.
            let valid = error.utf8_error().valid_up_to();
            let text =
                String::from_utf8_lossy(error.as_bytes().get(..valid).unwrap_or_default()).into_owned();
            text.rsplit_once('\n').map(|(whole, _)| whole.to_owned()).unwrap_or_default()
        }
    })
}
