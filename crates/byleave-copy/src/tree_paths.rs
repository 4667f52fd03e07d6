//! Prepares a full copy for a command that works at the path of the copy, because nothing can be mounted at the original's.
//!
//! What must stay hidden is emptied. Files that tools wrote with the path of the original name the copy while the command runs, and what
//! the command wrote with the path of the copy names the original afterwards. Only text and links are changed, and only a copy.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::copy::WorkspaceCopy;
use crate::dir_handle::{self, FileIdentity, permission_bits, stat_at};
use crate::error::{Error, IoContext as _};
use crate::json_files::write_json;
use crate::layers::{self, CopyMethod};
use crate::tree_copy;

/// Files in which tools keep the absolute path of their project: worktrees of Git, virtual environments, build directories.
const WITH_PATHS: [&[u8]; 4] = [b".git", b"gitdir", b"pyvenv.cfg", b"CMakeCache.txt"];
/// A longer file is not text that names a path.
const BYTES_MAX: u64 = 1 << 20;
/// The name of a file while it is written.
const DRAFT: &CStr = c"rewritten";

impl WorkspaceCopy {
    /// Empties these files and directories of the full copies. They stay, without content, and are not among the changes.
    pub fn hide(&mut self, paths: &[PathBuf]) -> Result<(), Error> {
        for path in paths {
            let Some((number, root)) = self.root_for(path) else { continue };
            let Ok(inside) = path.strip_prefix(&root.path) else { continue };
            if root.method != CopyMethod::Tree {
                continue;
            }
            let at = self.path.join(layers::changes_path(root.method, number)).join(inside);
            let Ok(found) = at.symlink_metadata() else { continue };
            let blank = Mode::empty();
            if found.is_dir() {
                dir_handle::remove_path(&at).context("empty", &at)?;
                rustix::fs::mkdirat(CWD, &at, blank).context("empty", &at)?;
            } else if found.is_file() {
                dir_handle::remove_path(&at).context("empty", &at)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(CWD, &at, flags, blank).context("empty", &at)?;
            } else {
                continue;
            }
            let text = path.to_str().ok_or_else(|| Error::NotText { path: path.clone() })?;
            self.meta.blank.push(text.to_owned());
        }
        write_json(&self.path.join("copy.json"), &self.meta)
    }

    /// Lets the files of tools name the full copies. Call it before the command runs.
    pub fn adopt_paths(&mut self) -> Result<(), Error> {
        self.rewrite(|_| false, |original, copy| (original, copy))?;
        self.ready_ns = self.store.filesystem_now(&self.path)?;
        Ok(())
    }

    /// Lets what the command wrote name the originals. Call it when the command has ended, before the changes are listed.
    pub fn restore_paths(&self) -> Result<(), Error> {
        let since = self.ready_ns;
        self.rewrite(|stat| FileIdentity::from_stat(stat).changed >= since, |original, copy| (copy, original))
    }

    fn rewrite(
        &self,
        is_changed: impl Fn(&Stat) -> bool,
        order: impl for<'a> Fn(&'a Path, &'a Path) -> (&'a Path, &'a Path),
    ) -> Result<(), Error> {
        let drafts = dir_handle::open_resolved(&self.path).context("open", &self.path)?;
        let trees = self.meta.roots.iter().enumerate().filter(|(_, root)| root.method == CopyMethod::Tree);
        let trees: Vec<(&Path, PathBuf)> = trees
            .map(|(number, root)| {
                let tree = self.path.join(layers::changes_path(root.method, number));
                (Path::new(&root.path), tree)
            })
            .collect();
        for (_, tree) in &trees {
            let top = dir_handle::open_resolved(tree).context("open", tree)?;
            // A working tree and its repository name each other.
            for (original, copy) in &trees {
                let (from, to) = order(original, copy);
                let rewriter = PathRewriter {
                    from: from.as_os_str().as_bytes(),
                    to: to.as_os_str().as_bytes(),
                    is_changed: &is_changed,
                    drafts: &drafts,
                };
                rewriter.directory(&top, dir_handle::DEPTH_MAX).context("change the paths in", tree)?;
                rustix::fs::seek(&top, rustix::fs::SeekFrom::Start(0)).context("list", tree)?;
            }
        }
        Ok(())
    }
}

struct PathRewriter<'a> {
    from: &'a [u8],
    to: &'a [u8],
    is_changed: &'a dyn Fn(&Stat) -> bool,
    drafts: &'a OwnedFd,
}

