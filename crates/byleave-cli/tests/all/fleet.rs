//! A whole fleet of real programs: an engine, its service, a Postgres, the gateway (`byleave serve --fleet`) and workers.
//!
//! The tests kill the engine and the Postgres, so they use their own, started by the same scripts as everywhere else.

mod chaos;
mod fair;
mod waiting;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::{HttpServerProcess, token};
use crate::worker::{WorkerProcess, settled, token_file};
use crate::world::CliTestWorld;

/// Reads a number from the environment, for the long form of a test.
fn number(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |many| many.parse().unwrap())
}

/// Returns this percentile of the times.
fn nth(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent).div_ceil(100) - 1]
}

/// An engine with its service and a Postgres. Stopped when dropped.
struct FleetFixture {
    dir: tempfile::TempDir,
    port: u16,
    nodes: u32,
}

impl FleetFixture {
    fn start(nodes: u32) -> Self {
        let fleet = Self { dir: tempfile::tempdir().unwrap(), port: free_ports(), nodes };
        fleet.up();
        fleet
    }

    /// Starts the parts that do not run.
    fn up(&self) {
        self.script("fleet", &["up", "--nodes", &self.nodes.to_string()]);
    }

    /// Returns the file that says how the fleet is reached.
    fn file(&self) -> String {
        self.run().join("fleet.toml").to_str().unwrap().to_owned()
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("fleet")
    }

    /// Returns the process ids of a part and its children.
    fn pids(&self, part: &str) -> Vec<String> {
        let said = if part == "postgres" {
            let said = self.script("postgres", &["status"]);
            said.split("pid ").nth(1).and_then(|rest| rest.split(')').next()).unwrap().to_owned()
        } else {
            std::fs::read_to_string(self.run().join(format!("{part}.pid"))).unwrap()
        };
        let pid = said.split_whitespace().next().unwrap().to_owned();
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        std::iter::once(pid).chain(children.split_whitespace().map(str::to_owned)).collect()
    }

    fn signal(&self, part: &str, signal: &str) {
        let pids = self.pids(part);
        // Some of the children may have ended meanwhile.
        drop(Command::new("kill").arg(signal).args(&pids).output().unwrap());
        let is_there = |pid: &String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().find(|line| line.starts_with("State:")).is_some_and(|line| !line.contains('Z'))
        };
        while signal == "-KILL" && pids.iter().any(is_there) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stand_still(&self, part: &str, ms: u64) {
        self.signal(part, "-STOP");
        std::thread::sleep(Duration::from_millis(ms));
        self.signal(part, "-CONT");
    }

    fn script(&self, name: &str, words: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name);
        // `cargo nextest run` builds both programs into the same directory.
        let service = Path::new(env!("CARGO_BIN_EXE_byleave")).with_file_name("byleave-fleet");
        let output = Command::new(script)
            .args(words)
            .env("CARGO_TARGET_DIR", self.dir.path())
            .env_remove("BYLEAVE_FLEET_BOOK")
            .env("BYLEAVE_FLEET_RUN", self.run())
            .env("BYLEAVE_FLEET_PORT", self.port.to_string())
            .env("BYLEAVE_FLEET_SERVICE", service)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for FleetFixture {
    fn drop(&mut self) {
        let url = std::fs::read_to_string(self.dir.path().join("postgres.url")).unwrap();
        self.script("fleet", &["down"]);
        self.script("postgres", &["down"]);
        // The Postgres data is in a directory that its own user can reach.
        let run = url.split("host=").nth(1).and_then(|rest| rest.split('&').next()).unwrap();
        std::fs::remove_dir_all(run.replace("%2F", "/")).unwrap();
    }
}

/// Returns the first of twelve free ports in a row. They are below the range of ephemeral ports, so no other process gets one of them
/// before they are used.
fn free_ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Every process begins its search at a different port.
    let begin = u16::try_from(std::process::id() % 150).unwrap();
    (0..150)
        .map(|step| 30_100 + (begin + step) % 150 * 16)
        .find(|first| (*first..first + 12).all(is_free))
        .expect("twelve free ports in a row")
}

