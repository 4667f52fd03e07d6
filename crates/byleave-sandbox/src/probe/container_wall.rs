//! Checks whether the container around this process is a wall: whether a process in it stays in it, whatever it does.
//!
//! A doubt is a no. The checks can only find known holes; that there are no others is the person's word.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use byleave_files::own;

/// The process namespace of the machine, which has this number in every kernel.
const HOST_PROCESSES: &str = "pid:[4026531836]";
/// The namespaces that a kernel makes while it starts have no greater numbers.
const LAST_OF_START: u64 = 4_026_532_000;
const SYS_ADMIN: u32 = 21;
/// Sockets of container engines, whose clients command the machine.
const ENGINES: [&str; 8] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/buildkit/buildkitd.sock",
    "/var/run/cri-dockerd.sock",
];
/// The same sockets in a directory that was mounted at another path.
const ENGINES_IN_A_MOUNT: [&str; 7] = [
    "docker.sock",
    "podman/podman.sock",
    "containerd/containerd.sock",
    "crio/crio.sock",
    "k3s/containerd/containerd.sock",
    "buildkit/buildkitd.sock",
    "cri-dockerd.sock",
];
/// How deep in a mount these directories are looked for: a whole `/run` has `user/1000`, and a whole `/var` has `run`.
const ENGINE_DEPTH: usize = 2;
/// The maximum number of directories of one mount in which they are looked for.
const ENGINE_DIRS_MAX: usize = 256;
/// Files that engines mount into each container. One of them, or a mark of the engine, shows that an engine made the container.
const OF_ENGINES: [&str; 3] = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];
const MARKS: [&str; 3] = ["/run/.containerenv", "/.dockerenv", "/run/systemd/container"];
/// File systems of the kernel, with the only directory at which a container has them.
const OF_THE_KERNEL: [(&str, &str); 10] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("cgroup", "/sys"),
    ("cgroup2", "/sys"),
    ("securityfs", "/sys"),
    ("bpf", "/sys"),
    ("devpts", "/dev"),
    ("mqueue", "/dev"),
    ("devtmpfs", "/dev"),
    ("fusectl", "/sys"),
];
/// Directories with homes.
const HOMES: [&str; 3] = ["/home", "/root", "/Users"];
/// What only a home has.
const OF_A_HOME: [&str; 4] = [".ssh", ".gnupg", ".aws", ".docker"];

/// What the checks look at.
struct ContainerView {
    process_namespace: String,
    network_namespace: String,
    status: String,
    mounts: String,
    has_hardware_interface: bool,
    home: Option<PathBuf>,
    workspace: PathBuf,
}

/// The files around the process.
trait Files {
    fn is_socket(&self, path: &Path) -> bool;
    fn exists(&self, path: &Path) -> bool;
    /// Returns the directories in a directory.
    fn directories(&self, path: &Path) -> Vec<PathBuf>;
}

struct ThisSystem;

impl Files for ThisSystem {
    fn is_socket(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn directories(&self, path: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.map(|entry| entry.path()).take(ENGINE_DIRS_MAX).collect()
    }
}

/// One mount of `/proc/self/mountinfo`.
struct MountLine<'a> {
    root: PathBuf,
    at: PathBuf,
    is_writable: bool,
    file_system: &'a str,
}

impl<'a> MountLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, rest) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at, options) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self {
            root: unescape(root).into(),
            at: unescape(at).into(),
            is_writable: options.split(',').next() == Some("rw"),
            file_system: rest.split(' ').next()?,
        })
    }

    /// Checks whether the engine made the file system for this container: a device or a mask of the kernel, memory, or a named volume.
    fn is_of_container(&self) -> bool {
        let is_of_kernel =
            OF_THE_KERNEL.iter().any(|(name, above)| *name == self.file_system && self.at.starts_with(above));
        // All of the machine's devices are behind no wall.
        let is_all_devices = self.file_system == "devtmpfs" && self.root == Path::new("/");
        let is_mask =
            ["/proc", "/sys"].iter().any(|above| self.at.starts_with(above)) && self.file_system == "tmpfs";
        let is_memory = self.file_system == "tmpfs" && self.root == Path::new("/");
        let is_volume = self.root.ends_with("_data") && self.root.iter().any(|name| name == "volumes");
        is_of_kernel && !is_all_devices || is_mask || is_memory || is_volume
    }
}

