//! Moves what an allowed run wrote into scratch directories to the real directories, and back when its call is undone.
//!
//! The layer of a scratch directory is checked first: entries that may not be there are removed from the layer, and nothing is moved if
//! a real file was changed after the run began. Then every entry is moved. What it replaces goes to a layer of the same form, so that an undo moves
//! that layer. A move that was interrupted can be repeated. Nothing is synced: after a power cut, a build creates its outputs again.

use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, File};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use byleave_core::file_change::{FileChange, FileNode, FileNodeKind, GitStatus};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, RenameFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::copy::WorkspaceCopy;
use crate::diff_scan::{node_of_kind, special_kind_name};
use crate::dir_handle::{self, FileIdentity, permission_bits, stat_at};
use crate::error::{Error, IoContext as _};
use crate::gc::disk_usage;
use crate::json_files::{list_names, read_json, write_json};
use crate::store::CopyStore;
use crate::tree_copy;
use crate::whiteout;
use crate::xattrs;

/// The directory of the store with what outputs replaced, by the id of the call.
pub(crate) const OUTPUTS: &str = "outputs";
/// The moves that are under way.
const MOVES_FILE: &str = "moves.json";
/// The moves that ended.
const PLACED_FILE: &str = "placed.json";
/// The maximum size of everything that outputs replaced. The oldest is dropped first.
const REPLACED_BYTES_MAX: u64 = 1 << 30;
/// The maximum number of entries that are named in a report.
const NAMED_MAX: usize = 5;

/// Decides whether an output may be put at its real path.
pub type OutputFilter<'a> = &'a dyn Fn(&FileChange) -> bool;

/// What becomes of the scratch of a run that is committed.
#[derive(Clone, Copy)]
pub enum OutputRule<'a> {
    /// It stays in layers of the session.
    Session,
    /// It is put on the disk, as far as the filter permits.
    Place(OutputFilter<'a>),
    /// It is dropped.
    Drop,
}

/// What was put on the disk, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputReport {
    /// The scratch directories that have the outputs of the run.
    pub placed: Vec<String>,
    /// The directories that do not, each with the reason.
    pub not_placed: Vec<(String, String)>,
    /// Some of the entries that may not be on the disk.
    pub left_out: Vec<String>,
    /// The number of all entries that may not be on the disk.
    pub left_out_count: usize,
}

/// One layer that is moved into a directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OutputMove {
    /// The layer: a directory whose name may differ from that of its real directory.
    layer: PathBuf,
    /// The real directory.
    directory: PathBuf,
}

/// The outputs of one call that are on the disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PlacedOutputs {
    /// By the number of the layer with what they replaced: the real directory.
    directories: Vec<PathBuf>,
    /// The time after the last move, by the clock of the filesystem.
    at_ns: i64,
    at_time: SystemTime,
    /// The disk usage of what was replaced.
    bytes: u64,
}

/// The reason why the outputs of one directory are not moved.
enum Stopped {
    Changed(String),
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Stopped {
    fn into_words(self) -> String {
        match self {
            Self::Changed(path) => format!("`{}` was changed meanwhile", path.escape_debug()),
            Self::Failed(error) => error.to_string(),
        }
    }
}

impl WorkspaceCopy {
    /// Moves the outputs of this run, each from its layer, to their real directories. A failure concerns only outputs, so it is part of the report.
    pub(crate) fn place_outputs(
        &self,
        layers: Vec<(PathBuf, PathBuf)>,
        may_place: OutputFilter<'_>,
    ) -> Result<OutputReport, Error> {
        let mut report = OutputReport::default();
        let _lock = self.store.lock_outputs()?;
        let mut moves = Vec::new();
        for (layer, directory) in layers {
            if list_names(&layer)?.is_empty() && directory.is_dir() {
                continue;
            }
            let unchanged_since = self.meta.started_ns;
            let mut checker = LayerChecker { may_place, unchanged_since, report: &mut report };
            match checker.check_move(&layer, &directory) {
                Ok(()) => moves.push(OutputMove { layer, directory }),
                Err(stopped) => {
                    report.not_placed.push((directory.display().to_string(), stopped.into_words()));
                }
            }
        }
        self.store.move_all(self.meta.id, moves, &mut report)?;
        Ok(report)
    }
}

impl CopyStore {
    /// Returns the scratch directories that an undo of this call would restore.
    pub fn output_dirs(&self, id: Uuid) -> Result<Vec<PathBuf>, Error> {
        let placed: Option<PlacedOutputs> = read_json(&self.outputs_path(id).join(PLACED_FILE))?;
        Ok(placed.map(|placed| placed.directories).unwrap_or_default())
    }

