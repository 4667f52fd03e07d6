//! The gateway: an MCP server for agents. Everything that an agent calls goes through the gate.
//!
//! An agent is offered the catalog, and the prompts and resources of servers. It must never be offered anything that answers
//! a question. An answer comes from a standing approval, from the person behind a client that can ask, or from the inbox.
//!
//! While there is no answer, the call is held. Before the client times out, the gateway reports that the call waits. If the
//! client repeats the same call, it receives the result once.

mod call_flow;
mod call_tool;
mod client_identity;
mod connection;
mod deadline;
mod elicit;
mod handler;
pub mod http;
mod notifications;
mod passthrough;
mod pending_calls;
mod progress;
mod prompts_and_resources;
mod read_resource;
mod sampling_challenger;
mod server_info;
pub mod stdio;
mod tool_list;

pub use pending_calls::is_pending;
pub use sampling_challenger::SamplingChallenger;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::Mode;
use byleave_gate::core::id::{AgentId, QuestionId, SessionId, TenantId};
use byleave_gate::core::question::Question;
use byleave_gate::gate::Gate;
use futures::future::BoxFuture;
use rmcp::model::RequestStateCodec;
use tokio::sync::{broadcast, watch};

use crate::active_callers::ActiveCallers;
use crate::upstream::{Server, ServerChange, Servers};
pub use connection::ClientConnection;
use notifications::WatchedResources;
use pending_calls::PendingCalls;
use prompts_and_resources::ResourceDirectory;

/// Notified of each waiting question, with the question and its tool.
pub type QuestionNotifier = Arc<dyn Fn(&Question, &str) + Send + Sync>;

/// Returns the address of a question's page, if a server serves it now.
pub type QuestionPageLookup = Arc<dyn Fn(QuestionId) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// Settings of a gateway.
#[derive(Clone)]
pub struct GatewaySettings {
    /// The tenant of the calls.
    pub tenant: TenantId,
    /// The absolute directory that calls work in.
    pub cwd: String,
    /// The mode of the sessions.
    pub mode: Mode,
    /// Whether every call is a dry run: nobody is asked, and no tool runs.
    pub dry_run: bool,
    /// The agent of the calls. By default the name that the client gives itself.
    pub agent: Option<AgentId>,
    /// Whether clients that can open a page or show a form are asked to do so. A form is used only for questions that a plain
    /// yes can answer, and its answer is only as trustworthy as the client. On a page the person answers, not the client.
    pub elicitation: bool,
    /// A client that declines a form sooner than this has nobody to ask. Its answer is none, and the question stays in the inbox.
    pub min_decline_time: Duration,
    /// Looks up the pages of questions, if there are any.
    pub pages: Option<QuestionPageLookup>,
    /// How long a client waits for a call. By default the known value of the client.
    pub call_timeout: Option<Duration>,
    /// How often a client that wants progress is notified that a call still waits.
    pub progress_interval: Duration,
    /// The names of tools, prompts and resources.
    pub naming: NamingScheme,
    /// A directory of the gateway in the state directory, which stores the calls that wait.
    pub pending_dir: PathBuf,
    /// Notified of each waiting question.
    pub notifier: Option<QuestionNotifier>,
}

/// The names of tools, prompts and resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamingScheme {
    /// Names as in the catalog. Prompts of several servers have the server's name as a prefix.
    #[default]
    Catalog,
    /// Names as the only server gave them, and only its own items.
    Upstream,
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// A pipe, or any other stream that lasts as long as the client.
    Pipe,
    /// Single requests. Those of one client may arrive on many connections.
    Http,
}

/// An MCP server for agents in front of the gate. Clones are cheap and share their state.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<GatewayInner>,
}

/// The reason why a gateway could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the key that seals questions to clients: {0}")]
pub struct GatewayError(String);

/// A set of no servers. An agent is offered only the catalog.
#[derive(Debug)]
pub struct NoServers(broadcast::Sender<(String, ServerChange)>);