/// Replaces the escapes of `/proc/self/mountinfo`.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

/// Returns an error with the reason if this process is in no container, or in one that is no wall.
///
/// A directory of the machine may be mounted only if the workspace is in it, or if it cannot be written.
pub fn check_container_wall(home: Option<&Path>, workspace: &Path) -> Result<(), String> {
    let link = |path: &str| std::fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned();
    let interfaces = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let view = ContainerView {
        process_namespace: link("/proc/self/ns/pid"),
        network_namespace: link("/proc/self/ns/net"),
        status: own::read_text("/proc/self/status").unwrap_or_default(),
        mounts: own::read_text("/proc/self/mountinfo").unwrap_or_default(),
        has_hardware_interface: interfaces.into_iter().any(|one| one.path().join("device").exists()),
        home: home.map(Path::to_path_buf),
        workspace: workspace.to_path_buf(),
    };
    view.check(&ThisSystem)
}

impl ContainerView {
    fn check(&self, files: &impl Files) -> Result<(), String> {
        if !self.process_namespace.starts_with("pid:[") || self.process_namespace == HOST_PROCESSES {
            return Err("this is no container, or one with the process namespace of the machine".into());
        }
        let network = self.network_namespace.strip_prefix("net:[").and_then(|rest| rest.strip_suffix(']'));
        let network = network.and_then(|number| number.parse::<u64>().ok());
        if self.has_hardware_interface || network.is_none_or(|number| number <= LAST_OF_START) {
            return Err("the container has the network of the machine".into());
        }
        let bounding = self.status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
        let bounding = bounding.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        if bounding.is_none_or(|set| set >> SYS_ADMIN & 1 == 1) {
            return Err("the container is privileged: it has the capability SYS_ADMIN".into());
        }
        if self.mounts.is_empty() {
            return Err("its mounts cannot be read".into());
        }
        if let Some(socket) = ENGINES.iter().map(Path::new).find(|path| files.is_socket(path)) {
            return Err(format!("it has the socket of a container engine: `{}`", socket.display()));
        }
        let mounts: Option<Vec<MountLine<'_>>> = self.mounts.lines().map(MountLine::parse).collect();
        let mounts = mounts.ok_or("its mounts cannot be read")?;
        let is_made_by_engine =
            mounts.iter().any(|mount| OF_ENGINES.iter().any(|file| mount.at == Path::new(file)))
                || MARKS.iter().any(|mark| files.exists(Path::new(mark)));
        if !is_made_by_engine {
            return Err("nothing shows that a container engine made it".into());
        }
        mounts
            .iter()
            .filter(|mount| mount.at != Path::new("/"))
            .try_for_each(|mount| self.check_mount(mount, files))
    }