impl PathRewriter<'_> {
    fn directory(&self, directory: &OwnedFd, steps_down: usize) -> Result<(), Errno> {
        let steps_down = steps_down.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
        for name in dir_handle::list_names(directory)? {
            let Some(stat) = stat_at(directory, &*name)? else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                // What is hidden is closed and empty. What cannot be opened otherwise has no text either.
                FileType::Directory if permission_bits(stat.st_mode) == 0 => {}
                FileType::Directory => {
                    let inner = dir_handle::open_owned(directory.as_fd(), &name, &stat)?;
                    self.directory(&inner, steps_down)?;
                }
                FileType::RegularFile => self.file(directory, &name, &stat)?,
                FileType::Symlink => self.link(directory, &name)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&self, directory: &OwnedFd, name: &CStr, stat: &Stat) -> Result<(), Errno> {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let is_program = stat.st_mode & 0o111 != 0;
        let has_paths = WITH_PATHS.contains(&name.to_bytes()) || name.to_bytes().starts_with(b"activate");
        let is_candidate = has_paths || is_program || (self.is_changed)(stat);
        if !is_candidate || size > BYTES_MAX || permission_bits(stat.st_mode) == 0 {
            return Ok(());
        }
        let source = dir_handle::open_owned(directory.as_fd(), name, stat)?;
        let mut text = Vec::new();
        let mut file = File::from(source.try_clone().map_err(|error| errno(&error))?).take(BYTES_MAX + 1);
        file.read_to_end(&mut text).map_err(|error| errno(&error))?;
        // Of a program only the line with its interpreter, unless the command changed it.
        let is_wanted = has_paths
            || (self.is_changed)(stat)
            || text.strip_prefix(b"#!").is_some_and(|rest| rest.trim_ascii_start().starts_with(self.from));
        if !is_wanted || text.contains(&0) {
            return Ok(());
        }
        let Some(text) = replace(&text, self.from, self.to) else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let draft = rustix::fs::openat(self.drafts, DRAFT, flags, Mode::RUSR | Mode::WUSR)?;
        let mut writing = File::from(draft.try_clone().map_err(|error| errno(&error))?);
        writing.write_all(&text).map_err(|error| errno(&error))?;
        tree_copy::copy_metadata(stat, &source, &draft)?;
        rustix::fs::futimens(&draft, &tree_copy::times(stat))?;
        rustix::fs::renameat(self.drafts, DRAFT, directory, name)
    }

    fn link(&self, directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
        let Some(inside) = target.to_bytes().strip_prefix(self.from) else { return Ok(()) };
        if !inside.is_empty() && !inside.starts_with(b"/") {
            return Ok(());
        }
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        rustix::fs::symlinkat(&*[self.to, inside].concat(), self.drafts, DRAFT)?;
        tree_copy::copy_owner(&stat, (self.drafts.as_fd(), DRAFT))?;
        rustix::fs::renameat(self.drafts, DRAFT, directory, name)
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Replaces a path where it is not the beginning of another name. Returns nothing if it does not occur.
fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let continues = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte) || !byte.is_ascii();
    let (mut result, mut rest, mut found) = (Vec::with_capacity(text.len()), text, false);
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        let (before, after) = rest.split_at(at);
        let after = after.get(from.len()..).unwrap_or_default();
        let is_whole = !after.first().is_some_and(continues)
            && !before.last().is_some_and(|byte| continues(byte) || *byte == b'/');
        result.extend_from_slice(before);
        result.extend_from_slice(if is_whole { to } else { from });
        (rest, found) = (after, found | is_whole);
    }
    result.extend_from_slice(rest);
    found.then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E5
    #[test]
    fn a_path_is_replaced_where_it_is_a_whole_path() {
        let replaced = |text: &str| {
            replace(text.as_bytes(), b"/w", b"/copy").map(|text| String::from_utf8(text).unwrap())
        };
        for (text, expected) in [
            ("gitdir: /w/.git/worktrees/x\n", Some("gitdir: /copy/.git/worktrees/x\n")),
            ("/w", Some("/copy")),
            ("a=/w:/w/b /work", Some("a=/copy:/copy/b /work")),
            ("/work/w /x/w", None),
            ("", None),
        ] {
            assert_eq!(replaced(text).as_deref(), expected, "{text}");
        }
    }
}
