//! Hooks from end to end, with real processes. The agent's request goes in, a person answers in the inbox, and the agent reads the result.

mod boundary;
mod cases;
mod failures;
mod gone_agents;
mod own_edits;
mod page;
mod window;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use crate::desk::{OtherUserWorld, put};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// The patience of an agent that waits for its answer, on any slow machine.
pub(crate) const PATIENT_MS: u64 = 90_000;

/// A test world of another user, with the hook beside the program.
pub(crate) struct HookFixture {
    pub(crate) desk: OtherUserWorld,
    hook: PathBuf,
}

impl HookFixture {
    pub(crate) fn new() -> Self {
        let desk = OtherUserWorld::new();
        let hook = desk.program.with_file_name("byleave-hook");
        put(Path::new(env!("CARGO_BIN_EXE_byleave-hook")), &hook);
        // A gate ends when its program changes. A hard link that another test makes or removes changes the file, so this is a copy.
        std::fs::remove_file(&desk.program).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_byleave"), &desk.program).unwrap();
        Self { desk, hook }
    }

    /// Returns the hook of an agent with this patience.
    pub(crate) fn hook(&self, dialect: AgentKind, timeout_ms: u64) -> Command {
        let mut command = self.desk.world.command(&self.hook);
        command.args([dialect.name(), "--timeout-ms", &timeout_ms.to_string()]);
        self.desk.by_another(command)
    }

    /// Runs the hook on a request of an agent, and returns its output.
    pub(crate) fn asks(&self, dialect: AgentKind, said: &Value, timeout_ms: u64) -> Output {
        ended(start(self.hook(dialect, timeout_ms), said.to_string().as_bytes()))
    }

    /// Runs the hook again with more time, as long as the time was too short to judge the call.
    pub(crate) fn asks_until_judged(&self, dialect: AgentKind, said: &Value) -> Output {
        let mut timeout_ms = 2_000;
        loop {
            let told = self.asks(dialect, said, timeout_ms);
            let why = String::from_utf8_lossy(&told.stderr);
            // The process of the previous try may still be ending.
            let late = [
                "could not be evaluated in time",
                "no answer came in time",
                "another process has started this call",
            ];
            let is_late = late.iter().any(|late| why.contains(late));
            timeout_ms *= 2;
            if !is_late || timeout_ms > PATIENT_MS {
                return told;
            }
        }
    }

    pub(crate) fn byleave(&self, words: &[&str]) -> Output {
        ended(start(self.desk.command(words), b""))
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let told = self.byleave(words);
        serde_json::from_slice(&told.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {told:?}"))
    }

    /// Starts the gate for hooks and waits until it listens.
    pub(crate) fn serve(&self) -> HookGateProcess {
        let mut command = self.desk.command(&["hook", "serve"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        // The socket of a killed gate still exists, so only the output of this gate shows that it listens.
        let mut line = String::new();
        while !line.contains("evaluating calls for hooks at") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the gate does not listen");
        }
        HookGateProcess { child, _said: said }
    }

    /// Waits for an open question and returns it.
    pub(crate) fn question(&self) -> String {
        until("somebody is asked", || {
            let told = self.byleave(&["inbox", "--json"]);
            let open: Value = serde_json::from_slice(&told.stdout).ok()?;
            open.get(0)?["question"].as_str().map(str::to_owned)
        })
    }

    fn answers(&self, words: &[&str]) {
        let question = self.question();
        let mut all = vec!["inbox", "answer", &question];
        all.extend(words);
        let told = self.byleave(&all);
        // The hook that asked may be faster to continue the call. Then this command reports that the call waits.
        assert!(matches!(told.status.code(), Some(0 | 3 | 4)), "{told:?}");
    }

    pub(crate) fn shell(&self, line: &str) -> Output {
        let mut command = self.desk.world.command(Path::new("/bin/sh"));
        command.args(["-c", line]);
        ended(start(self.desk.by_another(command), b""))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.desk.world.workspace().join(name)
    }
}

/// A gate that is stopped with the test.
pub(crate) struct HookGateProcess {
    child: Child,
    /// Kept open for later output.
    _said: BufReader<ChildStderr>,
}

impl HookGateProcess {
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for HookGateProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn start(mut command: Command, input: &[u8]) -> Child {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may end without reading its input.
    drop(child.stdin.take().unwrap().write_all(input));
    child
}

pub(crate) fn ended(mut child: Child) -> Output {
    let began = Instant::now();
    let mut pipes = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading = std::thread::spawn(move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        drop(pipes.0.read_to_end(&mut out));
        drop(pipes.1.read_to_end(&mut err));
        (out, err)
    });
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it never ends");
        }
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(2));
    };
    let (stdout, stderr) = reading.join().unwrap();
    Output { status, stdout, stderr }
}

pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Returns whether the agent reads a deny, according to its documentation.
pub(crate) fn is_denied(dialect: AgentKind, told: &Output) -> bool {
    let said: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
    let by_code = told.status.code() == Some(2) && !told.stderr.iter().all(u8::is_ascii_whitespace);
    match dialect {
        AgentKind::Cursor => by_code || told.status.code() == Some(0) && said["permission"] == "deny",
        AgentKind::Copilot => {
            by_code || told.status.code() == Some(0) && said["permissionDecision"] == "deny"
        }
        _ => by_code,
    }
}

/// Returns the command that the agent runs in place of its own, if the hook replaced it.
pub(crate) fn rewritten(dialect: AgentKind, told: &Output) -> Option<String> {
    let said: Value = serde_json::from_slice(&told.stdout).ok()?;
    let input = match dialect {
        AgentKind::ClaudeCode | AgentKind::Codex => &said["hookSpecificOutput"]["updatedInput"],
        AgentKind::Gemini => &said["hookSpecificOutput"]["tool_input"],
        AgentKind::Cursor => &said["updated_input"],
        AgentKind::Copilot => &said["modifiedArgs"],
        AgentKind::Goose => return None,
    };
    input["command"].as_str().map(str::to_owned)
}

/// Returns the request of an agent before, or after, it uses a tool.
pub(crate) fn said(dialect: AgentKind, cwd: &str, tool: &str, input: &Value, after: Option<&Value>) -> Value {
    let is_after = after.is_some();
    let name = |before: &str, after: &str| if is_after { after.to_owned() } else { before.to_owned() };
    let mut said = match dialect {
        AgentKind::ClaudeCode => json!({
            "session_id": "5f0c", "transcript_path": "/t/5f0c.jsonl", "cwd": cwd, "permission_mode": "default",
            "hook_event_name": name("PreToolUse", "PostToolUse"), "tool_name": tool, "tool_input": input, "tool_use_id": "toolu_01"
        }),
        AgentKind::Codex => json!({
            "session_id": "5f0c", "turn_id": "1", "cwd": cwd, "transcript_path": null, "model": "m", "permission_mode": "default",
            "hook_event_name": name("PreToolUse", "PostToolUse"), "tool_name": tool, "tool_input": input, "tool_use_id": "call_1"
        }),
        AgentKind::Gemini => json!({
            "session_id": "5f0c", "transcript_path": "/t", "cwd": cwd, "hook_event_name": name("BeforeTool", "AfterTool"),
            "timestamp": "2026-11-14T10:00:00Z", "tool_name": tool, "tool_input": input
        }),
        AgentKind::Cursor => json!({
            "conversation_id": "5f0c", "generation_id": "g", "hook_event_name": name("preToolUse", "postToolUse"),
            "workspace_roots": [cwd], "cursor_version": "2", "tool_name": tool, "tool_input": input.to_string()
        }),
        AgentKind::Goose => json!({
            "event": name("PreToolUse", "PostToolUse"), "session_id": "5f0c", "matcher_context": tool, "tool_name": tool,
            "tool_input": input, "working_dir": cwd
        }),
        AgentKind::Copilot => json!({
            "sessionId": "5f0c", "timestamp": 1_788_992_290_306_u64, "cwd": cwd, "toolName": tool, "toolArgs": input
        }),
    };
    if let Some(response) = after {
        let key = match dialect {
            AgentKind::Copilot => "toolResult",
            AgentKind::Cursor => "tool_output",
            _ => "tool_response",
        };
        said[key] = response.clone();
    }
    said
}

/// Returns each agent's names of its shell tool, its write tool and the path argument.
fn tools(dialect: AgentKind) -> (&'static str, &'static str, &'static str) {
    match dialect {
        AgentKind::ClaudeCode => ("Bash", "Write", "file_path"),
        AgentKind::Codex => ("Bash", "apply_patch", "command"),
        AgentKind::Gemini => ("run_shell_command", "write_file", "file_path"),
        AgentKind::Cursor => ("Shell", "Write", "path"),
        AgentKind::Goose => ("developer__shell", "developer__text_editor", "path"),
        AgentKind::Copilot => ("bash", "create", "path"),
    }
}
