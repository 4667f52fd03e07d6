//! Decides about every connection that leaves the sandbox, however it was requested.
//!
//! A host is checked by its name. A granted name is resolved once, the addresses are checked against the address policy, and the
//! connection goes to a checked address. A failed check refuses. An egress belongs to one call: what a person grants in it ends
//! with it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fmt, io};

use byleave_core::host::is_localhost;
use byleave_files::local_listener::LocalListeners;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, watch};

use super::address::{self, AddressPolicy};
use super::credential::{Credential, CredentialError, CredentialTransport};
use super::decision_log::{HostAccessMethod, HostAccessRecord, NetworkLog, NetworkLogEntry};
use super::host_normalize::{normalize_host, shorten};
use super::published_ports;
use super::read_only::ReadRequestBytes;
use super::refusal::{ConnectionError, ConnectionRefusedError};
use super::tls_intercept::TlsInterceptor;

/// The decision about a host, before anybody is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostDecision {
    /// It may be reached.
    Granted,
    /// It may not be reached, with the reason.
    Refused(String),
    /// A person decides.
    Ask,
}

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A policy for reachable hosts. Hosts are normalized: lower case, punycode, no trailing dot.
pub trait HostPolicy: Send + Sync {
    /// Decides about a host by its name or, if the command requested an address, by that address. It has no side effects. An
    /// address outside the public internet must also be opened in [`AddressPolicy`].
    fn decide(&self, host: &str, port: u16) -> HostDecision;

    /// Decides whether content may be sent to a host that may be reached. `Err` has the reason why the host may only be read.
    fn decide_send(&self, host: &str, port: u16) -> Result<(), String>;

    /// Decides whether a granted port of this machine may be connected to while these programs listen there.
    fn decide_local(&self, _port: u16, _listeners: &LocalListeners) -> Result<(), String> {
        Err("ports of this machine are not open".to_owned())
    }

    /// Returns whether another process of Byleave has published this port for one of its jobs.
    fn is_job_port(&self, _port: u16) -> bool {
        false
    }

    /// Returns whether a granted host may lead to a private address.
    fn opens_private(&self, _host: &str, _port: u16) -> bool {
        false
    }

    /// Asks a person about this host, for this call. `Err` has the reason for a refusal. It is called once per call for each host
    /// and port.
    fn ask_user<'a>(&'a self, _host: &'a str, _port: u16) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("there is nobody to ask".to_owned()) })
    }
}

/// Resolves names.
pub trait Resolver: Send + Sync {
    /// Returns the addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// A service of the gate on a port of the loopback inside. It is no way out by itself: the gate answers each connection.
pub trait InsideService: Send + Sync {
    /// Returns the port.
    fn port(&self) -> u16;

    /// Serves one connection of a program inside.
    fn serve(&self, stream: TcpStream) -> BoxFuture<'_, io::Result<()>>;
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

/// The network limits of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Concurrent connections. Further ones wait, or are closed if other calls would have to wait with them. Each takes two
    /// descriptors of the supervisor.
    pub max_connections: usize,
    /// The maximum size of an HTTP head or a ClientHello, in bytes.
    pub max_head_bytes: usize,
    /// The maximum time for a head to arrive.
    pub head_timeout: Duration,
    /// The maximum time without traffic.
    pub idle_timeout: Duration,
    /// The maximum time for resolving and connecting.
    pub connect_timeout: Duration,
    /// The maximum number of different hosts per call.
    pub max_hosts: usize,
    /// The maximum number of questions per call.
    pub max_questions: usize,
    /// The maximum number of log entries.
    pub max_decisions: usize,
    /// The maximum number of bytes in the requests to hosts that may only be read.
    pub max_read_request_bytes: u64,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            max_connections: 128,
            max_head_bytes: 64 << 10,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(10),
            max_hosts: 4096,
            max_questions: 8,
            max_decisions: 1024,
            max_read_request_bytes: 4 << 20,
        }
    }
}

/// The only way out for one call.
pub struct Egress {
    keeper: Arc<dyn HostPolicy>,
    resolver: Arc<dyn Resolver>,
    reachable: AddressPolicy,
    opens_local: bool,
    bounds: NetworkLimits,
    credentials: Vec<Credential>,
    interception: Option<Arc<TlsInterceptor>>,
    answers_lookups: bool,
    service: Option<Arc<dyn InsideService>>,
    log: NetworkLog,
    judged: Mutex<HostDecisionCache>,
    shut: watch::Sender<bool>,
    open: AtomicUsize,
    read_requests: ReadRequestBytes,
    /// Every connection holds a clone of the sender. When none is left, the receiver is notified.
    held: Mutex<Option<mpsc::Sender<Infallible>>>,
    let_go: Mutex<mpsc::Receiver<Infallible>>,
}

