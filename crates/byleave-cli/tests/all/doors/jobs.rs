//! Servers and watchers: through the hook and a call, they are jobs that a person sees, that use the live workspace and that leave nothing
//! behind. Builds are builds, also in the background.
//!
//! Needs curl and python3.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, text, workspace};
use crate::hooks::{ended, rewritten, said, start, until};

const CLAUDE: AgentKind = AgentKind::ClaudeCode;

/// A server that first tries to write into the workspace and into its scratch directory.
const SERVER: &str = r#"
import http.server, os, socketserver, sys
def put(path):
    try:
        open(path, "w").write("x")
        print("wrote", path, flush=True)
    except OSError as e:
        print("no", path, e.strerror, flush=True)
put("made.txt")
put("node_modules/.vite/deps")
socketserver.TCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"#;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// A command that an agent runs in its background, with what it has printed so far.
struct BackgroundTask {
    child: Option<Child>,
    printed: Arc<Mutex<String>>,
}

impl BackgroundTask {
    fn start(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let printed = Arc::<Mutex<String>>::default();
        let (out, lines) = (child.stdout.take().unwrap(), Arc::clone(&printed));
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let mut all = lines.lock().unwrap();
                all.push_str(&line);
                all.push('\n');
            }
        });
        Self { child: Some(child), printed }
    }

    fn printed(&self) -> String {
        self.printed.lock().unwrap().clone()
    }

    fn await_printed(&self, words: &str) {
        until(words, || self.printed().contains(words).then_some(()));
    }

    /// Ends it as an agent does, and waits for its end.
    fn stop(mut self, signal: rustix::process::Signal) -> String {
        let mut child = self.child.take().unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        self.printed()
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Returns the shell command of a line, as the user.
fn shell(doors: &DoorFixture, line: &str) -> std::process::Command {
    let mut command = doors.stand.desk.world.command(Path::new("/bin/sh"));
    command.args(["-c", line]);
    doors.stand.desk.by_another(command)
}

fn asks(doors: &DoorFixture, input: &Value) -> Output {
    let cwd = workspace(doors).to_str().unwrap().to_owned();
    doors.stand.asks_until_judged(CLAUDE, &said(CLAUDE, &cwd, "Bash", input, None))
}

/// Lets the hook prepare a command, and runs what it says in the background.
fn background(doors: &DoorFixture, command: &str) -> BackgroundTask {
    let told = asks(doors, &json!({"command": command, "run_in_background": true}));
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    BackgroundTask::start(shell(doors, &line))
}

/// Returns the jobs of the status, once there are as many.
fn jobs(doors: &DoorFixture, count: usize) -> Vec<Value> {
    until("the jobs in the status", || {
        let status = doors.stand.json(&["--json"]);
        let jobs = status["jobs"].as_array().cloned().unwrap_or_default();
        (jobs.len() == count).then_some(jobs)
    })
}

fn everyday(port: u16) -> String {
    format!("profile = \"everyday\"\n[[rule]]\nverdict = \"allow\"\nreach = \"localhost:{port}\"\n")
}

fn fixture(port: u16) -> DoorFixture {
    let doors = DoorFixture::new("", &everyday(port));
    doors.put("server.py", SERVER);
    doors.put("node_modules/x.js", "");
    doors.put("index.txt", "first");
    doors
}

fn newest(doors: &DoorFixture) -> Value {
    doors.stand.json(&["log", "--json", "--tool", "bash"])[0].clone()
}

// req: B1, E2, E7
// door: hook
#[test]
fn a_server_in_the_background_of_an_agent_is_a_job_that_is_seen_reached_and_ended() {
    let port = free_port();
    let doors = fixture(port);
    let _gate = doors.stand.serve();
    let task = background(&doors, &format!("python3 server.py {port}"));
    task.await_printed(&format!("localhost:{port}"));
    // A person sees it, with its port.
    let seen = until("the port in the status", || {
        let seen = jobs(&doors, 1);
        (seen[0]["ports"] == json!([{"port": port, "published": true}])).then_some(seen)
    });
    assert!(seen[0]["summary"].as_str().unwrap().contains("server.py"), "{seen:?}");
    let status = text(&doors.run(&[]).stdout);
    assert!(status.contains(&format!("http://localhost:{port}")), "{status}");
    // It sees the next edit, and the agent's next command reaches it.
    doors.put("index.txt", "second");
    assert!(get(port, "/index.txt").is_some_and(|page| page.ends_with("second")));
    let told = asks(&doors, &bash(&format!("curl -s -m 60 http://localhost:{port}/index.txt")));
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    let ran = doors.stand.shell(&line);
    assert!(ran.status.success() && text(&ran.stdout).contains("second"), "{ran:?}");
    // It could not write into the workspace, but into its scratch directory.
    let printed = task.printed();
    assert!(printed.contains("no made.txt Read-only file system"), "{printed}");
    assert!(printed.contains("wrote node_modules/.vite/deps"), "{printed}");
    assert!(!doors.stand.file("made.txt").exists());
    let call = seen[0]["call"].as_str().unwrap().to_owned();
    task.stop(rustix::process::Signal::TERM);
    until("the server is gone", || get(port, "/").is_none().then_some(()));
    jobs(&doors, 0);
    let outcome = || {
        let calls = doors.stand.json(&["log", "--json", "--tool", "bash"]);
        let job = calls.as_array().unwrap().iter().find(|one| one["call"] == call.as_str()).unwrap().clone();
        job["outcome"].as_str().map(str::to_owned)
    };
    assert_eq!(until("the call has ended", outcome), "completed");
    let record = doors.stand.json(&["log", "show", &call, "--contents", "--json"]);
    assert!(record.to_string().contains("was stopped"), "{record}");
}

// req: E2
// door: hook
#[test]
fn a_job_whose_agent_kills_it_or_dies_leaves_nothing_behind() {
    let port = free_port();
    let doors = fixture(port);
    let _gate = doors.stand.serve();
    let task = background(&doors, &format!("python3 server.py {port}"));
    task.await_printed(&format!("localhost:{port}"));
    task.stop(rustix::process::Signal::KILL);
    until("the server is gone", || get(port, "/").is_none().then_some(()));
    jobs(&doors, 0);
    // The shell of the agent is killed, and not the program that holds the job.
    let told =
        asks(&doors, &json!({"command": format!("python3 server.py {port} #2"), "run_in_background": true}));
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    let task = BackgroundTask::start(shell(&doors, &format!("{line}; true")));
    task.await_printed(&format!("localhost:{port}"));
    task.stop(rustix::process::Signal::KILL);
    until("the server is gone", || get(port, "/").is_none().then_some(()));
    jobs(&doors, 0);
}

// req: B1, E9
// door: hook
#[test]
fn a_known_server_is_a_job_although_the_agent_waits_for_it() {
    let port = free_port();
    let doors = fixture(port);
    let _gate = doors.stand.serve();
    let told = asks(&doors, &bash(&format!("python3 -m http.server {port}")));
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    let answer: Value = serde_json::from_slice(&told.stdout).unwrap();
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["updatedInput"]["run_in_background"], true, "{answer}");
    assert!(output.to_string().contains("background job"), "{answer}");
    let task = BackgroundTask::start(shell(&doors, &line));
    jobs(&doors, 1);
    until("it serves", || get(port, "/index.txt").filter(|page| page.ends_with("first")));
    task.stop(rustix::process::Signal::TERM);
    jobs(&doors, 0);
    // Its port is asked for at the start, if no rule opens it. Nothing was rehearsed.
    let other = free_port();
    let waits = asks(&doors, &bash(&format!("python3 -m http.server {other}")));
    assert_eq!(rewritten(CLAUDE, &waits), None, "{waits:?}");
    let question = doors.stand.question();
    let shown = text(&doors.run(&["inbox", "show", &question]).stdout);
    assert!(shown.contains(&format!("localhost:{other}")), "{shown}");
}

