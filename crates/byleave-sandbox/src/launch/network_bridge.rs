//! Connects the network of a sandbox with its proxy: takes sockets that were created inside over the control socket, and serves
//! them outside.
//!
//! The launcher blocks the thread of its caller. The proxy runs on its own runtime or on a given one, which must make progress
//! while the caller waits. No command starts before its network is served, or if it cannot be served.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use byleave_files::own;
use rustix::net::{SendFlags, send};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use super::init_report::InitMessage;
use super::process::process_id;
use super::{LaunchError, init_report, internal_error};
use crate::confinement::{Confinement, Network};
use crate::net::decision_log::HostAccessRecord;
use crate::net::egress::Egress;
use crate::net::proxy_server::{ProxyServer, ProxySockets, serve};
use crate::net::published_ports::PortPublisher;
use crate::net::session_router::{ProxyToken, ProxyTokenError, SessionRouter};
use crate::net::tls_intercept::TlsInterceptor;
use crate::net::transparent_proxy::NameAddressMap;
use crate::plan::{LaunchPlan, NetworkPlan, PROXY_PORT, SYSTEM_AUTHORITIES};
use crate::plan_format::{REPORT_SOCKET, SocketKind};

/// The ports for connections of programs that do not use a proxy: the web, and `ssh`.
const PORTS: [u16; 3] = [80, 443, 22];
/// How long to wait for a runtime that may have failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server of sandbox networks: a runtime, and the TLS interceptor. It is cheap to clone, and clones share their state.
#[derive(Clone)]
pub struct NetworkBridge {
    runs: Arc<BridgeRuntime>,
    interception: Option<Arc<TlsInterceptor>>,
    /// The certificate authorities that programs inside must trust, if TLS is intercepted.
    authorities: Option<Arc<str>>,
    ports: Vec<u16>,
}

enum BridgeRuntime {
    /// `None` after the shutdown.
    Own(Option<Runtime>),
    Handed(Handle),
}