    /// Moves back what the outputs of a call replaced, as outputs of the call `by`.
    pub(crate) fn restore_outputs(&self, id: Uuid, by: Uuid) -> Result<OutputReport, Error> {
        let mut report = OutputReport::default();
        let at = self.outputs_path(id);
        let _lock = self.lock_outputs()?;
        let Some(placed) = read_json::<PlacedOutputs>(&at.join(PLACED_FILE))? else { return Ok(report) };
        let mut moves = Vec::new();
        for (number, directory) in placed.directories.into_iter().enumerate() {
            let Some(name) = directory.file_name() else { continue };
            let layer = at.join(number.to_string()).join(name);
            let mut checker =
                LayerChecker { may_place: &|_| true, unchanged_since: placed.at_ns, report: &mut report };
            match checker.check_move(&layer, &directory) {
                Ok(()) => moves.push(OutputMove { layer, directory }),
                Err(stopped) => {
                    report.not_placed.push((directory.display().to_string(), stopped.into_words()));
                }
            }
        }
        self.move_all(by, moves, &mut report)?;
        self.drop_outputs(id)?;
        Ok(report)
    }

    /// Ends every move that was interrupted.
    pub(crate) fn recover_outputs(&self) -> Result<(), Error> {
        for name in list_names(&self.path.join(OUTPUTS))? {
            let Ok(id) = Uuid::parse_str(&name) else { continue };
            if !self.outputs_path(id).join(MOVES_FILE).exists() {
                continue;
            }
            let _lock = self.lock_outputs()?;
            let moves = read_json::<Vec<OutputMove>>(&self.outputs_path(id).join(MOVES_FILE))?;
            self.move_all(id, moves.unwrap_or_default(), &mut OutputReport::default())?;
        }
        Ok(())
    }

    /// Moves checked layers. The lock of outputs is held.
    fn move_all(&self, id: Uuid, moves: Vec<OutputMove>, report: &mut OutputReport) -> Result<(), Error> {
        if moves.is_empty() {
            return Ok(());
        }
        let at = self.outputs_path(id);
        DirBuilder::new().recursive(true).mode(0o700).create(&at).context("create", &at)?;
        write_json(&at.join(MOVES_FILE), &moves)?;
        for (number, step) in moves.iter().enumerate() {
            let path = step.directory.display().to_string();
            match move_layer(step, &at.join(number.to_string())) {
                Ok(()) => report.placed.push(path),
                Err(fault) => report.not_placed.push((path, fault.to_string())),
            }
        }
        let placed = PlacedOutputs {
            directories: moves.into_iter().map(|step| step.directory).collect(),
            at_ns: self.filesystem_now(&at)?,
            at_time: SystemTime::now(),
            bytes: disk_usage(&at)?,
        };
        write_json(&at.join(PLACED_FILE), &placed)?;
        fs::remove_file(at.join(MOVES_FILE)).context("remove", at.join(MOVES_FILE))?;
        self.prune_outputs(REPLACED_BYTES_MAX)
    }

