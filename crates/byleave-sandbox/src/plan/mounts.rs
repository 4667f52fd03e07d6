//! The mount program, which builds the file system of the command.
//!
//! Safety depends on the order. Writable trees are cloned *before* everything is made read-only. Empty directories are mounted
//! before their contents. Protected paths come after the writable tree that contains them. Every directory in between becomes a
//! mount point, because a mount point cannot be renamed. Masks come last, except for `/proc`. A copy is created before another
//! mount covers its original, and is attached at the path of the original. Later mounts go on top of it, because mounts beneath
//! the original are not visible through a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::path::{Path, PathBuf};

use super::{HostInfo, PathKind, PlanError, check_resolved, overlays, path_text, text};
use crate::confinement::{CopiedPath, CopySource, FileConfinement, ReadScope};
use crate::plan_format::{CloneDepth, LAYER_SLOTS, MountAccess, MountOp, OnMissing, SLOT_COUNT};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Places with sockets, logs, disks and backups of others. They are hidden in every confinement, if they exist.
pub(super) const HIDDEN_EVERYWHERE: [&str; 10] = [
    "/run",
    "/mnt",
    "/media",
    "/boot",
    "/srv",
    "/lost+found",
    "/var/log",
    "/var/spool",
    "/var/lib/docker",
    "/var/lib/containers",
];
const INODES: u64 = 100_000;

/// Returns the steps that build this file system, in order.
pub(super) fn mount_program(
    files: &FileConfinement,
    scratch_bytes: u64,
    network_apart: bool,
    host: &impl HostInfo,
) -> Result<Vec<MountOp<CString>>, PlanError> {
    check(files, host)?;
    overlays::check_copies(files, host)?;
    let mut program = MountProgramBuilder::new(files, host)?;
    program.hide_copies(files)?;
    program.ops.push(MountOp::MakePrivate);
    program.hold_devices()?;
    program.hold_kept()?;
    program.ops.push(MountOp::Seal);
    program.devices()?;
    program.scratch(files, scratch_bytes)?;
    program.attach_kept()?;
    program.protect(files)?;
    program.hide()?;
    program.finish(network_apart)?;
    Ok(program.ops)
}

/// Returns the steps that show a command of a session its own terminals and processes.
pub(super) fn command_mounts() -> Vec<MountOp<CString>> {
    let place = MountOp::Attach { slot: 0, path: c"/dev/pts".into(), missing: OnMissing::Fault };
    [vec![MountOp::Terminals { slot: 0 }, place], processes()].concat()
}

/// Returns the steps that show a command its own processes.
fn processes() -> Vec<MountOp<CString>> {
    vec![
        MountOp::Processes { slot: 0 },
        MountOp::Attach { slot: 0, path: c"/proc".into(), missing: OnMissing::Fault },
    ]
}

fn check(files: &FileConfinement, host: &impl HostInfo) -> Result<(), PlanError> {
    let readable = match &files.readable {
        ReadScope::Everything => &[][..],
        ReadScope::Only(paths) => paths,
    };
    for path in readable {
        check_resolved(path)?;
    }
    let named = [&files.home_readable, &files.writable, &files.hidden, &files.protected];
    for path in named.into_iter().flatten().chain(&files.home).chain([&files.cwd]) {
        check_resolved(path)?;
        if host.kind(path) == Some(PathKind::Link) {
            return Err(PlanError::Link(path.clone()));
        }
    }
    for path in &files.writable {
        if host.kind(path).is_none() {
            return Err(PlanError::Missing(path.clone()));
        }
        if files.home.as_ref().is_some_and(|home| home.starts_with(path)) {
            return Err(PlanError::ShowsHome(path.clone()));
        }
        let ours = ["/dev", "/proc", "/sys", "/tmp", "/var/tmp"].map(Path::new);
        let beneath_the_kernel = ["/dev", "/proc", "/sys"].iter().any(|place| path.starts_with(place));
        if ours.iter().any(|place| place.starts_with(path)) || beneath_the_kernel {
            return Err(PlanError::ShowsAllMounts(path.clone()));
        }
    }
    Ok(())
}