/// The reason why a network cannot be served, so that its command was not started.
#[derive(Debug, thiserror::Error)]
pub enum NetworkServeError {
    /// The network must be served, but no bridge was given.
    #[error(
        "there is no proxy to serve it; start the command with a network bridge, or with its network off"
    )]
    NoBridge,
    /// The runtime does not run while the caller waits.
    #[error("the given runtime runs only on the caller's thread; pass a multi-threaded runtime")]
    SingleThreadedRuntime,
    /// The runtime makes no progress, or has no network or no timer.
    #[error("the given runtime does not run; pass a running one with network and time enabled")]
    Idle,
    /// No runtime could be created.
    #[error("cannot create a runtime: {0}")]
    Runtime(#[source] io::Error),
    /// The egress intercepts TLS with an authority that programs inside would not trust.
    #[error("the proxy intercepts TLS with a certificate authority that the sandbox does not trust")]
    OtherAuthority,
    /// The sockets were not passed out, or not as requested.
    #[error("the sandbox did not hand over its sockets")]
    NoSockets,
    /// The sockets cannot be served.
    #[error("cannot serve its sockets: {0}")]
    Sockets(#[source] io::Error),
    /// No token could be created for the call.
    #[error(transparent)]
    ProxyToken(#[from] ProxyTokenError),
}

impl NetworkBridge {
    /// Creates a bridge with its own thread.
    pub fn new() -> Result<Self, NetworkServeError> {
        let mut builder = Builder::new_multi_thread();
        let own = builder.worker_threads(1).thread_name("byleave-net").enable_all().build();
        Ok(Self::of(BridgeRuntime::Own(Some(own.map_err(NetworkServeError::Runtime)?))))
    }

    /// Creates a bridge on a runtime that has its own threads, which callers of the launcher do not block.
    pub fn with_runtime(runtime: Handle) -> Result<Self, NetworkServeError> {
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(NetworkServeError::SingleThreadedRuntime);
        }
        // This needs a test: in a runtime without network or timer the task panics, which ends only the task.
        let (done, tried) = mpsc::channel();
        runtime.spawn(async move {
            tokio::time::sleep(Duration::ZERO).await;
            if tokio::net::UnixStream::pair().is_ok() {
                // The receiver may have stopped waiting.
                done.send(()).ok();
            }
        });
        tried.recv_timeout(PATIENCE).map_err(|_| NetworkServeError::Idle)?;
        Ok(Self::of(BridgeRuntime::Handed(runtime)))
    }

    fn of(runs: BridgeRuntime) -> Self {
        Self { runs: Arc::new(runs), interception: None, authorities: None, ports: PORTS.to_vec() }
    }

    /// Adds a TLS interceptor that verifies hosts against the roots of this machine. Without one, no program can use TLS with a host
    /// that may only be read.
    #[must_use]
    pub fn with_own_interceptor(self) -> Self {
        match TlsInterceptor::new() {
            Ok(interception) => self.with_interceptor(Arc::new(interception)),
            Err(_) => self,
        }
    }

    /// Adds a TLS interceptor for credentials and for hosts that may only be read. Programs inside then trust its authority, beside those that this machine trusts.
    #[must_use]
    pub fn with_interceptor(mut self, interception: Arc<TlsInterceptor>) -> Self {
        let known = SYSTEM_AUTHORITIES.iter().find_map(|path| own::read_text(path).ok());
        self.authorities = Some((known.unwrap_or_default() + "\n" + interception.certificate()).into());
        self.interception = Some(interception);
        self
    }

    /// Sets the ports for connections of programs that do not use a proxy. No program inside can then listen on them.
    #[must_use]
    pub fn with_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// Returns the network plan of the sandbox.
    pub(super) fn network_plan(&self, confinement: &Confinement) -> NetworkPlan {
        NetworkPlan {
            ports: self.ports.clone(),
            granted_ports: confinement.ports.granted.clone(),
            publishes: confinement.ports.can_publish,
            authorities: self.authorities.clone(),
        }
    }

    /// Gives the interceptor to an egress. Refuses an egress whose certificates programs inside would not trust.
    pub(super) fn prepare_egress(&self, door: Egress) -> Result<Egress, NetworkServeError> {
        match (door.interception(), &self.interception) {
            (None, ours) => Ok(door.with_interceptor(ours.as_ref())),
            (Some(doors), Some(ours)) if Arc::ptr_eq(doors, ours) => Ok(door),
            (Some(_), _) => Err(NetworkServeError::OtherAuthority),
        }
    }

    /// Takes the sockets that were created inside, serves them, and then notifies the process that waits inside.
    pub(super) fn serve_command(
        &self,
        leash: &OwnedFd,
        plan: &LaunchPlan,
        names: &Arc<NameAddressMap>,
        doors: Arc<SessionRouter>,
    ) -> Result<ProxyServer, LaunchError> {
        let mut sockets = ProxySockets::default();
        for expected in plan.offered_sockets() {
            let InitMessage { words, descriptor, .. } =
                init_report::read_message(leash, plan)?.ok_or(NetworkServeError::NoSockets)?;
            let [kind, which, ..] = words;
            if (kind, which) != (REPORT_SOCKET, expected as u32) {
                return Err(NetworkServeError::NoSockets.into());
            }
            if descriptor.is_none() && matches!(expected, SocketKind::Loopback6 | SocketKind::Connector6) {
                continue;
            }
            let descriptor = descriptor.ok_or(NetworkServeError::NoSockets)?;
            match expected {
                SocketKind::Proxy => sockets.proxy = Some(descriptor.into()),
                SocketKind::Lookups => sockets.lookups = Some(descriptor.into()),
                SocketKind::Transparent | SocketKind::Loopback6 => {
                    sockets.transparent.push(descriptor.into());
                }
                SocketKind::Connector4 => sockets.connectors.add_v4(descriptor),
                SocketKind::Connector6 => sockets.connectors.add_v6(descriptor),
            }
        }
        let serving = {
            let _within = self.handle()?.enter();
            serve(sockets, names, doors).map_err(NetworkServeError::Sockets)?
        };
        send(leash, b"served", SendFlags::NOSIGNAL)
            .map_err(internal_error("notifying the sandbox that its network is served"))?;
        Ok(serving)
    }

    /// Serves a proxy on the loopback of this machine, and returns it with its port.
    pub(super) fn serve_loopback(&self, door: &Arc<Egress>) -> Result<(ProxyServer, u16), NetworkServeError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(NetworkServeError::Sockets)?;
        let port = listener.local_addr().map_err(NetworkServeError::Sockets)?.port();
        let sockets = ProxySockets { proxy: Some(listener), ..ProxySockets::default() };
        let _within = self.handle()?.enter();
        let serving = serve(sockets, &Arc::default(), SessionRouter::single(Arc::clone(door)));
        Ok((serving.map_err(NetworkServeError::Sockets)?, port))
    }

    /// Returns the publisher of the ports on which a command listens, if its confinement lets ports be published.
    pub(super) fn publisher(
        &self,
        serving: &mut ProxyServer,
        wiring: &NetworkPlan,
        pidfd: BorrowedFd<'_>,
    ) -> Result<Option<Arc<PortPublisher>>, LaunchError> {
        if !wiring.publishes {
            return Ok(None);
        }
        let pid = process_id(pidfd).map_err(internal_error("looking up the first process of the sandbox"))?;
        let own_ports = own_ports(wiring);
        let runtime = self.handle()?.clone();
        Ok(Some(Arc::new(PortPublisher::new(serving.take_connectors(), runtime, pid, own_ports))))
    }

    fn handle(&self) -> Result<&Handle, NetworkServeError> {
        match &*self.runs {
            BridgeRuntime::Own(Some(runtime)) => Ok(runtime.handle()),
            BridgeRuntime::Own(None) => Err(NetworkServeError::NoBridge),
            BridgeRuntime::Handed(handle) => Ok(handle),
        }
    }

    /// Stops serving a network, and waits until its descriptors are closed.
    pub(super) fn close_server(&self, serving: ProxyServer) {
        let Ok(handle) = self.handle() else { return };
        let (done, settled) = mpsc::channel();
        handle.spawn(async move {
            serving.close().await;
            // The receiver may have stopped waiting.
            done.send(()).ok();
        });
        // A runtime that is busy or gone closes them later. Meanwhile nothing gets through, because no process is left inside.
        settled.recv_timeout(PATIENCE).ok();
    }
}