    /// Drops what the oldest outputs replaced, beyond this size or the retention time. What is on the disk stays.
    pub(crate) fn prune_outputs(&self, bytes_max: u64) -> Result<(), Error> {
        let mut all = self.all_outputs()?;
        all.sort_by_key(|(_, placed)| std::cmp::Reverse(placed.at_time));
        let mut total = 0_u64;
        for (id, placed) in all {
            total = total.saturating_add(placed.bytes);
            if total > bytes_max || placed.at_time.elapsed().unwrap_or_default() > self.settings.retention {
                self.drop_outputs(id)?;
            }
        }
        Ok(())
    }

    /// Returns the disk usage of everything that outputs replaced.
    pub(crate) fn replaced_output_bytes(&self) -> Result<u64, Error> {
        Ok(self.all_outputs()?.iter().map(|(_, placed)| placed.bytes).sum())
    }

    fn all_outputs(&self) -> Result<Vec<(Uuid, PlacedOutputs)>, Error> {
        let mut all = Vec::new();
        for name in list_names(&self.path.join(OUTPUTS))? {
            let Ok(id) = Uuid::parse_str(&name) else { continue };
            let placed = read_json::<PlacedOutputs>(&self.outputs_path(id).join(PLACED_FILE))?;
            all.extend(placed.map(|placed| (id, placed)));
        }
        Ok(all)
    }

    /// Drops what the outputs of a call replaced.
    pub(crate) fn drop_outputs(&self, id: Uuid) -> Result<(), Error> {
        let at = self.outputs_path(id);
        if at.join(MOVES_FILE).exists() || !at.exists() {
            return Ok(());
        }
        dir_handle::remove_path(&at).context("remove", &at)
    }

    fn outputs_path(&self, id: Uuid) -> PathBuf {
        self.path.join(OUTPUTS).join(id.to_string())
    }

    /// Waits until no other process moves outputs. Sessions may share their directories.
    fn lock_outputs(&self) -> Result<File, Error> {
        let at = self.path.join(OUTPUTS);
        DirBuilder::new().recursive(true).mode(0o711).create(&at).context("create", &at)?;
        let lock = File::create(at.join("lock")).context("open", at.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).context("lock", &at)?;
        Ok(lock)
    }
}

/// Returns the parent directory and the name in it, as text.
fn split(path: &Path) -> Result<(&Path, CString), Error> {
    let broken = || Error::NotText { path: path.to_owned() };
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Err(broken()) };
    Ok((above, CString::new(name.as_bytes()).map_err(|_| broken())?))
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Checks a layer against the real directory, and removes from the layer what may not be moved.
struct LayerChecker<'a> {
    may_place: OutputFilter<'a>,
    /// The time, by the clock of the filesystem, after which nothing that is replaced may have changed.
    unchanged_since: i64,
    report: &'a mut OutputReport,
}