/// A decision that is made once, even if several connections wait for it.
type HostDecisionCell = OnceCell<Result<(), ConnectionRefusedError>>;

#[derive(Default)]
struct HostDecisionCache {
    hosts: HashMap<(String, u16), Arc<HostDecisionCell>>,
    questions: usize,
}

/// Counts one item while it lives.
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

/// Refuses every host.
struct DenyAllHosts;

impl HostPolicy for DenyAllHosts {
    fn decide(&self, _host: &str, _port: u16) -> HostDecision {
        HostDecision::Refused("a command on a copy cannot send anything to the network".to_owned())
    }

    fn decide_send(&self, _host: &str, _port: u16) -> Result<(), String> {
        Err("a command on a copy cannot send anything to the network".to_owned())
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

/// A connection that was granted, made and logged.
pub(crate) struct GrantedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) entry: Arc<NetworkLogEntry>,
}

impl Egress {
    /// Creates an egress with this policy. Names are resolved by this machine, and only the public internet is reachable.
    pub fn new(keeper: Arc<dyn HostPolicy>) -> Self {
        let bounds = NetworkLimits::default();
        let (held, let_go) = mpsc::channel();
        Self {
            held: Mutex::new(Some(held)),
            let_go: Mutex::new(let_go),
            keeper,
            resolver: Arc::new(SystemResolver),
            reachable: AddressPolicy::global(),
            opens_local: true,
            log: NetworkLog::new(bounds.max_decisions),
            bounds,
            credentials: Vec::new(),
            interception: None,
            answers_lookups: false,
            service: None,
            judged: Mutex::default(),
            shut: watch::Sender::new(false),
            open: AtomicUsize::new(0),
            read_requests: ReadRequestBytes::default(),
        }
    }

    /// Creates an egress that lets nothing out and logs what was requested, for a command on a copy. A lookup still gives an
    /// address, which leads nowhere, so that the requested port becomes known.
    pub fn deny_all() -> Self {
        Self { answers_lookups: true, ..Self::new(Arc::new(DenyAllHosts)) }
    }

    /// Sets the resolver.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Sets the reachable addresses.
    #[must_use]
    pub fn with_address_policy(mut self, reachable: AddressPolicy) -> Self {
        self.reachable = reachable;
        self
    }

    /// Keeps this machine closed, whatever is granted: an address that a page or a model names can be a service of the person.
    #[must_use]
    pub fn without_local_ports(mut self) -> Self {
        self.opens_local = false;
        self
    }

    /// Sets a service of the gate. The port must be among those of the confinement.
    #[must_use]
    pub fn with_service(mut self, service: Arc<dyn InsideService>) -> Self {
        self.service = Some(service);
        self
    }

    /// Returns the service of the gate on this port of the loopback inside.
    pub(crate) fn service_on(&self, port: u16) -> Option<Arc<dyn InsideService>> {
        self.service.clone().filter(|service| service.port() == port)
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, bounds: NetworkLimits) -> Self {
        self.log = NetworkLog::new(bounds.max_decisions);
        self.bounds = bounds;
        self
    }

    /// Sets credentials that are added to requests to their hosts. Credentials for TLS need an interceptor.
    pub fn with_credentials(
        mut self,
        credentials: Vec<Credential>,
        interception: Option<Arc<TlsInterceptor>>,
    ) -> Result<Self, CredentialError> {
        if let (Some(first), None) =
            (credentials.iter().find(|one| one.over() == CredentialTransport::Tls), &interception)
        {
            return Err(CredentialError::NoInterceptor(first.host().to_owned()));
        }
        self.credentials = credentials;
        self.interception = interception;
        Ok(self)
    }

    /// Sets the interceptor for hosts that may only be read, unless there is one already.
    pub(crate) fn with_interceptor(mut self, interception: Option<&Arc<TlsInterceptor>>) -> Self {
        self.interception = self.interception.or_else(|| interception.cloned());
        self
    }

    /// Returns the requested hosts so far and the results.
    pub fn decisions(&self) -> Vec<HostAccessRecord> {
        self.log.decisions()
    }

    /// Returns how many log entries did not fit.
    pub fn omitted_decisions(&self) -> u64 {
        self.log.left_out()
    }

    /// Refuses new connections and ends open ones.
    pub(crate) fn shut(&self) {
        self.shut.send_replace(true);
    }