    fn check_mount(&self, mount: &MountLine<'_>, files: &impl Files) -> Result<(), String> {
        let MountLine { root, at, .. } = mount;
        let is_socket_of_engine = ["docker", "podman", "containerd", "crio", "cri-o"]
            .iter()
            .any(|engine| root.to_string_lossy().contains(engine) && files.is_socket(at));
        if is_socket_of_engine {
            return Err(format!("it has the socket of a container engine: `{}`", at.display()));
        }
        if files.exists(&at.join("etc/passwd")) && files.exists(&at.join("usr")) {
            return Err(format!("the root of a system is mounted at `{}`", at.display()));
        }
        let is_own = self.home.as_deref() == Some(at);
        let is_home = HOMES
            .iter()
            .map(Path::new)
            .any(|homes| root == homes || root.parent() == Some(homes) && !homes.ends_with("root"));
        if is_home || OF_A_HOME.iter().any(|name| files.exists(&at.join(name))) && !is_own {
            return Err(format!("a home of the machine is mounted at `{}`", at.display()));
        }
        let is_of_kernel = OF_THE_KERNEL.iter().any(|(name, _)| *name == mount.file_system);
        if !(is_of_kernel && mount.is_of_container())
            && let Some(socket) = engine_socket(at, ENGINE_DEPTH, files)
        {
            return Err(format!("it has the socket of a container engine: `{}`", socket.display()));
        }
        let is_of_engine = OF_ENGINES.iter().chain(&MARKS).any(|file| at == Path::new(file))
            || at.starts_with("/run/secrets")
            || at.starts_with("/dev");
        let is_granted = self.workspace.starts_with(at) || is_of_engine && mount.file_system != "devtmpfs";
        // The kernel's file systems give more than their files, also where they cannot be written.
        let is_open = mount.is_writable || is_of_kernel;
        if is_open && !is_granted && !mount.is_of_container() {
            let what = if is_of_kernel {
                "a file system of the machine's kernel"
            } else {
                "a directory of the machine"
            };
            return Err(format!("{what} is mounted at `{}`", at.display()));
        }
        Ok(())
    }
}

