//! A Postgres of its own, started with `scripts/postgres`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A Postgres of one's own, started with the same script as everyone's.
pub(crate) struct Postgres {
    target: PathBuf,
}

impl Postgres {
    pub(crate) fn start(folder: &Path) -> Self {
        let postgres = Self { target: folder.join("postgres") };
        postgres.up();
        postgres
    }

    pub(crate) fn url(&self) -> String {
        std::fs::read_to_string(self.target.join("postgres.url")).unwrap().trim().to_owned()
    }

    pub(crate) fn up(&self) {
        self.script("up");
    }

    /// At once, as if the machine had failed: nothing is written out, and what it comes back with is what it had committed.
    pub(crate) fn kill(&self) {
        let said = self.script("status");
        let pid = said.split("pid ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
        let killed = Command::new("kill").args(["-QUIT", pid]).status().unwrap();
        assert!(killed.success(), "{said}");
        while Path::new(&format!("/proc/{pid}/stat")).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn script(&self, what: &str) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
        let output = Command::new(script).arg(what).env("CARGO_TARGET_DIR", &self.target).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let url = self.url();
        self.script("down");
        // Its data lies beside the shared one's, and is of no use to anyone.
        let run = url.split("host=").nth(1).and_then(|rest| rest.split('&').next()).unwrap();
        std::fs::remove_dir_all(run.replace("%2F", "/")).unwrap();
    }
}
