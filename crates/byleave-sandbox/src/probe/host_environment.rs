//! The environment of this program, as far as it explains why a backend does not work, and what would help.
//!
//! Settings are read here for advice only. They never decide whether something is allowed or refused.

use std::path::Path;

use byleave_files::own;

use crate::backend::Backend;
use crate::clone3;

/// The environment of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostEnvironment {
    /// AppArmor refuses user namespaces to programs without a profile, as on Ubuntu from 24.04.
    pub apparmor_restricts: bool,
    /// `user.max_user_namespaces` is zero.
    pub no_user_namespaces: bool,
    /// `kernel.unprivileged_userns_clone` is zero.
    pub userns_clone_disabled: bool,
    /// A system call filter already applies to this process.
    pub has_syscall_filter: bool,
    /// The kernel has Landlock, but was booted without it.
    pub landlock_off: bool,
    /// The container around this process.
    pub container: Option<ContainerKind>,
    /// The Windows Subsystem for Linux around this process.
    pub wsl: Option<WslVersion>,
}

/// A kind of container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// Docker, or a program that leaves the same marker file.
    Docker,
    /// Podman.
    Podman,
    /// A development container of an editor.
    DevContainer,
    /// A pod of Kubernetes.
    Kubernetes,
}

impl ContainerKind {
    /// Returns the display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
            Self::DevContainer => "a development container",
            Self::Kubernetes => "Kubernetes",
        }
    }
}

/// A version of the Windows Subsystem for Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WslVersion {
    /// Version 1, which is not a Linux kernel.
    One,
    /// Version 2.
    Two,
}

impl WslVersion {
    /// Returns the display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "WSL 1",
            Self::Two => "WSL 2",
        }
    }
}

impl HostEnvironment {
    /// Reads the environment of this process.
    pub fn detect() -> Self {
        const EOPNOTSUPP: i32 = 95;
        let read = |path: &str| own::read_text(path).ok();
        let found =
            Self::seen(read, |path| Path::new(path).exists(), |name| std::env::var_os(name).is_some());
        Self { landlock_off: clone3::landlock() == Err(EOPNOTSUPP), ..found }
    }

    fn seen(
        read: impl Fn(&str) -> Option<String>,
        exists: impl Fn(&str) -> bool,
        set: impl Fn(&str) -> bool,
    ) -> Self {
        let is = |path: &str, value: &str| read(path).is_some_and(|found| found.trim() == value);
        let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
        let container = match () {
            () if set("REMOTE_CONTAINERS") || set("CODESPACES") => Some(ContainerKind::DevContainer),
            () if set("KUBERNETES_SERVICE_HOST") => Some(ContainerKind::Kubernetes),
            () if exists("/run/.containerenv") => Some(ContainerKind::Podman),
            () if exists("/.dockerenv") => Some(ContainerKind::Docker),
            () => None,
        };
        let status = read("/proc/self/status").unwrap_or_default();
        let filtered = status.lines().filter_map(|line| line.strip_prefix("Seccomp:"));
        Self {
            apparmor_restricts: is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            no_user_namespaces: is("/proc/sys/user/max_user_namespaces", "0"),
            userns_clone_disabled: is("/proc/sys/kernel/unprivileged_userns_clone", "0"),
            has_syscall_filter: filtered.into_iter().any(|mode| mode.trim() == "2"),
            landlock_off: false,
            container,
            wsl: match () {
                () if release.contains("microsoft-standard") || release.contains("WSL2") => {
                    Some(WslVersion::Two)
                }
                () if release.contains("Microsoft") => Some(WslVersion::One),
                () => None,
            },
        }
    }
}

/// The step at which a backend failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendFailure {
    /// We run as root.
    Root,
    /// Creating namespaces.
    Namespaces,
    /// Mounting `/proc` of a new namespace.
    Processes,
    /// Another mount.
    Mounts,
    /// The kernel lacks a system call.
    OldKernel,
    /// bwrap is missing.
    NoBwrap,
    /// Landlock is missing.
    Landlock,
    /// A failure without advice.
    Other,
}

