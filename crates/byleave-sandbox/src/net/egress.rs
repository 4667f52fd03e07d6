//! The policy of the network: one door for everything that leaves the sandbox, whichever way it was asked for.
//!
//! A host is judged by its name; a name that was granted is looked up once, the addresses are held against what is
//! reachable, and the connection is made to an address that was checked. A failed check refuses. A door is for one call:
//! what a person grants through it is gone with it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OnceCell, watch};

use super::address::AddressPolicy;
use super::credential::{Credential, CredentialError, CredentialTransport};
use super::decision_log::{HostAccessMethod, HostAccessRecord, NetworkLog, NetworkLogEntry, locked};
use super::host_normalize::{shortened, spelled};
use super::refusal::{ConnectionError, ConnectionRefusedError};
use super::tls_intercept::TlsInterceptor;

/// What is judged about a host, before anybody is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostDecision {
    /// It may be reached.
    Granted,
    /// It may not, and why.
    Refused(String),
    /// A person says.
    Ask,
}

/// A future that can be named.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who judges which hosts may be reached. Hosts come in their usual spelling: lower case, punycode, no dot at the end.
pub trait HostPolicy: Send + Sync {
    /// Judges a host by its name or, where the command wanted an address, by that address. Performs nothing. Whatever is
    /// granted here, an address outside the public internet needs its net opened in [`AddressPolicy`] as well.
    fn judge(&self, host: &str, port: u16) -> HostDecision;

    /// Asks a person about this host, for this call; `Err` says why not. Asked once a call for each host and port.
    fn ask<'a>(&'a self, _host: &'a str, _port: u16) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("nobody is there to be asked".to_owned()) })
    }
}

/// Who looks names up.
pub trait Resolver: Send + Sync {
    /// The addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(
            async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) },
        )
    }
}

/// How much of the network one call may use up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Connections at the same time; more wait, or are closed where other calls would wait with them. Each takes two
    /// descriptors of the supervisor.
    pub connections_max: usize,
    /// The bytes of a head of HTTP, or of a ClientHello.
    pub head_bytes_max: usize,
    /// How long a head may take to arrive.
    pub head_timeout: Duration,
    /// How long a connection may be silent.
    pub idle_timeout: Duration,
    /// How long looking up and connecting may take.
    pub connect_timeout: Duration,
    /// How many different hosts one call may want.
    pub hosts_max: usize,
    /// How many questions one call may ask.
    pub questions_max: usize,
    /// How many decisions are kept.
    pub decisions_max: usize,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            connections_max: 128,
            head_bytes_max: 64 << 10,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(10),
            hosts_max: 4096,
            questions_max: 8,
            decisions_max: 1024,
        }
    }
}

/// The one way out for one call.
pub struct Egress {
    keeper: Arc<dyn HostPolicy>,
    resolver: Arc<dyn Resolver>,
    reachable: AddressPolicy,
    bounds: NetworkLimits,
    credentials: Vec<Credential>,
    interception: Option<Arc<TlsInterceptor>>,
    answers_lookups: bool,
    log: NetworkLog,
    judged: Mutex<HostDecisionCache>,
    shut: watch::Sender<bool>,
    open: AtomicUsize,
    /// Every connection holds a copy of the first; when there are none left, the second hears of it.
    held: Mutex<Option<mpsc::Sender<Infallible>>>,
    let_go: Mutex<mpsc::Receiver<Infallible>>,
}

/// A judgement that is made once, however many wait for it.
type HostDecisionCell = OnceCell<Result<(), ConnectionRefusedError>>;

#[derive(Default)]
struct HostDecisionCache {
    hosts: HashMap<(String, u16), Arc<HostDecisionCell>>,
    questions: usize,
}

/// One of those that are counted, as long as it lives.
struct CountGuard<'a>(&'a AtomicUsize);