impl LayerChecker<'_> {
    /// Checks a layer that is moved into a directory, or becomes that directory.
    fn check_move(&mut self, layer: &Path, directory: &Path) -> Result<(), Stopped> {
        let text = directory.to_str().ok_or_else(|| Error::NotText { path: directory.to_owned() })?;
        let (above, name) = split(directory)?;
        let above = dir_handle::open_resolved(above).context("open", above)?;
        let (from, layer_name) = split(layer)?;
        let from = dir_handle::open_resolved(from).context("open", from)?;
        let real = stat_at(&above, &*name).context("inspect", directory)?;
        let Some(is) = stat_at(&from, &*layer_name).context("inspect", layer)? else { return Ok(()) };
        if whiteout::is_whiteout(&is) {
            // What is undone created the directory.
            return match real {
                Some(real) => self.check_removed((&above, &name), &real, text).map(drop),
                None => Ok(()),
            };
        }
        let layer = dir_handle::open_owned(from.as_fd(), &layer_name, &is).context("open", layer)?;
        match real {
            Some(real) if is_directory(&real) => {
                let real = dir_handle::open_directory(&above, &*name).context("open", directory)?;
                self.check(&layer, Some(&real), text, dir_handle::DEPTH_MAX)
            }
            Some(_) => Err(Stopped::Changed(text.into())),
            None => self.check(&layer, None, text, dir_handle::DEPTH_MAX),
        }
    }

    fn check(
        &mut self,
        layer: &OwnedFd,
        real: Option<&OwnedFd>,
        at: &str,
        steps_down: usize,
    ) -> Result<(), Stopped> {
        let steps_down = steps_down.checked_sub(1).ok_or_else(|| Error::TooDeep { path: at.into() })?;
        for name in dir_handle::list_names(layer).context("list", at)? {
            let Some(is) = stat_at(layer, &*name).context("inspect", at)? else { continue };
            let Ok(utf8) = name.to_str() else {
                self.leave_out(layer, &name, &format!("{at}/{}", name.to_string_lossy()))?;
                continue;
            };
            let path = format!("{at}/{utf8}");
            let was = real.map(|real| stat_at(real, &*name)).transpose().context("inspect", &path)?.flatten();
            if !self.check_entry((layer, &is), real.zip(was.as_ref()), &name, &path, steps_down)? {
                self.leave_out(layer, &name, &path)?;
            }
        }
        Ok(())
    }

    /// Returns whether an entry of the layer may be moved.
    fn check_entry(
        &mut self,
        (layer, is): (&OwnedFd, &Stat),
        real: Option<(&OwnedFd, &Stat)>,
        name: &CStr,
        path: &str,
        steps_down: usize,
    ) -> Result<bool, Stopped> {
        if whiteout::is_whiteout(is) {
            return match real {
                Some((real, was)) => self.check_removed((real, name), was, path),
                None => {
                    dir_handle::remove(layer.as_fd(), name).context("remove", path)?;
                    Ok(true)
                }
            };
        }
        if !(self.may_place)(&new_file(layer, name, is, path)?) {
            return Ok(false);
        }
        if is_directory(is) {
            let inner = dir_handle::open_owned(layer.as_fd(), name, is).context("open", path)?;
            let is_opaque = match whiteout::read_marks(&inner).context("read the attributes of", path)? {
                Ok(marks) if !marks.has_whiteout_files => marks.is_opaque,
                Ok(_) => return Err(unsupported(path, "whiteout").into()),
                Err(attribute) => return Err(unsupported(path, &attribute).into()),
            };
            return match real {
                Some((real, was)) if is_directory(was) && !is_opaque => {
                    let real = dir_handle::open_directory(real, name).context("open", path)?;
                    self.check(&inner, Some(&real), path, steps_down).map(|()| true)
                }
                replaced => {
                    if let Some((real, was)) = replaced
                        && !self.check_removed((real, name), was, path)?
                    {
                        return Ok(false);
                    }
                    if replaced.is_none() {
                        whiteout::remove_marks(&inner).context("read the attributes of", path)?;
                    }
                    self.check(&inner, None, path, steps_down).map(|()| true)
                }
            };
        }
        if FileType::from_raw_mode(is.st_mode) == FileType::RegularFile {
            let file = dir_handle::open_owned(layer.as_fd(), name, is).context("open", path)?;
            if xattrs::names(&file)
                .context("read the attributes of", path)?
                .iter()
                .any(|name| name == "security.capability")
            {
                return Ok(false);
            }
            if let Some(attribute) = whiteout::remove_marks(&file).context("read the attributes of", path)? {
                return Err(unsupported(path, &attribute).into());
            }
        }
        match real {
            Some((real, was)) if is_directory(was) => self.check_removed((real, name), was, path),
            Some((_, was)) => self.check_unchanged(was, path).map(|()| true),
            None => Ok(true),
        }
    }

    /// Checks everything at a real path that goes. Returns whether all of it may go.
    fn check_removed(
        &mut self,
        (above, name): (&OwnedFd, &CStr),
        was: &Stat,
        path: &str,
    ) -> Result<bool, Stopped> {
        let change = FileChange { before: None, ..new_file(above, name, was, path)? };
        let gone = FileChange { before: change.after, after: None, ..change };
        if !(self.may_place)(&gone) {
            return Ok(false);
        }
        if !is_directory(was) {
            return self.check_unchanged(was, path).map(|()| true);
        }
        let inner = dir_handle::open_directory(above, name).context("open", path)?;
        for name in dir_handle::list_names(&inner).context("list", path)? {
            let Some(was) = stat_at(&inner, &*name).context("inspect", path)? else { continue };
            let Ok(text) = name.to_str() else { return Ok(false) };
            if path.split('/').count() > dir_handle::DEPTH_MAX
                || !self.check_removed((&inner, &name), &was, &format!("{path}/{text}"))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_unchanged(&self, was: &Stat, path: &str) -> Result<(), Stopped> {
        match FileIdentity::from_stat(was).changed > self.unchanged_since {
            true => Err(Stopped::Changed(path.into())),
            false => Ok(()),
        }
    }

    fn leave_out(&mut self, layer: &OwnedFd, name: &CStr, path: &str) -> Result<(), Stopped> {
        dir_handle::remove(layer.as_fd(), name).context("remove", path)?;
        self.report.left_out_count += 1;
        if self.report.left_out.len() < NAMED_MAX {
            self.report.left_out.push(path.into());
        }
        Ok(())
    }
}

fn unsupported(path: &str, attribute: &str) -> Error {
    Error::UnsupportedLayer { path: path.into(), attribute: attribute.into() }
}

/// Describes an entry of a layer as a change.
fn new_file(above: &OwnedFd, name: &CStr, stat: &Stat, path: &str) -> Result<FileChange, Error> {
    let identity = FileIdentity::from_stat(stat);
    let kind = match identity.kind() {
        FileType::Directory => FileNodeKind::Directory,
        FileType::RegularFile => FileNodeKind::File { size: identity.size, digest: None },
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(above, name, Vec::new()).context("read", path)?;
            FileNodeKind::Link { target: target.to_string_lossy().into_owned() }
        }
        kind => FileNodeKind::Special { kind: special_kind_name(kind).into() },
    };
    let after: FileNode = node_of_kind(kind, &identity);
    Ok(FileChange {
        path: path.to_owned(),
        before: None,
        after: Some(after),
        git_status: GitStatus::default(),
        diff: None,
    })
}

