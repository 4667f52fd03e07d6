//! `byleave serve worker`, the real program: it runs calls of a server with its own files, while processes are killed.
//!
//! `BYLEAVE_KILLS=300` for the long form of the last test.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::desk::OtherUserWorld;
use crate::dice::SeededRandom;
use crate::scene::{ClientLoadScenario, ScenarioTokens};
use crate::serve::{HttpServerProcess, request, token};
use crate::world::CliTestWorld;

/// The longest time between two kills.
const LIFE_MS: u64 = 300;

/// The program as a worker, with a state directory of its own.
pub(crate) struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// Starts a worker with this name, whose token is in a file.
    pub(crate) fn start(world: &CliTestWorld, name: &str, token: &Path, server: &str) -> Self {
        Self::start_by(world.command(Path::new(env!("CARGO_BIN_EXE_byleave"))), world, name, token, server)
    }

    /// Starts a worker with this command, which may belong to another user.
    pub(crate) fn start_by(
        mut command: Command,
        world: &CliTestWorld,
        name: &str,
        token: &Path,
        server: &str,
    ) -> Self {
        command.env("BYLEAVE_STATE", world.workspace().join(format!("../worker-{name}")));
        command.args(["serve", "worker", "--server", &format!("http://{server}"), "--token"]).arg(token);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A worker first reports the calls that were interrupted.
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(said.any(|line| line.starts_with("working in ")));
        Self { child }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills the worker without a warning.
    pub(crate) fn kill(&mut self) {
        // The worker may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Stops the worker as a user would, and waits.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes a token for a worker to a file that only its owner can read.
pub(crate) fn token_file(world: &CliTestWorld, name: &str) -> PathBuf {
    token_file_for(world, name, &[])
}

/// Makes the token with these arguments.
pub(crate) fn token_file_for(world: &CliTestWorld, name: &str, words: &[&str]) -> PathBuf {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = world.workspace().join(format!("../{name}.token"));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    std::io::Write::write_all(
        &mut made.unwrap(),
        token(world, &[&[name, "--scope", "work"], words].concat()).as_bytes(),
    )
    .unwrap();
    path
}

/// Waits until a call has started.
fn begun(served: &HttpServerProcess, reader: &str, call: &Value) {
    let path = format!("/v1/log/calls/{}", call.as_str().unwrap());
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let record = served.ask(reader, "GET", &path, &Value::Null).1;
        if record["entries"]
            .as_array()
            .unwrap()
            .iter()
            .any(|line| !line["entry"]["event"]["started"].is_null())
        {
            return;
        }
        assert!(Instant::now() < end, "it never began: {record}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn settled(served: &HttpServerProcess, bot: &str, call: &Value) -> Value {
    let path = format!("/v1/calls/{}?wait=60", call.as_str().unwrap());
    served.ask(bot, "GET", &path, &Value::Null).1
}

// req: E4, R5
#[test]
fn a_call_is_asked_about_at_the_server_and_run_by_a_worker() {
    let world = CliTestWorld::new();
    let (bot, ann) = (token(&world, &["bot"]), token(&world, &["web-ann", "--person"]));
    let served = HttpServerProcess::start(&world, &["--workers"]);
    let body = json!({"tool": "append_line", "arguments": {"path": "notes.txt", "line": "first"}});
    // No worker is there to run the call.
    let (status, standing) = served.ask(&bot, "POST", "/v1/calls?wait=1", &body);
    assert_eq!((status, &standing["state"]), (202, &json!("running")), "{standing}");
    let hired = WorkerProcess::start(&world, "w1", &token_file(&world, "w1"), &served.address);
    let end = Instant::now() + Duration::from_secs(120);
    let standing = loop {
        let path = format!("/v1/calls/{}?wait=1", standing["call"].as_str().unwrap());
        let (_, seen) = served.ask(&bot, "GET", &path, &Value::Null);
        if seen["state"] == "waiting" {
            break seen;
        }
        assert!(Instant::now() < end, "{seen}");
    };
    let (id, digest) = (standing["question"]["id"].as_str().unwrap(), &standing["question"]["digest"]);
    let answer = json!({"digest": digest, "answer": {"kind": "yes"}});
    let (status, said) = served.ask(&ann, "POST", &format!("/v1/questions/{id}/answer"), &answer);
    assert!(matches!(status, 200 | 202), "{said}");
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("notes.txt"), "first\n");
    let seen = served.ask(&ann, "GET", "/v1/workers", &Value::Null).1;
    let worker = &seen["workers"][0];
    assert_eq!((&worker["name"], &worker["connected"]), (&json!("w1"), &json!(true)), "{seen}");
    // A worker refuses a tool that no worker has.
    let unknown = json!({"tool": "nothing"});
    let (_, standing) = request(&served.address, &bot, "k2", "POST", "/v1/calls?wait=30", &unknown).unwrap();
    assert_eq!(standing["result"]["refusal"]["code"], "tool-unknown", "{standing}");
    hired.stop();
    served.stop();
}

// req: E4
#[test]
fn what_is_answered_on_the_server_itself_is_still_run_by_a_worker() {
    let world = CliTestWorld::new();
    let bot = token(&world, &["bot"]);
    let served = HttpServerProcess::start(&world, &["--workers", "--worker-lease", "2s"]);
    let file = token_file(&world, "w1");
    let hired = WorkerProcess::start(&world, "w1", &file, &served.address);
    let body = json!({"tool": "append_line", "arguments": {"path": "notes.txt", "line": "first"}});
    let (_, standing) = served.ask(&bot, "POST", "/v1/calls?wait=0", &body);
    let end = Instant::now() + Duration::from_secs(120);
    while world.json(&["inbox", "--json"])[0].is_null() {
        assert!(Instant::now() < end, "nobody is asked");
        std::thread::sleep(Duration::from_millis(20));
    }
    hired.stop();
    let question = world.question();
    let answered = world.quietly(&["inbox", "answer", &question, "yes"], "");
    let resumed = world.quietly(&["resume"], "");
    assert!(!world.workspace().join("notes.txt").exists(), "{answered:?} {resumed:?}");
    let hired = WorkerProcess::start(&world, "w1", &file, &served.address);
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("notes.txt"), "first\n");
    hired.stop();
    served.stop();
}

// req: E1
#[test]
fn what_a_worker_ran_that_never_comes_back_is_unknown_with_nobody_there() {
    let desk = OtherUserWorld::new();
    let world = &desk.world;
    let (bot, ann) = (token(world, &["bot"]), token(world, &["web-ann", "--person"]));
    let served = HttpServerProcess::start(world, &["--workers", "--worker-lease", "2s", "--mode", "yolo"]);
    let file = token_file(world, "w1");
    desk.give(&file);
    let mut command = desk.command(&[]);
    command.env("BYLEAVE_WAIVE", "memory-limited");
    let mut hired = WorkerProcess::start_by(command, world, "w1", &file, &served.address);
    let body = json!({"tool": "bash", "arguments": {"command": "sleep 60"}});
    let (_, standing) = served.ask(&bot, "POST", "/v1/calls?wait=0", &body);
    begun(&served, &ann, &standing["call"]);
    hired.kill();
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "unknown", "{standing}");
    served.stop();
}

