//! `HOME` for a program that was started without it, as services, containers and schedulers do.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Starts this program again with the home directory of the user's account, if `HOME` is not set. Returns if that is not needed or not possible:
/// each command then names what is missing.
pub(crate) fn restart_with_home() {
    if env::var_os("HOME").is_some_and(|home| !home.is_empty()) {
        return;
    }
    let Some(home) = env::home_dir().filter(|home| home.is_absolute() && home.is_dir()) else { return };
    let mut words = env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    // It returns only if it fails.
    let _error = again.args(words).env("HOME", home).exec();
}
