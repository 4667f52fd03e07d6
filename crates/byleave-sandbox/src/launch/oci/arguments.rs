//! The arguments of a container engine: the limits, the variables and the mounts of a confinement.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::OciEngine;
use super::container::has_input;
use crate::confinement::{Confinement, FileConfinement, Network, ReadScope};
use crate::plan::{CommandSpec, HostInfo, PathKind, PlanError, UserIdentity, check_resolved};

/// Variables of this machine that mean nothing in an image, which has its own programs and no home of this user.
const OF_THIS_MACHINE: [&str; 3] = ["PATH", "HOME", "SHELL"];

/// Returns the arguments of the engine, after its own options.
pub(super) fn arguments(
    engine: &OciEngine,
    name: &str,
    confinement: &Confinement,
    command: &CommandSpec,
    identity: UserIdentity,
    host: &impl HostInfo,
) -> Result<Vec<OsString>, PlanError> {
    if command.argv.first().is_none_or(|program| program.is_empty()) {
        return Err(PlanError::Empty);
    }
    let mut words: Vec<OsString> =
        ["run", "--rm", "--pull", "never", "--log-driver", "none", "--name", name].map(OsString::from).into();
    let mut add = |word: String| words.push(word.into());
    limits(engine, confinement, identity).into_iter().for_each(&mut add);
    add(format!("--workdir={}", told(&confinement.files.cwd)?));
    add("--entrypoint=".into());
    if has_input(command) {
        add("--interactive".into());
    }
    if command.terminal.is_some() {
        add("--tty".into());
    }
    variables(confinement).for_each(&mut add);
    for mount in mounts(&confinement.files, host)? {
        add(format!("--mount={mount}"));
    }
    add(engine.image.clone());
    words.extend(command.argv.iter().cloned());
    Ok(words)
}

/// Returns the options that limit the rights and the resources of the command.
fn limits(engine: &OciEngine, confinement: &Confinement, identity: UserIdentity) -> Vec<String> {
    let limits = &confinement.limits;
    let network = if confinement.network == Network::Host { "host" } else { "none" };
    let mut options = vec![
        ("--network", network.to_owned()),
        ("--cap-drop", "all".into()),
        ("--security-opt", "no-new-privileges".into()),
        ("--ipc", "private".into()),
        ("--user", format!("{}:{}", identity.uid, identity.gid)),
        ("--ulimit", format!("data={0}:{0}", limits.memory_bytes)),
        ("--ulimit", format!("fsize={0}:{0}", limits.file_bytes)),
        ("--ulimit", format!("cpu={0}:{0}", limits.cpu_time.as_secs().max(1))),
        ("--ulimit", "nofile=4096:4096".into()),
        // The engine's default may exceed its own limit. The effective limit is the one on pids.
        ("--ulimit", "nproc=4096:4096".into()),
        ("--ulimit", "core=0:0".into()),
        ("--tmpfs", format!("/tmp:rw,nosuid,nodev,mode=1777,size={}", limits.tmp_bytes)),
    ];
    // The engine would print a warning and ignore them.
    if !engine.ignores_group_limits() {
        options.extend([
            ("--pids-limit", limits.pids.to_string()),
            ("--memory", limits.memory_bytes.to_string()),
            ("--memory-swap", limits.memory_bytes.to_string()),
        ]);
    }
    if engine.is_rootless_podman() {
        options.push(("--userns", "keep-id".into()));
    }
    let options = options.into_iter().map(|(option, value)| format!("{option}={value}"));
    options.chain(["--read-only".to_owned()]).collect()
}

/// Returns the options for the environment. The home directory is the temporary one.
fn variables(confinement: &Confinement) -> impl Iterator<Item = String> {
    let passed = confinement.environment.iter();
    let passed = passed.filter(|(name, _)| !OF_THIS_MACHINE.contains(&name.as_str())).map(|(name, value)| {
        let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        // The engine finds the value in our environment. In its arguments all users of this machine could see it.
        let is_ours = std::env::var(name).is_ok_and(|ours| ours == *value);
        if is_plain && is_ours { format!("--env={name}") } else { format!("--env={name}={value}") }
    });
    passed.chain(["--env=HOME=/tmp".to_owned()])
}

/// Returns the mounts, outer ones first: readable paths, writable paths, and protected or hidden paths in them. Nothing else of
/// this machine is mounted.
fn mounts(files: &FileConfinement, host: &impl HostInfo) -> Result<Vec<String>, PlanError> {
    let mut mounts: BTreeMap<&Path, String> = BTreeMap::new();
    let bind = |source: &Path, target: &Path, readonly: &str| -> Result<String, PlanError> {
        Ok(format!("type=bind,source={},target={}{readonly}", told(source)?, told(target)?))
    };
    let kind = |path: &Path| host.kind(&files.path_on_copy(path));
    let readable = match &files.readable {
        ReadScope::Only(paths) => paths.as_slice(),
        ReadScope::Everything => &[],
    };
    for path in readable.iter().filter(|path| kind(path).is_some()) {
        mounts.insert(path, bind(&files.path_on_copy(path), path, ",readonly")?);
    }
    for path in files.writable.iter().chain(files.copies.iter().map(|copied| &copied.root)) {
        mounts.insert(path, bind(&files.path_on_copy(path), path, "")?);
    }
    let in_writable =
        |path: &Path| files.writable.iter().find(|root| path != *root && path.starts_with(root));
    for path in files.protected.iter().filter(|path| kind(path).is_some()) {
        let Some(root) = in_writable(path) else { continue };
        // Includes every directory in between, because a mount point cannot be renamed.
        for above in path.ancestors().skip(1).take_while(|above| *above != root.as_path()) {
            if !mounts.contains_key(above) {
                mounts.insert(above, bind(&files.path_on_copy(above), above, "")?);
            }
        }
        mounts.insert(path, bind(&files.path_on_copy(path), path, ",readonly")?);
    }
    let shown = |path: &Path| mounts.keys().any(|above| path.starts_with(above));
    let hidden: Vec<&PathBuf> = files.hidden.iter().filter(|path| shown(path)).collect();
    for path in hidden {
        let mask = match kind(path) {
            None => continue,
            Some(PathKind::Directory) => {
                format!("type=tmpfs,target={},tmpfs-size=4096,tmpfs-mode=0000", told(path)?)
            }
            Some(PathKind::File | PathKind::Link) => bind(Path::new("/dev/null"), path, ",readonly")?,
        };
        mounts.insert(path, mask);
    }
    Ok(mounts.into_values().collect())
}

/// Formats a path for the engine, which cannot quote a comma.
fn told(path: &Path) -> Result<String, PlanError> {
    check_resolved(path)?;
    match path.to_str() {
        Some(text) if !text.contains([',', '"', '\n']) => Ok(text.to_owned()),
        _ => Err(PlanError::NotExpressible(path.to_path_buf())),
    }
}

#[cfg(test)]
mod tests;