// req: E4, R5
#[test]
fn a_question_is_answered_at_the_gateway_and_a_worker_writes_the_file() {
    let (fleet, world) = (FleetFixture::start(1), CliTestWorld::new());
    let (bot, ann) = (token(&world, &["bot"]), token(&world, &["web-ann", "--person"]));
    let words = ["--fleet", &*fleet.file()];
    let served = HttpServerProcess::start(&world, &words);
    let hired = WorkerProcess::start(&world, "w1", &token_file(&world, "w1"), &served.address);
    let body = json!({"tool": "append_line", "arguments": {"path": "notes.txt", "line": "first"}});
    let (_, standing) = served.ask(&bot, "POST", "/v1/calls?wait=0", &body);
    let answer = |served: &HttpServerProcess| {
        let end = Instant::now() + Duration::from_secs(120);
        let question = loop {
            let open = served.ask(&ann, "GET", "/v1/questions", &Value::Null).1;
            match &open["questions"][0]["question"] {
                Value::String(id) => break id.clone(),
                _ => assert!(Instant::now() < end, "nobody is asked: {open}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let path = format!("/v1/questions/{question}");
        let sheet = served.ask(&ann, "GET", &path, &Value::Null).1;
        assert!(sheet.to_string().contains("notes.txt"), "{sheet}");
        let yes = json!({"digest": sheet["question"]["digest"], "answer": {"kind": "yes"}});
        let (status, said) = served.ask(&ann, "POST", &format!("{path}/answer"), &yes);
        assert!(matches!(status, 200 | 202), "{said}");
    };
    answer(&served);
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("notes.txt"), "first\n");
    // Only one gateway runs at a time, in a directory and in the fleet.
    let second = world.quietly(&["serve", "--listen", "127.0.0.1:0", "--fleet", words[1]], "");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(2) && said.contains("runs there already"), "{said}");
    // A question that was asked under one gateway is answered under the next.
    let standing = served.asked_about(&bot, "k2", &body);
    let address = served.address.clone();
    served.stop();
    let served = HttpServerProcess::start_at(&world, &address, &words, &[]);
    answer(&served);
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("notes.txt"), "first\nfirst\n");
    let verified = served.ask(&ann, "POST", "/v1/audit/verify", &Value::Null).1;
    assert_eq!((&verified["intact"], &verified["records"]), (&json!(true), &json!(2)), "{verified}");
    hired.stop();
    served.stop();
}

// req: E1
#[test]
#[ignore = "waits for a lease of ten seconds: scripts/prove fleet-chaos"]
fn a_gateway_that_stands_still_for_too_long_is_followed_by_another_and_ends() {
    let (fleet, world) = (FleetFixture::start(1), CliTestWorld::new());
    let words = ["--fleet", &*fleet.file()];
    let first = HttpServerProcess::start(&world, &words);
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.env("BYLEAVE_STATE", world.workspace().join("../second"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(words);
    let mut second =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(second.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "another gateway serves this fleet; waiting to take over");
    let status = |code| {
        let looked = world.quietly(&["serve", "fleet", "status", words[1]], "");
        let text = String::from_utf8_lossy(&[looked.stdout, looked.stderr].concat()).into_owned();
        assert_eq!(looked.status.code(), Some(code), "{text}");
        text
    };
    assert!(status(0).contains("gateway: running"));
    first.signal(rustix::process::Signal::STOP);
    assert!(status(1).contains("it is not heard any more"));
    assert!(said.next().unwrap().starts_with("listening on "));
    first.signal(rustix::process::Signal::CONT);
    assert_eq!(first.ended(), Some(2), "it serves beside another");
    second.kill().unwrap();
    second.wait().unwrap();
}
