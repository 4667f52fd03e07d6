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
}

/// Returns an error with the reason if this process is in no container, or in one that is no wall.
pub fn check_container_wall(home: Option<&Path>) -> Result<(), String> {
    let link = |path: &str| std::fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned();
    let interfaces = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let view = ContainerView {
        process_namespace: link("/proc/self/ns/pid"),
        network_namespace: link("/proc/self/ns/net"),
        status: own::read_text("/proc/self/status").unwrap_or_default(),
        mounts: own::read_text("/proc/self/mountinfo").unwrap_or_default(),
        has_hardware_interface: interfaces.into_iter().any(|one| one.path().join("device").exists()),
        home: home.map(Path::to_path_buf),
    };
    let is_socket = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    view.check(is_socket, exists)
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
        for mount in self.mounts.lines() {
            let mut fields = mount.split(' ');
            let (Some(root), Some(at)) = (fields.nth(3), fields.next()) else { continue };
            let (root, at) = (Path::new(root), Path::new(at));
            let is_socket_of_engine = ["docker", "podman", "containerd", "crio", "cri-o"]
                .iter()
                .any(|engine| root.to_string_lossy().contains(engine) && is_socket(at));
            if is_socket_of_engine {
                return Err(format!("it has the socket of a container engine: `{}`", at.display()));
            }
            if at == Path::new("/") {
                continue;
            }
            if exists(&at.join("etc/passwd")) && exists(&at.join("usr")) {
                return Err(format!("the root of a system is mounted at `{}`", at.display()));
            }
            let is_own = self.home.as_deref() == Some(at);
            let is_home = HOMES
                .iter()
                .map(Path::new)
                .any(|homes| root == homes || root.parent() == Some(homes) && !homes.ends_with("root"));
            if is_home || OF_A_HOME.iter().any(|name| exists(&at.join(name))) && !is_own {
                return Err(format!("a home of the machine is mounted at `{}`", at.display()));
            }
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
            (&["/workspace/etc/passwd", "/workspace/usr"], "root of a system"),
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
}
