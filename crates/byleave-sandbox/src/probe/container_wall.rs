//! Checks whether the container around this process is a wall: whether a process in it stays in it, whatever it does.
//!
//! A doubt is a no. The checks can only find known holes; that there are no others is the person's word.

use std::collections::BTreeMap;
use std::fs;
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
/// Parts of the names of these sockets, wherever they are mounted.
const ENGINE_NAMES: [&str; 7] =
    ["docker", "podman", "containerd", "crio", "cri-o", "cri-dockerd", "buildkit"];
/// How many entries of a mount are searched for such sockets and for homes, down to the second level.
const SEARCHED_MAX: usize = 20_000;
/// The files that engines put into a container.
const MARKERS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
/// The file systems from which engines make the root of a container. Others need a marker.
const ROOTS: [&str; 2] = ["overlay", "fuse.fuse-overlayfs"];
/// Directories of a system that no container needs of its machine.
const OF_A_SYSTEM: [&str; 6] = ["/etc", "/var", "/usr", "/boot", "/opt", "/run"];
/// Directories with homes.
const HOMES: [&str; 4] = ["/home", "/var/home", "/root", "/Users"];
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
    /// The entries of the mounted directories, down to the second level, and which of them are sockets.
    entries: BTreeMap<PathBuf, bool>,
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    /// The directory of the file system that is mounted.
    root: &'a Path,
    at: &'a Path,
    file_system: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, rest) = line.split_once(" - ")?;
        let mut fields = mount.split(' ');
        let (root, at) = (fields.nth(3)?, fields.next()?);
        Some(Self { root: Path::new(root), at: Path::new(at), file_system: rest.split(' ').next()? })
    }

    /// Returns whether it has files of the machine, unlike a file system that the kernel made for the container.
    fn has_files(&self) -> bool {
        self.at != Path::new("/")
            && !["proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2"].contains(&self.file_system)
    }
}

/// Returns an error with the reason if this process is in no container, or in one that is no wall.
pub fn check_container_wall(home: Option<&Path>) -> Result<(), String> {
    let link = |path: &str| fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned();
    let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let view = ContainerView {
        process_namespace: link("/proc/self/ns/pid"),
        network_namespace: link("/proc/self/ns/net"),
        status: own::read_text("/proc/self/status").unwrap_or_default(),
        mounts: own::read_text("/proc/self/mountinfo").unwrap_or_default(),
        has_hardware_interface: interfaces.into_iter().any(|one| one.path().join("device").exists()),
        home: home.map(Path::to_path_buf),
        entries: BTreeMap::new(),
    };
    let mut entries = BTreeMap::new();
    for mount in view.mounts.lines().filter_map(Mount::parse).filter(Mount::has_files) {
        let mut left = SEARCHED_MAX;
        list(mount.at, 2, &mut left, &mut entries);
    }
    let view = ContainerView { entries, ..view };
    let is_socket = |path: &Path| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    view.check(is_socket, exists)
}

/// Lists a directory and, to this depth, those in it.
fn list(directory: &Path, depth: usize, left: &mut usize, found: &mut BTreeMap<PathBuf, bool>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        let Ok(kind) = entry.file_type() else { continue };
        if depth > 1 && kind.is_dir() {
            list(&entry.path(), depth - 1, left, found);
        }
        found.insert(entry.path(), kind.is_socket());
    }
}

impl ContainerView {
    fn check(&self, is_socket: impl Fn(&Path) -> bool, exists: impl Fn(&Path) -> bool) -> Result<(), String> {
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
        if let Some(socket) = ENGINES.iter().map(Path::new).find(|path| is_socket(path)) {
            return Err(format!("it has the socket of a container engine: `{}`", socket.display()));
        }
        let has_marker = || MARKERS.iter().any(|marker| exists(Path::new(marker)));
        for mount in self.mounts.lines() {
            let Some(mount) = Mount::parse(mount) else { return Err("its mounts cannot be read".into()) };
            if mount.at == Path::new("/") {
                if !ROOTS.contains(&mount.file_system) && !has_marker() {
                    return Err("its root is not one that an engine made: this is no container".into());
                }
                continue;
            }
            self.check_mount(&mount, &is_socket, &exists)?;
        }
        Ok(())
    }

