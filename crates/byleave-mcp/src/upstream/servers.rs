//! All servers of a process. They are started once they are accepted. Their accepted tools are in the catalog; everything
//! else is suspended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::catalog::Catalog;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::id::CallId;
use byleave_gate::gate::Gate;
use byleave_gate::tool::Tool;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::ServerPeerInfo;
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::broadcast;

use super::connection::{RunningServer, ServerConnection};
use super::pins::{Drift, LaunchPin, PinFile, ServerListing};
use super::server_definition::{ServerDefinition, ServerName};
use super::server_process::ServerEnvironment;
use super::server_tool::ServerTool;
use super::trust_server::{self, AcceptServerTool, AcceptanceContext, ServerAcceptor, has_hidden_chars};
use super::{Server, ServerChange, Servers, tool_names};
use crate::active_callers::ActiveCallers;

/// How long a server that is seen for the first time may take to offer all its tools.
const SETTLING: Duration = Duration::from_millis(300);

/// The maximum number of changes that wait for a slow listener.
const NEWS_MAX: usize = 256;

/// All servers of a process. Clones are cheap and share their state. The servers end when the last clone is dropped.
#[derive(Clone)]
pub struct Upstream {
    inner: Arc<UpstreamInner>,
}

/// The status of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerStatus {
    /// No connection was attempted yet.
    NotConnected,
    /// Its start was not accepted, or differs from the accepted one. It is not started.
    NotAccepted,
    /// It is unavailable, for this reason.
    Unavailable(String),
    /// It is connected.
    Connected {
        /// The catalog names of the tools that are offered.
        offered: Vec<String>,
        /// The parts that are suspended until a person accepts them.
        suspended: Vec<Drift>,
        /// The parts that cannot be accepted.
        rejected: Vec<String>,
    },
}

struct UpstreamInner {
    all: BTreeMap<ServerName, Arc<UpstreamServer>>,
    pins: PinFile,
    search: String,
    catalog: Catalog,
    /// Changes that servers report, before they are checked.
    said: broadcast::Sender<(String, ServerChange)>,
    news: broadcast::Sender<(String, ServerChange)>,
}

struct UpstreamServer {
    link: ServerConnection,
    stands: Mutex<ServerStatus>,
    /// Its tools that are offered, by catalog name.
    offered: Mutex<BTreeMap<String, OfferedTool>>,
    /// The last listing. The lock allows one check at a time.
    looking: tokio::sync::Mutex<Option<Arc<ServerListing>>>,
}

/// The server's definition of a tool: as it was sent, and as parsed by the protocol's types.
struct OfferedTool {
    came: Value,
    read: Arc<rmcp::model::Tool>,
}

impl Upstream {
    /// Creates the set of servers without starting any. Their tools are added to this catalog, with a tool that accepts them.
    pub fn new(
        definitions: Vec<ServerDefinition>,
        ground: &ServerEnvironment,
        pins: PinFile,
        exchange: &ActiveCallers,
        catalog: Catalog,
    ) -> Result<Self, byleave_gate::catalog::RegisterError> {
        let upstream = Self::for_accepted(definitions, ground, pins, exchange, catalog);
        let keeper: std::sync::Weak<dyn ServerAcceptor> = Arc::<UpstreamInner>::downgrade(&upstream.inner);
        upstream.inner.catalog.register(AcceptServerTool::new(keeper))?;
        Ok(upstream)
    }

    /// Creates the set of servers where nobody can accept one. Only what was accepted elsewhere is started.
    pub fn for_accepted(
        definitions: Vec<ServerDefinition>,
        ground: &ServerEnvironment,
        pins: PinFile,
        exchange: &ActiveCallers,
        catalog: Catalog,
    ) -> Self {
        let (said, _) = broadcast::channel(NEWS_MAX);
        let (news, _) = broadcast::channel(NEWS_MAX);
        let one = |definition: ServerDefinition| {
            let name = definition.name.clone();
            let link = ServerConnection::new(definition, ground.clone(), exchange.clone(), said.clone());
            (
                name,
                Arc::new(UpstreamServer {
                    link,
                    stands: Mutex::new(ServerStatus::NotConnected),
                    offered: Mutex::default(),
                    looking: tokio::sync::Mutex::default(),
                }),
            )
        };
        let all = definitions.into_iter().map(one).collect();
        let search = ground.environment.get("PATH").cloned().unwrap_or_default();
        Self { inner: Arc::new(UpstreamInner { all, pins, search, catalog, said, news }) }
    }

