//! A command in a real container, with podman and a runtime, if both are installed.

use std::process::Command;
use std::time::Duration;

use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{CommandStatus, LaunchError, OciEngine, RunAs};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::plan::{CommandSpec as Confined, UserIdentity};

use crate::launch::{confinement, text};
use byleave_testkit::user::UID;

// req: E2
#[test]
#[ignore = "needs root, podman with runc or crun, and a static busybox"]
fn a_command_in_a_container_finds_what_it_may_and_nothing_else() {
    let store = tempfile::tempdir().unwrap();
    let at = |name: &str| store.path().join(name).into_os_string();
    let runtime = std::env::var("BYLEAVE_OCI_RUNTIME").unwrap_or_else(|_| "runc".into());
    let options = vec![
        "--root".into(),
        at("store"),
        "--runroot".into(),
        at("run"),
        "--storage-driver=vfs".into(),
        "--cgroup-manager=cgroupfs".into(),
        format!("--runtime={runtime}").into(),
    ];
    // An image with one program.
    std::fs::create_dir_all(store.path().join("image/bin")).unwrap();
    std::fs::copy("/bin/busybox", store.path().join("image/bin/busybox")).unwrap();
    for applet in ["sh", "cat", "touch", "id", "sleep", "ls"] {
        std::os::unix::fs::symlink("busybox", store.path().join("image/bin").join(applet)).unwrap();
    }
    let mut tar = Command::new("tar");
    assert!(
        tar.arg("-C").arg(at("image")).arg("-cf").arg(at("image.tar")).arg(".").status().unwrap().success()
    );
    let mut import = Command::new("podman");
    import.args(&options).arg("import").arg(at("image.tar")).arg("byleave-test");
    assert!(import.output().unwrap().status.success());

    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join(".env"), "SECRET").unwrap();
    std::fs::create_dir_all(workspace.path().join(".git/hooks")).unwrap();
    let own = Command::new("chown").arg("-R").arg(format!("{UID}:{UID}")).arg(workspace.path()).status();
    assert!(own.unwrap().success());
    let mut asked = confinement(workspace.path());
    asked.waived.extend(Guarantee::ALL);
    let root = asked.files.cwd.clone();
    asked.files.hidden.push(root.join(".env"));
    asked.files.protected.push(root.join(".git/hooks"));
    asked.environment.insert("PATH".into(), "/bin".into());
    let oci = OciEngine { engine: "podman".into(), options, image: "localhost/byleave-test".into() };
    let run_as = RunAs::User(UserIdentity { uid: UID, gid: UID });
    let run = |script: &str, wall: u64| {
        let mut asked = asked.clone();
        asked.limits.wall_time = Duration::from_secs(wall);
        let command = Confined {
            argv: vec!["sh".into(), "-c".into(), script.into()],
            stdin: b"in".to_vec(),
            ..Confined::default()
        };
        oci.run(&asked, &command, run_as).unwrap_or_else(|error| panic!("{error}"))
    };
    let outcome =
        run("id -u; cat; cat .env; touch here; touch .git/hooks/x /x; ls /sys/class/net; exit 7", 60);
    let (out, err) = (text(&outcome.stdout), text(&outcome.stderr));
    assert_eq!((outcome.status, out.as_str()), (CommandStatus::Exited(7), "61001\ninlo\n"), "{err}");
    assert!(workspace.path().join("here").exists() && !workspace.path().join(".git/hooks/x").exists());
    assert!(!out.contains("SECRET") && err.matches("Read-only").count() == 2, "{err}");
    let late = run("sleep 99", 3);
    assert_eq!((late.status, late.limit_exceeded), (CommandStatus::Signalled(9), Some(LimitKind::Wall)));
    let root_is_refused = oci.run(&asked, &Confined::default(), RunAs::Caller);
    assert!(matches!(root_is_refused, Err(LaunchError::Root)));
}