pub(crate) struct GatewayInner {
    gate: Gate,
    exchange: ActiveCallers,
    servers: Arc<dyn Servers>,
    setup: GatewaySettings,
    slips: PendingCalls,
    codec: RequestStateCodec,
    /// The session of clients without connections of their own.
    session: SessionId,
    shelf: ResourceDirectory,
    watched: WatchedResources,
    /// The number of calls that are followed.
    followed: watch::Sender<usize>,
}

/// Counts a call as followed until this is dropped.
pub(crate) struct FollowedCallGuard<'a>(&'a GatewayInner);

impl GatewayInner {
    fn counted(&self) -> FollowedCallGuard<'_> {
        self.followed.send_modify(|calls| *calls = calls.saturating_add(1));
        FollowedCallGuard(self)
    }
}

impl Drop for FollowedCallGuard<'_> {
    fn drop(&mut self) {
        self.0.followed.send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

impl Default for NoServers {
    fn default() -> Self {
        Self(broadcast::Sender::new(1))
    }
}

impl Servers for NoServers {
    fn list(&self) -> Vec<Arc<dyn Server>> {
        Vec::new()
    }

    fn subscribe(&self) -> broadcast::Receiver<(String, ServerChange)> {
        self.0.subscribe()
    }
}

impl Gateway {
    /// Creates a gateway to this gate and these servers. The active callers must be those that the servers' tools use.
    pub fn new(
        gate: Gate,
        exchange: ActiveCallers,
        servers: Arc<dyn Servers>,
        setup: GatewaySettings,
    ) -> Result<Self, GatewayError> {
        let mut key = [0_u8; 32];
        getrandom::fill(&mut key).map_err(|error| GatewayError(error.to_string()))?;
        let codec = RequestStateCodec::try_new(key).map_err(|error| GatewayError(error.to_string()))?;
        let slips = PendingCalls::new(setup.pending_dir.clone());
        let session = fresh_session()?;
        let (shelf, watched) = (ResourceDirectory::default(), WatchedResources::default());
        let followed = watch::Sender::new(0);
        let inner =
            GatewayInner { gate, exchange, servers, setup, slips, codec, session, shelf, watched, followed };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits until no call is followed, at most for this time. Use it before exit, when the clients are gone.
    pub async fn wait_until_idle(&self, limit: Duration) {
        let mut followed = self.inner.followed.subscribe();
        let idle = async { followed.wait_for(|calls| *calls == 0).await.is_ok() };
        if tokio::time::timeout(limit, idle).await.is_err() {
            tracing::warn!("stopped waiting for calls that had not ended");
        }
    }

    /// Creates the handler of one client, with a session of its own.
    pub fn new_connection(&self, wire: TransportKind) -> Result<ClientConnection, GatewayError> {
        Ok(ClientConnection::new(Arc::clone(&self.inner), fresh_session()?, wire))
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("setup", &self.inner.setup).finish_non_exhaustive()
    }
}

impl fmt::Debug for GatewaySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tenant,
            cwd,
            mode,
            dry_run,
            agent,
            elicitation,
            min_decline_time,
            pages: _,
            call_timeout,
            progress_interval,
            naming,
            pending_dir,
            notifier: _,
        } = self;
        f.debug_struct("GatewaySettings")
            .field("tenant", tenant)
            .field("cwd", cwd)
            .field("mode", mode)
            .field("dry_run", dry_run)
            .field("agent", agent)
            .field("elicitation", elicitation)
            .field("min_decline_time", min_decline_time)
            .field("call_timeout", call_timeout)
            .field("progress_interval", progress_interval)
            .field("naming", naming)
            .field("pending_dir", pending_dir)
            .finish_non_exhaustive()
    }
}

fn fresh_session() -> Result<SessionId, GatewayError> {
    SessionId::new(format!("mcp-{}", fresh_id())).map_err(|bad| GatewayError(bad.to_string()))
}
