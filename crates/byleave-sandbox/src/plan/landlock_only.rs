//! The plan for a command without its own namespaces. Paths that mounts would hide are not readable instead.
//!
//! Landlock can allow a directory with everything beneath it, but cannot exclude parts of it. So the surroundings of a hidden
//! path are allowed piece by piece. A path beneath a writable path can be neither hidden nor protected, and the guarantees must
//! say so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::landlock::{
    self, ALL_BUT_DEVICES, BIND_TCP, CONNECT_TCP, IOCTL_DEV, LandlockRule, READ, READ_DIR, WRITE_FILE,
};
use super::mounts::HIDDEN_EVERYWHERE;
use super::{HostInfo, LaunchPlan, PROCESSES, PathKind, PlanError, path_text};
use crate::confinement::{FileConfinement, ReadScope};
use crate::plan_format::PlanPart;
use crate::seccomp::{self, Arch};
use crate::system_paths;

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The TCP ports of a command without its own network. Landlock knows ports and no hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpPorts {
    /// The ports that it may connect to, on every host.
    pub(crate) connected: BTreeSet<u16>,
    /// The ports that it may listen on.
    pub(crate) listening: BTreeSet<u16>,
}

impl LaunchPlan {
    /// Allows TCP on these ports, in a plan without namespaces. Landlock must support it.
    pub(crate) fn with_tcp(mut self, ports: &TcpPorts) -> Result<Self, PlanError> {
        let lock = self.landlock.as_mut().filter(|_| self.part == PlanPart::WithoutNamespaces);
        let Some(lock) = lock else { return Ok(self) };
        lock.tcp = BIND_TCP | CONNECT_TCP;
        let connected = ports.connected.iter().map(|port| (*port, CONNECT_TCP));
        lock.ports = connected.chain(ports.listening.iter().map(|port| (*port, BIND_TCP))).collect();
        self.filter = seccomp::compile_with_tcp(Arch::CURRENT)?.to_bytes();
        Ok(self)
    }

    /// Returns the parts of this plan that work without namespaces. The command has its own temporary directory. The kernel
    /// applies the process limit to all processes of the user, so the limit is raised by the existing ones. `entries` lists a
    /// directory.
    pub(crate) fn without_namespaces(
        mut self,
        files: &FileConfinement,
        scratch: &Path,
        processes: u64,
        host: &impl HostInfo,
        entries: impl Fn(&Path) -> Vec<PathBuf>,
    ) -> Result<Self, PlanError> {
        self.part = PlanPart::WithoutNamespaces;
        self.mounts.clear();
        self.filter = seccomp::compile_without_namespaces(Arch::CURRENT)?.to_bytes();
        for (resource, soft, hard) in &mut self.limits {
            if *resource == PROCESSES {
                *soft = soft.saturating_add(processes);
                *hard = hard.saturating_add(processes);
            }
        }
        self = self.with_variables(&[("TMPDIR", scratch.display().to_string())])?;
        let Some(mut lock) = landlock::empty_ruleset(host.landlock()) else {
            self.landlock = None;
            return Ok(self);
        };
        let mut allowed = ReadablePaths {
            hidden: hidden(files),
            named: Vec::new(),
            host,
            entries,
            readable: Vec::new(),
            listable: Vec::new(),
        };
        match &files.readable {
            ReadScope::Everything => allowed.around(Path::new("/")),
            ReadScope::Only(paths) => {
                allowed.named.clone_from(paths);
                let paths = paths.iter().map(PathBuf::as_path);
                system_paths::system_paths()
                    .chain([Path::new("/proc")])
                    .chain(paths)
                    .for_each(|path| allowed.around(path));
            }
        }
        files.home_readable.iter().for_each(|path| allowed.around(path));
        let mut rules = Vec::new();
        let mut rule = |path: &Path, access: u64| {
            let access = access & lock.files & landlock::applicable_access(path, host);
            rules.push(LandlockRule { path: path_text(path)?, access });
            Ok::<_, PlanError>(())
        };
        allowed.readable.iter().try_for_each(|path| rule(path, READ))?;
        allowed.listable.iter().try_for_each(|path| rule(path, READ_DIR))?;
        DEVICES.iter().try_for_each(|path| rule(Path::new(path), READ | WRITE_FILE | IOCTL_DEV))?;
        for path in files.writable.iter().map(PathBuf::as_path).chain([scratch]) {
            rule(path, ALL_BUT_DEVICES)?;
        }
        lock.rules = rules;
        self.landlock = Some(lock);
        Ok(self)
    }
}

/// Returns the paths that are not allowed on the way down from the root.
fn hidden(files: &FileConfinement) -> BTreeSet<PathBuf> {
    // Devices are allowed one by one. Both temporary directories are shared with all users.
    let ours = ["/dev", "/tmp", "/var/tmp"].into_iter().chain(HIDDEN_EVERYWHERE).map(PathBuf::from);
    ours.chain(files.home.clone()).chain(files.hidden.iter().cloned()).collect()
}

struct ReadablePaths<'a, H, E> {
    hidden: BTreeSet<PathBuf>,
    /// The paths that a command was granted, such as its workspace.
    named: Vec<PathBuf>,
    host: &'a H,
    entries: E,
    readable: Vec<PathBuf>,
    /// Directories whose names can be listed, with those of all directories in them.
    listable: Vec<PathBuf>,
}