/// Returns remedies, most likely first.
pub fn remedies(rung: Backend, failed: BackendFailure, surroundings: &HostEnvironment) -> Vec<String> {
    let told = match failed {
        BackendFailure::Root => {
            vec!["run as another user: root outside the sandbox is also root for the kernel's own files"]
        }
        _ if surroundings.wsl == Some(WslVersion::One) => {
            vec!["WSL 1 does not have a Linux kernel; on Windows: `wsl --set-version DISTRIBUTION 2`"]
        }
        BackendFailure::Namespaces => namespaces(rung, surroundings),
        BackendFailure::Processes => match surroundings.container {
            Some(container) => vec![unmasked(container)],
            None => {
                vec![
                    "something is mounted over parts of `/proc`, so the kernel does not allow a new mount of it",
                ]
            }
        },
        BackendFailure::Mounts => match surroundings.container {
            Some(container) => vec![unfiltered(container), unmasked(container)],
            None if surroundings.apparmor_restricts => vec![APPARMOR],
            None => Vec::new(),
        },
        BackendFailure::OldKernel => vec!["use Linux 5.12 or later"],
        BackendFailure::NoBwrap => vec![BWRAP],
        BackendFailure::Landlock if surroundings.landlock_off => {
            vec![
                "the kernel has Landlock, but was booted without it: add `landlock` to `lsm=` on the kernel command line",
            ]
        }
        BackendFailure::Landlock => match surroundings.container {
            Some(container) if surroundings.has_syscall_filter => {
                vec!["use Linux 5.13 or later with Landlock", unfiltered(container)]
            }
            _ => vec!["use Linux 5.13 or later with Landlock (`CONFIG_SECURITY_LANDLOCK`)"],
        },
        BackendFailure::Other => Vec::new(),
    };
    told.into_iter().map(str::to_owned).collect()
}

const APPARMOR: &str = "AppArmor denies user namespaces to programs without a profile; load ours: `sudo install -m 644 packaging/apparmor/byleave \
                        /etc/apparmor.d/byleave && sudo apparmor_parser -r /etc/apparmor.d/byleave`";
const BWRAP: &str = "install the system's bubblewrap: `sudo apt install bubblewrap` (Debian, Ubuntu), `sudo dnf install bubblewrap` (Fedora), or \
                     similar";

fn namespaces(rung: Backend, surroundings: &HostEnvironment) -> Vec<&'static str> {
    let mut told = Vec::new();
    if surroundings.no_user_namespaces {
        told.push("`sudo sysctl -w user.max_user_namespaces=15000`, and the same in `/etc/sysctl.d`");
    }
    if surroundings.userns_clone_disabled {
        told.push("`sudo sysctl -w kernel.unprivileged_userns_clone=1`, and the same in `/etc/sysctl.d`");
    }
    match surroundings.container {
        Some(container) => told.extend([unfiltered(container), unmasked(container)]),
        None if surroundings.apparmor_restricts && rung == Backend::Native => told.push(APPARMOR),
        None if surroundings.apparmor_restricts => told.push(
            "AppArmor denies user namespaces to bwrap too; load its profile: `sudo apt install apparmor-profiles`, then `sudo ln -s \
             /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && sudo apparmor_parser -r \
             /etc/apparmor.d/bwrap-userns-restrict`",
        ),
        None if told.is_empty() && surroundings.has_syscall_filter => {
            told.push("this process already has a system call filter; start it outside the program that set the filter");
        }
        None if told.is_empty() => told.push("use a kernel with user namespaces (`CONFIG_USER_NS`)"),
        None => {}
    }
    told
}

/// Returns how to turn off the container's own filter.
const fn unfiltered(container: ContainerKind) -> &'static str {
    match container {
        ContainerKind::Docker => {
            "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
        }
        ContainerKind::Podman => "start the container with `--security-opt seccomp=unconfined`",
        ContainerKind::DevContainer => {
            "in devcontainer.json: `\"runArgs\": [\"--security-opt\", \"seccomp=unconfined\", \"--security-opt\", \"apparmor=unconfined\", \"--security-opt\", \"systempaths=unconfined\"]`"
        }
        ContainerKind::Kubernetes => {
            "in the pod: `securityContext.seccompProfile.type: Unconfined`, and `procMount: Unmasked`"
        }
    }
}

