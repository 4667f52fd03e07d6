//! The connection to one server. It is opened when it is needed, and opened again when it broke, but never because a person
//! was slow.
//!
//! A server may be down, slow, lying or flooding. A failure of a server costs an error and nothing more (M2).

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rmcp::ClientServiceExt as _;
use rmcp::model::{
    PaginatedRequestParams, ProtocolVersion, ServerNotification, ServerPeerInfo, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, Peer, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::streamable_http_client::{AuthRequiredError, StreamableHttpClientTransportConfig};
use rmcp::transport::{AuthClient, AuthError, StreamableHttpClientTransport};
use serde_json::Value;
use tokio::sync::broadcast;

use super::active_calls::ActiveCalls;
use super::client_handler::{HandlerContext, UpstreamHandler};
use super::pins::ServerListing;
use super::raw_capture::{CapturedListing, CapturingReader, MAX_LINE_BYTES};
use super::server_definition::{Launch, ServerDefinition, ServerName};
use super::server_process::{self, KillOnDrop, ServerEnvironment, ServerStartError, StderrTail};
use super::{ServerChange, http, login, tool_names};
use crate::active_callers::ActiveCallers;
use crate::protocol_version::is_modern;

/// How long a server may take to initialize. Packages may have to be downloaded.
const START: Duration = Duration::from_secs(60);
/// How long it may take to list its tools.
const LISTING: Duration = Duration::from_secs(15);
/// The delay before a broken server is started again. It grows with each failure.
const AGAIN: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(60);

const TOOLS_MAX: usize = 1_000;
const PAGES_MAX: usize = 100;
/// The maximum size of one tool definition.
const TOOL_BYTES_MAX: usize = 64 << 10;

/// The connection to one server. Clones are cheap and share their state.
#[derive(Clone)]
pub(super) struct ServerConnection {
    shared: Arc<ServerConnectionShared>,
}

struct ServerConnectionShared {
    around: Arc<HandlerContext>,
    ground: ServerEnvironment,
    /// Held by the task that connects.
    making: tokio::sync::Mutex<ConnectFailures>,
    now: Mutex<Option<Arc<RunningServer>>>,
}

#[derive(Default)]
struct ConnectFailures {
    count: u32,
    last: Option<Instant>,
}

/// A connected server.
pub(super) struct RunningServer {
    running: RunningService<RoleClient, UpstreamHandler>,
    heard: Option<CapturedListing>,
    stderr: Option<StderrTail>,
    _leash: Option<KillOnDrop>,
}

/// The reason why a server gave no response.
enum ServerConnectError {
    /// It failed, with a description.
    Broke(String),
    /// It requires a login.
    WantsLogin,
}

/// The reason why a server is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}` is not available: {why}")]
pub struct ServerUnavailableError {
    server: String,
    why: String,
}

impl ServerConnection {
    pub(super) fn new(
        definition: ServerDefinition,
        ground: ServerEnvironment,
        exchange: ActiveCallers,
        news: broadcast::Sender<(String, ServerChange)>,
    ) -> Self {
        let roots = vec![ground.workspace.to_string_lossy().into_owned()];
        let around = HandlerContext {
            definition,
            exchange,
            active_calls: ActiveCalls::default(),
            roots,
            changes: news,
        };
        let (making, now) = Default::default();
        Self { shared: Arc::new(ServerConnectionShared { around: Arc::new(around), ground, making, now }) }
    }

    pub(super) fn definition(&self) -> &ServerDefinition {
        &self.shared.around.definition
    }

    pub(super) fn active_callers(&self) -> &ActiveCallers {
        &self.shared.around.exchange
    }

    pub(super) fn active_calls(&self) -> &ActiveCalls {
        &self.shared.around.active_calls
    }

    /// Returns the connection, if there is one.
    pub(super) fn now(&self) -> Option<Arc<RunningServer>> {
        self.held().clone().filter(|connection| connection.is_up())
    }

    /// Returns the connection. Connects if there is none.
    pub(super) async fn connect(&self) -> Result<Arc<RunningServer>, ServerUnavailableError> {
        if let Some(connection) = self.now() {
            return Ok(connection);
        }
        let mut failures = self.shared.making.lock().await;
        if let Some(connection) = self.now() {
            return Ok(connection);
        }
        if let Some(wait) = failures.wait() {
            return Err(self.unavailable(format!(
                "it failed {} times; the next try is in {} s",
                failures.count,
                wait.as_secs() + 1
            )));
        }
        let made = tokio::time::timeout(START, self.made()).await;
        let made = made.unwrap_or_else(|_| {
            Err(ServerConnectError::Broke(format!(
                "it did not complete its initialization within {} s",
                START.as_secs()
            )))
        });
        match made {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *self.held() = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(ServerConnectError::Broke(why)) => {
                failures.add();
                Err(self.unavailable(why))
            }
            // The server is up, and is tried again immediately, because the person may log in at any moment.
            Err(ServerConnectError::WantsLogin) => Err(self.note_login_needed()),
        }
    }

    /// Drops the connection. The next caller that needs the server starts it again.
    pub(super) fn drop_connection(&self) {
        drop(self.held().take());
    }

    /// Requests all tools of the server, once. This copy is the one that is shown, accepted and used.
    pub(super) async fn offered(&self) -> Result<ServerListing, ServerUnavailableError> {
        let connection = self.connect().await?;
        let listed = tokio::time::timeout(LISTING, connection.offered()).await;
        let listed = listed.unwrap_or_else(|_| {
            Err(ServerConnectError::Broke(format!(
                "it did not list its tools within {} s",
                LISTING.as_secs()
            )))
        });
        listed.map_err(|why| match why {
            ServerConnectError::WantsLogin => {
                self.drop_connection();
                self.note_login_needed()
            }
            ServerConnectError::Broke(why) => {
                self.unavailable(self.cut_off_reason().map_or(why, str::to_owned))
            }
        })
    }

    /// Notes a success, which resets the earlier failures.
    pub(super) fn reset_failures(&self) {
        if let Ok(mut failures) = self.shared.making.try_lock() {
            *failures = ConnectFailures::default();
        }
    }

    /// Returns why the server was cut off, if it was.
    pub(super) fn cut_off_reason(&self) -> Option<&'static str> {
        self.held().as_ref().and_then(|connection| connection.heard.as_ref()?.cut())
    }

    /// Returns what a server that has ended wrote last, as the end of an error message.
    pub(super) async fn last_words(&self) -> String {
        let connection = self.held().clone();
        match connection.as_ref().and_then(|connection| connection.stderr.as_ref()) {
            Some(stderr) => stderr.reason().await,
            None => String::new(),
        }
    }

    /// Notes that the server requires a login, or a different one, so that lists can show it.
    pub(super) fn note_login_needed(&self) -> ServerUnavailableError {
        let definition = self.definition();
        if let Launch::Http { url, .. } = &definition.launch
            && let Err(fault) = self.shared.ground.logins.mark_login_needed(&definition.name, url)
        {
            tracing::warn!(server = %definition.name, %fault, "cannot record that a server needs a login");
        }
        self.unavailable(format!("it requires a login; run `byleave mcp login {}`", definition.name))
    }

    async fn made(&self) -> Result<RunningServer, ServerConnectError> {
        let ear = UpstreamHandler::new(Arc::downgrade(&self.shared.around));
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let said = |error: ClientInitializeError| {
            if error.is_authorization_required() || is_unauthorized(&error) {
                return ServerConnectError::WantsLogin;
            }
            let trouble = login_error(&error);
            ServerConnectError::Broke(trouble.unwrap_or_else(|| format!("the MCP handshake failed: {error}")))
        };
        let (running, heard, stderr, leash) = match &self.shared.around.definition.launch {
            Launch::Child { .. } => {
                let (definition, ground) =
                    (self.shared.around.definition.clone(), self.shared.ground.clone());
                let child =
                    tokio::task::spawn_blocking(move || server_process::start_server(&definition, &ground))
                        .await;
                let child = child
                    .map_err(|error| error.to_string())?
                    .map_err(|error: ServerStartError| error.to_string())?;
                let heard = CapturedListing::default();
                let transport = (CapturingReader::new(child.stdout, heard.clone()), child.stdin);
                let running = match ear.serve_with_lifecycle(transport, lifecycle).await.map_err(said) {
                    Err(ServerConnectError::Broke(why)) => {
                        return Err(ServerConnectError::Broke(why + &child.stderr.reason().await));
                    }
                    other => other?,
                };
                (running, Some(heard), Some(child.stderr), Some(child.kill_on_drop))
            }
            Launch::Http { url, headers } => {
                let transport = over_http(&self.definition().name, url, headers, &self.shared.ground).await?;
                (ear.serve_with_lifecycle(transport, lifecycle).await.map_err(said)?, None, None, None)
            }
        };
        // The tools are requested only on demand, and must then be the current ones.
        running.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        self.subscribe(running.peer());
        Ok(RunningServer { running, heard, stderr, _leash: leash })
    }

    /// Subscribes to changes. A server of the newer protocol reports them only to subscribers.
    fn subscribe(&self, peer: &Peer<RoleClient>) {
        let is_modern = peer.peer_info().is_some_and(|says| is_modern(&says.protocol_version));
        if !is_modern {
            return;
        }
        let filter = SubscriptionFilter::builder()
            .tools_list_changed()
            .prompts_list_changed()
            .resources_list_changed();
        let (peer, said, server) = (
            peer.clone(),
            self.shared.around.changes.clone(),
            self.shared.around.definition.name.to_string(),
        );
        tokio::spawn(async move {
            let mut listening = match peer.listen(filter.build()).await {
                Ok(listening) => listening,
                Err(error) => {
                    return tracing::debug!(server, %error, "a server does not send change notifications");
                }
            };
            while let Ok(Some(heard)) = listening.next().await {
                let news = match heard {
                    ServerNotification::ToolListChangedNotification(_) => ServerChange::Tools,
                    ServerNotification::PromptListChangedNotification(_) => ServerChange::Prompts,
                    ServerNotification::ResourceListChangedNotification(_) => ServerChange::Resources,
                    _ => continue,
                };
                // There may be no listener.
                drop(said.send((server.clone(), news)));
            }
        });
    }

    pub(super) fn unavailable(&self, why: String) -> ServerUnavailableError {
        ServerUnavailableError { server: self.shared.around.definition.name.to_string(), why }
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<RunningServer>>> {
        self.shared.now.lock()
    }
}

impl RunningServer {
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.running.peer()
    }

    pub(super) fn peer_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.running.peer().peer_info()
    }

    fn is_up(&self) -> bool {
        !self.running.is_closed() && !self.running.peer().is_transport_closed()
    }

    async fn offered(&self) -> Result<ServerListing, ServerConnectError> {
        let says = self.peer_info();
        let instructions = says.as_ref().and_then(|says| says.instructions.clone());
        if says.is_none_or(|says| says.capabilities.tools.is_none()) {
            return Ok(ServerListing { instructions, ..ServerListing::default() });
        }
        if let Some(heard) = &self.heard {
            heard.start_capture();
        }
        let typed = self.listed().await?;
        let came = match &self.heard {
            Some(heard) => heard.tools(),
            None => typed.clone(),
        };
        let named = |tools: &[Value]| tools.iter().map(|tool| tool.get("name").cloned()).collect::<Vec<_>>();
        if named(&came) != named(&typed) {
            return Err("the received list of tools differs from the parsed one".into());
        }
        Ok(taken(came, instructions))
    }

    async fn listed(&self) -> Result<Vec<Value>, ServerConnectError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.peer().list_tools(Some(page)).await.map_err(|error| {
                if is_unauthorized(&error) {
                    ServerConnectError::WantsLogin
                } else {
                    ServerConnectError::Broke(error.to_string())
                }
            })?;
            for tool in page.tools {
                tools.push(serde_json::to_value(tool).map_err(|error| error.to_string())?);
            }
            if tools.len() > TOOLS_MAX {
                return Err(format!("it offers more than {TOOLS_MAX} tools").into());
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(format!("its list of tools has more than {PAGES_MAX} pages").into())
    }
}

