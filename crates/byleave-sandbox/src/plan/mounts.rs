//! The mount program: which file system the command finds.
//!
//! The order is the safety of it. What stays writable is taken in hand *before* everything is sealed; what is empty is put in
//! place before what lies in it; what is protected comes after the writable that it lies in, and with it every directory on the
//! way becomes a mount point, because a mount point cannot be renamed away; masks come last but for the processes. A copy is made
//! before any other covers what it is a copy of, and takes its place when that would be put there: everything that comes later
//! comes on top of it, since nothing that is mounted beneath a copy is seen through it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::path::{Path, PathBuf};

use super::{HostInfo, PathKind, PlanError, overlays, path_text, resolved, text};
use crate::confinement::{CopiedPath, CopySource, FileConfinement, ReadScope};
use crate::plan_format::{CloneDepth, LAYERS, MountAccess, MountOp, OnMissing, SLOTS};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Where others leave sockets, logs, disks and backups: hidden in every confinement, where they exist.
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

/// The steps that make these files, in order.
pub(super) fn program(
    files: &FileConfinement,
    scratch_bytes: u64,
    network_apart: bool,
    host: &impl HostInfo,
) -> Result<Vec<MountOp<CString>>, PlanError> {
    check(files, host)?;
    overlays::check(files, host)?;
    let mut program = MountProgramBuilder::new(files, host)?;
    program.hide_copies(files)?;
    program.ops.push(MountOp::Seclude);
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

/// The steps that show a command of a session its own terminals and processes.
pub(super) fn of_a_command() -> Vec<MountOp<CString>> {
    let place = MountOp::Attach { slot: 0, path: c"/dev/pts".into(), missing: OnMissing::Fault };
    [vec![MountOp::Terminals { slot: 0 }, place], processes()].concat()
}

/// The steps that show a command its own processes.
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
        resolved(path)?;
    }
    let named = [&files.home_readable, &files.writable, &files.hidden, &files.protected];
    for path in named.into_iter().flatten().chain(&files.home).chain([&files.cwd]) {
        resolved(path)?;
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
            return Err(PlanError::TooMuch(path.clone()));
        }
    }
    Ok(())
}

/// A tree that is seen inside as it is outside, or a copy of it.
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
    /// What is emptied: beneath it only what is kept can be seen.
    emptied: BTreeSet<PathBuf>,
    /// What is covered once everything else is in place.
    masked: BTreeMap<PathBuf, PathKind>,
}