// req: R4
#[test]
fn a_worker_shows_a_token_for_work_and_nothing_else_is_good_for_it() {
    let world = CliTestWorld::new();
    let said = |words: &[&str]| {
        let said = world.quietly(words, "");
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let (code, why) = said(&["serve", "token", "add", "w", "--scope", "work,submit"]);
    assert!(code == Some(2) && why.contains("with other scopes"), "{why}");
    let (bot, worker) = (token(&world, &["bot"]), token(&world, &["w", "--scope", "work"]));
    let served = HttpServerProcess::start(&world, &["--workers"]);
    // An agent's token cannot run calls, and a worker's token cannot make them.
    assert_eq!(served.ask(&bot, "GET", "/v1/workers/connect", &Value::Null).0, 403);
    assert_eq!(served.ask(&worker, "POST", "/v1/calls", &json!({"tool": "echo"})).0, 403);
    assert_eq!(served.ask(&worker, "GET", "/v1/questions", &Value::Null).0, 403);
    assert_eq!(served.ask(&worker, "GET", "/v1/workers/connect", &Value::Null).0, 400, "it is no wire");
    served.stop();
    // The server does not run calls itself by mistake, because workers may still run earlier ones.
    let (code, why) = said(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(code == Some(2) && why.contains("--workers") && why.contains("for-workers"), "{why}");
    std::fs::remove_file(world.state().join("for-workers")).unwrap();
    let served = HttpServerProcess::start(&world, &[]);
    assert_eq!(
        served.ask(&worker, "GET", "/v1/workers/connect", &Value::Null).0,
        404,
        "it drives calls itself"
    );
    served.stop();
    let open = world.workspace().join("../open.token");
    std::fs::write(&open, "byl_x").unwrap();
    let (code, why) =
        said(&["serve", "worker", "--server", "http://127.0.0.1:9", "--token", open.to_str().unwrap()]);
    assert!(code == Some(2) && why.contains("other users can read the file"), "{why}");
    let (code, why) =
        said(&["serve", "worker", "--server", "http://gate.example.org", "--token", "/dev/null"]);
    assert!(code == Some(2), "{why}");
}

// req: E4
#[test]
fn a_worker_that_is_told_to_end_ends_what_it_runs_first() {
    let desk = OtherUserWorld::new();
    let world = &desk.world;
    let (bot, ann) = (token(world, &["bot"]), token(world, &["web-ann", "--person"]));
    let served = HttpServerProcess::start(world, &["--workers", "--mode", "yolo"]);
    let file = token_file(world, "w1");
    desk.give(&file);
    let mut command = desk.command(&[]);
    // Not every machine can delegate a cgroup.
    command.env("BYLEAVE_WAIVE", "memory-limited");
    let hired = WorkerProcess::start_by(command, world, "w1", &file, &served.address);
    let body = json!({"tool": "bash", "arguments": {"command": "sleep 3 && echo done > done.txt"}});
    let (_, standing) = served.ask(&bot, "POST", "/v1/calls?wait=0", &body);
    begun(&served, &ann, &standing["call"]);
    hired.stop();
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("done.txt"), "done\n");
    // The audit log names the waived guarantee under the worker's name.
    let acts = world.json(&["--json", "audit", "actions"]).to_string();
    assert!(acts.contains("memory-limited") && acts.contains("\"w1\""), "{acts}");
    served.stop();
}

// req: E1, E4
#[test]
fn the_server_and_the_workers_killed_and_stopped_at_any_moment_lose_nothing_and_run_nothing_twice() {
    let kills: usize = std::env::var("BYLEAVE_KILLS").map_or(8, |many| many.parse().unwrap());
    let world = CliTestWorld::new();
    let people = ScenarioTokens::new(&world);
    let files = ["w1", "w2"].map(|name| (name, token_file(&world, name)));
    let words = ["--workers", "--worker-lease", "2s", "--mode", "yolo", "--requests-per-second", "100000"];
    let mut served = HttpServerProcess::start(&world, &words);
    // Workers find the restarted server at the same address.
    let address = served.address.clone();
    let hire = |which: usize| WorkerProcess::start(&world, files[which].0, &files[which].1, &address);
    let mut hired = [hire(0), hire(1)];
    let mut deaths = [0_usize; 4];
    let scene = ClientLoadScenario::at(&address);
    let told = scene.play(&world, &people, || {
        let mut dice = SeededRandom(0x9e37_79b9_7f4a_7c15);
        for kill in 0..kills {
            std::thread::sleep(Duration::from_millis(dice.below(LIFE_MS)));
            let which = usize::try_from(dice.below(2)).unwrap();
            // Takes each kind in turn, so that a few kills include every kind.
            let what = kill % 4;
            deaths[what] += 1;
            match what {
                0 => {
                    served.kill();
                    served = HttpServerProcess::start_at(&world, &address, &words, &[]);
                }
                1 => {
                    hired[which].kill();
                    hired[which] = hire(which);
                }
                // Stops the worker for less than a lease, or for longer.
                2 => {
                    hired[which].signal(Signal::STOP);
                    std::thread::sleep(Duration::from_millis(dice.below(4_000)));
                    hired[which].signal(Signal::CONT);
                }
                _ => {
                    served.signal(Signal::STOP);
                    std::thread::sleep(Duration::from_millis(dice.below(1_000)));
                    served.signal(Signal::CONT);
                }
            }
        }
        scene.await_calls(kills, kills / 4);
    });
    hired.into_iter().for_each(WorkerProcess::stop);
    served.stop();
    let verified = world.quietly(&["audit", "verify"], "");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let [server, worker, stopped, server_stopped] = deaths;
    println!(
        "figure: the server killed {server} times and stopped {server_stopped} times, a worker killed {worker} times and stopped \
         {stopped} times, {told}"
    );
    // With fewer calls and answers the test would show nothing.
    assert!(told.calls() > kills && told.answers > kills / 4, "{told}");
}
