//! An engine and a service of one's own, started with the same script and the same configuration as everyone's.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An engine on ports that were free. Stopped when dropped.
pub(crate) struct Fleet {
    run: PathBuf,
    port: u16,
    book: Option<String>,
    service: PathBuf,
}

impl Fleet {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_old(folder, Path::new(env!("CARGO_BIN_EXE_byleave-fleet")))
    }

    /// The same with another program as its service.
    pub(crate) fn start_old(folder: &Path, service: &Path) -> Self {
        let (run, service) = (folder.join("fleet"), service.to_owned());
        let fleet = Self { run, port: free_ports(4), book: None, service };
        fleet.up();
        fleet
    }

    /// The same with the books of its ledgers in a Postgres.
    pub(crate) fn start_with_book(folder: &Path, url: &str) -> Self {
        let book = Some(url.to_owned());
        let service = env!("CARGO_BIN_EXE_byleave-fleet").into();
        let fleet = Self { run: folder.join("fleet"), port: free_ports(4), book, service };
        fleet.up();
        fleet
    }

    pub(crate) fn ingress(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn admin(&self) -> String {
        format!("127.0.0.1:{}", self.port + 1)
    }

    /// Starts what does not run.
    pub(crate) fn up(&self) {
        self.script("up");
    }

    /// Stops everything, in order: what the engine knows is on the disk.
    pub(crate) fn down(&self) {
        self.script("down");
    }

    /// Where it keeps everything.
    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    /// SIGKILL for the `server` or the `service`.
    pub(crate) fn kill(&self, what: &str) {
        let pid = self.pid(what);
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        assert!(killed.success(), "the {what} was not running");
        // The signal is on its way; whoever starts another at once must not find this one.
        let is_dead = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().find(|line| line.starts_with("State:")).is_none_or(|line| line.contains('Z'))
        };
        while !is_dead() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    pub(crate) fn pid(&self, what: &str) -> u32 {
        let said = std::fs::read_to_string(self.run.join(format!("{what}.pid"))).unwrap();
        said.split(' ').next().unwrap().parse().unwrap()
    }

    fn script(&self, what: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fleet");
        let output = Command::new(script)
            .arg(what)
            .env("BYLEAVE_FLEET_RUN", &self.run)
            .env("BYLEAVE_FLEET_PORT", self.port.to_string())
            .env("BYLEAVE_FLEET_SERVICE", &self.service)
            .env("BYLEAVE_FLEET_BOOK", self.book.as_deref().unwrap_or_default())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Fleet {
    #[expect(clippy::print_stderr, reason = "what the engine said is gone with its folder")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in ["server.log", "service.log"] {
                let said = std::fs::read_to_string(self.run.join(log)).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(20).collect();
                eprintln!("{log}, newest first: {last:#?}");
            }
        }
        self.down();
    }
}

/// The first of so many in a row.
pub(crate) fn free_ports(many: u16) -> u16 {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (first..first.saturating_add(many)).all(is_free) {
            return first;
        }
    }
    panic!("there are not {many} free ports in a row")
}
