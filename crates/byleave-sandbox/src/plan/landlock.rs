//! Landlock rules: a second barrier against writes, which holds even if a mount was forgotten.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use super::{HostInfo, PathKind, PlanError, path_text};
use crate::confinement::{FileConfinement, ReadScope};
use crate::system_paths;

/// The operations that are allowed beneath each path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandlockRuleset {
    /// The size in bytes of the following three numbers, as far as this kernel knows them.
    pub size: u64,
    /// The file operations that are refused unless a rule allows them.
    pub files: u64,
    /// The operations that are confined to the sandbox: signals, and abstract local sockets.
    pub scoped: u64,
    /// The allowed operations.
    pub rules: Vec<LandlockRule>,
    /// The TCP operations that are refused unless a port is allowed.
    pub tcp: u64,
    /// The allowed ports, with their operations.
    pub ports: Vec<(u16, u64)>,
}

/// Listening on a TCP port.
pub(super) const BIND_TCP: u64 = 1;
/// Connecting to a TCP port.
pub(super) const CONNECT_TCP: u64 = 1 << 1;
/// The first version of Landlock that confines TCP.
pub(crate) const TCP_SINCE: u32 = 4;

/// The operations that are allowed beneath one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandlockRule {
    /// The path inside.
    pub path: CString,
    /// The operations.
    pub access: u64,
}

const EXECUTE: u64 = 1;
pub(super) const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
pub(super) const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
pub(super) const IOCTL_DEV: u64 = 1 << 15;
const FIRST_VERSION: u64 = (1 << 13) - 1;
pub(super) const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
/// The operations on writable paths.
pub(super) const ALL_BUT_DEVICES: u64 = !(MAKE_CHAR | MAKE_BLOCK);
/// The operations that apply to a file that is not a directory.
const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// Returns the rules for these files: readable paths can be read, writable paths can be written. `None` without Landlock.
pub(super) fn rules(
    files: &FileConfinement,
    host: &impl HostInfo,
) -> Result<Option<LandlockRuleset>, PlanError> {
    let Some(lock) = empty_ruleset(host.landlock()) else { return Ok(None) };
    let all = lock.files;
    let rule =
        |path: &Path, access: u64| path_text(path).map(|path| LandlockRule { path, access: access & all });
    let mut rules = vec![
        rule(Path::new("/dev"), READ | WRITE_FILE | IOCTL_DEV)?,
        rule(Path::new("/proc"), READ | WRITE_FILE)?,
    ];
    match &files.readable {
        ReadScope::Everything => rules.push(rule(Path::new("/"), READ)?),
        ReadScope::Only(paths) => {
            let paths = paths.iter().chain(&files.home_readable).map(PathBuf::as_path);
            for path in system_paths::system_paths().chain(paths) {
                // The target of a link is named by its own path.
                match host.kind(path) {
                    Some(PathKind::Directory) => rules.push(rule(path, READ)?),
                    Some(PathKind::File) => rules.push(rule(path, READ & OF_A_FILE)?),
                    Some(PathKind::Link) | None => {}
                }
            }
        }
    }
    rules.push(rule(Path::new("/dev/shm"), ALL_BUT_DEVICES)?);
    let scratch = ["/tmp", "/var/tmp"].map(Path::new).into_iter().chain(files.home.as_deref());
    for path in scratch.filter(|path| host.kind(path) == Some(PathKind::Directory)) {
        rules.push(rule(path, ALL_BUT_DEVICES)?);
    }
    for path in files.listed.iter().filter(|path| host.kind(path) == Some(PathKind::Directory)) {
        rules.push(rule(path, READ_DIR)?);
    }
    for path in &files.writable {
        rules.push(rule(path, ALL_BUT_DEVICES & applicable_access(path, host))?);
    }
    Ok(Some(LandlockRuleset { rules, ..lock }))
}

/// Returns the operations that apply to the kind of file at a path.
pub(super) fn applicable_access(path: &Path, host: &impl HostInfo) -> u64 {
    if host.kind(path) == Some(PathKind::Directory) { u64::MAX } else { OF_A_FILE }
}

/// Returns a ruleset of this version without rules, which allows nothing. `None` without Landlock.
pub(super) fn empty_ruleset(version: u32) -> Option<LandlockRuleset> {
    if version == 0 {
        return None;
    }
    let mut files = FIRST_VERSION;
    for (since, right) in [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)] {
        if version >= since {
            files |= right;
        }
    }
    let size = match version {
        ..4 => 8,
        4..6 => 16,
        6.. => 24,
    };
    let scoped = if version >= 6 { 3 } else { 0 };
    Some(LandlockRuleset { size, files, scoped, rules: Vec::new(), tcp: 0, ports: Vec::new() })
}
