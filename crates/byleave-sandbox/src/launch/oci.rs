//! Runs a command in a container of podman or docker, for an image instead of this machine's files.
//!
//! It is never chosen automatically, only by name. It fetches nothing: the image must exist. The engine's default filter applies
//! to the command instead of ours. The engine owns the container, so the container continues if this program is killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::streams::CommandStreams;
use super::{
    CommandOutcome, CommandStatus, LaunchError, NetworkReport, RunAs, ThisHost, identity, internal_error,
    scan,
};
use crate::confinement::{Confinement, Network};
use crate::guarantee::{Enforcement, Guarantee};
use crate::limits::LimitKind;
use crate::plan::{CommandSpec, HostInfo, PathKind, PlanError, UserIdentity, check_resolved};
use crate::tripwire::{Tripwire, TripwireGuard};

/// The exit status of `run` for failures of the engine itself.
const ENGINE_FAILED: i32 = 125;
const NOT_RUNNABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
const SIGNALLED: i32 = 128;

/// A container engine and the image that commands run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciEngine {
    /// The program: `podman`, `docker`, or a compatible one.
    pub engine: PathBuf,
    /// Options before all others, such as the location of its store.
    pub options: Vec<OsString>,
    /// The image, which must exist.
    pub image: String,
}

impl OciEngine {
    /// Returns how far it gives a guarantee of a confinement.
    pub fn enforcement(&self, confinement: &Confinement, guarantee: Guarantee) -> Enforcement {
        match guarantee {
            Guarantee::NetworkConfined if confinement.network == Network::Proxied => {
                Enforcement::Unavailable(
                    "only the native backend can connect the command to the proxy".into(),
                )
            }
            Guarantee::WritesLockedTwice => {
                Enforcement::Unavailable("only mounts enforce it, without Landlock".into())
            }
            Guarantee::PrivilegesDropped => Enforcement::Partial(
                "the system call filter is that of the container engine, which allows more than ours".into(),
            ),
            Guarantee::EnvironmentClean => {
                Enforcement::Partial("the variables that the image sets are also present".into())
            }
            Guarantee::TreeKilled => {
                Enforcement::Partial("the container keeps running if this program is killed first".into())
            }
            Guarantee::TmpLimited => {
                Enforcement::Partial("the size of temporary files is limited, but their number is not".into())
            }
            _ => Enforcement::Full,
        }
    }

    /// Runs a command to its end. Its processor time is not known.
    pub fn run(
        &self,
        confinement: &Confinement,
        command: &CommandSpec,
        run_as: RunAs,
    ) -> Result<CommandOutcome, LaunchError> {
        let identity = identity(run_as)?;
        if !confinement.files.copies.is_empty() {
            return Err(LaunchError::CopiesUnsupported(
                "in a container, because the engine cannot mount a copy",
            ));
        }
        confinement.check_enforcement(|guarantee| self.enforcement(confinement, guarantee))?;
        let (confinement, tripwire) = scan::prepare_command(confinement, None)?;
        let confinement = &confinement;
        let mut random = [0u8; 8];
        getrandom::fill(&mut random)
            .map_err(|error| internal_error("naming a container")(std::io::Error::other(error)))?;
        let name = format!("byleave-{:016x}", u64::from_ne_bytes(random));
        let arguments = self.arguments(&name, confinement, command, identity, &ThisHost)?;
        let began = Instant::now();
        let mut engine = std::process::Command::new(&self.engine);
        engine.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut engine = engine.spawn().map_err(internal_error("starting the container engine"))?;
        let streams = streams(&mut engine, command, confinement.limits.output_bytes);
        let ended = streams
            .and_then(|streams| self.attend(&mut engine, streams, &name, confinement, began, tripwire));
        if ended.is_err() {
            self.remove(&name)?;
        }
        ended
    }

