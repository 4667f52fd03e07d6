//! Commands in a container: `byleave sandbox exec --on oci:IMAGE` and the setting `run_on`. The container is a real one, of podman.
//!
//! Needs podman with runc, newuidmap and a static busybox; as root also the permission to mount. The test fails if one is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::desk::{OtherUserWorld, UID, said};

const IMAGE: &str = "localhost/byleave-test";
const ON: &str = "oci:localhost/byleave-test";

/// Makes the test user one that may use other user ids, for this process and its children only. Everything ends with it.
const AS_KNOWN_USER: &str = "set -e; conf=$1; id=$2; shift 2; touch /etc/subuid /etc/subgid; \
    for name in passwd group subuid subgid; do mount --bind $conf/$name /etc/$name; done; \
    exec setpriv --reuid $id --regid $id --clear-groups \"$@\"";

/// A world with an image that has one program.
struct ContainerWorld {
    desk: OtherUserWorld,
}

impl ContainerWorld {
    fn new() -> Self {
        let this = Self { desk: OtherUserWorld::new() };
        let home = this.home();
        for directory in ["run", "store", "conf", "image/bin"] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        fs::set_permissions(home.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        let files = [
            ("passwd", format!("ann:x:{UID}:{UID}::{}:/bin/sh\n", home.display())),
            ("group", format!("ann:x:{UID}:\n")),
            ("subuid", format!("{UID}:700000:65536\n")),
            ("subgid", format!("{UID}:700000:65536\n")),
            (
                "containers.conf",
                "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\n"
                    .into(),
            ),
            (
                "storage.conf",
                format!(
                    "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/store\"\nrunroot = \"{0}/run/root\"\n",
                    home.display()
                ),
            ),
        ];
        for (name, text) in files {
            fs::write(home.join("conf").join(name), text).unwrap();
        }
        let bin = home.join("image/bin");
        fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
        for applet in ["sh", "cat", "touch", "ls", "env", "rm", "sleep"] {
            std::os::unix::fs::symlink("busybox", bin.join(applet)).unwrap();
        }
        fs::write(bin.join("bash"), "#!/bin/sh\nexec /bin/sh \"$@\"\n").unwrap();
        fs::set_permissions(bin.join("bash"), fs::Permissions::from_mode(0o755)).unwrap();
        let tar = home.join("image.tar");
        let mut pack = Command::new("tar");
        pack.arg("-C").arg(home.join("image")).arg("-cf").arg(&tar).arg(".");
        assert!(pack.status().unwrap().success());
        for path in ["run", "store", "image.tar"] {
            this.desk.give(&home.join(path));
        }
        let imported = this.command(Path::new("podman"), &["import", tar.to_str().unwrap(), "byleave-test"]);
        let (code, out, err) = said(&{ imported }.output().unwrap());
        assert_eq!(code, Some(0), "podman cannot import an image: {out}{err}");
        this
    }

    fn home(&self) -> PathBuf {
        self.desk.world.workspace().parent().unwrap().to_path_buf()
    }

    /// Returns a command of the user, with a store of its own for podman.
    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let conf = self.home().join("conf");
        // Each command has process ids of its own, so the process that podman kept of the last command is another one now.
        let _missing = fs::remove_file(self.home().join("run/libpod/tmp/pause.pid"));
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = self.desk.world.command(Path::new("unshare"));
            command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
            command.args(["sh", "-c", AS_KNOWN_USER, "sh"]).arg(&conf).arg(UID.to_string()).arg(program);
            command
        } else {
            self.desk.world.command(program)
        };
        command
            .args(words)
            .env("API_TOKEN", "SECRET")
            .env("XDG_RUNTIME_DIR", self.home().join("run"))
            .env("CONTAINERS_CONF", conf.join("containers.conf"))
            .env("CONTAINERS_STORAGE_CONF", conf.join("storage.conf"))
            .stdin(Stdio::null());
        command
    }

    fn byleave(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(&self.desk.program, words);
        command.envs(variables.iter().copied()).output().unwrap()
    }
}

