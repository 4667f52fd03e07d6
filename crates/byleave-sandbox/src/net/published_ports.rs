//! Ports of a sandbox that are published on the loopback of this machine.
//!
//! A server of a background job listens in the network of its sandbox. Nobody else is in that network, so sockets that were created in
//! it connect to the server from outside. Each can be used again. The published port is bound on the loopback only, never on another
//! address, and no port below 1024 is published.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use byleave_core::host::never_opened;
use byleave_files::local_listener::listening_ports;
use byleave_files::own;
use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The ports that this process has published.
static PUBLISHED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// How long a connection may take to be accepted inside.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks whether this process has published the port of a sandbox under this number.
pub(crate) fn contains(port: u16) -> bool {
    PUBLISHED.lock().contains(&port)
}

/// Sockets that were created inside and are not connected yet.
#[derive(Debug, Default)]
pub struct ConnectorSockets {
    v4: Vec<OwnedFd>,
    v6: Vec<OwnedFd>,
}

impl ConnectorSockets {
    pub(crate) fn add_v4(&mut self, socket: OwnedFd) {
        self.v4.push(socket);
    }

    pub(crate) fn add_v6(&mut self, socket: OwnedFd) {
        self.v6.push(socket);
    }
}

/// Sockets that connect into a sandbox, shared by its published ports.
#[derive(Debug)]
struct ConnectorPool {
    v4: Mutex<Vec<OwnedFd>>,
    v6: Mutex<Vec<OwnedFd>>,
    /// As many connections at a time as there are sockets of a family.
    permits: Semaphore,
}

impl ConnectorPool {
    fn sockets(&self, address: IpAddr) -> &Mutex<Vec<OwnedFd>> {
        if address.is_ipv4() { &self.v4 } else { &self.v6 }
    }

    /// Connects to a port inside, relays until both ends are closed, and takes the socket back.
    async fn relay(&self, mut outside: TcpStream, port: u16) -> io::Result<()> {
        let Ok(_permit) = self.permits.acquire().await else { return Ok(()) };
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let Some(socket) = self.sockets(address).lock().pop() else { continue };
            let lent = LentSocket { pool: self, address, socket: Some(socket) };
            let connecting = tokio::time::timeout(CONNECT_TIMEOUT, lent.connect(port)).await;
            if let Ok(Ok(mut inside)) = connecting {
                outside.set_nodelay(true)?;
                return tokio::io::copy_bidirectional(&mut outside, &mut inside).await.map(drop);
            }
        }
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

/// A socket in use. Dropping it ends its connection and gives it back.
struct LentSocket<'a> {
    pool: &'a ConnectorPool,
    address: IpAddr,
    socket: Option<OwnedFd>,
}

impl LentSocket<'_> {
    async fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let stream = std::net::TcpStream::from(socket.try_clone()?);
        stream.set_nonblocking(true)?;
        match rustix::net::connect(&stream, &SocketAddr::new(self.address, port)) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno.into()),
        }
        let stream = TcpStream::from_std(stream)?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }
}

impl Drop for LentSocket<'_> {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        // Connecting to no address ends the connection, and makes the socket usable again. One that cannot be reset is closed.
        let reset = rustix::net::connect_unspec(&socket);
        if reset.is_ok() {
            self.pool.sockets(self.address).lock().push(socket);
        }
    }
}

/// Publishes ports of one sandbox. Dropping it closes them.
pub struct PortPublisher {
    pool: Arc<ConnectorPool>,
    runtime: Handle,
    /// The directory of the first process inside in `/proc`.
    process: PathBuf,
    /// The ports of the sandbox itself.
    own_ports: BTreeSet<u16>,
    published: Mutex<BTreeMap<u16, PublishedPort>>,
    closed: AtomicBool,
}

