//! The paths to the same tool, from a direct connection to other gateways.

use std::fmt;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, JsonObject};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

/// The baseline.
pub(crate) const PROXY: &str = "a bare proxy";
/// The path that is measured.
pub(crate) const GATEWAY: &str = "the gateway";
/// The sandbox refuses root, so if root measures, everything runs as this user.
const UID: u32 = 61_003;
/// The longest time that a program may take to become ready.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchTransport {
    Stdio,
    Http,
}

impl fmt::Display for BenchTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "stdio",
            Self::Http => "HTTP",
        })
    }
}

/// A path to the tool, with a client at its near end.
pub(crate) struct BenchPath {
    pub(crate) what: &'static str,
    pub(crate) over: BenchTransport,
    /// Whether one call takes milliseconds.
    pub(crate) slow: bool,
    pub(crate) took: Vec<Duration>,
    pub(crate) rates: Vec<f64>,
    client: Arc<RunningService<RoleClient, ()>>,
    call: CallToolRequestParams,
    served: Option<Child>,
}

impl BenchPath {
    pub(crate) async fn one_by_one(&mut self, calls: usize) {
        for _ in 0..calls {
            let started = Instant::now();
            called(&self.client, &self.call).await;
            self.took.push(started.elapsed());
        }
    }

    pub(crate) async fn at_once(&mut self, callers: usize, each: usize) {
        let started = Instant::now();
        let tasks = (0..callers).map(|_| {
            let (client, call) = (self.client.clone(), self.call.clone());
            tokio::spawn(async move {
                for _ in 0..each {
                    called(&client, &call).await;
                }
            })
        });
        for task in futures::future::join_all(tasks).await {
            task.unwrap();
        }
        self.rates.push((callers * each) as f64 / started.elapsed().as_secs_f64());
    }

    pub(crate) async fn end(self) {
        self.client.cancellation_token().cancel();
        if let Some(mut served) = self.served {
            served.kill().await.unwrap();
        }
    }
}

/// The directory to which all started programs may write.
pub(crate) struct BenchDirectory(tempfile::TempDir);

impl BenchDirectory {
    pub(crate) fn new() -> Self {
        let under = std::env::var("CARGO_TARGET_TMPDIR").unwrap_or_else(|_| "/var/tmp".into());
        let place = Self(tempfile::tempdir_in(under).unwrap());
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["state", "home"] {
            let path = place.path().join(name);
            std::fs::create_dir(&path).unwrap();
            if root() {
                std::os::unix::fs::chown(&path, Some(UID), Some(UID)).unwrap();
            }
        }
        let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/allow-all.toml");
        std::fs::copy(policy, place.policy()).unwrap();
        if root() {
            std::os::unix::fs::chown(place.policy(), Some(UID), Some(UID)).unwrap();
        }
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    fn policy(&self) -> PathBuf {
        self.path().join("home/allow-all.toml")
    }

    /// Copies a program to a place where every user may run it.
    fn program(&self, program: &Path) -> Option<String> {
        let copy = self.path().join(program.file_name()?);
        if !copy.exists() {
            std::fs::copy(program, &copy).ok()?;
        }
        Some(copy.to_str()?.to_owned())
    }

    /// Runs a program as a user that is not root. That user may not be able to see programs installed
    /// elsewhere.
    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.path().join("home")).kill_on_drop(true);
        command.env("HOME", self.path().join("home")).env("XDG_STATE_HOME", self.state());
        // Without its own cgroup, the memory of a server as a whole is not limited.
        command.env("BYLEAVE_WAIVE", "memory-limited");
        // Hangar starts only commands that it knows by name, and limits calls to ten per second by default.
        command.env("MCP_ALLOWED_COMMANDS", "conformant");
        command.env("MCP_RATE_LIMIT_RPS", "1000000").env("MCP_RATE_LIMIT_BURST", "1000000");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_RUNTIME_DIR");
        if root() && Path::new(&words[0]).starts_with(self.path()) {
            command.uid(UID).gid(UID);
        }
        command
    }
}

