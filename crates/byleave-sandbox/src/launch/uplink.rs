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

use super::inside::Heard;
use super::{LaunchError, inside, ours};
use crate::confinement::{Confinement, Network};
use crate::net::doors::{Doors, NoPass, Pass};
use crate::net::intercept::Interception;
use crate::net::log::Decision;
use crate::net::policy::Door;
use crate::net::serve::{Serving, Sockets, serve};
use crate::net::transparent::Names;
use crate::plan::{PROXY_PORT, Plan, Wiring};
use crate::wire::{REPORT_SOCKET, Socket};

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
pub struct Uplink {
    runs: Arc<Runs>,
    interception: Option<Arc<Interception>>,
    /// What programs inside are to trust, where TLS is opened.
    authorities: Option<Arc<str>>,
    ports: Vec<u16>,
}

enum Runs {
    /// `None` once it is shut down.
    Own(Option<Runtime>),
    Handed(Handle),
}

/// Why a network cannot be served, so that its command was not started.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
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
    Pass(#[from] NoPass),
}

impl Uplink {
    /// Serves on a thread of its own.
    pub fn new() -> Result<Self, Unserved> {
        let mut builder = Builder::new_multi_thread();
        let own = builder.worker_threads(1).thread_name("byleave-net").enable_all().build();
        Ok(Self::of(Runs::Own(Some(own.map_err(Unserved::Runtime)?))))
    }

    /// Serves on a runtime that has threads of its own, which the callers of the launcher do not block.
    pub fn on(runtime: Handle) -> Result<Self, Unserved> {
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(Unserved::OneThread);
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
        tried.recv_timeout(PATIENCE).map_err(|_| Unserved::Idle)?;
        Ok(Self::of(Runs::Handed(runtime)))
    }

    fn of(runs: Runs) -> Self {
        Self { runs: Arc::new(runs), interception: None, authorities: None, ports: PORTS.to_vec() }
    }

    /// The same, where TLS is opened for credentials: programs inside are told to trust its authority, beside those that this
    /// machine trusts.
    #[must_use]
    pub fn intercepting(mut self, interception: Arc<Interception>) -> Self {
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
    pub(super) fn wiring(&self) -> Wiring {
        Wiring { ports: self.ports.clone(), authorities: self.authorities.clone() }
    }

    /// Refuses a door whose certificates nobody inside would trust.
    pub(super) fn suits(&self, door: &Door) -> Result<(), Unserved> {
        match (door.interception(), &self.interception) {
            (None, _) => Ok(()),
            (Some(doors), Some(ours)) if Arc::ptr_eq(doors, ours) => Ok(()),
            (Some(_), _) => Err(Unserved::OtherAuthority),
        }
    }

    /// Takes the sockets that were made inside, serves them, and then says so to whoever waits for it inside.
    pub(super) fn join(
        &self,
        leash: &OwnedFd,
        plan: &Plan,
        names: &Arc<Names>,
        doors: Arc<Doors>,
    ) -> Result<Serving, LaunchError> {
        let mut sockets = Sockets::default();
        for expected in plan.offers() {
            let Heard { words, descriptor, .. } = inside::heard(leash, plan)?.ok_or(Unserved::NoSockets)?;
            let descriptor = descriptor.ok_or(Unserved::NoSockets)?;
            let [kind, which, ..] = words;
            if (kind, which) != (REPORT_SOCKET, expected as u32) {
                return Err(Unserved::NoSockets.into());
            }
            match expected {
                Socket::Proxy => sockets.proxy = Some(descriptor.into()),
                Socket::Lookups => sockets.lookups = Some(descriptor.into()),
                Socket::Transparent => sockets.transparent.push(descriptor.into()),
            }
        }
        let serving = {
            let _within = self.handle()?.enter();
            serve(sockets, names, doors).map_err(Unserved::Sockets)?
        };
        send(leash, b"served", SendFlags::NOSIGNAL).map_err(ours("telling the sandbox that it is served"))?;
        Ok(serving)
    }

    fn handle(&self) -> Result<&Handle, Unserved> {
        match &*self.runs {
            Runs::Own(Some(runtime)) => Ok(runtime.handle()),
            Runs::Own(None) => Err(Unserved::NoUplink),
            Runs::Handed(handle) => Ok(handle),
        }
    }

    /// Ends what serves a network, and waits until its descriptors are closed.
    pub(super) fn settle(&self, serving: Serving) {
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

impl Drop for Runs {
    fn drop(&mut self) {
        if let Self::Own(runtime) = self
            && let Some(runtime) = runtime.take()
        {
            // It may be dropped within another runtime, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Uplink {
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
pub struct Reached {
    /// Each host that was wanted. In a session, a refusal of something that several commands could have wanted stands with
    /// each of them; everything else is of this command alone, as far as [`Doors`] can tell.
    pub decisions: Vec<Decision>,
    /// How many more there were.
    pub left_out: u64,
}

/// The network of a running command.
#[derive(Debug)]
pub(super) enum Joined {
    /// Its own.
    Own { uplink: Uplink, serving: Serving, door: Arc<Door> },
    /// That of its session, through its own door.
    Shared(Pass),
}

impl Joined {
    /// Ends it, and says what was wanted.
    pub(super) fn close(self) -> Reached {
        match self {
            Self::Own { uplink, serving, door } => {
                uplink.settle(serving);
                Reached { decisions: door.decisions(), left_out: door.decisions_left_out() }
            }
            Self::Shared(pass) => {
                let left_out = pass.decisions_left_out();
                Reached { decisions: pass.close(), left_out }
            }
        }
    }
}