/// The reason why a port is not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Nothing publishes this port.
    #[error("nothing can open port {port} of this machine, because {reason}")]
    NeverOpened {
        /// The port.
        port: u16,
        /// The reason.
        reason: &'static str,
    },
    /// The port belongs to the system.
    #[error("port {0} is not published, because only ports from 1024 are")]
    SystemPort(u16),
    /// The port cannot be bound outside.
    #[error(
        "cannot publish port {port}: {error}; stop the program that uses the port on this machine, or serve on another port"
    )]
    Bind {
        /// The port.
        port: u16,
        /// The error.
        error: io::Error,
    },
}

impl PortPublisher {
    pub(crate) fn new(
        sockets: ConnectorSockets,
        runtime: Handle,
        pid: u32,
        own_ports: BTreeSet<u16>,
    ) -> Self {
        let permits = Semaphore::new(sockets.v4.len());
        let pool = ConnectorPool { v4: Mutex::new(sockets.v4), v6: Mutex::new(sockets.v6), permits };
        let process = PathBuf::from(format!("/proc/{pid}"));
        Self {
            pool: Arc::new(pool),
            runtime,
            process,
            own_ports,
            published: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Returns the ports from 1024 on which the command listens now.
    pub fn listening(&self) -> BTreeSet<u16> {
        let tables = ["net/tcp", "net/tcp6"].into_iter();
        let tables = tables.filter_map(|table| own::read_text(self.process.join(table)).ok());
        let ports = tables.flat_map(|table| listening_ports(&table));
        ports.filter(|port| !self.own_ports.contains(port)).collect()
    }

    /// Publishes a port under the same number on the loopback of this machine. A port that is published already stays so.
    pub fn publish(&self, port: u16) -> Result<(), PublishError> {
        let bind = |error| PublishError::Bind { port, error };
        if port < 1024 {
            return Err(PublishError::SystemPort(port));
        }
        if let Some(reason) = never_opened(port) {
            return Err(PublishError::NeverOpened { port, reason });
        }
        let mut published = self.published.lock();
        if self.closed.load(Ordering::Acquire) {
            return Err(bind(io::ErrorKind::NotConnected.into()));
        }
        if published.contains_key(&port) {
            return Ok(());
        }
        let v4 = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(bind)?;
        // A machine without IPv6 has only the other. One whose port is taken there has another server under the same name.
        let v6 = match std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(listener) => Some(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(bind(error)),
            Err(_) => None,
        };
        let mut tasks = JoinSet::new();
        for listener in [Some(v4), v6].into_iter().flatten() {
            listener.set_nonblocking(true).map_err(bind)?;
            let _within = self.runtime.enter();
            let listener = TcpListener::from_std(listener).map_err(bind)?;
            tasks.spawn_on(accept(listener, Arc::clone(&self.pool), port), &self.runtime);
        }
        PUBLISHED.lock().insert(port);
        published.insert(port, PublishedPort { port, _tasks: tasks });
        Ok(())
    }

    /// Closes every published port. None can be published afterwards.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.published.lock().clear();
    }

    /// Closes a published port.
    pub fn withdraw(&self, port: u16) {
        self.published.lock().remove(&port);
    }

    /// Returns the ports that are published now.
    pub fn published(&self) -> BTreeSet<u16> {
        self.published.lock().keys().copied().collect()
    }
}

impl fmt::Debug for PortPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortPublisher").field("process", &self.process).finish_non_exhaustive()
    }
}

/// One published port. Dropping it closes the port and its connections.
#[derive(Debug)]
struct PublishedPort {
    port: u16,
    _tasks: JoinSet<()>,
}

impl Drop for PublishedPort {
    fn drop(&mut self) {
        PUBLISHED.lock().remove(&self.port);
    }
}

/// Accepts connections and relays them into the sandbox. They end with this future.
async fn accept(listener: TcpListener, pool: Arc<ConnectorPool>, port: u16) {
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let pool = Arc::clone(&pool);
                open.spawn(async move {
                    // A broken connection has no receiver for an error.
                    pool.relay(stream, port).await.ok();
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
