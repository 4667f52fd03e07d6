//! The sandbox refuses root, so a test that root runs starts itself again as another user.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user id that no machine uses.
pub const UID: u32 = 61_001;
const AGAIN: &str = "BYLEAVE_TEST_AGAIN";

/// Returns true if this process is unprivileged. As root it runs the test again as another user, and returns
/// false.
pub fn unprivileged(test: &str) -> bool {
    if rustix::process::geteuid().as_raw() != 0 {
        return true;
    }
    assert!(std::env::var_os(AGAIN).is_none(), "still root");
    let mut again = Command::new("/proc/self/exe");
    again
        .args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"])
        .env(AGAIN, "1")
        .env("TMPDIR", "/tmp");
    passes(again.uid(UID).gid(UID).current_dir("/"), &format!("{test} as user {UID}"));
    false
}

/// Runs a test again in this way, and fails if it fails.
pub fn passes(again: &mut Command, what: &str) {
    let ended = again.output().unwrap();
    let told = [ended.stdout, ended.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    println!("{told}");
    // A misspelled name would run nothing, and succeed.
    assert!(ended.status.success() && told.contains("1 passed"), "{what}: {told}");
}