/// Starts every path that this machine has.
pub(crate) async fn all(place: &BenchDirectory) -> Vec<BenchPath> {
    // The HTTP client needs a crypto provider even if nothing is encrypted.
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let fixtures = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let fixture = |name: &str| {
        place.program(&fixtures.join("examples").join(name)).unwrap_or_else(|| {
            panic!("there is no fixture `{name}`: cargo build -p byleave-mcp --examples, in the same profile")
        })
    };
    let program = std::env::var_os("BYLEAVE_PROGRAM").map_or_else(|| fixtures.join("byleave"), PathBuf::from);
    let (server, proxy, byleave) = (fixture("conformant"), fixture("bare_proxy"), place.program(&program));
    let policy = place.policy().to_str().unwrap().to_owned();
    let words = |line: &str| -> Vec<String> {
        let filled = |word: &str| match word {
            "SERVER" => server.clone(),
            "PROXY" => proxy.clone(),
            "BYLEAVE" => byleave.clone().unwrap_or_default(),
            "POLICY" => policy.clone(),
            other => other.to_owned(),
        };
        line.split(' ').map(filled).collect()
    };

    let mut ways = vec![
        over_stdio(place, "a bare hop", &words("SERVER stdio")).await,
        over_stdio(place, PROXY, &words("PROXY stdio -- SERVER stdio")).await,
        over_http(place, "a bare hop", "/mcp", |port| words(&format!("SERVER http 127.0.0.1:{port}"))).await,
        over_http(place, PROXY, "/mcp", |port| {
            words(&format!("PROXY http://127.0.0.1:{port} -- SERVER stdio"))
        })
        .await,
    ];
    if byleave.as_deref().is_some_and(knows_mcp) {
        ways.push(
            over_stdio(place, GATEWAY, &words("BYLEAVE mcp wrap --policy POLICY -- SERVER stdio")).await,
        );
        let line = |port| {
            words(&format!("BYLEAVE mcp wrap --http 127.0.0.1:{port} --policy POLICY -- SERVER stdio"))
        };
        ways.push(over_http(place, GATEWAY, "/mcp", line).await);
    } else {
        println!("no gateway is measured: {} has none", program.display());
    }
    let others = std::env::var_os("BYLEAVE_OTHERS").map(PathBuf::from).unwrap_or_default();
    let hangar = others.join("hangar/bin/mcp-hangar");
    if hangar.exists() {
        let config = place.path().join("home/hangar.yaml");
        let text = format!(
            "mcp_servers:\n  up:\n    mode: subprocess\n    command: [{server:?}, \"stdio\"]\n    idle_ttl_s: 3600\n"
        );
        std::fs::write(&config, text).unwrap();
        let line = format!("{} serve --config {}", hangar.display(), config.display());
        let mut way = over_stdio(place, "MCP Hangar (Python)", &words(&line)).await;
        way.slow = true;
        ways.push(way);
    }
    let python = others.join("proxy/bin/mcp-proxy");
    if python.exists() {
        let line =
            |port| words(&format!("{} --host 127.0.0.1 --port {port} -- SERVER stdio", python.display()));
        let mut way = over_http(place, "mcp-proxy (Python)", "/mcp", line).await;
        way.slow = true;
        ways.push(way);
    }
    let node = others.join("npm/node_modules/.bin/mcp-proxy");
    if node.exists() {
        let line = |port| {
            words(&format!("{} --host 127.0.0.1 --port {port} --shell=false -- SERVER stdio", node.display()))
        };
        let mut way = over_http(place, "mcp-proxy (Node)", "/mcp", line).await;
        way.slow = true;
        ways.push(way);
    }
    ways
}

async fn over_stdio(place: &BenchDirectory, what: &'static str, words: &[String]) -> BenchPath {
    let (their_input, our_output) = std::io::pipe().unwrap();
    let (our_input, their_output) = std::io::pipe().unwrap();
    if root() {
        // Gives the pipes to the user that runs the program, so that it can reopen them as non-blocking.
        for end in [their_input.as_fd(), their_output.as_fd()] {
            let uid = rustix::process::Uid::from_raw(UID);
            rustix::fs::fchown(end, Some(uid), None).unwrap();
        }
    }
    let mut command = place.command(words);
    command.stdin(their_input).stdout(their_output).stderr(Stdio::null());
    let served = command.spawn().unwrap();
    drop(command);
    let near = (
        pipe::Receiver::from_owned_fd(our_input.into()).unwrap(),
        pipe::Sender::from_owned_fd(our_output.into()).unwrap(),
    );
    let client = patiently(what, ().serve(near)).await.unwrap();
    ready(what, BenchTransport::Stdio, client, Some(served)).await
}

async fn over_http(
    place: &BenchDirectory,
    what: &'static str,
    path: &str,
    words: impl Fn(u16) -> Vec<String>,
) -> BenchPath {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let log = tempfile::NamedTempFile::new_in(place.path()).unwrap();
    let mut command = place.command(&words(port));
    command.stdin(Stdio::piped()).stdout(log.reopen().unwrap()).stderr(log.reopen().unwrap());
    let served = command.spawn().unwrap();
    let listening = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    patiently(what, listening).await;
    let mut config = StreamableHttpClientTransportConfig::with_uri(format!("http://127.0.0.1:{port}{path}"));
    config = config.max_concurrent_requests(256);
    // Only our gateway needs a token. The others ignore it.
    if let Ok(token) = std::fs::read_to_string(place.state().join("byleave/mcp-token")) {
        config = config.auth_header(token.trim());
    }
    let transport = StreamableHttpClientTransport::from_config(config);
    let client = patiently(what, ().serve(transport)).await.unwrap();
    ready(what, BenchTransport::Http, client, Some(served)).await
}

/// Finds the tool under its name there, and calls it until the path is warm.
async fn ready(
    what: &'static str,
    over: BenchTransport,
    client: RunningService<RoleClient, ()>,
    served: Option<Child>,
) -> BenchPath {
    let tools = patiently(what, client.list_all_tools()).await.unwrap();
    let echo = json!({ "text": "hello" });
    let found = tools.iter().find(|tool| tool.name == "echo" || tool.name.ends_with("_echo"));
    let (name, arguments) = match found {
        Some(tool) => (tool.name.to_string(), echo),
        None => {
            let calls = json!([{ "mcp_server": "up", "tool": "echo", "arguments": echo }]);
            ("hangar_call".to_owned(), json!({ "calls": calls }))
        }
    };
    let arguments: JsonObject = arguments.as_object().cloned().unwrap_or_default();
    let call = CallToolRequestParams::new(name).with_arguments(arguments);
    let client = Arc::new(client);
    for _ in 0..20 {
        patiently(what, called(&client, &call)).await;
    }
    BenchPath { what, over, slow: false, took: Vec::new(), rates: Vec::new(), client, call, served }
}

async fn called(client: &RunningService<RoleClient, ()>, call: &CallToolRequestParams) {
    let result = client.call_tool(call.clone()).await.unwrap();
    let said = serde_json::to_value(&result).unwrap();
    // It must be the real answer, not a quick error.
    assert!(said["isError"] != Value::Bool(true) && said.to_string().contains("hello"), "{said}");
}

async fn patiently<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| panic!("{what} is not there after {PATIENCE:?}"))
}

fn knows_mcp(program: &str) -> bool {
    let help = std::process::Command::new(program).args(["mcp", "wrap", "--help"]).output();
    help.is_ok_and(|output| output.status.success())
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}