    /// Returns all servers with their status.
    pub fn statuses(&self) -> Vec<(ServerName, ServerStatus)> {
        self.inner.all.iter().map(|(name, one)| (name.clone(), one.stands().clone())).collect()
    }

    /// Starts a server, if this is accepted, and checks its offer.
    pub async fn refresh(&self, server: &ServerName) -> ServerStatus {
        self.inner.look(server).await
    }

    /// Starts all servers at once.
    pub async fn refresh_all(&self) {
        let looks = self.inner.all.keys().map(|server| self.inner.look(server));
        futures::future::join_all(looks).await;
    }

    /// Accepts the current state of a server through the gate. A person is asked first about its start, and then about its
    /// offer.
    pub async fn accept(
        &self,
        gate: &Gate,
        by: &AcceptanceContext,
        server: &ServerName,
    ) -> Result<(), String> {
        self.accept_as(gate, by, server, |_| CallId::new(fresh_id())).await
    }

    /// Accepts a server like `accept`, for processes that are started repeatedly. The question stays the same for a day,
    /// however often it comes up.
    async fn accept_daily(
        &self,
        gate: &Gate,
        by: &AcceptanceContext,
        server: &ServerName,
    ) -> Result<(), String> {
        let unpinned = self.inner.all.get(server).is_some_and(|one| one.link.definition().is_unpinned());
        if unpinned {
            return self.accept(gate, by, server).await;
        }
        self.accept_as(gate, by, server, trust_server::daily_call_id).await
    }

    async fn accept_as(
        &self,
        gate: &Gate,
        by: &AcceptanceContext,
        server: &ServerName,
        id: impl Fn(&Value) -> CallId,
    ) -> Result<(), String> {
        for _ in 0..2 {
            let Some(arguments) = self.inner.to_accept(server).await? else { return Ok(()) };
            let result = gate.settle(by.new_call(id(&arguments), server, arguments)?).await;
            trust_server::check_result(&result)?;
        }
        Ok(())
    }

    /// Accepts the current state of a server without a question, for callers that have asked already.
    pub async fn accept_without_asking(&self, server: &ServerName) -> Result<(), String> {
        for _ in 0..2 {
            let Some(arguments) = self.inner.to_accept(server).await? else { return Ok(()) };
            self.inner.accepted(&arguments).await?;
        }
        Ok(())
    }