/// A tree that appears inside as it is outside, or a copy of it.
struct MountedTree<'a> {
    path: PathBuf,
    access: MountAccess,
    kind: PathKind,
    slot: u32,
    copy: Option<&'a CopySource>,
}

struct MountProgramBuilder<'a, H> {
    host: &'a H,
    ops: Vec<MountOp<CString>>,
    kept: Vec<MountedTree<'a>>,
    copied: &'a [CopiedPath],
    /// Directories that are emptied: only kept trees are visible beneath them.
    emptied: BTreeSet<PathBuf>,
    /// Paths that are covered after everything else is in place.
    masked: BTreeMap<PathBuf, PathKind>,
}

impl<'a, H: HostInfo> MountProgramBuilder<'a, H> {
    fn new(files: &'a FileConfinement, host: &'a H) -> Result<Self, PlanError> {
        let mut kept: BTreeMap<PathBuf, (MountAccess, Option<&CopySource>)> = BTreeMap::new();
        let readable = files.home_readable.iter().filter(|path| host.kind(path).is_some());
        kept.extend(readable.map(|path| (path.clone(), (MountAccess::Read, None))));
        kept.extend(files.writable.iter().map(|path| (path.clone(), (MountAccess::Write, None))));
        // Trees inside a copy are part of the copy.
        kept.retain(|path, _| !files.copies.iter().any(|copied| path.starts_with(&copied.root)));
        kept.extend(
            files.copies.iter().map(|one| (one.root.clone(), (MountAccess::Write, Some(&one.source)))),
        );
        // Sorted by path, so that an inner tree comes after the outer one.
        let kept: Vec<MountedTree<'_>> = (1u32..)
            .zip(kept)
            .filter_map(|(slot, (path, (access, copy)))| {
                let kind = match copy {
                    None => host.kind(&path)?,
                    Some(copy) => overlays::copy_kind(copy, host)?,
                };
                Some(MountedTree { kind, path, access, slot, copy })
            })
            .collect();
        if kept.len() + DEVICES.len() + LAYER_SLOTS >= SLOT_COUNT - 1 {
            return Err(PlanError::TooMany(SLOT_COUNT - DEVICES.len() - LAYER_SLOTS - 2));
        }
        let mut emptied = BTreeSet::from(["/dev", "/tmp", "/var/tmp"].map(PathBuf::from));
        emptied.extend(files.home.clone());
        let mut masked = BTreeMap::new();
        let everywhere = HIDDEN_EVERYWHERE.map(PathBuf::from).into_iter();
        for path in
            everywhere.filter(|path| host.kind(path) == Some(PathKind::Directory)).chain(files.hidden.clone())
        {
            match host.kind(&path) {
                // A directory that contains a kept tree is emptied around it.
                Some(PathKind::Directory) if kept.iter().any(|kept| kept.path.starts_with(&path)) => {
                    emptied.insert(path);
                }
                Some(kind) => {
                    masked.insert(path, kind);
                }
                None => {}
            }
        }
        emptied.retain(|path| host.kind(path) == Some(PathKind::Directory));
        Ok(Self { host, ops: Vec::new(), kept, copied: &files.copies, emptied, masked })
    }

    /// Refuses the parts of a copy if they would be visible inside, because they could be changed there directly.
    fn hide_copies(&self, files: &FileConfinement) -> Result<(), PlanError> {
        let shown = |part: &&PathBuf| {
            overlays::is_named(part, files)
                || (self.shown(part) && !part.ancestors().any(|above| self.masked.contains_key(above)))
        };
        match self.copied.iter().flat_map(|copied| copied.source.paths()).find(shown) {
            Some(part) => Err(PlanError::CopyVisible(part.clone())),
            None => Ok(()),
        }
    }