/// Returns the tools that can be accepted. Of two with the same name, neither can.
fn taken(came: Vec<Value>, instructions: Option<String>) -> ServerListing {
    let mut offered = ServerListing { instructions, ..ServerListing::default() };
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut tools = BTreeMap::new();
    for tool in came {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let shown = name.chars().take(80).collect::<String>().escape_debug().to_string();
        let bytes = tool.to_string().len();
        if !tool_names::is_valid_tool_name(&name) {
            offered.rejected.push(format!("`{shown}` is not a valid tool name"));
        } else if bytes > TOOL_BYTES_MAX {
            offered.rejected.push(format!(
                "the definition of `{shown}` has {bytes} bytes; the maximum is {TOOL_BYTES_MAX}"
            ));
        } else {
            *seen.entry(name.clone()).or_default() += 1;
            tools.insert(name, tool);
        }
    }
    for (name, _) in seen.into_iter().filter(|(_, times)| *times > 1) {
        tools.remove(&name);
        offered.rejected.push(format!("`{name}` is offered more than once"));
    }
    offered.tools = tools;
    offered.rejected.sort();
    offered
}

async fn over_http(
    server: &ServerName,
    url: &str,
    headers: &BTreeMap<String, String>,
    ground: &ServerEnvironment,
) -> Result<StreamableHttpClientTransport<AuthClient<reqwest::Client>>, String> {
    let login = login::authorized_client(server, url, headers, &ground.logins).await;
    let login = login.map_err(|fault| fault.to_string())?;
    let headers =
        server_process::resolve_variables(headers, &ground.environment).map_err(|error| error.to_string())?;
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let name =
            name.parse().map_err(|_| format!("`{}` is not a valid header name", name.escape_debug()))?;
        let value = value.parse().map_err(|_| "the value of a header is not valid".to_owned())?;
        sent.insert(name, value);
    }
    let client = http::client_builder().build().map_err(|error| error.to_string())?;
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(sent)
        .max_concurrent_requests(64)
        .max_sse_event_size(MAX_LINE_BYTES);
    Ok(StreamableHttpClientTransport::with_client(AuthClient::new(client, login), config))
}

