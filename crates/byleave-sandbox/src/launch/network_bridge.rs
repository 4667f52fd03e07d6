//! The network of a sandbox joined with what serves it: sockets made inside, taken over the leash, served outside.
//!
//! The launcher waits for its caller's thread; what serves runs on a runtime of its own or one that was handed in, and has to go
//! on while the caller waits. No command starts before its network is served, nor where nobody can serve it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use byleave_files::own;
use rustix::net::{SendFlags, send};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use super::init_report::InitMessage;
use super::{LaunchError, init_report, ours};
use crate::confinement::{Confinement, Network};
use crate::net::decision_log::HostAccessRecord;
use crate::net::egress::Egress;
use crate::net::proxy_server::{ProxyServer, ProxySockets, serve};
use crate::net::session_router::{ProxyToken, ProxyTokenError, SessionRouter};
use crate::net::tls_intercept::TlsInterceptor;
use crate::net::transparent_proxy::NameAddressMap;
use crate::plan::{LaunchPlan, NetworkPlan, PROXY_PORT};
use crate::plan_format::{REPORT_SOCKET, SocketKind};

/// The ports on which connections are taken that know no proxy: of the web, and of `ssh`.
const PORTS: [u16; 3] = [80, 443, 22];
/// How long a runtime is waited for that may have come to harm.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where systems keep the authorities that they trust.
const AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What serves the networks of sandboxes: a runtime, and who opens TLS. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct NetworkBridge {
    runs: Arc<BridgeRuntime>,
    interception: Option<Arc<TlsInterceptor>>,
    /// What programs inside are to trust, where TLS is opened.
    authorities: Option<Arc<str>>,
    ports: Vec<u16>,
}

enum BridgeRuntime {
    /// `None` once it is shut down.
    Own(Option<Runtime>),
    Handed(Handle),
}