    fn hold(
        &mut self,
        slot: u32,
        path: &Path,
        depth: CloneDepth,
        access: MountAccess,
    ) -> Result<(), PlanError> {
        self.ops.push(MountOp::CloneTree { slot, path: path_text(path)?, depth, access });
        Ok(())
    }

    fn attach(&mut self, slot: u32, path: &Path, missing: OnMissing) -> Result<(), PlanError> {
        self.ops.push(MountOp::Attach { slot, path: path_text(path)?, missing });
        Ok(())
    }

    /// Returns whether the file at a path outside is also visible inside, before masks.
    fn shown(&self, path: &Path) -> bool {
        let depth = |path: &Path| path.components().count();
        let above = |candidate: &&Path| path.starts_with(candidate);
        let emptied = self.emptied.iter().map(PathBuf::as_path).filter(above).map(depth).max();
        let kept = self.kept.iter().map(|kept| kept.path.as_path()).filter(above).map(depth).max();
        kept >= emptied
    }

    fn hold_devices(&mut self) -> Result<(), PlanError> {
        for (slot, device) in device_slots() {
            self.hold(slot, &Path::new("/dev").join(device), CloneDepth::One, MountAccess::Device)?;
        }
        Ok(())
    }

    fn hold_kept(&mut self) -> Result<(), PlanError> {
        let kept: Vec<_> =
            self.kept.iter().map(|kept| (kept.slot, kept.path.clone(), kept.access, kept.copy)).collect();
        kept.iter().try_for_each(|(slot, path, access, copy)| match copy {
            None => self.hold(*slot, path, CloneDepth::All, *access),
            Some(CopySource::Tree { path: at }) => self.hold(*slot, at, CloneDepth::All, *access),
            Some(CopySource::Overlay { lower_layers: lowers, upper_dir: upper, work_dir: work }) => {
                self.overlay(*slot, path, lowers, [upper, work])
            }
        })
    }

    fn overlay(
        &mut self,
        slot: u32,
        root: &Path,
        lowers: &[PathBuf],
        written: [&PathBuf; 2],
    ) -> Result<(), PlanError> {
        let first = layer_slot();
        // A directory that does not exist yet consists only of the layers on top.
        // Nothing of the real temporary directory is seen.
        let is_lowest = self.host.kind(root).is_some() && !overlays::is_session_tmp(root);
        let itself = is_lowest.then_some(root);
        let lowers: Vec<&Path> = lowers.iter().map(PathBuf::as_path).chain(itself).collect();
        let layers = written.into_iter().map(PathBuf::as_path).chain(lowers.iter().copied());
        for (slot, layer) in (first..).zip(layers) {
            self.ops.push(MountOp::Layer { slot, path: path_text(layer)? });
        }
        let lowers = u32::try_from(lowers.len()).unwrap_or(u32::MAX);
        self.ops.push(MountOp::Overlay { slot, root: path_text(root)?, first, lowers });
        Ok(())
    }

    /// Returns whether a path may be missing inside because it lies in a copy.
    fn may_be_gone(&self, path: &Path) -> bool {
        self.copied.iter().any(|copied| path.starts_with(&copied.root) && !overlays::is_fresh(&copied.source))
    }

    /// Makes the two following steps depend on this path.
    fn if_there(&mut self, path: &Path) -> Result<(), PlanError> {
        if self.may_be_gone(path) {
            self.ops.push(MountOp::SkipIfMissing { path: path_text(path)? });
        }
        Ok(())
    }

    fn empty(&mut self, path: &Path, bytes: u64, mode: u32, access: MountAccess) -> Result<(), PlanError> {
        self.ops.push(MountOp::Scratch { slot: 0, bytes, inodes: INODES, mode, access });
        self.attach(0, path, OnMissing::MakeDirectory)
    }

