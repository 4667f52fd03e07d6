//! A server on a real socket with a real audit log, and a client that sends exactly the given bytes.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use byleave_gate::audit_log::sqlite::{self, SqliteLedger};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::call::Mode;
use byleave_gate::core::id::TenantId;
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::gate::Gate;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use byleave_server::principal::{AccessScope, PrincipalKind};
use byleave_server::tokens::{NewToken, TokenStore};
use byleave_server::webhooks::WebhookStore;
use byleave_server::{ClientTools, Server, ServerLimits, Tenant, listen};
use rustls::ServerConfig;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything takes that is expected to happen.
pub(crate) const SOON: Duration = Duration::from_secs(60);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextArguments {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// The settings in which a test server differs from the usual one.
pub(crate) struct ServerTestSettings {
    pub(crate) limits: ServerLimits,
    pub(crate) settings: GateSettings,
    pub(crate) mode: Mode,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

impl Default for ServerTestSettings {
    fn default() -> Self {
        let limits = ServerLimits {
            requests_per_second: 1_000,
            burst: 10_000,
            unauthenticated_per_second: 1_000,
            ..ServerLimits::default()
        };
        let settings =
            GateSettings { inbox: true, poll_interval: Duration::from_millis(20), ..GateSettings::default() };
        Self { limits, settings, mode: Mode::ConfirmSensitive, tls: None }
    }
}

/// A server with the tenants `local` and `other`.
pub(crate) struct ServerFixture {
    dir: Arc<TempDir>,
    pub(crate) address: SocketAddr,
    pub(crate) end: CancellationToken,
    pub(crate) served: Option<JoinHandle<()>>,
    /// How often `note` ran.
    pub(crate) notes: Arc<AtomicU32>,
}

impl ServerFixture {
    pub(crate) async fn new() -> Self {
        Self::with(ServerTestSettings::default()).await
    }

    pub(crate) async fn with(setup: ServerTestSettings) -> Self {
        Self::on(Arc::new(tempfile::tempdir().unwrap()), setup).await
    }

    async fn on(dir: Arc<TempDir>, setup: ServerTestSettings) -> Self {
        let notes = Arc::new(AtomicU32::new(0));
        let tokens = TokenStore::new(dir.path().join("tokens.json"));
        let mut builder = Server::builder(TenantId::new("local").unwrap(), tokens).limits(setup.limits);
        for tenant in ["local", "other"] {
            let options = sqlite::SqliteOptions { seal_every: None, ..sqlite::SqliteOptions::default() };
            let book = Arc::new(SqliteLedger::open(&dir.path().join(tenant), &options).unwrap());
            let ran = Arc::clone(&notes);
            let note = move |args: TextArguments, _run: RunContext| {
                let number = ran.fetch_add(1, Ordering::SeqCst) + 1;
                async move { format!("noted {} as {number}", args.text) }
            };
            let hang = |_: NoArguments, run: RunContext| async move {
                run.cancel.cancelled().await;
                "stopped".to_owned()
            };
            let echo = |args: TextArguments, _run: RunContext| async move { args.text };
            let own = ClientTools::default();
            let gate = own
                .attach_reviewers(Gate::builder())
                .ledger(book.clone())
                .tool(
                    TypedTool::new("echo", "Says a text back.", echo)
                        .permission_class(PermissionClass::Readonly)
                        .not_sensitive(),
                )
                .tool(
                    TypedTool::new("note", "Takes a note.", note).permission_class(PermissionClass::Generic),
                )
                .tool(
                    TypedTool::new("hang", "Never ends.", hang)
                        .permission_class(PermissionClass::Readonly)
                        .not_sensitive(),
                )
                .settings(setup.settings.clone())
                .build()
                .unwrap();
            let shelf = (book.clone() as Arc<_>, book as Arc<_>);
            let cwd = dir.path().to_str().unwrap().to_owned();
            let tenancy = Tenant::new(TenantId::new(tenant).unwrap(), gate, shelf, cwd, setup.mode);
            builder = builder.tenant(tenancy.with_client_tools(own));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let builder = builder
            .public_url(format!("http://{address}").parse().unwrap())
            .notices(dir.path().join("serving.json"), WebhookStore::new(dir.path().join("webhooks.json")));
        let (end, server) = (CancellationToken::new(), builder.build());
        let ending = end.clone();
        let served = tokio::spawn(async move {
            listen::serve(server, listener, setup.tls, ending, Duration::from_secs(5)).await.unwrap();
        });
        Self { dir, address, end, served: Some(served), notes }
    }

    /// Stops the server and starts a new one on the same state.
    pub(crate) async fn again(self) -> Self {
        self.again_with(ServerTestSettings::default()).await
    }

    pub(crate) async fn again_with(mut self, setup: ServerTestSettings) -> Self {
        self.end.cancel();
        self.served.take().unwrap().await.unwrap();
        Self::on(Arc::clone(&self.dir), setup).await
    }

    /// Starts a server in its own runtime, so that all its tasks can be ended as by the end of a process.
    pub(crate) async fn in_a_process_of_its_own() -> (Self, Runtime) {
        let process = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        (process.spawn(Self::new()).await.unwrap(), process)
    }

    /// Ends all tasks of the server in the middle, and starts a new server on the same state.
    pub(crate) async fn killed(self, process: Runtime) -> Self {
        tokio::task::spawn_blocking(move || process.shutdown_timeout(SOON)).await.unwrap();
        Self::on(Arc::clone(&self.dir), ServerTestSettings::default()).await
    }

    /// Starts another server on the same state.
    pub(crate) async fn beside(&self, setup: ServerTestSettings) -> Self {
        Self::on(Arc::clone(&self.dir), setup).await
    }

    pub(crate) fn webhooks(&self) -> WebhookStore {
        WebhookStore::new(self.dir.path().join("webhooks.json"))
    }

    pub(crate) fn tokens(&self) -> TokenStore {
        TokenStore::new(self.dir.path().join("tokens.json"))
    }

    pub(crate) fn token_in(
        &self,
        tenant: &str,
        name: &str,
        kind: PrincipalKind,
        scopes: &[AccessScope],
    ) -> String {
        let wanted = NewToken {
            tenant: tenant.parse().unwrap(),
            name: name.parse().unwrap(),
            kind,
            scopes: scopes.iter().copied().collect(),
            lifetime_ms: 3_600_000,
        };
        let (_, secret) = self.tokens().add(wanted, SystemClock.now()).unwrap();
        String::from_utf8(secret.expose().to_vec()).unwrap()
    }

    pub(crate) fn agent(&self, name: &str) -> String {
        self.token_in("local", name, PrincipalKind::Agent, &[AccessScope::Submit])
    }

    pub(crate) fn person(&self, name: &str, scopes: &[AccessScope]) -> String {
        self.token_in("local", name, PrincipalKind::Person, scopes)
    }

    /// Sends a request with a token, and reads the response.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> TestResponse {
        self.ask_with(token, method, path, body, &[]).await
    }

    pub(crate) async fn ask_with(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> TestResponse {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        if !token.is_empty() {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        if !body.is_empty() {
            head += "content-type: application/json\r\n";
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.say(format!("{head}\r\n{body}").as_bytes()).await
    }

    /// Sends a browser's request: a cookie, a form, and its origin.
    pub(crate) async fn browse(&self, path: &str, more: &[(&str, &str)], form: Option<&str>) -> TestResponse {
        let method = if form.is_some() { "POST" } else { "GET" };
        let body = form.unwrap_or_default();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        if form.is_some() {
            head += "content-type: application/x-www-form-urlencoded\r\n";
        }
        for (name, value) in more {
            head += &format!("{name}: {value}\r\n");
        }
        self.say(format!("{head}\r\n{body}").as_bytes()).await
    }

    /// Sends exactly these bytes, and reads until the server closes the connection.
    pub(crate) async fn say(&self, bytes: &[u8]) -> TestResponse {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut heard = Vec::new();
        let read = tokio::time::timeout(SOON, stream.read_to_end(&mut heard)).await;
        read.expect("it ends").expect("it can be read");
        TestResponse::new(&heard)
    }

    /// Makes a call with a key.
    pub(crate) async fn call(&self, token: &str, key: &str, wait: u32, body: &Value) -> TestResponse {
        let path = format!("/v1/calls?wait={wait}");
        self.ask_with(token, "POST", &path, Some(body), &[("idempotency-key", key)]).await
    }

    /// Makes a call that waits for a person. Returns the ids of the call and of the question, and the question's digest.
    pub(crate) async fn waiting(&self, token: &str, key: &str) -> (String, String, String) {
        let body = serde_json::json!({"tool": "note", "arguments": {"text": key}, "session": key});
        let heard = self.call(token, key, 0, &body).await;
        let call = heard.json["call"].as_str().expect("a call").to_owned();
        let mut standing = heard.json;
        while standing["state"] != "waiting" {
            assert_eq!(standing["state"], "running", "{standing}");
            standing = self.ask(token, "GET", &format!("/v1/calls/{call}"), None).await.json;
        }
        let text = |name: &str| standing["question"][name].as_str().unwrap().to_owned();
        (call, text("id"), text("digest"))
    }

    /// Waits until a call is settled.
    pub(crate) async fn settled(&self, token: &str, call: &str) -> Value {
        let heard = self.ask(token, "GET", &format!("/v1/calls/{call}?wait=60"), None).await;
        assert_eq!((heard.status, heard.json["state"].as_str()), (200, Some("settled")), "{}", heard.text);
        heard.json["result"].clone()
    }
}

impl Drop for ServerFixture {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl TestResponse {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let chunked = headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let text = if chunked { unchunked(body) } else { body.to_owned() };
        let json = serde_json::from_str(&text).unwrap_or_default();
        Self { status: status.unwrap_or(0), headers, text, json }
    }

    /// Checks that this is a problem response with this status and code.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.json["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.json["status"], status);
        assert!(self.json["type"].as_str().unwrap().starts_with("https://"), "{}", self.text);
    }
}

fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole += &rest[..size];
        text = rest.get(size + 2..).unwrap_or("");
    }
    whole
}

/// Returns whether a text is on disk. Used to check that a secret is not.
pub(crate) fn files_hold(stage: &ServerFixture, text: &str) -> bool {
    let mut left = vec![stage.dir.path().to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|window| window == text.as_bytes()) {
            return true;
        }
    }
    false
}