/// Why a network cannot be served, so that its command was not started.
#[derive(Debug, thiserror::Error)]
pub enum NetworkServeError {
    /// The network is to be served, and nothing was given that could.
    #[error("nothing was given that serves it; start the command through an uplink, or with its network off")]
    NoUplink,
    /// The runtime does not run while the caller waits.
    #[error(
        "the runtime that was handed in runs on the caller's thread alone; hand in one with threads of its own"
    )]
    OneThread,
    /// The runtime does nothing, or has no network or no time.
    #[error(
        "the runtime that was handed in does not run; hand in one that does, with its network and time enabled"
    )]
    Idle,
    /// No runtime could be made.
    #[error("no runtime could be made: {0}")]
    Runtime(#[source] io::Error),
    /// The door opens TLS by an authority that nobody inside would trust.
    #[error("the door opens TLS with another authority than the sandbox was told to trust")]
    OtherAuthority,
    /// The sockets did not come out, or not as they were asked for.
    #[error("its sockets did not come out of the sandbox")]
    NoSockets,
    /// The sockets cannot be served.
    #[error("its sockets cannot be served: {0}")]
    Sockets(#[source] io::Error),
    /// There is no pass for the call.
    #[error(transparent)]
    Pass(#[from] ProxyTokenError),
}

impl NetworkBridge {
    /// Serves on a thread of its own.
    pub fn new() -> Result<Self, NetworkServeError> {
        let mut builder = Builder::new_multi_thread();
        let own = builder.worker_threads(1).thread_name("byleave-net").enable_all().build();
        Ok(Self::of(BridgeRuntime::Own(Some(own.map_err(NetworkServeError::Runtime)?))))
    }

    /// Serves on a runtime that has threads of its own, which the callers of the launcher do not block.
    pub fn on(runtime: Handle) -> Result<Self, NetworkServeError> {
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(NetworkServeError::OneThread);
        }
        // Tried, since nothing tells: in a runtime without network or time this panics, which ends the task alone.
        let (done, tried) = mpsc::channel();
        runtime.spawn(async move {
            tokio::time::sleep(Duration::ZERO).await;
            if tokio::net::UnixStream::pair().is_ok() {
                // Who waits no more need not be told.
                done.send(()).ok();
            }
        });
        tried.recv_timeout(PATIENCE).map_err(|_| NetworkServeError::Idle)?;
        Ok(Self::of(BridgeRuntime::Handed(runtime)))
    }

    fn of(runs: BridgeRuntime) -> Self {
        Self { runs: Arc::new(runs), interception: None, authorities: None, ports: PORTS.to_vec() }
    }

    /// The same, where TLS is opened for credentials: programs inside are told to trust its authority, beside those that this
    /// machine trusts.
    #[must_use]
    pub fn intercepting(mut self, interception: Arc<TlsInterceptor>) -> Self {
        let known = AUTHORITIES.iter().find_map(|path| own::read_text(path).ok());
        self.authorities = Some((known.unwrap_or_default() + "\n" + interception.certificate()).into());
        self.interception = Some(interception);
        self
    }

    /// The same, with connections that know no proxy taken on these ports. No program inside can then listen on them.
    #[must_use]
    pub fn with_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// What the sandbox has to have inside.
    pub(super) fn wiring(&self) -> NetworkPlan {
        NetworkPlan { ports: self.ports.clone(), authorities: self.authorities.clone() }
    }

    /// Refuses a door whose certificates nobody inside would trust.
    pub(super) fn suits(&self, door: &Egress) -> Result<(), NetworkServeError> {
        match (door.interception(), &self.interception) {
            (None, _) => Ok(()),
            (Some(doors), Some(ours)) if Arc::ptr_eq(doors, ours) => Ok(()),
            (Some(_), _) => Err(NetworkServeError::OtherAuthority),
        }
    }

    /// Takes the sockets that were made inside, serves them, and then says so to whoever waits for it inside.
    pub(super) fn join(
        &self,
        leash: &OwnedFd,
        plan: &LaunchPlan,
        names: &Arc<NameAddressMap>,
        doors: Arc<SessionRouter>,
    ) -> Result<ProxyServer, LaunchError> {
        let mut sockets = ProxySockets::default();
        for expected in plan.offers() {
            let InitMessage { words, descriptor, .. } =
                init_report::heard(leash, plan)?.ok_or(NetworkServeError::NoSockets)?;
            let descriptor = descriptor.ok_or(NetworkServeError::NoSockets)?;
            let [kind, which, ..] = words;
            if (kind, which) != (REPORT_SOCKET, expected as u32) {
                return Err(NetworkServeError::NoSockets.into());
            }
            match expected {
                SocketKind::Proxy => sockets.proxy = Some(descriptor.into()),
                SocketKind::Lookups => sockets.lookups = Some(descriptor.into()),
                SocketKind::Transparent => sockets.transparent.push(descriptor.into()),
            }
        }
        let serving = {
            let _within = self.handle()?.enter();
            serve(sockets, names, doors).map_err(NetworkServeError::Sockets)?
        };
        send(leash, b"served", SendFlags::NOSIGNAL).map_err(ours("telling the sandbox that it is served"))?;
        Ok(serving)
    }

    fn handle(&self) -> Result<&Handle, NetworkServeError> {
        match &*self.runs {
            BridgeRuntime::Own(Some(runtime)) => Ok(runtime.handle()),
            BridgeRuntime::Own(None) => Err(NetworkServeError::NoUplink),
            BridgeRuntime::Handed(handle) => Ok(handle),
        }
    }

    /// Ends what serves a network, and waits until its descriptors are closed.
    pub(super) fn settle(&self, serving: ProxyServer) {
        let Ok(handle) = self.handle() else { return };
        let (done, settled) = mpsc::channel();
        handle.spawn(async move {
            serving.close().await;
            // Who waits no more need not be told.
            done.send(()).ok();
        });
        // A runtime that is busy or gone closes them later, and lets nothing through meanwhile: nobody is left inside.
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

/// Whether a confinement needs its network to be served.
pub(super) fn is_served(confinement: &Confinement) -> bool {
    confinement.network == Network::Proxied
}

/// Where the proxy is inside.
pub(super) fn proxy_at() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], PROXY_PORT))
}

/// What a command wanted of the network, and what it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkReport {
    /// Each host that was wanted. In a session, a refusal of something that several commands could have wanted stands with
    /// each of them; everything else is of this command alone, as far as [`SessionRouter`] can tell.
    pub decisions: Vec<HostAccessRecord>,
    /// How many more there were.
    pub left_out: u64,
}

/// The network of a running command.
#[derive(Debug)]
pub(super) enum CommandNetwork {
    /// Its own.
    Own { uplink: NetworkBridge, serving: ProxyServer, door: Arc<Egress> },
    /// That of its session, through its own door.
    Shared(ProxyToken),
}

impl CommandNetwork {
    /// Ends it, and says what was wanted.
    pub(super) fn close(self) -> NetworkReport {
        match self {
            Self::Own { uplink, serving, door } => {
                uplink.settle(serving);
                NetworkReport { decisions: door.decisions(), left_out: door.decisions_left_out() }
            }
            Self::Shared(pass) => {
                let left_out = pass.decisions_left_out();
                NetworkReport { decisions: pass.close(), left_out }
            }
        }
    }
}
