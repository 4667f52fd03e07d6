//! The client side: a client that answers every request and records what it receives, and the programs that it connects to.
#![expect(deprecated, reason = "servers of today still ask for what is on its way out")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    ProgressNotificationParam, SamplingMessage, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, RunningService, ServiceError};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, ServiceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::watch;

/// The longest time that anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The sandbox refuses root, so tests run as this user.
const UID: u32 = 61_003;
/// A secret that no server was given, so none may ever output it.
pub(crate) const SECRET: &str = "a-secret-that-nobody-was-given";

/// The program between the client and the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientRoute {
    Nothing,
    Gateway,
}

/// Everything that a client received, in order.
#[derive(Default, Debug)]
pub(crate) struct ClientObservations {
    pub(crate) progress: Vec<f64>,
    pub(crate) asked: Vec<String>,
    pub(crate) sampled: usize,
}

/// A client that accepts every kind of request. Saying yes to everything is the worst case.
#[derive(Clone)]
pub(crate) struct RecordingClient {
    says: ElicitationAction,
    pub(crate) heard: Arc<Mutex<ClientObservations>>,
    changes: watch::Sender<usize>,
}

impl ClientHandler for RecordingClient {
    fn get_info(&self) -> ClientConfig {
        let can = ClientCapabilities::builder().enable_elicitation().enable_sampling().enable_roots().build();
        ClientConfig::new(can, Implementation::new("near", "1"))
    }

    async fn on_progress(&self, said: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard.lock().unwrap().progress.push(said.progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.send_modify(|count| *count += 1);
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.heard.lock().unwrap().asked.push(serde_json::to_string(&asked).unwrap());
        let result = ElicitResult::new(self.says.clone());
        Ok(match self.says {
            ElicitationAction::Accept => result.with_content(json!({ "name": "ann", "password": "no" })),
            _ => result,
        })
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.heard.lock().unwrap().sampled += 1;
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("sampled"), "none".into()))
    }
}

/// A client connected to a server, and a directory to which both may write.
pub(crate) struct ConnectedClient {
    pub(crate) client: RunningService<RoleClient, RecordingClient>,
    pub(crate) ear: RecordingClient,
    pub(crate) place: ClientDirectory,
}

impl ConnectedClient {
    /// Starts a server, with or without the gateway in front.
    pub(crate) async fn within(place: ClientDirectory, front: ClientRoute, server: &[&str]) -> Self {
        let command = place.command(front, server);
        Self::through(place, command, ElicitationAction::Accept).await
    }

    /// Connects to the program that a command starts, and answers every request in the same way.
    pub(crate) async fn through(place: ClientDirectory, command: Command, says: ElicitationAction) -> Self {
        let ear = RecordingClient { says, heard: Arc::default(), changes: watch::Sender::new(0) };
        let (child, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
        let client = patiently(ear.clone().serve(child)).await.unwrap();
        Self { client, ear, place }
    }

    /// Lists the tools.
    pub(crate) async fn tools(&self) -> Vec<Tool> {
        patiently(self.client.list_all_tools()).await.unwrap()
    }

    /// The listed name of a tool. The gateway may add a prefix.
    pub(crate) async fn named(&self, tool: &str) -> Option<String> {
        let plain = |name: &str| name.replace(['-', '.'], "_");
        let tail = format!("_{}", plain(tool));
        let tools = self.tools().await;
        let fits = |name: &str| plain(name) == plain(tool) || plain(name).ends_with(&tail);
        tools.iter().find(|listed| fits(&listed.name)).map(|listed| listed.name.to_string())
    }

    /// Calls a tool by its own name.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, ServiceError> {
        let name = self.named(tool).await.unwrap_or_else(|| panic!("there is no `{tool}`"));
        patiently(self.client.call_tool(request(&name, &arguments))).await
    }