    fn check_mount(
        &self,
        mount: &Mount<'_>,
        is_socket: &impl Fn(&Path) -> bool,
        exists: &impl Fn(&Path) -> bool,
    ) -> Result<(), String> {
        let Mount { root, at, file_system } = *mount;
        let is_beneath = |top: &str| at.starts_with(top);
        if file_system == "proc" && !is_beneath("/proc")
            || file_system == "sysfs" && !is_beneath("/sys")
            || file_system == "devtmpfs"
        {
            return Err(format!("a file system of the machine's kernel is mounted at `{}`", at.display()));
        }
        if !mount.has_files() {
            return Ok(());
        }
        let is_engine = |name: &str| ENGINE_NAMES.iter().any(|engine| name.contains(engine));
        if is_engine(&root.to_string_lossy()) && is_socket(at) {
            return Err(format!("it has the socket of a container engine: `{}`", at.display()));
        }
        let inside = || self.entries.iter().filter(|(path, _)| path.starts_with(at));
        let names = |path: &Path| is_engine(&path.strip_prefix(at).unwrap_or(path).to_string_lossy());
        let socket = inside().find(|(path, is_socket)| **is_socket && names(path));
        if let Some((socket, _)) = socket {
            return Err(format!("it has the socket of a container engine: `{}`", socket.display()));
        }
        let is_of_system = file_system != "tmpfs" && OF_A_SYSTEM.iter().any(|top| root == Path::new(top));
        if is_of_system || exists(&at.join("etc/passwd")) && exists(&at.join("usr")) {
            return Err(format!("a part of the machine's system is mounted at `{}`", at.display()));
        }
        let is_own = self.home.as_deref() == Some(at);
        let is_home = HOMES
            .iter()
            .map(Path::new)
            .any(|homes| root == homes || root.parent() == Some(homes) && !homes.ends_with("root"));
        let is_like_home = |path: &Path| OF_A_HOME.iter().any(|name| exists(&path.join(name)));
        // A file system of homes has them one level down.
        let holds_home = || {
            let parents = inside().filter_map(|(path, _)| Some((path.parent()?, path.file_name()?)));
            let is_home = |(parent, name): (&Path, &std::ffi::OsStr)| {
                parent.parent() == Some(at)
                    && self.home.as_deref() != Some(parent)
                    && OF_A_HOME.iter().any(|of_a_home| name == *of_a_home)
            };
            parents.into_iter().any(is_home)
        };
        if is_home || is_like_home(at) && !is_own || holds_home() {
            return Err(format!("a home of the machine is mounted at `{}`", at.display()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLAY: &str =
        "601 470 0:54 / / rw - overlay overlay rw\n602 601 0:57 / /proc rw - proc proc rw\n";

    fn container() -> ContainerView {
        ContainerView {
            process_namespace: "pid:[4026532755]".into(),
            network_namespace: "net:[4026532757]".into(),
            status: "CapBnd:\t00000000800405fb\n".into(),
            mounts: format!("{OVERLAY}603 601 8:1 /home/ann/shop /workspace rw - ext4 /dev/sda1 rw\n"),
            has_hardware_interface: false,
            home: Some("/root".into()),
            entries: BTreeMap::new(),
        }
    }

    fn check(view: &ContainerView, there: &[&str]) -> Result<(), String> {
        let is_there = |path: &Path| there.iter().any(|one| Path::new(one) == path);
        view.check(is_there, is_there)
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
            (&["/workspace/etc/passwd", "/workspace/usr"], "machine's system"),
            (&["/workspace/.ssh"], "a home of the machine"),
        ] {
            let refused = check(&container(), there).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        let mut bound = container();
        bound.mounts.push_str("605 601 0:25 /podman/podman.sock /engine rw - tmpfs tmpfs rw\n");
        assert!(check(&bound, &["/engine"]).unwrap_err().contains("container engine"));
        assert_eq!(check(&bound, &[]), Ok(()));
    }

    // req: E7
    #[test]
    fn what_is_mounted_under_another_name_is_found() {
        let mounted = |line: &str, entries: &[(&str, bool)]| {
            let mut view = container();
            view.mounts.push_str(line);
            view.entries = entries.iter().map(|(path, is_socket)| (path.into(), *is_socket)).collect();
            check(&view, &[])
        };
        let disk = |root: &str, at: &str| format!("700 601 8:1 {root} {at} rw - ext4 /dev/sda1 rw\n");
        for (line, entries, expected) in [
            (
                "701 601 0:25 / /run/user/1000 rw - tmpfs tmpfs rw\n".to_owned(),
                &[("/run/user/1000/docker.sock", true)][..],
                "container engine",
            ),
            (disk("/srv/run", "/hostrun"), &[("/hostrun/podman/podman.sock", true)], "container engine"),
            (
                disk("/", "/homes"),
                &[("/homes/ann", false), ("/homes/ann/.ssh", false)],
                "a home of the machine",
            ),
            (disk("/var/home/ann", "/h"), &[], "a home of the machine"),
            (disk("/etc", "/host-etc"), &[], "machine's system"),
            (disk("/var", "/hostvar"), &[], "machine's system"),
            ("702 601 0:5 / /dev rw - devtmpfs devtmpfs rw\n".into(), &[], "kernel"),
            ("703 601 0:21 / /hostproc rw - proc proc rw\n".into(), &[], "kernel"),
        ] {
            let refused = mounted(&line, entries).expect_err(&line);
            assert!(refused.contains(expected), "{line}: {refused}");
        }
        // What engines, volumes and caches bring.
        for line in [
            disk("/var/lib/docker/volumes/cargo/_data", "/usr/local/cargo/registry"),
            disk("/var/lib/docker/containers/6f/hosts", "/etc/hosts"),
            "704 602 0:57 /sys /proc/sys ro - proc proc rw\n".into(),
            "705 601 0:60 / /dev/shm rw - tmpfs shm rw\n".into(),
        ] {
            assert_eq!(mounted(&line, &[("/usr/local/cargo/registry/cache", false)]), Ok(()), "{line}");
        }
        // The root of the machine behind namespaces of its own.
        let mut machine = container();
        machine.mounts = machine.mounts.replace("- overlay overlay", "- ext4 /dev/sda1");
        assert!(check(&machine, &[]).unwrap_err().contains("no container"));
        assert_eq!(check(&machine, &["/run/.containerenv"]), Ok(()));
    }
}