    fn devices(&mut self) -> Result<(), PlanError> {
        self.empty(Path::new("/dev"), 64 << 10, 0o755, MountAccess::Device)?;
        for (slot, device) in device_slots() {
            self.attach(slot, &Path::new("/dev").join(device), OnMissing::MakeFile)?;
        }
        for (path, to) in [
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
            ("/dev/ptmx", "pts/ptmx"),
        ] {
            self.ops.push(MountOp::Link { path: text(path, "a path")?, to: text(to, "a path")? });
        }
        self.empty(Path::new("/dev/shm"), 64 << 20, 0o1777, MountAccess::Write)?;
        self.ops.push(MountOp::Terminals { slot: 0 });
        self.attach(0, Path::new("/dev/pts"), OnMissing::MakeDirectory)
    }

    /// Mounts the emptied directories, outer ones first. Both temporary directories are one mount, so that they share one limit.
    fn scratch(&mut self, files: &FileConfinement, bytes: u64) -> Result<(), PlanError> {
        let (tmp, var_tmp) = (Path::new("/tmp"), Path::new("/var/tmp"));
        let emptied: Vec<PathBuf> = self.emptied.iter().cloned().collect();
        for path in emptied {
            if path == Path::new("/dev") || path == var_tmp || self.lies_in_kept(&path) {
                continue;
            }
            let holder = |other: &PathBuf| *other != path && path.starts_with(other);
            let (bytes, mode) = match () {
                () if path == tmp => (bytes, 0o1777),
                () if files.home.as_ref() == Some(&path) => (bytes, 0o700),
                () => (64 << 10, 0o755),
            };
            // Inside an emptied directory, a directory that only contains kept trees is created with them.
            if self.emptied.iter().any(holder) && files.home.as_ref() != Some(&path) {
                continue;
            }
            self.empty(&path, bytes, mode, MountAccess::Write)?;
        }
        if self.emptied.contains(var_tmp) {
            self.hold(0, tmp, CloneDepth::One, MountAccess::Write)?;
            self.attach(0, var_tmp, OnMissing::Fault)?;
        }
        Ok(())
    }

    /// Returns whether a kept tree would cover a path.
    fn lies_in_kept(&self, path: &Path) -> bool {
        self.kept.iter().any(|kept| path != kept.path && path.starts_with(&kept.path))
    }

    /// Returns the emptied directories inside a kept tree, which are mounted after it.
    fn emptied_within(&self) -> Vec<PathBuf> {
        let within = |path: &&PathBuf| {
            self.lies_in_kept(path) && path.parent().is_some_and(|parent| self.shown(parent))
        };
        self.emptied.iter().filter(within).cloned().collect()
    }

    /// Attaches the kept trees and the emptied directories inside them, outer ones first.
    fn attach_kept(&mut self) -> Result<(), PlanError> {
        let kept = self.kept.iter().map(|kept| (kept.path.clone(), Some((kept.slot, kept.kind))));
        let within = self.emptied_within().into_iter().map(|path| (path, None));
        let places: BTreeMap<PathBuf, Option<(u32, PathKind)>> = within.chain(kept).collect();
        for (path, kept) in places {
            let Some((slot, kind)) = kept else {
                self.if_there(&path)?;
                self.empty(&path, 64 << 10, 0o755, MountAccess::Write)?;
                continue;
            };
            let in_scratch = path.parent().is_some_and(|parent| !self.shown(parent));
            let in_copy = |copied: &CopiedPath| path != copied.root && path.starts_with(&copied.root);
            let missing = match kind {
                _ if !in_scratch && !self.copied.iter().any(in_copy) => OnMissing::Fault,
                PathKind::Directory => OnMissing::MakeDirectory,
                PathKind::File | PathKind::Link => OnMissing::MakeFile,
            };
            self.attach(slot, &path, missing)?;
        }
        Ok(())
    }

