//! The form in which a test runs: short or long, as its own user, on its own disk.

use std::os::unix::process::CommandExt;
use std::process::Command;

use byleave_testkit::user::{passes, unprivileged};

/// The first of the user ids for tests. Each test gets another one.
const OWN_UIDS: u32 = 0x4000_0000;

const ON_OWN_DISK: &str = "BYLEAVE_TEST_ON_OWN_DISK";

/// Tests whether the long form was requested, as `scripts/prove` does.
pub(crate) fn long() -> bool {
    std::env::var("BYLEAVE_PROOF").is_ok_and(|form| form == "long")
}

/// A user that no other test runs as at the same time. The kernel limits processes per user, so the processes of one test must not
/// reduce the limit of another.
pub(crate) fn own_uid() -> u32 {
    OWN_UIDS + std::process::id()
}

/// As [`unprivileged`], but with its own user.
pub(crate) fn unprivileged_as_own_user(test: &str) -> bool {
    if rustix::process::geteuid().as_raw() != 0 {
        return true;
    }
    let mut again = Command::new("/proc/self/exe");
    again
        .args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"])
        .env("TMPDIR", "/tmp");
    let uid = own_uid();
    passes(again.uid(uid).gid(uid).current_dir("/"), &format!("{test} as user {uid}"));
    false
}

/// As [`unprivileged`]. If root runs the test, it also gets its own filesystem at `/tmp`. Only the test's own writes use space
/// there, and space freed by others does not appear.
pub(crate) fn unprivileged_on_own_disk(test: &str) -> bool {
    if rustix::process::geteuid().as_raw() != 0 || std::env::var_os(ON_OWN_DISK).is_some() {
        return unprivileged(test);
    }
    let mut unshare = Command::new("unshare");
    let script = "mount -t tmpfs -o mode=1777,size=2g tmp /tmp && exec \"$@\"";
    unshare.args(["--mount", "--propagation", "private", "bash", "-c", script, "bash"]);
    // Through its process, because its path may be hidden by a mount by then.
    unshare.arg(format!("/proc/{}/exe", std::process::id()));
    unshare.args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"]);
    passes(unshare.env(ON_OWN_DISK, "1").env("TMPDIR", "/tmp"), &format!("{test} on a disk of its own"));
    false
}