    /// Waits a short time until open connections have ended after the shutdown. Must not be called on the runtime that serves
    /// them.
    pub(crate) fn wait_until_idle(&self, patience: Duration) {
        drop(self.held.lock().take());
        // Either all connections have ended, or the serving runtime does not run, and then nothing gets through either.
        self.let_go.lock().recv_timeout(patience).map(|never| match never {}).ok();
    }

    /// Runs this future while the egress is open, unless too many are running.
    pub(crate) async fn run_while_open(&self, work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
        let _held = self.held.lock().clone();
        let _one = CountGuard::among(&self.open);
        if self.open.load(Ordering::Relaxed) > self.bounds.max_connections {
            return Err(io::Error::other("the call has too many connections"));
        }
        let mut shut = self.shut.subscribe();
        tokio::select! {
            biased;
            // The egress itself holds the sender, so it still exists.
            _ = shut.wait_for(|shut| *shut) => Ok(()),
            done = work => done,
        }
    }

    pub(crate) fn bounds(&self) -> &NetworkLimits {
        &self.bounds
    }

    /// Returns why a host may only be read, if it may not be sent to.
    pub(crate) fn read_only_reason(&self, host: &str, port: u16) -> Option<String> {
        self.keeper.decide_send(host, port).err()
    }

    /// Counts the bytes of a request to a host that may only be read. Returns whether the call stays within its limit.
    pub(crate) fn count_read_request(&self, bytes: usize) -> bool {
        self.read_requests.count(bytes, self.bounds.max_read_request_bytes)
    }

    pub(crate) fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    pub(crate) fn interception(&self) -> Option<&Arc<TlsInterceptor>> {
        self.interception.as_ref()
    }

    /// Returns whether a refused name still gets an address, which leads here.
    pub(crate) const fn answers_lookups(&self) -> bool {
        self.answers_lookups
    }

    /// Logs a refusal that has no connection.
    pub(crate) fn record_refusal(
        &self,
        host: &str,
        port: u16,
        way: HostAccessMethod,
        refusal: &ConnectionRefusedError,
    ) {
        self.log.record_refused(host, port, way, &refusal.to_string());
    }

    /// Connects to a host for a tool that talks to it directly. It connects only to a checked address.
    pub async fn connect_host(&self, host: &str, port: u16) -> Result<TcpStream, ConnectionError> {
        self.connect_recorded(host, port, HostAccessMethod::Tool).await.map(|passage| passage.stream)
    }

    /// Checks, asks, resolves, checks the addresses, connects, and logs the result.
    pub(crate) async fn connect_recorded(
        &self,
        host: &str,
        port: u16,
        way: HostAccessMethod,
    ) -> Result<GrantedConnection, ConnectionError> {
        let host = normalize_host(host)
            .inspect_err(|refusal| self.record_refusal(&shorten(host), port, way, refusal))?;
        let entered = self.pass(&host, port).await;
        match entered {
            Ok(stream) => Ok(GrantedConnection { stream, entry: self.log.record_allowed(&host, port, way) }),
            Err(ConnectionError::Refused(refusal)) => {
                self.record_refusal(&host, port, way, &refusal);
                Err(refusal.into())
            }
            Err(failed @ ConnectionError::Failed { .. }) => {
                self.log.record_allowed(&host, port, way).add_reason(&failed.to_string());
                Err(failed)
            }
        }
    }

    /// Checks a host again for the next request on an open connection.
    pub(crate) async fn recheck_host(&self, host: &str, port: u16) -> Result<(), ConnectionRefusedError> {
        let cell = {
            let mut judged = self.judged.lock();
            let key = (host.to_owned(), port);
            if !judged.hosts.contains_key(&key) && judged.hosts.len() >= self.bounds.max_hosts {
                return Err(ConnectionRefusedError::TooManyHosts(self.bounds.max_hosts));
            }
            Arc::clone(judged.hosts.entry(key).or_default())
        };
        // Twenty connections of one package manager are one question.
        cell.get_or_init(|| self.judge_first(host, port)).await.clone()
    }

    /// Checks whether a name should get an address: on one of these ports it is granted, or a person would be asked.
    pub(crate) fn check_lookup(&self, name: &str, ports: &[u16]) -> Result<(), ConnectionRefusedError> {
        let mut refused = Err(ConnectionRefusedError::InvalidHost(name.to_owned()));
        for port in ports {
            match self.keeper.decide(name, *port) {
                HostDecision::Granted | HostDecision::Ask => return Ok(()),
                HostDecision::Refused(why) => {
                    refused = Err(ConnectionRefusedError::NotGranted {
                        host: name.to_owned(),
                        port: *port,
                        reason: why,
                    });
                }
            }
        }
        refused
    }

