//! The gateway: an MCP server for agents, with the gate behind it. Everything that an agent calls goes through the gate.
//!
//! What an agent is offered is the catalog, and what servers have beside tools. It is never offered anything that answers a
//! question: an answer comes from a leave that is held, from the person behind a client that can ask, or from the inbox. While
//! nobody has answered, the call is held; before the client gives up it is told that the call waits, and the same call made
//! again picks up what came of it, once.

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
mod server_info;
pub mod stdio;
mod tool_list;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use byleave::clock::fresh_id;
use byleave::core::call::Mode;
use byleave::core::id::{AgentId, QuestionId, SessionId, TenantId};
use byleave::core::question::Question;
use byleave::gate::Gate;
use futures::future::BoxFuture;
use rmcp::model::RequestStateCodec;
use tokio::sync::{broadcast, watch};

use crate::active_callers::ActiveCallers;
use crate::upstream::{Server, ServerChange, Servers};
pub use connection::ClientConnection;
use notifications::WatchedResources;
use pending_calls::PendingCalls;
use prompts_and_resources::ResourceDirectory;

/// Who is told that a question waits: the question, and the tool that it is about.
pub type QuestionNotifier = Arc<dyn Fn(&Question, &str) + Send + Sync>;

/// Says where the page of a question is, if somebody serves one now.
pub type QuestionPageLookup = Arc<dyn Fn(QuestionId) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// How a gateway works.
#[derive(Clone)]
pub struct GatewaySettings {
    /// Whose book.
    pub tenant: TenantId,
    /// The directory that calls work in, absolute.
    pub cwd: String,
    /// How much is asked.
    pub mode: Mode,
    /// Who makes the calls; as the client calls itself, where nobody says.
    pub agent: Option<AgentId>,
    /// Clients that can open a page or show a form are asked to. A form is for what a plain yes answers, and its answer is only
    /// as good as the client; on a page the person answers, and the client does not.
    pub elicitation: bool,
    /// The pages of questions, where there are any.
    pub pages: Option<QuestionPageLookup>,
    /// How long a client waits for a call; by what is known of it, where nobody says.
    pub deadline: Option<Duration>,
    /// How often a client that wants to know is told that a call still waits.
    pub tick: Duration,
    /// What tools and the rest are called.
    pub names: NamingScheme,
    /// Where it is kept which calls wait: a directory of the gateway's own in the state directory.
    pub pending: PathBuf,
    /// Who is told that a question waits.
    pub told: Option<QuestionNotifier>,
}

/// What tools, prompts and resources are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamingScheme {
    /// As the catalog has them; prompts of several servers with the server's name before them.
    #[default]
    Ours,
    /// As the one server gave them, and nothing beside what it has.
    Theirs,
}

/// What a connection comes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// A pipe, or anything else that lasts as long as the client.
    Pipe,
    /// Single requests, of which those of one client may come on many connections.
    Http,
}

/// An MCP server for agents, with the gate behind it. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<GatewayInner>,
}

/// A gateway could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the key that questions to clients are sealed with: {0}")]
pub struct GatewayError(String);

/// No servers: an agent is offered what the catalog has, and nothing beside it.
#[derive(Debug)]
pub struct NoServers(broadcast::Sender<(String, ServerChange)>);

pub(crate) struct GatewayInner {
    gate: Gate,
    exchange: ActiveCallers,
    servers: Arc<dyn Servers>,
    setup: GatewaySettings,
    slips: PendingCalls,
    codec: RequestStateCodec,
    /// For clients without connections of their own.
    session: SessionId,
    shelf: ResourceDirectory,
    watched: WatchedResources,
    /// How many calls are followed.
    followed: watch::Sender<usize>,
}

/// Counts as a call that is followed, until this is dropped.
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

    fn news(&self) -> broadcast::Receiver<(String, ServerChange)> {
        self.0.subscribe()
    }
}

impl Gateway {
    /// A gateway to this gate and these servers. The exchange is the one that the tools of the servers look into.
    pub fn new(
        gate: Gate,
        exchange: ActiveCallers,
        servers: Arc<dyn Servers>,
        setup: GatewaySettings,
    ) -> Result<Self, GatewayError> {
        let mut key = [0_u8; 32];
        getrandom::fill(&mut key).map_err(|error| GatewayError(error.to_string()))?;
        let codec = RequestStateCodec::try_new(key).map_err(|error| GatewayError(error.to_string()))?;
        let slips = PendingCalls::new(setup.pending.clone());
        let session = fresh_session()?;
        let (shelf, watched) = (ResourceDirectory::default(), WatchedResources::default());
        let followed = watch::Sender::new(0);
        let inner =
            GatewayInner { gate, exchange, servers, setup, slips, codec, session, shelf, watched, followed };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits until no call is followed any more, but no longer than that. For who ends, when its clients are gone.
    pub async fn until_idle(&self, limit: Duration) {
        let mut followed = self.inner.followed.subscribe();
        let idle = async { followed.wait_for(|calls| *calls == 0).await.is_ok() };
        if tokio::time::timeout(limit, idle).await.is_err() {
            tracing::warn!("calls were left before they were at their end");
        }
    }

    /// What serves one client, with a session of its own.
    pub fn connection(&self, wire: TransportKind) -> Result<ClientConnection, GatewayError> {
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
        let Self { tenant, cwd, mode, agent, elicitation, pages: _, deadline, tick, names, pending, told: _ } =
            self;
        f.debug_struct("Setup")
            .field("tenant", tenant)
            .field("cwd", cwd)
            .field("mode", mode)
            .field("agent", agent)
            .field("elicitation", elicitation)
            .field("deadline", deadline)
            .field("tick", tick)
            .field("names", names)
            .field("pending", pending)
            .finish_non_exhaustive()
    }
}

fn fresh_session() -> Result<SessionId, GatewayError> {
    SessionId::new(format!("mcp-{}", fresh_id())).map_err(|bad| GatewayError(bad.to_string()))
}