    fn attend(
        &self,
        engine: &mut Child,
        mut streams: CommandStreams,
        name: &str,
        confinement: &Confinement,
        began: Instant,
        tripwire: Tripwire,
    ) -> Result<CommandOutcome, LaunchError> {
        let id = i32::try_from(engine.id()).ok().and_then(Pid::from_raw).ok_or(LaunchError::InvalidReport)?;
        let pidfd =
            pidfd_open(id, PidfdFlags::empty()).map_err(internal_error("watching the container engine"))?;
        let deadline = began.checked_add(confinement.limits.wall_time);
        let mut guard = TripwireGuard::new(tripwire);
        let in_time = loop {
            let until = deadline.map_or(guard.next(), |deadline| deadline.min(guard.next()));
            if streams.copy_until_end(pidfd.as_fd(), Some(until))? {
                break true;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                break false;
            }
            guard.check_if_due()?;
        };
        if !in_time {
            self.remove(name)?;
            streams.copy_until_end(pidfd.as_fd(), None)?;
        }
        let code = engine.wait().map_err(internal_error("waiting for the container engine"))?.code();
        let [stdout, stderr] = streams.take_output();
        let status = match code {
            _ if !in_time => CommandStatus::Signalled(9),
            Some(ENGINE_FAILED) => {
                let said = String::from_utf8_lossy(&stderr.bytes).trim().to_owned();
                return Err(LaunchError::Oci { message: said });
            }
            Some(NOT_RUNNABLE) => CommandStatus::NotStarted(13),
            Some(NOT_FOUND) => CommandStatus::NotStarted(2),
            // The convention of shells. A command that returns such a number itself cannot be distinguished.
            Some(code) if code > SIGNALLED => CommandStatus::Signalled(code - SIGNALLED),
            Some(code) => CommandStatus::Exited(code),
            None => return Err(LaunchError::InvalidReport),
        };
        let ended_by = if in_time { None } else { Some(LimitKind::Wall) };
        let reached = if stdout.dropped_bytes + stderr.dropped_bytes > 0 {
            vec![LimitKind::Output]
        } else {
            Vec::new()
        };
        let planted = guard.finish()?;
        let (wall, cpu, network) = (began.elapsed(), Duration::ZERO, NetworkReport::default());
        Ok(CommandOutcome {
            status,
            limit_exceeded: ended_by,
            limits_reached: reached,
            planted,
            planted_earlier: guard.earlier(),
            stdout,
            stderr,
            wall_time: wall,
            cpu_time: cpu,
            network,
            unrouted_count: None,
            survivors: 0,
        })
    }

    /// Ends the container with all of its processes. It is not an error if the container is already gone.
    fn remove(&self, name: &str) -> Result<(), LaunchError> {
        // Removing alone would ask the container to end, and wait.
        for words in [&["kill", name][..], &["rm", "--force", name]] {
            let mut engine = std::process::Command::new(&self.engine);
            engine.args(&self.options).args(words);
            engine.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            engine.status().map_err(internal_error("removing a container"))?;
        }
        Ok(())
    }

    /// Returns the arguments of the engine.
    fn arguments(
        &self,
        name: &str,
        confinement: &Confinement,
        command: &CommandSpec,
        identity: UserIdentity,
        host: &impl HostInfo,
    ) -> Result<Vec<OsString>, PlanError> {
        if command.argv.first().is_none_or(|program| program.is_empty()) {
            return Err(PlanError::Empty);
        }
        let limits = &confinement.limits;
        let mut words = self.options.clone();
        let mut add = |word: String| words.push(word.into());
        ["run", "--rm", "--interactive", "--pull", "never", "--log-driver", "none", "--name", name]
            .map(str::to_owned)
            .into_iter()
            .for_each(&mut add);
        let network = if confinement.network == Network::Host { "host" } else { "none" };
        for (option, value) in [
            ("--network", network.to_owned()),
            ("--cap-drop", "all".into()),
            ("--security-opt", "no-new-privileges".into()),
            ("--ipc", "private".into()),
            ("--user", format!("{}:{}", identity.uid, identity.gid)),
            ("--pids-limit", limits.pids.to_string()),
            ("--memory", limits.memory_bytes.to_string()),
            ("--memory-swap", limits.memory_bytes.to_string()),
            ("--ulimit", format!("fsize={0}:{0}", limits.file_bytes)),
            ("--ulimit", format!("cpu={0}:{0}", limits.cpu_time.as_secs().max(1))),
            ("--ulimit", "nofile=4096:4096".into()),
            // The engine's default may exceed its own limit. The effective limit is the one on pids.
            ("--ulimit", "nproc=4096:4096".into()),
            ("--ulimit", "core=0:0".into()),
            ("--tmpfs", format!("/tmp:rw,nosuid,nodev,mode=1777,size={}", limits.tmp_bytes)),
            ("--workdir", told(&confinement.files.cwd)?),
            ("--entrypoint", String::new()),
        ] {
            add(format!("{option}={value}"));
        }
        add("--read-only".into());
        if self.engine.file_name().is_some_and(|name| name == "podman") && rootless() {
            add("--userns=keep-id".into());
        }
        for (name, value) in &confinement.environment {
            add(format!("--env={name}={value}"));
        }
        for mount in mounts(confinement, host)? {
            add(format!("--mount={mount}"));
        }
        add(self.image.clone());
        words.extend(command.argv.iter().cloned());
        Ok(words)
    }
}

/// Returns whether the engine runs without root, and maps users by itself.
fn rootless() -> bool {
    !rustix::process::geteuid().is_root()
}

