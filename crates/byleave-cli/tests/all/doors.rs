//! The same promises through every door of the program: a call, the model's loop, the hook, the MCP gateway and HTTP.
//!
//! The tests that hold for the library are in `byleave-conformance` and `byleave-tools`. docs/requirements.md lists them all.

mod agent_loop;
mod boundary;
mod challenge;
mod checkpoint;
mod earlier_data;
mod everywhere;
mod git_lend;
mod jobs;
mod local_ports;
mod mcp_tools;
mod observed;
mod outputs;
mod person_result;
mod reviewers;
mod reviewers_guide;
mod settings;
mod small;
mod standing_approvals;
mod transcripts;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::hooks::{HookFixture, ended, start};
use crate::mcp::McpProcess;
use crate::provider::{FakeModel, ScriptedTurn};
use crate::serve::HttpServerProcess;
use crate::sitting::TerminalSession;

/// A stand-in for a program that changes a cluster. Every run leaves a line.
const KUBECTL: &str = "#!/bin/sh\necho \"$@\" >> deployed\necho \"applied $3\"\n";
/// The MCP server of these tests, with the tools `read`, `deploy`, `query` and `account`.
const SERVER: &str = include_str!("doors/server.py");

/// A user with a workspace, a settings directory, a stand-in for `kubectl`, and an MCP server.
struct DoorFixture {
    stand: HookFixture,
}

impl DoorFixture {
    fn new(settings: &str, rules: &str) -> Self {
        let mut stand = HookFixture::new();
        let bin = stand.file("bin").to_str().unwrap().to_owned();
        stand.desk.world.path = format!("{bin}:/usr/bin:/bin").into();
        let doors = Self { stand };
        doors.put_program("bin/kubectl", KUBECTL);
        doors.put("server.py", SERVER);
        doors.set_up(settings);
        doors.put("../.config/byleave/policy.toml", rules);
        doors
    }

    /// Writes a file that belongs to the user, with its directories.
    fn put(&self, name: &str, text: &str) {
        let path = self.stand.file(name);
        let mut missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        missing.reverse();
        missing.into_iter().for_each(|path| self.stand.desk.give(path));
    }

    /// Writes a program that belongs to the user.
    fn put_program(&self, name: &str, text: &str) {
        self.put(name, text);
        fs::set_permissions(self.stand.file(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The home directory of the user.
    fn home(&self) -> PathBuf {
        workspace(self).parent().unwrap().to_path_buf()
    }

    /// Replaces the settings of the user.
    fn set_up(&self, settings: &str) {
        self.put("../.config/byleave/config.toml", settings);
    }

    /// A directory beside the workspace with a file, and a link that leads there.
    fn outside(&self) {
        self.put("../outside/f.txt", "OUTSIDE_MARKER");
        std::os::unix::fs::symlink("../outside", self.stand.file("door")).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        self.stand.desk.command(words)
    }

    fn run(&self, words: &[&str]) -> Output {
        ended(start(self.command(words), b""))
    }

    /// Runs the program at a terminal of its own.
    fn at_terminal(&self, words: &[&str]) -> TerminalSession {
        TerminalSession::sized(self.terminal_command(&self.stand.desk.program, words), 100, 40)
    }

    /// Runs the program at a terminal of its own, with a scripted model.
    fn at_terminal_with(&self, model: &FakeModel, words: &[&str]) -> TerminalSession {
        let command = self.terminal_command(&self.stand.desk.program, words);
        TerminalSession::sized(using(model, command), 100, 40)
    }

    /// Runs a line of a shell at a terminal of its own, with a scripted model.
    fn shell_at_terminal(&self, model: &FakeModel, line: &str) -> TerminalSession {
        let command = self.terminal_command(Path::new("/bin/sh"), &["-c", line]);
        TerminalSession::sized(using(model, command), 100, 40)
    }

    fn terminal_command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = self.stand.desk.world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait"]).arg(program).args(words);
        command.env("TERM", "xterm-256color");
        self.stand.desk.by_another(command)
    }

    /// Adds the MCP server, and accepts it as a person at a terminal.
    fn accept_server(&self) {
        self.accept_server_as("notes");
    }

    /// Adds the MCP server under this name, and accepts it.
    fn accept_server_as(&self, name: &str) {
        let server = self.stand.file("server.py");
        let added = self.run(&["mcp", "add", name, "--", "python3", server.to_str().unwrap()]);
        assert!(added.status.success(), "{added:?}");
        let mut sitting = self.at_terminal(&["mcp", "trust", name]);
        while sitting.asks() {
            sitting.press("\u{1b}[F");
            sitting.choose("y", "yes");
            sitting.await_shown("type “for good”");
            sitting.press("for good\r");
            sitting.await_screen("the question is gone", |screen| !screen.contains("for good"));
        }
        let (code, seen) = sitting.end();
        assert_eq!(code, Some(0), "{seen}");
    }

    fn gateway(&self, words: &[&str], capabilities: &Value) -> McpProcess {
        let words = [&["mcp", "serve"], words].concat();
        McpProcess::spawn(self.command(&words)).initialized("2025-11-25", capabilities)
    }

    fn serve(&self) -> HttpServerProcess {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        // A server requires limits that not every machine of a developer can give.
        command.env("BYLEAVE_WAIVE", "memory-limited");
        HttpServerProcess::spawn(command)
    }

    fn token(&self, words: &[&str]) -> String {
        let words = [&["--json", "serve", "token", "add"], words].concat();
        let made: Value = serde_json::from_slice(&self.run(&words).stdout).unwrap();
        made["token"].as_str().unwrap().to_owned()
    }

    /// Lets a scripted model work. Returns what the program printed, and all requests to the model.
    fn model(&self, says: Vec<ScriptedTurn>, words: &[&str]) -> (Output, Vec<Value>) {
        let model = FakeModel::new(says);
        (self.run_with(&model, words), model.got())
    }

    /// Runs `byleave agent run` with a scripted model.
    fn run_with(&self, model: &FakeModel, words: &[&str]) -> Output {
        let words = [&["agent", "run"], words].concat();
        ended(start(using(model, self.command(&words)), b""))
    }

    fn deployed(&self) -> bool {
        self.stand.file("deployed").exists()
    }

    /// Releases the open question as a person at a terminal.
    fn release(&self) {
        let question = self.stand.question();
        let mut sitting = self.at_terminal(&["inbox", "answer", &question, "yes", "--confirm", "release"]);
        sitting.look_to_the_end();
        let (_, seen) = sitting.end();
        assert!(!seen.contains("error:"), "{seen}");
    }
}

/// Lets a command use a scripted model.
fn using(model: &FakeModel, mut command: Command) -> Command {
    command.env("OPENAI_API_KEY", "sk-very-secret").env("BYLEAVE_MODEL", "openai/some-model");
    command.env("BYLEAVE_MODEL_URL", &model.url);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the arguments of a call as one word.
fn args(value: &Value) -> String {
    value.to_string()
}

/// Returns the last message that a model received.
fn last_message(requests: &[Value]) -> String {
    requests.last().unwrap()["messages"].as_array().unwrap().last().unwrap().to_string()
}

fn bash(command: &str) -> Value {
    json!({ "command": command })
}

fn workspace(doors: &DoorFixture) -> PathBuf {
    doors.stand.desk.world.workspace()
}