    /// Accepts a server on first use, for a person who named its exact command. If the server sends hidden characters, it is
    /// left for a person to check.
    pub async fn accept_on_first_use(&self, server: &ServerName) -> Result<(), String> {
        for _ in 0..2 {
            let Some(arguments) = self.inner.to_accept(server).await? else { return Ok(()) };
            if has_hidden_chars(&arguments) {
                return Err("the server sends invisible characters; its tools are not offered until a person has checked them".into());
            }
            self.inner.accepted(&arguments).await?;
        }
        // Some servers offer the rest only after they know the client's capabilities. That still belongs to the first use.
        tokio::time::sleep(SETTLING).await;
        match self.inner.to_accept(server).await? {
            Some(arguments) if !has_hidden_chars(&arguments) => {
                self.inner.accepted(&arguments).await.map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Maintains the servers until it is dropped: starts them, asks a person about parts that were not accepted, and checks
    /// again after changes. Without a gate to ask through, nobody is asked and those parts stay unused.
    pub async fn supervise(self, ask: Option<(Gate, AcceptanceContext)>) {
        let mut said = self.inner.said.subscribe();
        let mut asking: BTreeMap<ServerName, tokio::task::JoinHandle<()>> = BTreeMap::new();
        self.refresh_all().await;
        for server in self.inner.all.keys() {
            self.ask_where_needed(server, ask.as_ref(), &mut asking);
            self.inner.tell(server, ServerChange::Tools);
        }
        loop {
            let (server, news) = match said.recv().await {
                Ok(heard) => heard,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            };
            let Ok(server) = ServerName::new(server) else { continue };
            if news == ServerChange::Tools {
                self.inner.look(&server).await;
                self.ask_where_needed(&server, ask.as_ref(), &mut asking);
            }
            self.inner.tell(&server, news);
        }
    }

    fn ask_where_needed(
        &self,
        server: &ServerName,
        ask: Option<&(Gate, AcceptanceContext)>,
        asking: &mut BTreeMap<ServerName, tokio::task::JoinHandle<()>>,
    ) {
        let Some((gate, by)) = ask else { return };
        let open = match self.inner.all.get(server).map(|one| one.stands().clone()) {
            Some(ServerStatus::NotAccepted) => true,
            Some(ServerStatus::Connected { suspended, .. }) => !suspended.is_empty(),
            Some(ServerStatus::NotConnected | ServerStatus::Unavailable(_)) | None => false,
        };
        if !open || asking.get(server).is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (this, gate, by, server) = (self.clone(), gate.clone(), by.clone(), server.clone());
        let name = server.clone();
        let task = tokio::spawn(async move {
            if let Err(why) = this.accept_daily(&gate, &by, &server).await {
                tracing::warn!(%server, why, "a server was not accepted");
            }
        });
        asking.insert(name, task);
    }
}

impl UpstreamInner {
    /// Checks whether a server may be started as it is defined. Returns the pin that needs acceptance, if not.
    fn to_start(&self, one: &UpstreamServer) -> Result<Option<LaunchPin>, String> {
        let definition = one.link.definition();
        let now = LaunchPin::now(definition, &self.search)
            .map_err(|error| format!("cannot check the program: {error}"))?;
        let pinned = self.pins.get(&definition.name).map_err(|fault| fault.to_string())?;
        // A program that cannot be pinned is accepted for as long as it runs.
        let accepted =
            pinned.launch.as_ref() == Some(&now) && (!definition.is_unpinned() || one.link.now().is_some());
        Ok((!accepted).then_some(now))
    }

    async fn look(&self, server: &ServerName) -> ServerStatus {
        let Some(one) = self.all.get(server) else { return ServerStatus::NotConnected };
        let mut looking = one.looking.lock().await;
        let stands = match self.to_start(one) {
            Ok(None) => self.offers(one, &mut looking).await,
            Ok(Some(_)) => {
                self.withdraw(one, |_, _| false);
                one.link.drop_connection();
                ServerStatus::NotAccepted
            }
            Err(why) => ServerStatus::Unavailable(why),
        };
        one.stands().clone_from(&stands);
        stands
    }

    async fn offers(&self, one: &UpstreamServer, looking: &mut Option<Arc<ServerListing>>) -> ServerStatus {
        let server = &one.link.definition().name;
        let offered = match one.link.offered().await {
            Ok(offered) => Arc::new(offered),
            Err(down) => {
                // Its accepted tools remain. The next call tries again, and reports the error.
                return ServerStatus::Unavailable(down.to_string());
            }
        };
        *looking = Some(Arc::clone(&offered));
        let pinned = match self.pins.get(server) {
            Ok(pinned) => pinned,
            Err(fault) => return ServerStatus::Unavailable(fault.to_string()),
        };
        let suspended = pinned.drift(&offered);
        let mut refused = offered.rejected.clone();
        let accepted: BTreeMap<String, (&String, &Value)> = offered
            .tools
            .iter()
            .filter(|(tool, definition)| pinned.has_accepted(tool, definition))
            .map(|(tool, definition)| (tool_names::catalog_name(server, tool), (tool, definition)))
            .collect();
        // Unchanged tools remain in the catalog all the time, because a call may be on its way.
        self.withdraw(one, |name, told| {
            accepted.get(name).is_some_and(|(_, definition)| **definition == told.came)
        });
        for (name, (tool, definition)) in accepted {
            if !one.offered().contains_key(&name)
                && let Err(why) = self.offer(one, &name, tool, definition)
            {
                refused.push(format!("`{tool}`: {why}"));
            }
        }
        let names = one.offered().keys().cloned().collect();
        ServerStatus::Connected { offered: names, suspended, rejected: refused }
    }

    fn offer(&self, one: &UpstreamServer, name: &str, tool: &str, definition: &Value) -> Result<(), String> {
        let read = serde_json::from_value(definition.clone()).map_err(|error| error.to_string())?;
        let made = Arc::new(ServerTool::new(one.link.clone(), name, tool, definition)?);
        self.catalog.register_all([made as Arc<dyn Tool>]).map_err(|why| why.to_string())?;
        one.offered().insert(name.to_owned(), OfferedTool { came: definition.clone(), read: Arc::new(read) });
        Ok(())
    }

    /// Removes the other tools of a server from the catalog.
    fn withdraw(&self, one: &UpstreamServer, stays: impl Fn(&str, &OfferedTool) -> bool) {
        one.offered().retain(|name, told| {
            let stays = stays(name, told);
            if !stays && self.catalog.unregister(name).is_err() {
                tracing::debug!(name, "a tool was already removed");
            }
            stays
        });
    }

    /// Returns the next part of a server that a person has to accept; `None` if everything is accepted.
    async fn to_accept(&self, server: &ServerName) -> Result<Option<Value>, String> {
        let one = self.all.get(server).ok_or_else(|| format!("there is no server `{server}`"))?;
        if let Some(pin) = self.to_start(one)? {
            return Ok(Some(trust_server::start_arguments(one.link.definition(), &pin)));
        }
        match self.look(server).await {
            ServerStatus::Connected { suspended, .. } if suspended.is_empty() => Ok(None),
            ServerStatus::Connected { suspended, .. } => {
                Ok(Some(trust_server::offer_arguments(one.link.definition(), &suspended)))
            }
            ServerStatus::Unavailable(why) => Err(why),
            ServerStatus::NotAccepted | ServerStatus::NotConnected => {
                Err(format!("the server `{server}` changed meanwhile"))
            }
        }
    }

    /// Accepts the part that the arguments of an accepting call show, if it is still current.
    async fn accepted(&self, arguments: &Value) -> Result<String, String> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let server = ServerName::new(text("server").unwrap_or_default()).map_err(|no| no.to_string())?;
        let one = self.all.get(&server).ok_or_else(|| format!("there is no server `{server}` here"))?;
        let changed = || format!("the server `{server}` has changed since it was shown; check it again");
        if let Some(shown) = text("start_digest") {
            let pin = self.to_start(one)?.ok_or_else(changed)?;
            if trust_server::start_digest(&pin) != shown {
                return Err(changed());
            }
            self.pins
                .update(&server, |pinned| pinned.launch = Some(pin))
                .map_err(|fault| fault.to_string())?;
            // Started here, because a program that cannot be pinned is accepted for this one start.
            one.link.connect().await.map_err(|down| down.to_string())?;
            return Ok(format!("the server `{server}` may be started"));
        }
        if let Some(shown) = text("offers_digest") {
            let offered = one.looking.lock().await.clone().ok_or_else(changed)?;
            let pinned = self.pins.get(&server).map_err(|fault| fault.to_string())?;
            let drift = pinned.drift(&offered);
            if trust_server::offer_digest(&drift) != shown {
                return Err(changed());
            }
            self.pins.update(&server, |pinned| pinned.accept(drift)).map_err(|fault| fault.to_string())?;
            self.look(&server).await;
            self.tell(&server, ServerChange::Tools);
            return Ok(format!("the tools of the server `{server}` are accepted"));
        }
        Err("the arguments show nothing to accept".into())
    }

    fn tell(&self, server: &ServerName, news: ServerChange) {
        // There may be no listener.
        drop(self.news.send((server.to_string(), news)));
    }
}

impl ServerAcceptor for UpstreamInner {
    fn accept_arguments<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(Self::accepted(self, arguments))
    }
}

impl UpstreamServer {
    /// Returns the connection, if everything that the server says of itself was accepted. Its texts reach the model in many
    /// ways.
    fn accepted(&self) -> Option<Arc<RunningServer>> {
        let all =
            matches!(&*self.stands(), ServerStatus::Connected { suspended, .. } if suspended.is_empty());
        self.link.now().filter(|_| all)
    }

    fn offered(&self) -> MutexGuard<'_, BTreeMap<String, OfferedTool>> {
        self.offered.lock()
    }

    fn stands(&self) -> MutexGuard<'_, ServerStatus> {
        self.stands.lock()
    }
}

impl Servers for Upstream {
    fn list(&self) -> Vec<Arc<dyn Server>> {
        self.inner.all.values().map(|one| Arc::clone(one) as Arc<dyn Server>).collect()
    }

    fn subscribe(&self) -> broadcast::Receiver<(String, ServerChange)> {
        self.inner.news.subscribe()
    }
}

impl Server for UpstreamServer {
    fn name(&self) -> &str {
        self.link.definition().name.as_str()
    }

    fn peer_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.accepted().and_then(|connection| connection.peer_info())
    }

    fn peer(&self) -> Option<Peer<RoleClient>> {
        self.accepted().map(|connection| connection.peer().clone())
    }

    fn definition(&self, tool: &str) -> Option<Arc<rmcp::model::Tool>> {
        self.offered().get(tool).map(|told| Arc::clone(&told.read))
    }
}