fn streams(engine: &mut Child, command: &CommandSpec, kept_max: u64) -> Result<CommandStreams, LaunchError> {
    let ends = (engine.stdin.take(), engine.stdout.take(), engine.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = ends else { return Err(LaunchError::InvalidReport) };
    CommandStreams::new(
        Some(stdin.into()),
        &command.stdin,
        [Some(stdout.into()), Some(stderr.into())],
        kept_max,
    )
}

/// Returns the mounts, outer ones first: readable paths, writable paths, and protected or hidden paths in them.
fn mounts(confinement: &Confinement, host: &impl HostInfo) -> Result<Vec<String>, PlanError> {
    let files = &confinement.files;
    let mut mounts: BTreeMap<&Path, String> = BTreeMap::new();
    let bind = |source: &Path, target: &Path, readonly: &str| -> Result<String, PlanError> {
        Ok(format!("type=bind,source={},target={}{readonly}", told(source)?, told(target)?))
    };
    for path in files.home_readable.iter().filter(|path| host.kind(path).is_some()) {
        mounts.insert(path, bind(path, path, ",readonly")?);
    }
    for path in &files.writable {
        mounts.insert(path, bind(path, path, "")?);
    }
    let in_writable =
        |path: &Path| files.writable.iter().find(|root| path != *root && path.starts_with(root));
    for path in files.protected.iter().filter(|path| host.kind(path).is_some()) {
        let Some(root) = in_writable(path) else { continue };
        // Includes every directory in between, because a mount point cannot be renamed.
        for above in path.ancestors().skip(1).take_while(|above| *above != root.as_path()) {
            if !mounts.contains_key(above) {
                mounts.insert(above, bind(above, above, "")?);
            }
        }
        mounts.insert(path, bind(path, path, ",readonly")?);
    }
    let shown = |path: &Path| mounts.keys().any(|above| path.starts_with(above));
    let hidden: Vec<&PathBuf> = files.hidden.iter().filter(|path| shown(path)).collect();
    for path in hidden {
        let mask = match host.kind(path) {
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
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::confinement::FileConfinement;
    use crate::limits::ResourceLimits;

    struct FakeOciHost;

    impl HostInfo for FakeOciHost {
        fn target(&self, _: &Path) -> Option<PathBuf> {
            None
        }

        fn kind(&self, path: &Path) -> Option<PathKind> {
            Some(if path.ends_with(".env") { PathKind::File } else { PathKind::Directory })
        }

        fn landlock(&self) -> u32 {
            0
        }
    }

    fn confinement() -> Confinement {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Confinement {
            files: FileConfinement {
                cwd: "/h/ws".into(),
                home: Some("/h".into()),
                home_readable: paths(&["/h/.cargo"]),
                writable: paths(&["/h/ws"]),
                hidden: paths(&["/h/ws/.env", "/h/ws/keys", "/h/.ssh"]),
                protected: paths(&["/h/ws/.git/hooks"]),
                ..FileConfinement::default()
            },
            network: Network::Off,
            environment: BTreeMap::from([("LANG".into(), "C".into())]),
            limits: ResourceLimits::default(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
        }
    }

    // req: E2
    #[test]
    fn the_engine_is_told_everything_and_no_path_that_it_would_misread() {
        let oci = OciEngine {
            engine: "/usr/bin/docker".into(),
            options: vec!["--quiet".into()],
            image: "im".into(),
        };
        let command =
            CommandSpec { argv: vec!["sh".into(), "-c".into(), "true".into()], ..CommandSpec::default() };
        let identity = UserIdentity { uid: 7, gid: 8 };
        let words = oci.arguments("n", &confinement(), &command, identity, &FakeOciHost).unwrap();
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        for word in [
            "--network=none",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            "--read-only",
            "--user=7:8",
            "--pids-limit=512",
            "--memory=4294967296",
            "--workdir=/h/ws",
            "--env=LANG=C",
            "--entrypoint=",
        ] {
            assert!(words.contains(&word), "{word}: {words:?}");
        }
        let mounts: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("--mount=")).collect();
        let expected = [
            "type=bind,source=/h/.cargo,target=/h/.cargo,readonly",
            "type=bind,source=/h/ws,target=/h/ws",
            "type=bind,source=/dev/null,target=/h/ws/.env,readonly",
            "type=bind,source=/h/ws/.git,target=/h/ws/.git",
            "type=bind,source=/h/ws/.git/hooks,target=/h/ws/.git/hooks,readonly",
            "type=tmpfs,target=/h/ws/keys,tmpfs-size=4096,tmpfs-mode=0000",
        ];
        assert_eq!(mounts, expected);
        assert_eq!(words.last_chunk(), Some(&["im", "sh", "-c", "true"]));
        let mut odd = confinement();
        odd.files.writable.push("/h/a,readonly=false".into());
        let refused = oci.arguments("n", &odd, &command, identity, &FakeOciHost);
        assert!(matches!(refused, Err(PlanError::NotExpressible(_))), "{refused:?}");
        let refused = oci.run(&confinement(), &command, RunAs::User(identity)).unwrap_err().to_string();
        assert!(refused.contains("privileges-dropped") && refused.contains("tree-killed"), "{refused}");
    }
}