impl<H: HostInfo, E: Fn(&Path) -> Vec<PathBuf>> ReadablePaths<'_, H, E> {
    /// Allows reading a path except for hidden paths. The directories above a hidden path cannot be listed, unless they were granted and
    /// only files are hidden in them.
    fn around(&mut self, path: &Path) {
        match self.host.kind(path) {
            // A link is followed, and its target has its own path.
            None | Some(PathKind::Link) => {}
            Some(_) if self.hidden.contains(path) => {}
            Some(_) if self.hidden.iter().any(|hidden| hidden.starts_with(path)) => {
                let is_directory = |hidden: &&PathBuf| self.host.kind(hidden) == Some(PathKind::Directory);
                let has_hidden_directory = self
                    .hidden
                    .iter()
                    .filter(|hidden| hidden.starts_with(path))
                    .any(|hidden| is_directory(&hidden));
                if !has_hidden_directory && self.named.iter().any(|named| path.starts_with(named)) {
                    self.listable.push(path.to_path_buf());
                }
                for entry in (self.entries)(path) {
                    self.around(&entry);
                }
            }
            Some(_) => self.readable.push(path.to_path_buf()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::{Confinement, Network, SandboxPorts};
    use crate::limits::ResourceLimits;
    use crate::plan::{CommandSpec, UserIdentity};

    struct FakeHost;

    impl HostInfo for FakeHost {
        fn kind(&self, path: &Path) -> Option<PathKind> {
            Some(if path.ends_with("credentials.toml") { PathKind::File } else { PathKind::Directory })
        }

        fn target(&self, _: &Path) -> Option<PathBuf> {
            None
        }

        fn landlock(&self) -> u32 {
            6
        }
    }

    fn entries(path: &Path) -> Vec<PathBuf> {
        let names: &[&str] = match path.to_str() {
            Some("/") => &["usr", "etc", "home", "dev", "tmp", "proc", "run"],
            Some("/home") => &["me", "other"],
            Some("/home/me/.cargo") => &["bin", "credentials.toml"],
            _ => &[],
        };
        names.iter().map(|name| path.join(name)).collect()
    }

    // req: E2
    #[test]
    fn what_is_around_the_hidden_is_allowed_piece_by_piece() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        let files = FileConfinement {
            cwd: "/home/me/ws".into(),
            home: Some("/home/me".into()),
            home_readable: paths(&["/home/me/.cargo"]),
            writable: paths(&["/home/me/ws"]),
            hidden: paths(&["/home/me/.cargo/credentials.toml", "/home/other"]),
            ..FileConfinement::default()
        };
        let confinement = Confinement {
            files: files.clone(),
            network: Network::Off,
            ports: SandboxPorts::default(),
            environment: std::collections::BTreeMap::from([("TMPDIR".into(), "/tmp".into())]),
            limits: ResourceLimits::default(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
        };
        let command = CommandSpec { argv: vec!["true".into()], ..CommandSpec::default() };
        let identity = UserIdentity { uid: 1, gid: 1 };
        let plan = LaunchPlan::new(&confinement, &command, identity, &FakeHost).unwrap();
        let pids = plan.limits.iter().find(|(resource, ..)| *resource == PROCESSES).unwrap().1;
        let plan = plan.without_namespaces(&files, Path::new("/tmp/mine"), 30, &FakeHost, entries).unwrap();
        let rules = plan.landlock.unwrap().rules;
        let told: Vec<(&str, bool)> = rules
            .iter()
            .map(|rule| (rule.path.to_str().unwrap(), rule.access & WRITE_FILE != 0))
            .filter(|(path, _)| !path.starts_with("/dev/"))
            .collect();
        let expected = [
            ("/usr", false),
            ("/etc", false),
            ("/proc", false),
            ("/home/me/.cargo/bin", false),
            ("/home/me/ws", true),
            ("/tmp/mine", true),
        ];
        assert_eq!(told, expected);
        assert_eq!(plan.environment, [c"TMPDIR=/tmp/mine".to_owned()]);
        let limited = plan.limits.iter().find(|(resource, ..)| *resource == PROCESSES).unwrap();
        assert_eq!(limited.1, pids + 30);
        assert!(plan.mounts.is_empty());
        // A granted directory can be listed if only files are hidden in it.
        let listed = |hidden: &str| {
            let readable = ReadScope::Only(paths(&["/home/me/.cargo"]));
            let files = FileConfinement { readable, hidden: paths(&[hidden]), ..FileConfinement::default() };
            let plan = LaunchPlan::new(&confinement, &command, identity, &FakeHost).unwrap();
            let plan =
                plan.without_namespaces(&files, Path::new("/tmp/mine"), 0, &FakeHost, entries).unwrap();
            let rules = plan.landlock.unwrap().rules;
            rules.iter().any(|rule| rule.path.to_str() == Ok("/home/me/.cargo") && rule.access == READ_DIR)
        };
        assert!(listed("/home/me/.cargo/credentials.toml") && !listed("/home/me/.cargo/bin"));
    }
}