    async fn judge_first(&self, host: &str, port: u16) -> Result<(), ConnectionRefusedError> {
        let refused = |why| ConnectionRefusedError::NotGranted { host: host.to_owned(), port, reason: why };
        match self.keeper.decide(host, port) {
            HostDecision::Granted => Ok(()),
            HostDecision::Refused(why) => Err(refused(why)),
            HostDecision::Ask => {
                {
                    let mut judged = self.judged.lock();
                    if judged.questions >= self.bounds.max_questions {
                        let max = self.bounds.max_questions;
                        return Err(ConnectionRefusedError::TooManyQuestions {
                            host: host.to_owned(),
                            port,
                            max,
                        });
                    }
                    judged.questions = judged.questions.saturating_add(1);
                }
                self.keeper.ask_user(host, port).await.map_err(refused)
            }
        }
    }

    async fn pass(&self, host: &str, port: u16) -> Result<TcpStream, ConnectionError> {
        self.recheck_host(host, port).await?;
        if self.opens_local && is_localhost(host) {
            return self.connect_local(host, port).await;
        }
        let failed = |why: String| ConnectionError::Failed { host: host.to_owned(), port, reason: why };
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => tokio::time::timeout(self.bounds.connect_timeout, self.resolver.resolve(host))
                .await
                .map_err(|_| failed("the DNS lookup timed out".to_owned()))?
                .map_err(|fault| failed(format!("the DNS lookup failed: {fault}")))?,
        };
        let first = found.first().copied().ok_or_else(|| failed("the name has no address".to_owned()))?;
        let opens_private = self.keeper.opens_private(host, port);
        let may_lead_to = |address: &IpAddr| {
            self.reachable.holds(*address) || opens_private && address::is_private(*address)
        };
        let checked: Vec<IpAddr> = found.into_iter().filter(may_lead_to).take(8).collect();
        if checked.is_empty() {
            let host = host.to_owned();
            return Err(match first {
                first if address::is_private(first) => {
                    ConnectionRefusedError::Private { host, port, address: first }
                }
                first => ConnectionRefusedError::NotGlobal { host, address: first },
            }
            .into());
        }
        self.connect(host, port, &checked).await
    }

    /// Connects to a granted port of this machine, if the program that listens there is one that may be connected to.
    async fn connect_local(&self, host: &str, port: u16) -> Result<TcpStream, ConnectionError> {
        let failed = |reason: String| ConnectionError::Failed { host: host.to_owned(), port, reason };
        let refused = |reason| ConnectionRefusedError::NotGranted { host: host.to_owned(), port, reason };
        let connecting = async {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                Err(fault) if fault.kind() == io::ErrorKind::ConnectionRefused => {
                    TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await
                }
                connected => connected,
            }
        };
        let stream = tokio::time::timeout(self.bounds.connect_timeout, connecting)
            .await
            .map_err(|_| failed("nothing answered in time".to_owned()))?
            .map_err(|fault| failed(fault.to_string()))?;
        // After the connection, so that no other program can take the port in between.
        let found = tokio::task::spawn_blocking(move || LocalListeners::find(port))
            .await
            .map_err(|_| failed("cannot see which program listens there".to_owned()))?
            .map_err(|fault| failed(format!("cannot see which program listens there: {fault}")))?;
        let is_of_job = published_ports::contains(port) || self.keeper.is_job_port(port);
        if let Some(why) = found.never_opened().filter(|_| !is_of_job) {
            return Err(refused(format!("nothing can open this port to a command, because {why}")).into());
        }
        self.keeper.decide_local(port, &found).map_err(refused)?;
        stream.set_nodelay(true).map_err(|fault| failed(fault.to_string()))?;
        Ok(stream)
    }

    async fn connect(&self, host: &str, port: u16, checked: &[IpAddr]) -> Result<TcpStream, ConnectionError> {
        let failed = |fault: io::Error| ConnectionError::Failed {
            host: host.to_owned(),
            port,
            reason: fault.to_string(),
        };
        // A silent address leaves time for the others.
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
                    "the host did not answer in time".clone_into(&mut why);
                    continue;
                }
            };
            let local = stream.local_addr().map_err(failed)?.ip();
            // If the target is one of our own addresses, the kernel uses the same address for our end. A service there may trust
            // us, even if the address is public.
            if local == *address && !self.reachable.opened(*address) {
                return Err(
                    ConnectionRefusedError::ThisMachine { host: host.to_owned(), address: *address }.into()
                );
            }
            stream.set_nodelay(true).map_err(failed)?;
            return Ok(stream);
        }
        Err(ConnectionError::Failed { host: host.to_owned(), port, reason: why })
    }
}