/// Checks whether an error means that the server requires a login, or a different one.
pub(super) fn is_unauthorized(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        cause.is::<AuthRequiredError>()
            || matches!(cause.downcast_ref(), Some(AuthError::AuthorizationRequired))
            // A 401 response without its mandatory header.
            || cause.to_string().starts_with("unexpected server response: HTTP 401")
    })
}

/// Returns why a login could not be used, if that caused the error. Nothing was then sent to the server.
pub(super) fn login_error(error: &(dyn Error + 'static)) -> Option<String> {
    let trouble = causes(error).find_map(|cause| cause.downcast_ref::<AuthError>());
    trouble.map(|trouble| format!("its stored login cannot be used now: {trouble}"))
}

/// Returns the causes of an error, one after the other.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| match error.downcast_ref() {
        Some(ServiceError::TransportSend(sent)) => Some(sent as &'a (dyn Error + 'static)),
        _ => error.source(),
    })
}

impl<T: Into<String>> From<T> for ServerConnectError {
    fn from(why: T) -> Self {
        Self::Broke(why.into())
    }
}

impl ConnectFailures {
    fn add(&mut self) {
        self.count = self.count.saturating_add(1);
        self.last = Some(Instant::now());
    }

    /// Returns how long to wait before the next attempt.
    fn wait(&self) -> Option<Duration> {
        let since = self.last?.elapsed();
        let pause = AGAIN.saturating_mul(1 << self.count.saturating_sub(1).min(10)).min(AGAIN_MAX);
        pause.checked_sub(since).filter(|wait| !wait.is_zero())
    }
}