/// Returns a socket of a container engine in a mounted directory.
fn engine_socket(at: &Path, depth: usize, files: &impl Files) -> Option<PathBuf> {
    let found = ENGINES_IN_A_MOUNT.iter().map(|socket| at.join(socket)).find(|path| files.is_socket(path));
    if found.is_some() || depth == 0 {
        return found;
    }
    files.directories(at).iter().find_map(|inner| engine_socket(inner, depth - 1, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What podman mounts into each container.
    const ENGINE: &str = "610 601 0:61 / /sys ro - sysfs sysfs rw\n611 601 0:62 / /dev rw - tmpfs tmpfs rw\n\
        612 611 0:63 / /dev/pts rw - devpts devpts rw\n613 601 0:64 /podman/hosts /etc/hosts rw - tmpfs tmpfs rw\n\
        614 602 0:62 /null /proc/kcore rw - tmpfs tmpfs rw\n615 611 0:6 /null /dev/null rw - devtmpfs udev rw\n\
        616 601 0:65 / /dev/shm rw - tmpfs shm rw\n617 610 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n\
        618 602 0:57 /bus /proc/bus ro - proc proc rw\n619 601 0:66 / /run/secrets rw - tmpfs tmpfs rw\n\
        620 601 8:1 /var/lib/docker/volumes/cache/_data /root/.cache rw - ext4 /dev/sda1 rw\n\
        621 601 8:1 /srv/read /srv/read ro - ext4 /dev/sda1 rw\n";
    const OVERLAY: &str =
        "601 470 0:54 / / rw - overlay overlay rw\n602 601 0:57 / /proc rw - proc proc rw\n";

    fn container() -> ContainerView {
        ContainerView {
            process_namespace: "pid:[4026532755]".into(),
            network_namespace: "net:[4026532757]".into(),
            status: "CapBnd:\t00000000800405fb\n".into(),
            mounts: format!(
                "{OVERLAY}603 601 8:1 /home/ann/shop /workspace rw - ext4 /dev/sda1 rw\n{ENGINE}"
            ),
            has_hardware_interface: false,
            home: Some("/root".into()),
            workspace: "/workspace/sub".into(),
        }
    }

    /// Files and sockets that are there, by their paths.
    struct FakeFiles<'a>(&'a [&'a str]);

    impl Files for FakeFiles<'_> {
        fn is_socket(&self, path: &Path) -> bool {
            self.exists(path)
        }

        fn exists(&self, path: &Path) -> bool {
            self.0.iter().any(|one| Path::new(one) == path)
        }

        fn directories(&self, path: &Path) -> Vec<PathBuf> {
            let inner = self.0.iter().filter_map(|one| Path::new(one).strip_prefix(path).ok());
            inner.filter_map(|rest| rest.iter().next()).map(|name| path.join(name)).collect()
        }
    }

    fn check(view: &ContainerView, there: &[&str]) -> Result<(), String> {
        view.check(&FakeFiles(there))
    }

    // req: E7
    #[test]
    fn a_container_is_a_wall_unless_something_leads_out() {
        assert_eq!(check(&container(), &[]), Ok(()));
        type Change = fn(&mut ContainerView);
        let changes: [(Change, &str); 8] = [
            (|view| view.process_namespace = HOST_PROCESSES.into(), "no container"),
            (|view| view.process_namespace.clear(), "no container"),
            (|view| view.network_namespace = "net:[4026531840]".into(), "network of the machine"),
            (|view| view.has_hardware_interface = true, "network of the machine"),
            (|view| view.status = "CapBnd:\t000001ffffffffff\n".into(), "SYS_ADMIN"),
            (|view| view.status.clear(), "SYS_ADMIN"),
            (
                |view| view.mounts.push_str("604 601 8:1 /home /host rw - ext4 /dev/sda1 rw\n"),
                "a home of the machine",
            ),
            (
                |view| view.mounts.push_str("604 601 8:1 /home/ann /h rw - ext4 /dev/sda1 rw\n"),
                "a home of the machine",
            ),
        ];
        for (change, expected) in changes {
            let mut view = container();
            change(&mut view);
            let refused = check(&view, &[]).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        for (there, expected) in [
            (&["/run/docker.sock"][..], "container engine"),
            (&["/workspace/etc/passwd", "/workspace/usr"], "root of a system"),
            (&["/workspace/.ssh"], "a home of the machine"),
        ] {
            let refused = check(&container(), there).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        for (line, there, expected) in [
            (
                "604 601 0:25 / /hostrun rw - tmpfs tmpfs rw",
                &["/hostrun/docker.sock"][..],
                "container engine",
            ),
            (
                "604 601 0:25 / /hostrun rw - tmpfs tmpfs rw",
                &["/hostrun/user/1000/podman/podman.sock"],
                "container engine",
            ),
            ("604 601 0:25 / /r ro - tmpfs tmpfs rw", &["/r/podman/podman.sock"], "container engine"),
            ("604 601 8:2 / /homes rw - ext4 /dev/sda2 rw", &[], "a directory of the machine"),
            ("604 601 8:1 /etc /host\\040etc rw - ext4 /dev/sda1 rw", &[], "mounted at `/host etc`"),
            ("604 601 0:6 / /dev rw - devtmpfs udev rw", &[], "kernel"),
            ("604 601 0:22 / /hostproc ro - proc proc rw", &[], "kernel"),
            ("604 601 0:22 /", &[], "cannot be read"),
        ] {
            let mut view = container();
            view.mounts.push_str(line);
            let refused = check(&view, there).unwrap_err();
            assert!(refused.contains(expected), "{line}: {refused}");
        }
        // A process that only left the namespaces of the machine.
        let mut left = container();
        left.mounts =
            "601 470 8:1 / / rw - ext4 /dev/sda1 rw\n602 601 0:57 / /proc rw - proc proc rw\n".into();
        assert!(check(&left, &[]).unwrap_err().contains("container engine made it"));
        assert_eq!(check(&left, &["/run/.containerenv"]), Ok(()));
        let mut bound = container();
        bound.mounts.push_str("605 601 0:25 /podman/podman.sock /engine rw - tmpfs tmpfs rw\n");
        assert!(check(&bound, &["/engine"]).unwrap_err().contains("container engine"));
        assert!(check(&bound, &[]).unwrap_err().contains("a directory of the machine"));
    }
}
