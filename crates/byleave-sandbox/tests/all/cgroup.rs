//! Commands in their own cgroups, delegated to an unprivileged user by root.
//!
//! Needs a machine whose cgroup v2 has the memory and pids controllers; `scripts/prove cgroups` starts one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use byleave_sandbox::cgroup;
use byleave_sandbox::guarantee::{Enforcement, Guarantee};
use byleave_sandbox::launch::{self, CommandStatus};
use byleave_sandbox::limits::LimitKind;

use crate::launch::{confinement, text};
use crate::ways::ways;
use byleave_testkit::user::{UID, passes};

const AGAIN: &str = "BYLEAVE_TEST_DELEGATED";

/// Runs a test again as another user in a cgroup subtree delegated to that user, and removes it afterwards.
fn delegated(test: &str) -> bool {
    if std::env::var_os(AGAIN).is_some() {
        return true;
    }
    assert_eq!(rustix::process::geteuid().as_raw(), 0, "needs root, to delegate a part of the tree");
    let top = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    let top = top.into_iter().find(|top| top.join("cgroup.subtree_control").exists()).expect("cgroup v2");
    fs::write(top.join("cgroup.subtree_control"), "+memory +pids").expect("the memory and pids controllers");
    let tree = CgroupTree(top.join(format!("byleave-test-{}", std::process::id())));
    fs::create_dir(&tree.0).unwrap();
    for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(tree.0.join(name), Some(UID), Some(UID)).unwrap();
    }
    let enter = "echo $$ > \"$1/cgroup.procs\"; shift; exec \"$@\"";
    let mut again = Command::new("bash");
    again.args(["-c", enter, "enter"]).arg(&tree.0);
    again.args(["setpriv", "--clear-groups", "--reuid", &UID.to_string(), "--regid", &UID.to_string()]);
    again.arg(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"]);
    passes(again.env(AGAIN, "1").env("TMPDIR", "/tmp").current_dir("/"), test);
    false
}

struct CgroupTree(PathBuf);

impl Drop for CgroupTree {
    fn drop(&mut self) {
        let beneath = fs::read_dir(&self.0).unwrap().flatten().filter(|entry| entry.path().is_dir());
        let left: Vec<_> = beneath.map(|entry| entry.file_name()).collect();
        let all = left.iter().map(|name| self.0.join(name)).chain([self.0.clone()]);
        all.for_each(|path| {
            fs::remove_dir(&path).unwrap_or_else(|error| println!("{}: {error}", path.display()))
        });
        if !std::thread::panicking() {
            assert_eq!(left, ["byleave-supervisor"], "a command's group was left behind");
        }
    }
}

// req: E2 E7
#[test]
#[ignore = "needs a cgroup v2 with memory and pids: scripts/prove cgroups"]
fn every_command_is_limited_as_a_whole_and_says_so() {
    if !delegated("cgroup::every_command_is_limited_as_a_whole_and_says_so") {
        return;
    }
    cgroup::delegated_cgroup().unwrap_or_else(|absent| panic!("{absent}"));
    assert_eq!(launch::enforcement(Guarantee::MemoryLimited), Enforcement::Full);
    let workspace = tempfile::tempdir().unwrap();
    let mut confinement = confinement(workspace.path());
    confinement.waived.clear();
    confinement.limits.memory_bytes = 128 << 20;
    confinement.limits.pids = 30;
    confinement.limits.wall_time = Duration::from_secs(60);
    for (name, run) in ways(&confinement) {
        // Each process stays below the limit, but together they exceed it.
        let many = "for i in 1 2 3 4; do head -c 60M /dev/zero | tail -c 60M | sleep 1000 & done; wait";
        let outcome = run(many);
        assert_eq!(
            (outcome.status, outcome.limit_exceeded),
            (CommandStatus::Signalled(9), Some(LimitKind::Memory)),
            "{name}"
        );
        let outcome = run("for i in $(seq 50); do sleep 1000 & done 2>/dev/null; echo unreachable");
        assert_eq!((outcome.limit_exceeded, outcome.limits_reached), (None, vec![LimitKind::Pids]), "{name}");
        let outcome = run("for i in 1 2 3; do sleep 0 & done; wait; cat /proc/self/cgroup; echo fine");
        assert_eq!((outcome.status, outcome.limit_exceeded), (CommandStatus::Exited(0), None), "{name}");
        assert!(text(&outcome.stdout).contains("/byleave-run-"), "{name}: {}", text(&outcome.stdout));
        assert!(
            outcome.limits_reached.is_empty() && outcome.cpu_time > Duration::ZERO,
            "{name}: {outcome:?}"
        );
        // A process inside cannot leave the cgroup or raise its limit.
        let leave = "for f in $(find /sys/fs/cgroup -name cgroup.procs -o -name memory.max); do echo max > $f; echo $$ > $f; done 2>/dev/null && echo left";
        assert_eq!(text(&run(leave).stdout), "", "{name}");
    }
}