// req: B1, E6
// door: hook
#[test]
fn a_build_in_the_background_leaves_what_it_builds() {
    let doors = DoorFixture::new("", "profile = \"everyday\"\n");
    doors.put("Makefile", "all:\n\techo built > app.bin\n");
    let _gate = doors.stand.serve();
    let told = asks(&doors, &json!({"command": "make", "run_in_background": true}));
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    let ran = doors.stand.shell(&line);
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(std::fs::read_to_string(doors.stand.file("app.bin")).unwrap(), "built\n", "{ran:?}");
    let undone = doors.run(&["undo"]);
    assert!(undone.status.success() && !doors.stand.file("app.bin").exists(), "{undone:?}");
}

// req: B1, E2
// door: program
#[test]
fn a_call_holds_a_server_until_it_is_ended() {
    let port = free_port();
    let doors = fixture(port);
    let server = args(&json!({"command": format!("python3 server.py {port}"), "background": true}));
    let task = BackgroundTask::start(doors.command(&["call", "bash", "--ask", "inbox", "--args", &server]));
    until("it serves", || get(port, "/index.txt").filter(|page| page.ends_with("first")));
    jobs(&doors, 1);
    // Other calls of the session do not wait for it.
    let next = args(&bash("cat index.txt"));
    let next = ended(start(doors.command(&["call", "bash", "--args", &next]), b""));
    assert!(next.status.success() && text(&next.stdout).contains("first"), "{next:?}");
    task.stop(rustix::process::Signal::TERM);
    until("the server is gone", || get(port, "/").is_none().then_some(()));
    jobs(&doors, 0);
    until("the call has ended", || (newest(&doors)["outcome"] == "completed").then_some(()));
}

// req: B1, E9
// door: hook
#[test]
fn a_command_that_listens_and_waits_is_found_out_and_is_a_job_the_next_time() {
    let port = free_port();
    let doors = fixture(port);
    let _gate = doors.stand.serve();
    let command = bash(&format!("python3 server.py {port}"));
    let told = asks(&doors, &command);
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    let ran = doors.stand.shell(&line);
    let why = text(&ran.stderr);
    assert!(!ran.status.success(), "{ran:?}");
    assert!(why.contains(&format!("port {port}")) && why.contains("same call again"), "{ran:?}");
    let told = asks(&doors, &command);
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    let answer: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(answer["hookSpecificOutput"]["updatedInput"]["run_in_background"], true, "{answer}");
    let task = BackgroundTask::start(shell(&doors, &line));
    until("it serves", || get(port, "/index.txt").filter(|page| page.ends_with("first")));
    task.stop(rustix::process::Signal::TERM);
    jobs(&doors, 0);
}

// req: B1, E9
// door: program
#[test]
fn a_rehearsal_of_a_service_ends_and_nobody_is_asked_for_a_yes_that_ends_it_again() {
    let port = free_port();
    let doors = DoorFixture::new("", "");
    doors.put("server.py", SERVER);
    let server = args(&bash(&format!("python3 server.py {port}")));
    let told = doors.run(&["call", "bash", "--ask", "inbox", "--args", &server]);
    assert!(
        text(&told.stdout).contains("same call again") || text(&told.stderr).contains("same call again"),
        "{told:?}"
    );
    assert_eq!(doors.stand.json(&["inbox", "--json"]), json!([]));
    assert_eq!(newest(&doors)["outcome"], "refused");
}