impl<'a> CountGuard<'a> {
    fn among(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Refuses everybody.
struct DenyAllHosts;

impl HostPolicy for DenyAllHosts {
    fn judge(&self, _host: &str, _port: u16) -> HostDecision {
        HostDecision::Refused("nothing leaves while it runs on a copy".to_owned())
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("reachable", &self.reachable)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// A connection that was granted, made, and written down.
pub(crate) struct GrantedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) entry: Arc<NetworkLogEntry>,
}

impl Egress {
    /// A door that this keeper keeps, with names looked up by this machine and only the public internet behind it.
    pub fn new(keeper: Arc<dyn HostPolicy>) -> Self {
        let bounds = NetworkLimits::default();
        let (held, let_go) = mpsc::channel();
        Self {
            held: Mutex::new(Some(held)),
            let_go: Mutex::new(let_go),
            keeper,
            resolver: Arc::new(SystemResolver),
            reachable: AddressPolicy::global(),
            log: NetworkLog::new(bounds.decisions_max),
            bounds,
            credentials: Vec::new(),
            interception: None,
            answers_lookups: false,
            judged: Mutex::default(),
            shut: watch::Sender::new(false),
            open: AtomicUsize::new(0),
        }
    }

    /// A door that lets nothing out and writes down what was wanted: for a command on a copy. A lookup gives an address all the
    /// same, which leads nowhere, so that the port that is wanted then is known as well.
    pub fn closed() -> Self {
        Self { answers_lookups: true, ..Self::new(Arc::new(DenyAllHosts)) }
    }

    /// The same, with names looked up by another.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// The same, with other addresses reachable.
    #[must_use]
    pub fn with_reachable(mut self, reachable: AddressPolicy) -> Self {
        self.reachable = reachable;
        self
    }

    /// The same, with other bounds.
    #[must_use]
    pub fn with_bounds(mut self, bounds: NetworkLimits) -> Self {
        self.log = NetworkLog::new(bounds.decisions_max);
        self.bounds = bounds;
        self
    }

    /// The same, with credentials that are added on the way to their hosts. Those that travel in TLS need somebody to open
    /// it.
    pub fn with_credentials(
        mut self,
        credentials: Vec<Credential>,
        interception: Option<Arc<TlsInterceptor>>,
    ) -> Result<Self, CredentialError> {
        if let (Some(first), None) =
            (credentials.iter().find(|one| one.over() == CredentialTransport::Tls), &interception)
        {
            return Err(CredentialError::NoInterception(first.host().to_owned()));
        }
        self.credentials = credentials;
        self.interception = interception;
        Ok(self)
    }

    /// What was wanted so far, and what was given.
    pub fn decisions(&self) -> Vec<HostAccessRecord> {
        self.log.decisions()
    }

    /// How many decisions found no room among the others.
    pub fn decisions_left_out(&self) -> u64 {
        self.log.left_out()
    }

    /// Lets nothing more through, and ends what is open.
    pub(crate) fn shut(&self) {
        self.shut.send_replace(true);
    }

    /// Waits until what was open has ended, after the door was shut: not for long, and not on the runtime that serves it.
    pub(crate) fn wait_until_empty(&self, patience: Duration) {
        drop(locked(&self.held).take());
        // Either all of them have let go, or whoever serves them does nothing, in which case nothing gets through either.
        locked(&self.let_go).recv_timeout(patience).map(|never| match never {}).ok();
    }

    /// Does this as long as the door is open, if not too many are doing so.
    pub(crate) async fn while_open(&self, work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
        let _held = locked(&self.held).clone();
        let _one = CountGuard::among(&self.open);
        if self.open.load(Ordering::Relaxed) > self.bounds.connections_max {
            return Err(io::Error::other("too many connections of one call"));
        }
        let mut shut = self.shut.subscribe();
        tokio::select! {
            biased;
            // The other end of this is in the door itself: it cannot be gone.
            _ = shut.wait_for(|shut| *shut) => Ok(()),
            done = work => done,
        }
    }

    pub(crate) fn bounds(&self) -> &NetworkLimits {
        &self.bounds
    }

    pub(crate) fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    pub(crate) fn interception(&self) -> Option<&Arc<TlsInterceptor>> {
        self.interception.as_ref()
    }

    /// Whether a name that is refused has an address, which leads here.
    pub(crate) const fn answers_lookups(&self) -> bool {
        self.answers_lookups
    }

    /// Writes a refusal that has no connection.
    pub(crate) fn refused(
        &self,
        host: &str,
        port: u16,
        way: HostAccessMethod,
        refusal: &ConnectionRefusedError,
    ) {
        self.log.refused(host, port, way, &refusal.to_string());
    }

    /// A connection to a host, for a tool that speaks to it by itself: to one of the addresses that were checked, and to no other.
    pub async fn reach(&self, host: &str, port: u16) -> Result<TcpStream, ConnectionError> {
        self.enter(host, port, HostAccessMethod::Tool).await.map(|passage| passage.stream)
    }

    /// Judges, asks, looks up, checks, connects; and writes down how it went.
    pub(crate) async fn enter(
        &self,
        host: &str,
        port: u16,
        way: HostAccessMethod,
    ) -> Result<GrantedConnection, ConnectionError> {
        let host = spelled(host).inspect_err(|refusal| self.refused(&shortened(host), port, way, refusal))?;
        let entered = self.pass(&host, port).await;
        match entered {
            Ok(stream) => Ok(GrantedConnection { stream, entry: self.log.given(&host, port, way) }),
            Err(ConnectionError::Refused(refusal)) => {
                self.refused(&host, port, way, &refusal);
                Err(refusal.into())
            }
            Err(failed @ ConnectionError::Failed { .. }) => {
                self.log.given(&host, port, way).note(&failed.to_string());
                Err(failed)
            }
        }
    }

    /// Judges a host again, on a connection that stands: the next request of a kept one.
    pub(crate) async fn judge(&self, host: &str, port: u16) -> Result<(), ConnectionRefusedError> {
        let cell = {
            let mut judged = locked(&self.judged);
            let key = (host.to_owned(), port);
            if !judged.hosts.contains_key(&key) && judged.hosts.len() >= self.bounds.hosts_max {
                return Err(ConnectionRefusedError::TooManyHosts(self.bounds.hosts_max));
            }
            Arc::clone(judged.hosts.entry(key).or_default())
        };
        // Twenty connections of one package manager are one question.
        cell.get_or_init(|| self.judge_first(host, port)).await.clone()
    }

    /// Whether a name is worth an address: on one of these ports it is granted, or somebody would be asked.
    pub(crate) fn might_pass(&self, name: &str, ports: &[u16]) -> Result<(), ConnectionRefusedError> {
        let mut refused = Err(ConnectionRefusedError::NoHost(name.to_owned()));
        for port in ports {
            match self.keeper.judge(name, *port) {
                HostDecision::Granted | HostDecision::Ask => return Ok(()),
                HostDecision::Refused(why) => {
                    refused =
                        Err(ConnectionRefusedError::NotGranted { host: name.to_owned(), port: *port, why });
                }
            }
        }
        refused
    }

    async fn judge_first(&self, host: &str, port: u16) -> Result<(), ConnectionRefusedError> {
        let refused = |why| ConnectionRefusedError::NotGranted { host: host.to_owned(), port, why };
        match self.keeper.judge(host, port) {
            HostDecision::Granted => Ok(()),
            HostDecision::Refused(why) => Err(refused(why)),
            HostDecision::Ask => {
                {
                    let mut judged = locked(&self.judged);
                    if judged.questions >= self.bounds.questions_max {
                        let max = self.bounds.questions_max;
                        return Err(ConnectionRefusedError::TooManyQuestions {
                            host: host.to_owned(),
                            port,
                            max,
                        });
                    }
                    judged.questions = judged.questions.saturating_add(1);
                }
                self.keeper.ask(host, port).await.map_err(refused)
            }
        }
    }

    async fn pass(&self, host: &str, port: u16) -> Result<TcpStream, ConnectionError> {
        self.judge(host, port).await?;
        let failed = |why: String| ConnectionError::Failed { host: host.to_owned(), port, why };
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => tokio::time::timeout(self.bounds.connect_timeout, self.resolver.resolve(host))
                .await
                .map_err(|_| failed("its name was not looked up in time".to_owned()))?
                .map_err(|fault| failed(format!("its name cannot be looked up: {fault}")))?,
        };
        let first = found.first().copied().ok_or_else(|| failed("its name has no address".to_owned()))?;
        let checked: Vec<IpAddr> =
            found.into_iter().filter(|address| self.reachable.holds(*address)).take(8).collect();
        if checked.is_empty() {
            return Err(ConnectionRefusedError::NotGlobal { host: host.to_owned(), address: first }.into());
        }
        self.connect(host, port, &checked).await
    }

    async fn connect(&self, host: &str, port: u16, checked: &[IpAddr]) -> Result<TcpStream, ConnectionError> {
        let failed = |fault: io::Error| ConnectionError::Failed {
            host: host.to_owned(),
            port,
            why: fault.to_string(),
        };
        // An address that is silent leaves time for the others.
        let each = self.bounds.connect_timeout / u32::try_from(checked.len()).unwrap_or(1).max(1);
        let mut why = String::new();
        for address in checked {
            let connecting = TcpStream::connect(SocketAddr::new(*address, port));
            let stream = match tokio::time::timeout(each, connecting).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(fault)) => {
                    why = fault.to_string();
                    continue;
                }
                Err(_) => {
                    "it did not answer in time".clone_into(&mut why);
                    continue;
                }
            };
            let local = stream.local_addr().map_err(failed)?.ip();
            // The kernel gives a connection to one of our own addresses that same address at the other end. What listens
            // there may trust us, however public the address is.
            if local == *address && !self.reachable.opened(*address) {
                return Err(
                    ConnectionRefusedError::ThisMachine { host: host.to_owned(), address: *address }.into()
                );
            }
            stream.set_nodelay(true).map_err(failed)?;
            return Ok(stream);
        }
        Err(ConnectionError::Failed { host: host.to_owned(), port, why })
    }
}
