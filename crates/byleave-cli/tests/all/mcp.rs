//! `byleave mcp serve`, the real program, over a pipe and over HTTP. Calls wait, and the server is killed in the middle.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::CliTestWorld;

/// Long enough for everything that is expected to happen.
const SOON: Duration = Duration::from_secs(120);

/// The program as an MCP server, with a client at its pipe.
pub(crate) struct McpProcess {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    id: u64,
}

impl McpProcess {
    pub(crate) fn start(world: &CliTestWorld, words: &[&str]) -> Self {
        let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
        command.args(["mcp", "serve"]).args(words);
        Self::spawn(command)
    }

    /// Starts an MCP server with this command.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines, id: 0 }
    }

    /// Starts the server and initializes the older protocol.
    fn begun(world: &CliTestWorld, words: &[&str], version: &str) -> Self {
        Self::begun_by(world, words, version, &json!({}))
    }

    /// Starts the server with a client that has these capabilities.
    pub(crate) fn begun_by(
        world: &CliTestWorld,
        words: &[&str],
        version: &str,
        capabilities: &Value,
    ) -> Self {
        Self::start(world, words).initialized(version, capabilities)
    }

    /// Initializes the older protocol, as a client with these capabilities.
    pub(crate) fn initialized(mut self, version: &str, capabilities: &Value) -> Self {
        let served = &mut self;
        let client = json!({"name": "tester", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
        let begun = served.ask("initialize", &params);
        assert_eq!(begun["result"]["protocolVersion"], version);
        assert_eq!(begun["result"]["serverInfo"]["name"], "byleave");
        served.tell("notifications/initialized");
        self
    }

    pub(crate) fn write(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn tell(&mut self, method: &str) {
        self.write(&json!({"jsonrpc": "2.0", "method": method}));
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.until(|value| value["id"] == id)
    }

    /// Sends a request without waiting for the response.
    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        self.id
    }

    /// Returns the next message that matches.
    pub(crate) fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(SOON).expect("an answer comes");
            let value: Value =
                serde_json::from_str(&line).expect("nothing but the protocol on standard output");
            if is(&value) {
                return value;
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// Closes the server's input. The server then ends by itself.
    pub(crate) fn ends(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }

    pub(crate) fn killed(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub(crate) fn text(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap().iter();
    blocks.map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Creates a world with a file that says hello.
fn with_hello() -> CliTestWorld {
    let world = CliTestWorld::new();
    std::fs::write(world.workspace().join("hello.txt"), "hello").unwrap();
    world
}

/// Returns the arguments of `read_file` that show exactly that file.
fn hello_arguments() -> Value {
    json!({"path": "hello.txt", "numbered": false})
}

// req: M1
#[test]
fn an_agent_lists_and_calls_the_built_in_tools_over_a_pipe() {
    let world = with_hello();
    for version in ["2025-06-18", "2025-11-25"] {
        let mut served = McpProcess::begun(&world, &[], version);
        let listed = served.ask("tools/list", &json!({}));
        let names: Vec<&str> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert!(["bash", "read_file", "write_file"].iter().all(|name| names.contains(name)), "{names:?}");
        // The tools for trying things out are for people.
        assert!(!names.contains(&"echo") && !names.contains(&"append_line"), "{names:?}");
        assert!(names.is_sorted());
        let answers = ["approve", "answer", "inbox", "leave", "allow"];
        assert!(!names.iter().any(|name| answers.iter().any(|word| name.contains(word))), "{names:?}");
        let said = served.call("read_file", &hello_arguments());
        assert_eq!((text(&said).as_str(), &said["isError"]), ("hello", &json!(false)));
        let unknown = served.call("echo", &json!({"text": "hello"}));
        assert_eq!(unknown["_meta"]["byleave/code"], "tool-unknown", "{unknown}");
        assert_eq!(served.ends(), Some(0));
    }
    let agents = world.json(&["log", "--json"]);
    assert_eq!(agents[0]["agent"], "tester");
}

// req: M1
#[test]
fn the_newest_protocol_needs_no_beginning() {
    let world = with_hello();
    let mut served = McpProcess::start(&world, &["--agent", "somebody"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
    });
    let found = served.ask("server/discover", &json!({"_meta": meta}));
    assert!(
        found["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{found}"
    );
    let params = json!({"name": "read_file", "arguments": hello_arguments(), "_meta": meta});
    let said = served.ask("tools/call", &params);
    assert_eq!(text(&said["result"]), "hello", "{said}");
    assert_eq!(served.ends(), Some(0));
    assert_eq!(world.json(&["log", "--json"])[0]["agent"], "somebody");
}

// req: R5
#[test]
fn a_call_that_waits_is_pending_and_is_picked_up_by_the_next_program_once() {
    let world = CliTestWorld::new();
    // Without a rehearsal the question comes well before the short deadline, also on a slow machine.
    let settings = world.workspace().parent().unwrap().join(".config/byleave");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("config.toml"), "rehearse = false\n").unwrap();
    let line = json!({"path": "notes.txt", "content": "first\n", "mode": "append"});
    // A short deadline for a call that waits for a person. Otherwise a deadline that is longer than a slow machine takes.
    let (soon, late) = (["--deadline", "2"], ["--deadline", "120"]);
    let mut served = McpProcess::begun(&world, &soon, "2025-11-25");
    let waits = served.call("write_file", &line);
    assert_eq!(waits["isError"], false);
    let question = waits["_meta"]["byleave/pending"]["question"].as_str().unwrap().to_owned();
    assert!(text(&waits).contains("pending") && text(&waits).contains(&question));
    assert_eq!(world.question(), question);
    // The server is killed before anybody answers. The answer goes only to the audit log.
    served.killed();
    let answered = world.quietly(&["inbox", "answer", &question, "yes"], "");
    assert!(answered.status.success(), "{}", String::from_utf8_lossy(&answered.stderr));
    assert_eq!(world.file("notes.txt"), "first\n");
    let mut served = McpProcess::begun(&world, &late, "2025-11-25");
    let picked_up = served.call("write_file", &line);
    assert!(text(&picked_up).contains("appended 6 bytes"), "{picked_up}");
    assert_eq!(world.file("notes.txt"), "first\n");
    assert_eq!(served.ends(), Some(0));
    let mut served = McpProcess::begun(&world, &soon, "2025-11-25");
    let again = served.call("write_file", &line);
    assert!(again["_meta"]["byleave/pending"].is_object(), "{again}");
    // The server is killed while it holds a call. Its lock is released, and the next server finds the call.
    let held = again["_meta"]["byleave/pending"]["call"].clone();
    served.killed();
    let mut served = McpProcess::begun(&world, &soon, "2025-11-25");
    let same = served.call("write_file", &line);
    assert_eq!(same["_meta"]["byleave/pending"]["call"], held);
    let no = world.quietly(&["inbox", "answer", &world.question(), "no", "--feedback", "once is enough"], "");
    assert_eq!(no.status.code(), Some(3), "{}", String::from_utf8_lossy(&no.stderr));
    assert_eq!(served.ends(), Some(0));
    let mut served = McpProcess::begun(&world, &late, "2025-11-25");
    let refused = served.call("write_file", &line);
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).contains("once is enough"), "{refused}");
    assert_eq!(refused["_meta"]["byleave/code"], "declined");
    assert_eq!(served.ends(), Some(0));
    assert_eq!(world.file("notes.txt"), "first\n");
}

/// Sends one HTTP request. Returns the status and the rest of the response.
fn post(address: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let body = body.to_string();
    let mut request = format!(
        "POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nContent-Length: {}\r\n",
        body.len()
    );
    let host = ("Host", address);
    let named = headers.iter().any(|(name, _)| *name == "Host");
    for (name, value) in headers.iter().chain((!named).then_some(&host)) {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A stream of events may stay open. Its first event is enough.
    let mut piece = [0_u8; 4096];
    while let Ok(read) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..read]);
        if read == 0 || String::from_utf8_lossy(&answer).contains("\"result\"") {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

// req: M1
#[test]
fn over_http_only_who_knows_the_token_is_heard_and_no_web_page() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = with_hello();
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.args(["mcp", "serve", "--http", "127.0.0.1:0"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    let address =
        first.strip_prefix("listening on http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    let second = said.next().unwrap().unwrap();
    let file = world.state().join("mcp-token");
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(second.ends_with("mcp-token") && !second.contains(&token), "{second}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let client = json!({"name": "tester", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let bearer = format!("Bearer {token}");
    let known = ("Authorization", bearer.as_str());
    assert_eq!(post(&address, &[], &hello).0, 401);
    assert_eq!(post(&address, &[("Authorization", "Bearer wrong")], &hello).0, 401);
    assert_eq!(post(&address, &[known, ("Origin", "https://evil.example")], &hello).0, 403);
    assert_eq!(post(&address, &[known, ("Origin", "null")], &hello).0, 403);
    assert_eq!(post(&address, &[known, ("Host", "evil.example")], &hello).0, 403);
    let (status, answer) = post(&address, &[known], &hello);
    assert!(status == 200 && answer.contains("\"byleave\""), "{answer}");

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": client,
    });
    let params = json!({"name": "read_file", "arguments": hello_arguments(), "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    let newest = [
        known,
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "read_file"),
    ];
    let (status, answer) = post(&address, &newest, &call);
    assert!(status == 200 && answer.contains("\"hello\""), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("content-type: application/json"), "{answer}");

    // Ends the server with SIGTERM, as a user would.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "");
}