    /// The whole result or error of a tool as text.
    pub(crate) async fn said(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments).await {
            Ok(result) => serde_json::to_string(&result).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    /// Waits until the server announces that its list of tools has changed.
    pub(crate) async fn changed(&self) {
        let mut changes = self.ear.changes.subscribe();
        patiently(changes.wait_for(|count| *count > 0)).await.unwrap();
    }

    /// Disconnects, and waits until the server has ended.
    pub(crate) async fn end(self) {
        patiently(self.client.cancel()).await.unwrap();
    }
}

/// A workspace, a home and a state directory of a user that is not root.
pub(crate) struct ClientDirectory(TempDir);

impl ClientDirectory {
    pub(crate) fn new() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::set_permissions(place.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(place.workspace()).unwrap();
        let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/allow-all.toml");
        std::fs::copy(policy, place.home().join("allow-all.toml")).unwrap();
        for path in [place.home(), place.workspace(), place.home().join("allow-all.toml")] {
            place.give(&path);
        }
        place
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("home")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.home().join("w")
    }

    /// Writes a file that the server may change.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.workspace().join(name);
        std::fs::write(&path, text).unwrap();
        self.give(&path);
    }

    fn give(&self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path, Some(UID), Some(UID)).unwrap();
        }
    }

    /// Copies a program to a place where every user may run it.
    pub(crate) fn copied(&self, program: &Path) -> String {
        let copy = self.0.path().canonicalize().unwrap().join(program.file_name().unwrap());
        if !copy.exists() {
            std::fs::copy(program, &copy).unwrap();
        }
        copy.to_str().unwrap().to_owned()
    }

    /// A server from npm, installed by `.ci/run`, copied to a place where every user may run it.
    pub(crate) fn npm(&self, name: &str) -> String {
        let home = || PathBuf::from(std::env::var("HOME").unwrap()).join(".cache/byleave-ci");
        let cache = std::env::var_os("BYLEAVE_CI_CACHE").map_or_else(home, PathBuf::from).join("servers");
        assert!(cache.exists(), "there is no {}: `.ci/run` installs it (install_servers)", cache.display());
        // Hard links if possible, because there are very many files.
        let copied = |how: &str| {
            let mut cp = std::process::Command::new("cp");
            cp.arg(how).arg(&cache).arg(self.0.path()).stderr(Stdio::null()).status().unwrap().success()
        };
        assert!(copied("-al") || copied("-a"), "cannot copy {}", cache.display());
        let server = self.0.path().canonicalize().unwrap().join("servers/node_modules/.bin").join(name);
        server.to_str().unwrap().to_owned()
    }

    fn command(&self, front: ClientRoute, server: &[&str]) -> Command {
        let (program, words) = server.split_first().unwrap();
        match front {
            ClientRoute::Nothing => self.run(program, words),
            ClientRoute::Gateway => {
                let policy = self.home().join("allow-all.toml");
                let mut wrap = vec![
                    "mcp",
                    "wrap",
                    "--workspace",
                    "write",
                    "--policy",
                    policy.to_str().unwrap(),
                    "--mode",
                    "yolo",
                    "--",
                ];
                wrap.extend(server);
                self.byleave(&wrap)
            }
        }
    }

    /// The `byleave` program with these arguments, run as a user that is not root.
    pub(crate) fn byleave(&self, words: &[&str]) -> Command {
        self.run(&self.copied(&built("byleave", &["-p", "byleave-cli"])), words)
    }

    fn run(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home());
        command.env("BYLEAVE_WAIVE", "memory-limited");
        command.env("API_TOKEN", SECRET).env("USER", "ann").current_dir(self.workspace()).kill_on_drop(true);
        if rustix::process::geteuid().is_root() {
            command.uid(UID).gid(UID);
        }
        command
    }
}

/// Waits, with a time limit.
pub(crate) async fn patiently<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("nothing after {PATIENCE:?}"))
}

/// A call as it goes over the wire.
pub(crate) fn request(name: &str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name.to_owned())
        .with_arguments(arguments.as_object().cloned().unwrap_or_default())
}

/// A fixture of this crate, which cargo builds with the tests.
pub(crate) fn fixture(name: &str) -> PathBuf {
    built(&format!("examples/{name}"), &["-p", "byleave-mcp", "--example", name])
}

/// The program next to the tests, which is built if it is missing. A test run of this crate alone uses the
/// program that was built last.
fn built(name: &str, what: &[&str]) -> PathBuf {
    let target = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let program = target.join(name);
    if !program.exists() {
        let cargo = std::process::Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked"])
            .args(what)
            .status();
        assert!(cargo.unwrap().success(), "cannot build {what:?}");
    }
    program
}