    /// Mounts protected paths and, still writable, every directory between them and the writable tree. It does the same for
    /// hidden paths, because after a rename no rule might match them the next time.
    fn protect(&mut self, files: &FileConfinement) -> Result<(), PlanError> {
        let mut points: BTreeMap<PathBuf, MountAccess> = BTreeMap::new();
        let protected =
            files.protected.iter().chain(overlays::read_only_in_copies(files)).map(|path| (path, true));
        let hidden = self.masked.keys().map(|path| (path, false));
        let shown =
            protected.chain(hidden).filter(|(path, _)| self.host.kind(path).is_some() && self.shown(path));
        let emptied = self.emptied_within();
        for (path, is_protected) in shown.chain(emptied.iter().map(|path| (path, false))) {
            let Some(root) = files.writable.iter().filter(|root| path.starts_with(root)).max() else {
                continue;
            };
            if is_protected {
                points.insert(path.clone(), MountAccess::Read);
            }
            for above in path.ancestors().skip(1).take_while(|above| above != root && above.starts_with(root))
            {
                points.entry(above.to_path_buf()).or_insert(MountAccess::Write);
            }
        }
        for (path, access) in &points {
            let held = |above: &Path| points.get(above) == Some(&MountAccess::Read);
            if path.ancestors().skip(1).any(held) {
                continue;
            }
            self.if_there(path)?;
            self.hold(0, path, CloneDepth::All, *access)?;
            self.attach(0, path, OnMissing::Fault)?;
        }
        Ok(())
    }

    /// Covers hidden paths: one empty directory for all directories, `/dev/null` without its device for all files.
    fn hide(&mut self) -> Result<(), PlanError> {
        let mut empty: Option<PathBuf> = None;
        let masked: Vec<_> = self.masked.iter().map(|(path, kind)| (path.clone(), *kind)).collect();
        for (path, kind) in masked {
            let covered = |above: &Path| self.masked.get(above) == Some(&PathKind::Directory);
            if !self.shown(&path) || path.ancestors().skip(1).any(covered) {
                continue;
            }
            self.if_there(&path)?;
            let nothing =
                MountOp::Scratch { slot: 0, bytes: 4096, inodes: 1, mode: 0, access: MountAccess::Mask };
            match (kind, &empty) {
                // If this one is missing, the others could not be cloned from it.
                (PathKind::Directory, _) if self.may_be_gone(&path) => self.ops.push(nothing),
                (PathKind::Directory, None) => {
                    self.ops.push(nothing);
                    empty = Some(path.clone());
                }
                (PathKind::Directory, Some(first)) => {
                    let first = first.clone();
                    self.hold(0, &first, CloneDepth::One, MountAccess::Mask)?;
                }
                (PathKind::File | PathKind::Link, _) => {
                    self.hold(0, Path::new("/dev/null"), CloneDepth::One, MountAccess::Mask)?;
                }
            }
            self.attach(0, &path, OnMissing::Fault)?;
        }
        Ok(())
    }

    fn finish(&mut self, network_apart: bool) -> Result<(), PlanError> {
        self.ops.extend(processes());
        // Forbids further namespaces inside, in case the filter can be bypassed.
        for limit in ["user", "net"] {
            let path = text(format!("/proc/sys/user/max_{limit}_namespaces"), "a path")?;
            self.ops.push(MountOp::Write { path, text: c"0".into() });
        }
        if network_apart {
            self.ops.push(MountOp::Loopback);
        }
        self.ops.push(MountOp::Hostname { name: c"sandbox".into() });
        Ok(())
    }
}

/// Returns the slots for devices, which are the last ones.
fn device_slots() -> impl Iterator<Item = (u32, &'static str)> {
    let last = u32::try_from(SLOT_COUNT - 1).unwrap_or_default();
    DEVICES.iter().zip(0u32..).map(move |(device, at)| (last - at, *device))
}

/// Returns the first of the slots for layers, which come before those for devices.
fn layer_slot() -> u32 {
    u32::try_from(SLOT_COUNT - DEVICES.len() - LAYER_SLOTS).unwrap_or_default()
}