// req: E2, E7
// door: program
#[test]
fn a_command_in_a_container_sees_the_workspace_but_no_secret_and_no_network() {
    let world = ContainerWorld::new();
    let script =
        "ls /bin/busybox; cat notes.txt; cat .env; env; ls /sys/class/net; touch made; touch /made; exit 7";
    let (code, out, err) =
        said(&world.byleave(&["sandbox", "exec", "--on", ON, "--", "sh", "-c", script], &[]));
    assert_eq!(code, Some(7), "{out}{err}");
    assert!(out.starts_with("/bin/busybox\nhello") && out.ends_with("\nlo\n"), "{out}{err}");
    assert!(!out.contains("SECRET") && !err.contains("SECRET"), "{out}{err}");
    assert!(out.contains("HOME=/tmp\n") && err.contains("Read-only file system"), "{out}{err}");
    assert!(world.desk.world.workspace().join("made").exists());
    assert!(err.contains("a container does not fully give writes-locked-twice, privileges-dropped"), "{err}");
    let acts = world.byleave(&["audit", "actions"], &[]);
    let (_, out, err) = said(&acts);
    assert!(
        out.contains("tree-killed") && out.contains(&format!("for a container of `{IMAGE}`")),
        "{out}{err}"
    );
    // By the setting, and without the right to write.
    let words = ["sandbox", "exec", "--profile", "read-only", "--", "sh", "-c", "cat notes.txt; touch late"];
    let (code, out, err) = said(&world.byleave(&words, &[("BYLEAVE_RUN_ON", ON)]));
    assert_eq!((code, out.as_str()), (Some(1), "hello"), "{err}");
    assert!(!world.desk.world.workspace().join("late").exists());
    // Nothing is fetched.
    let (code, _, err) =
        said(&world.byleave(&["sandbox", "exec", "--on", "oci:localhost/none", "true"], &[]));
    assert_eq!(code, Some(125), "{err}");
    let words = ["sandbox", "exec", "--on", ON, "--reach", "example.org", "true"];
    let (code, _, err) = said(&world.byleave(&words, &[]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("a container has no network"), "{err}");
}

// req: E2, E6, E7
// door: program
#[test]
fn bash_in_a_container_changes_a_copy_which_is_committed_and_can_be_undone() {
    let world = ContainerWorld::new();
    let here = [("BYLEAVE_RUN_ON", ON)];
    let call = |command: &str| {
        let args = serde_json::json!({ "command": command }).to_string();
        said(&world.byleave(&["call", "bash", "--mode", "yolo", "--ask", "none", "--args", &args], &here))
    };
    let (code, out, err) = call("ls /bin/busybox; cat notes.txt; echo new >made");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("/bin/busybox\nhello"), "{out}{err}");
    assert_eq!(world.desk.world.file("made"), "new\n");
    let (code, out, err) = said(&world.byleave(&["undo"], &here));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!world.desk.world.workspace().join("made").exists());
    // A protected path cannot be planted, and the image must exist.
    let (_, out, err) = call("echo x >.envrc");
    assert!(!world.desk.world.workspace().join(".envrc").exists(), "{out}{err}");
    let args = r#"{"command": "touch made"}"#;
    let words = ["call", "bash", "--mode", "yolo", "--ask", "none", "--args", args];
    let refused = world.byleave(&words, &[("BYLEAVE_RUN_ON", "oci:localhost/none")]);
    assert_ne!(refused.status.code(), Some(0), "{refused:?}");
    assert!(!world.desk.world.workspace().join("made").exists());
}

// req: E7
// door: program
#[test]
fn without_an_engine_nothing_runs_and_a_program_of_the_workspace_is_not_an_engine() {
    let mut desk = OtherUserWorld::new();
    let bin = desk.world.workspace().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("podman"), "#!/bin/sh\n/bin/touch made\n").unwrap();
    fs::set_permissions(bin.join("podman"), fs::Permissions::from_mode(0o755)).unwrap();
    desk.give(&bin);
    desk.give(&bin.join("podman"));
    desk.world.path = bin.into_os_string();
    let (code, _, err) = said(&desk.exec(&["--on", "oci:debian:12"], "touch made", ""));
    assert_eq!(code, Some(125), "{err}");
    assert!(err.contains("neither `podman` nor `docker`") && err.contains("--on native"), "{err}");
    let args = r#"{"command": "/bin/touch made"}"#;
    let mut call = desk.command(&["call", "bash", "--mode", "yolo", "--ask", "none", "--args", args]);
    let (code, out, err) = said(&call.env("BYLEAVE_RUN_ON", "oci:debian:12").output().unwrap());
    assert_ne!(code, Some(0), "{out}{err}");
    assert!(format!("{out}{err}").contains("neither `podman` nor `docker`"), "{out}{err}");
    assert!(!desk.world.workspace().join("made").exists());
}

// req: E7
// door: program
#[test]
fn only_a_person_chooses_the_image_and_a_wrong_value_is_explained() {
    let desk = OtherUserWorld::new();
    for (options, wanted) in [
        (&["--on", "debian:12"][..], "write `native`, or `oci:`"),
        (&["--on", "oci:--privileged"], "is not the name of an image"),
        (&["--on", "native", "--backend", "bwrap"], "cannot be used with"),
    ] {
        let (code, _, err) = said(&desk.exec(options, "touch made", ""));
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(wanted), "{err}");
    }
    let settings = desk.world.workspace().join(".byleave");
    fs::create_dir(&settings).unwrap();
    fs::write(settings.join("config.toml"), "run_on = \"oci:theirs\"\n").unwrap();
    desk.give(&settings);
    desk.give(&settings.join("config.toml"));
    let (code, _, err) = said(&desk.exec(&[], "touch made", ""));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("run_on") && err.contains("may only tighten"), "{err}");
    assert!(!desk.world.workspace().join("made").exists());
}