/// Moves a checked layer into its real directory, and what it replaces into `replaced`. Both have the form of a layer of the directory
/// above. It can be repeated.
fn move_layer(step: &OutputMove, replaced: &Path) -> Result<(), Error> {
    let (above, name) = split(&step.directory)?;
    let above = dir_handle::open_resolved(above).context("open", above)?;
    let (from, layer_name) = split(&step.layer)?;
    let from = dir_handle::open_resolved(from).context("open", from)?;
    match DirBuilder::new().mode(0o700).create(replaced) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        other => other.context("create", replaced)?,
    }
    let kept = dir_handle::open_resolved(replaced).context("open", replaced)?;
    let mover = LayerMover { real: &above, kept: &kept, is_top: true };
    mover.move_entry((&from, &layer_name), &name).context("move to", &step.directory)
}

/// Moves the entries of one directory of a layer.
struct LayerMover<'a> {
    real: &'a OwnedFd,
    kept: &'a OwnedFd,
    /// Whether the entry is the scratch directory itself. The mode of its layer is ours.
    is_top: bool,
}

impl LayerMover<'_> {
    fn move_entry(&self, (layer, layer_name): (&OwnedFd, &CStr), name: &CStr) -> rustix::io::Result<()> {
        let Some(is) = stat_at(layer, layer_name)? else { return Ok(()) };
        let was = stat_at(self.real, name)?;
        if whiteout::is_whiteout(&is) {
            if was.is_some() {
                self.keep(name)?;
            }
            return dir_handle::remove(layer.as_fd(), layer_name);
        }
        if is_directory(&is) {
            let inner = dir_handle::open_owned(layer.as_fd(), layer_name, &is)?;
            let is_opaque = whiteout::read_marks(&inner)?.is_ok_and(|marks| marks.is_opaque);
            if let Some(was) = was.filter(|was| is_directory(was) && !is_opaque) {
                return self.merge((layer, layer_name), &inner, (&is, &was), name);
            }
            if was.is_some() {
                self.keep(name)?;
            } else {
                self.mark_new(name)?;
            }
            whiteout::remove_marks(&inner)?;
            return move_to((layer.as_fd(), layer_name), (self.real.as_fd(), name));
        }
        if was.is_some() {
            self.keep(name)?;
        } else {
            self.mark_new(name)?;
        }
        move_to((layer.as_fd(), layer_name), (self.real.as_fd(), name))
    }

    /// Moves the entries of a directory that exists on both sides.
    fn merge(
        &self,
        (layer, layer_name): (&OwnedFd, &CStr),
        inner: &OwnedFd,
        (is, was): (&Stat, &Stat),
        name: &CStr,
    ) -> rustix::io::Result<()> {
        match rustix::fs::mkdirat(self.kept, name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            other => other?,
        }
        let real = dir_handle::open_directory(self.real, name)?;
        let kept = dir_handle::open_directory(self.kept, name)?;
        let names = dir_handle::list_names(inner)?;
        if !names.is_empty() {
            // A command may have closed its directory.
            rustix::fs::fchmod(inner, Mode::from_raw_mode(permission_bits(is.st_mode) | 0o700))?;
        }
        let mover = LayerMover { real: &real, kept: &kept, is_top: false };
        for name in names {
            mover.move_entry((inner, &name), &name)?;
        }
        let mode = permission_bits(is.st_mode);
        let had = permission_bits(was.st_mode);
        if !self.is_top && mode != had {
            rustix::fs::fchmod(&real, Mode::from_raw_mode(mode))?;
        }
        let has_kept = !dir_handle::list_names(&kept)?.is_empty() || (!self.is_top && mode != had);
        rustix::fs::fchmod(&kept, Mode::from_raw_mode(had | 0o700))?;
        if !has_kept {
            rustix::fs::unlinkat(self.kept, name, AtFlags::REMOVEDIR)?;
        }
        dir_handle::remove(layer.as_fd(), layer_name)
    }

    /// Moves a real file or directory to the layer of what was replaced. One that is there already was moved before an interruption.
    fn keep(&self, name: &CStr) -> rustix::io::Result<()> {
        match stat_at(self.kept, name)? {
            Some(_) => dir_handle::remove(self.real.as_fd(), name),
            None => {
                move_to((self.real.as_fd(), name), (self.kept.as_fd(), name))?;
                self.mark_whole(name)
            }
        }
    }

    /// Notes that a directory was replaced as a whole, so that an undo replaces it as a whole.
    fn mark_whole(&self, name: &CStr) -> rustix::io::Result<()> {
        let Some(is) = stat_at(self.kept, name)?.filter(is_directory) else { return Ok(()) };
        let directory = dir_handle::open_owned(self.kept.as_fd(), name, &is)?;
        whiteout::mark_opaque(&directory)
    }

    /// Notes that nothing was at a path.
    fn mark_new(&self, name: &CStr) -> rustix::io::Result<()> {
        let none = rustix::fs::makedev(0, 0);
        match rustix::fs::mknodat(self.kept, name, FileType::CharacterDevice, Mode::empty(), none) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }
}

/// Moves a file or directory to a path where nothing exists, also to another filesystem.
fn move_to(from: (BorrowedFd<'_>, &CStr), to: (BorrowedFd<'_>, &CStr)) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        Err(Errno::XDEV) => {
            tree_copy::copy_entry(from, to)?;
            dir_handle::remove(from.0, from.1)
        }
        other => other,
    }
}