/// Returns how to get a `/proc` without masks. The kernel mounts no new one over a masked one.
const fn unmasked(container: ContainerKind) -> &'static str {
    match container {
        ContainerKind::Docker => "start the container with `--security-opt systempaths=unconfined`",
        ContainerKind::Podman => "start the container with `--security-opt unmask=ALL`",
        ContainerKind::DevContainer => {
            "in devcontainer.json: `\"runArgs\": [\"--security-opt\", \"systempaths=unconfined\"]`"
        }
        ContainerKind::Kubernetes => "in the pod: `procMount: Unmasked`, with `hostUsers: false`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(files: &[(&str, &str)], variables: &[&str]) -> HostEnvironment {
        let of =
            |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        HostEnvironment::seen(of, |path| of(path).is_some(), |name| variables.contains(&name))
    }

    fn advice(rung: Backend, failed: BackendFailure, files: &[(&str, &str)], variables: &[&str]) -> String {
        remedies(rung, failed, &seen(files, variables)).join("\n")
    }

    // req: E7
    #[test]
    fn every_known_obstacle_has_its_remedy() {
        const APPARMOR: (&str, &str) = ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        const MAX: (&str, &str) = ("/proc/sys/user/max_user_namespaces", "0\n");
        const CLONE: (&str, &str) = ("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
        const DOCKER: (&str, &str) = ("/.dockerenv", "");
        const PODMAN: (&str, &str) = ("/run/.containerenv", "");
        const WSL1: (&str, &str) = ("/proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n");
        type RemedyCase<'a> = (BackendFailure, &'a [(&'a str, &'a str)], &'a [&'a str], &'a str);
        let cases: &[RemedyCase<'_>] = &[
            (BackendFailure::Root, &[], &[], "run as another user"),
            (BackendFailure::Namespaces, &[APPARMOR], &[], "packaging/apparmor/byleave"),
            (BackendFailure::Mounts, &[APPARMOR], &[], "apparmor_parser -r"),
            (BackendFailure::Namespaces, &[MAX], &[], "user.max_user_namespaces=15000"),
            (BackendFailure::Namespaces, &[CLONE], &[], "kernel.unprivileged_userns_clone=1"),
            (BackendFailure::Namespaces, &[DOCKER], &[], "seccomp=unconfined"),
            (BackendFailure::Processes, &[DOCKER], &[], "systempaths=unconfined"),
            (BackendFailure::Processes, &[PODMAN], &[], "unmask=ALL"),
            (BackendFailure::Namespaces, &[DOCKER], &["REMOTE_CONTAINERS"], "devcontainer.json"),
            (BackendFailure::Namespaces, &[], &["KUBERNETES_SERVICE_HOST"], "seccompProfile"),
            (BackendFailure::Namespaces, &[WSL1], &[], "wsl --set-version"),
            (BackendFailure::Namespaces, &[], &[], "CONFIG_USER_NS"),
            (BackendFailure::OldKernel, &[], &[], "5.12"),
            (BackendFailure::NoBwrap, &[], &[], "install"),
            (BackendFailure::Landlock, &[], &[], "5.13"),
        ];
        for (failed, files, variables, expected) in cases {
            let told = advice(Backend::Native, *failed, files, variables);
            assert!(told.contains(expected), "{failed:?} {files:?}: {told}");
        }
        let off = HostEnvironment { landlock_off: true, ..HostEnvironment::default() };
        assert!(remedies(Backend::Landlock, BackendFailure::Landlock, &off).join("").contains("lsm="));
        let two = seen(&[("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")], &[]);
        assert_eq!(two.wsl, Some(WslVersion::Two));
        let bwrap = advice(Backend::Bwrap, BackendFailure::Namespaces, &[APPARMOR], &[]);
        assert!(bwrap.contains("bwrap-userns-restrict"), "{bwrap}");
    }
}
