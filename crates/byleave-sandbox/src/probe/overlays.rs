//! Checks whether commands can run on copies in a directory, by trying a real one, and says what helps if they cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rustix::fs::{getxattr, statfs};

use super::WALL;
use crate::confinement::{Confinement, CopiedPath, CopySource, FileConfinement, Network, SandboxPorts};
use crate::guarantee::Guarantee;
use crate::launch::{
    CommandOutcome, CommandStatus, CommandTempDir, LaunchError, RunAs, owner_on_disk, start,
};
use crate::limits::ResourceLimits;
use crate::plan::CommandSpec;

const REPLACED: &str = "replaced";
const OVERLAY: i64 = 0x794c_7630;
const MEMORY: i64 = 0x0102_1994;
/// File systems that cannot hold a writable layer: FUSE, NFS, 9p and CIFS, including the Windows drives of WSL.
const FOREIGN: [i64; 4] = [0x6573_5546, 0x6969, 0x0102_1997, 0xff53_4d42];

/// Checks, by running a command, whether it can run on an overlay whose changes go to this directory. The directory need not
/// exist yet. Otherwise returns why not and what helps. A complete copy may still work then.
pub fn probe_overlays(store: &Path, run_as: RunAs) -> Result<(), String> {
    let there = store.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/"));
    let told = |error: &LaunchError| why(there, error);
    match attempt(there, run_as).as_ref().map_err(told)? {
        outcome if outcome.status == CommandStatus::Exited(0) => Ok(()),
        outcome => {
            let said = String::from_utf8_lossy(&outcome.stderr.bytes).trim().to_owned();
            let told = format!("a command on the overlay ended with {:?} {said}", outcome.status);
            Err(why(there, &LaunchError::CopyFailed { root: there.into(), error: io::Error::other(told) }))
        }
    }
}

/// Runs a command that changes something in a copy, and checks that nothing else changed.
fn attempt(store: &Path, run_as: RunAs) -> Result<CommandOutcome, LaunchError> {
    let owner = owner_on_disk(run_as);
    let (lower, kept) = (CommandTempDir::new(owner)?, CommandTempDir::new_in(store, owner)?);
    let making = |error| LaunchError::Internal { doing: "creating a test copy", error };
    let [upper, work] = ["upper", "work"].map(|name| kept.path.join(name));
    for directory in [&upper, &work] {
        fs::create_dir(directory).map_err(making)?;
        chown(directory, Some(owner.uid), Some(owner.gid)).map_err(making)?;
    }
    let root = lower.path.clone();
    fs::create_dir(root.join(REPLACED)).map_err(making)?;
    chown(root.join(REPLACED), Some(owner.uid), Some(owner.gid)).map_err(making)?;
    let copied = CopiedPath {
        root: root.clone(),
        source: CopySource::Overlay { lower_layers: Vec::new(), upper_dir: upper.clone(), work_dir: work },
    };
    let confinement = Confinement {
        files: FileConfinement {
            cwd: root.clone(),
            writable: vec![root.clone()],
            hidden: vec![kept.path.clone()],
            copies: vec![copied],
            ..FileConfinement::default()
        },
        network: Network::Off,
        ports: SandboxPorts::default(),
        environment: BTreeMap::from([("PATH".into(), super::PATH.into())]),
        limits: ResourceLimits { wall_time: WALL, reserve_bytes: 0, ..ResourceLimits::default() },
        waived: BTreeSet::from(Guarantee::ALL),
        required: BTreeSet::new(),
    };
    // The script replaces a directory, which needs extended attributes in the layer. Not every file system has them.
    let script = format!("rm -r {REPLACED} && mkdir {REPLACED} && mkdir {REPLACED}/made");
    let command =
        CommandSpec { argv: ["sh", "-c", &script].map(Into::into).into(), ..CommandSpec::default() };
    let outcome = start(&confinement, &command, run_as)?.finish()?;
    let is_there = |directory: &PathBuf| directory.join(REPLACED).join("made").exists();
    let mut opaque = [0u8; 1];
    let is_marked =
        getxattr(upper.join(REPLACED), "user.overlay.opaque", &mut opaque) == Ok(1) && opaque == *b"y";
    if outcome.status == CommandStatus::Exited(0) && (is_there(&root) || !is_there(&upper) || !is_marked) {
        let error =
            io::Error::other("the changes of the command are not in the upper layer, or also elsewhere");
        return Err(LaunchError::CopyFailed { root, error });
    }
    Ok(outcome)
}

fn why(store: &Path, error: &LaunchError) -> String {
    let LaunchError::CopyFailed { error: answer, .. } = error else { return error.to_string() };
    let told = |what: &str| format!("cannot write an overlay to `{}` ({answer}): {what}", store.display());
    let kind = statfs(store).map(|found| found.f_type).unwrap_or_default();
    match answer.raw_os_error() {
        Some(ENODEV) => told(
            "this kernel has no overlay file system, or has not loaded it; run `modprobe overlay` as root to load it",
        ),
        Some(EPERM) => told(
            "this kernel lets only root mount overlays, or a security module forbids it; Linux 5.11 and later let every user mount them",
        ),
        _ if kind == OVERLAY => told(
            "the directory is itself on an overlay, as in most containers; put the state directory on a volume or a tmpfs with `--state`",
        ),
        _ if kind == MEMORY => told(
            "the directory is on a tmpfs, which supports overlay attributes only since Linux 6.6; put the state directory on a disk with `--state`",
        ),
        _ if FOREIGN.contains(&kind) => told(
            "the directory is on a network file system; put the state directory on a local disk with `--state`",
        ),
        _ => {
            told("put the state directory on another file system, such as ext4, xfs or btrfs, with `--state`")
        }
    }
}

const EPERM: i32 = 1;
const ENODEV: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    // req: E5
    #[test]
    fn what_stands_in_the_way_is_told_with_what_helps() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        for (errno, words) in [(ENODEV, "modprobe overlay"), (EPERM, "5.11"), (22, "--state")] {
            let error = io::Error::from_raw_os_error(errno);
            let told = why(folder.path(), &LaunchError::CopyFailed { root: "/w".into(), error });
            assert!(told.contains(words) && told.contains(&folder.path().display().to_string()), "{told}");
        }
    }
}