impl<'a, H: HostInfo> MountProgramBuilder<'a, H> {
    fn new(files: &'a FileConfinement, host: &'a H) -> Result<Self, PlanError> {
        let mut kept: BTreeMap<PathBuf, (MountAccess, Option<&CopySource>)> = BTreeMap::new();
        let readable = files.home_readable.iter().filter(|path| host.kind(path).is_some());
        kept.extend(readable.map(|path| (path.clone(), (MountAccess::Read, None))));
        kept.extend(files.writable.iter().map(|path| (path.clone(), (MountAccess::Write, None))));
        // What lies in a copy is part of it.
        kept.retain(|path, _| !files.copied.iter().any(|copied| path.starts_with(&copied.root)));
        kept.extend(
            files.copied.iter().map(|one| (one.root.clone(), (MountAccess::Write, Some(&one.source)))),
        );
        // By path, so that what lies in another comes after it.
        let kept: Vec<MountedTree<'_>> = (1u32..)
            .zip(kept)
            .filter_map(|(slot, (path, (access, copy)))| {
                let kind = match copy {
                    None => host.kind(&path)?,
                    Some(copy) => overlays::kind(copy, host)?,
                };
                Some(MountedTree { kind, path, access, slot, copy })
            })
            .collect();
        if kept.len() + DEVICES.len() + LAYERS >= SLOTS - 1 {
            return Err(PlanError::TooMany(SLOTS - DEVICES.len() - LAYERS - 2));
        }
        let mut emptied = BTreeSet::from(["/dev", "/tmp", "/var/tmp"].map(PathBuf::from));
        emptied.extend(files.home.clone());
        let mut masked = BTreeMap::new();
        let everywhere = HIDDEN_EVERYWHERE.map(PathBuf::from).into_iter();
        for path in
            everywhere.filter(|path| host.kind(path) == Some(PathKind::Directory)).chain(files.hidden.clone())
        {
            match host.kind(&path) {
                // What holds something that is kept is emptied around it.
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
        Ok(Self { host, ops: Vec::new(), kept, copied: &files.copied, emptied, masked })
    }

    /// Refuses what a copy is made of where it would be seen inside: it could be changed past the copy.
    fn hide_copies(&self, files: &FileConfinement) -> Result<(), PlanError> {
        let shown = |part: &&PathBuf| {
            overlays::is_named(part, files)
                || (self.shown(part) && !part.ancestors().any(|above| self.masked.contains_key(above)))
        };
        match self.copied.iter().flat_map(|copied| copied.source.parts()).find(shown) {
            Some(part) => Err(PlanError::CopyShown(part.clone())),
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
        self.ops.push(MountOp::Hold { slot, path: path_text(path)?, depth, access });
        Ok(())
    }

    fn attach(&mut self, slot: u32, path: &Path, missing: OnMissing) -> Result<(), PlanError> {
        self.ops.push(MountOp::Attach { slot, path: path_text(path)?, missing });
        Ok(())
    }

    /// Whether what is at a path outside is there inside as well, before masks.
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
            Some(CopySource::Tree { at }) => self.hold(*slot, at, CloneDepth::All, *access),
            Some(CopySource::Overlay { lowers, upper, work }) => {
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
        // What is not there yet has only what was put on top of it.
        let itself = self.host.kind(root).is_some().then_some(root);
        let lowers: Vec<&Path> = lowers.iter().map(PathBuf::as_path).chain(itself).collect();
        let layers = written.into_iter().map(PathBuf::as_path).chain(lowers.iter().copied());
        for (slot, layer) in (first..).zip(layers) {
            self.ops.push(MountOp::Layer { slot, path: path_text(layer)? });
        }
        let lowers = u32::try_from(lowers.len()).unwrap_or(u32::MAX);
        self.ops.push(MountOp::Overlay { slot, root: path_text(root)?, first, lowers });
        Ok(())
    }

    /// Whether what is there outside need not be there inside, since it lies in a copy.
    fn may_be_gone(&self, path: &Path) -> bool {
        self.copied.iter().any(|copied| path.starts_with(&copied.root) && !overlays::is_fresh(&copied.source))
    }

    /// The two steps that follow are about this path.
    fn if_there(&mut self, path: &Path) -> Result<(), PlanError> {
        if self.may_be_gone(path) {
            self.ops.push(MountOp::IfThere { path: path_text(path)? });
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

    /// What is emptied, from the outside in. Both temporary directories are one, so that their limit is one.
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
            // Inside something that is emptied itself, a directory that only holds what is kept is made on the way.
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

    /// Whether something that is kept would be put over a path.
    fn lies_in_kept(&self, path: &Path) -> bool {
        self.kept.iter().any(|kept| path != kept.path && path.starts_with(&kept.path))
    }

    /// What is emptied within something that is kept, and so after it.
    fn emptied_within(&self) -> Vec<PathBuf> {
        let within = |path: &&PathBuf| {
            self.lies_in_kept(path) && path.parent().is_some_and(|parent| self.shown(parent))
        };
        self.emptied.iter().filter(within).cloned().collect()
    }

    /// What is kept and what is emptied within it, from the outside in.
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

    /// Protected paths and, writable as before, every directory between them and the writable path that they lie in. So with what is
    /// hidden: by another path no rule may know it the next time.
    fn protect(&mut self, files: &FileConfinement) -> Result<(), PlanError> {
        let mut points: BTreeMap<PathBuf, MountAccess> = BTreeMap::new();
        let protected = files.protected.iter().chain(overlays::read_only(files)).map(|path| (path, true));
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

    /// Covers what is hidden: one empty directory for all directories, `/dev/null` without its device for all files.
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
                // The others could not be had from where this is not.
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
        // No namespaces within these, even if a way past the filter were found.
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

/// The hands that hold devices: the last ones.
fn device_slots() -> impl Iterator<Item = (u32, &'static str)> {
    let last = u32::try_from(SLOTS - 1).unwrap_or_default();
    DEVICES.iter().zip(0u32..).map(move |(device, at)| (last - at, *device))
}

/// The first of the hands that hold layers: before those that hold devices.
fn layer_slot() -> u32 {
    u32::try_from(SLOTS - DEVICES.len() - LAYERS).unwrap_or_default()
}