impl Drop for BridgeRuntime {
    fn drop(&mut self) {
        if let Self::Own(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            // It may be dropped within another runtime, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for NetworkBridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uplink").field("ports", &self.ports).finish_non_exhaustive()
    }
}

/// Returns whether a confinement needs a proxied network.
pub(super) fn is_served(confinement: &Confinement) -> bool {
    confinement.network == Network::Proxied
}

/// Returns the ports on which the sandbox itself listens inside.
pub(super) fn own_ports(wiring: &NetworkPlan) -> std::collections::BTreeSet<u16> {
    wiring.ports.iter().chain(&wiring.granted_ports).copied().chain([PROXY_PORT]).collect()
}

/// Returns the address of the proxy inside.
pub(super) fn proxy_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], PROXY_PORT))
}

/// The hosts that a command requested, and the results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkReport {
    /// Each requested host. In a session, a refusal that several commands could have caused is listed for each of them. All other
    /// entries belong to this command alone, as far as [`SessionRouter`] can determine.
    pub decisions: Vec<HostAccessRecord>,
    /// The number of further entries.
    pub omitted_decisions: u64,
}

/// The network of a running command.
#[derive(Debug)]
pub(super) enum CommandNetwork {
    /// Its own.
    Own { uplink: NetworkBridge, serving: ProxyServer, door: Arc<Egress> },
    /// The network of its session, with its own egress.
    Shared(ProxyToken),
}

impl CommandNetwork {
    /// Closes it, and returns the report.
    pub(super) fn close(self) -> NetworkReport {
        match self {
            Self::Own { uplink, serving, door } => {
                uplink.close_server(serving);
                NetworkReport { decisions: door.decisions(), omitted_decisions: door.omitted_decisions() }
            }
            Self::Shared(pass) => {
                let left_out = pass.omitted_decisions();
                NetworkReport { decisions: pass.close(), omitted_decisions: left_out }
            }
        }
    }
}
