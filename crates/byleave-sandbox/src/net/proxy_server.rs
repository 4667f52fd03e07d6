//! Serves the sockets that were created inside, for the duration of one call.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::decision_log::HostAccessRecord;
use super::proxy;
use super::published_ports::ConnectorSockets;
use super::session_router::{DefaultEgress, SessionRouter};
use super::transparent_proxy::{self, NameAddressMap, WaitingConnections, check_accepted};

/// The sockets that were created inside the sandbox.
#[derive(Debug, Default)]
pub struct ProxySockets {
    /// The listener of the proxy.
    pub proxy: Option<TcpListener>,
    /// The socket for lookups.
    pub lookups: Option<UdpSocket>,
    /// The listeners for connections to the addresses of looked-up names, one for each port.
    pub transparent: Vec<TcpListener>,
    /// The sockets for connections from outside.
    pub connectors: ConnectorSockets,
}

/// A running server of the sockets. Dropping or closing it ends every connection.
#[derive(Debug)]
pub struct ProxyServer {
    doors: Arc<SessionRouter>,
    tasks: JoinSet<()>,
    /// The router logs these connections when an egress is shut.
    waiting: Arc<WaitingConnections>,
    connectors: ConnectorSockets,
}

/// Serves the sockets through this router. Must be called within a tokio runtime.
pub fn serve(
    sockets: ProxySockets,
    names: &Arc<NameAddressMap>,
    doors: Arc<SessionRouter>,
) -> io::Result<ProxyServer> {
    let mut tasks = JoinSet::new();
    let permits = Arc::new(Semaphore::new(doors.bounds().max_connections));
    if let Some(listener) = sockets.proxy {
        let each = {
            let doors = Arc::clone(&doors);
            move |stream| {
                let doors = Arc::clone(&doors);
                async move { proxy::serve(&doors, stream).await }
            }
        };
        tasks.spawn(accept(listening(listener)?, Arc::clone(&permits), Arc::clone(&doors), each));
    }
    let (mut ports, mut waiting) = (Vec::new(), Vec::new());
    for listener in sockets.transparent {
        ports.push(listener.local_addr()?.port());
        waiting.push(listener.try_clone()?);
        let each = {
            let (doors, names) = (Arc::clone(&doors), Arc::clone(names));
            move |stream: TcpStream| {
                // Such a connection cannot present a token. Its call is determined now, not when it is served.
                let (unshown, names) = (doors.egress_without_token(), Arc::clone(&names));
                let check = match (&unshown, stream.local_addr()) {
                    (DefaultEgress::Single(door), Ok(to)) => Some(check_accepted(door, &names, to)),
                    _ => None,
                };
                async move {
                    match (unshown, check) {
                        (DefaultEgress::Single(door), Some(check)) => {
                            door.run_while_open(transparent_proxy::serve(&door, check, stream)).await
                        }
                        (DefaultEgress::Ambiguous(doors), _) => {
                            transparent_proxy::refuse(&doors, &names, stream).await
                        }
                        (DefaultEgress::Single(_) | DefaultEgress::Unavailable, _) => Ok(()),
                    }
                }
            }
        };
        tasks.spawn(accept(listening(listener)?, Arc::clone(&permits), Arc::clone(&doors), each));
    }
    let waiting = Arc::new(WaitingConnections { listeners: waiting, names: Arc::clone(names) });
    doors.set_listeners(&waiting);
    if let Some(socket) = sockets.lookups {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        let (doors, names) = (Arc::clone(&doors), Arc::clone(names));
        tasks.spawn(async move { transparent_proxy::serve_lookups(&doors, &names, &socket, &ports).await });
    }
    Ok(ProxyServer { doors, tasks, waiting, connectors: sockets.connectors })
}

impl ProxyServer {
    /// Takes the sockets for connections from outside.
    pub(crate) fn take_connectors(&mut self) -> ConnectorSockets {
        std::mem::take(&mut self.connectors)
    }

    /// Returns the requests so far without a token, and the results. The others are with their tokens.
    pub fn decisions(&self) -> Vec<HostAccessRecord> {
        self.doors.default_egress().map(|door| door.decisions()).unwrap_or_default()
    }

    /// Ends every connection, and returns the requests without a token and the results.
    pub async fn close(mut self) -> Vec<HostAccessRecord> {
        self.tasks.shutdown().await;
        if let Some(door) = self.doors.default_egress() {
            self.waiting.drain(&door);
        }
        self.decisions()
    }
}

fn listening(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// Accepts connections up to the limit. Others wait in the kernel. The connections end with this future.
async fn accept<F, W>(
    listener: tokio::net::TcpListener,
    permits: Arc<Semaphore>,
    doors: Arc<SessionRouter>,
    each: F,
) where
    F: Fn(TcpStream) -> W,
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let taken = poll_fn(|context| {
            let _turn = doors.lock_accept();
            listener.poll_accept(context).map_ok(|(stream, _)| each(stream))
        });
        match taken.await {
            Ok(work) => {
                open.spawn(async move {
                    // A broken connection has no receiver for an error. The decision is in the log.
                    work.await.ok();
                    drop(permit);
                });
            }
            // Probably no descriptors are left. They become free as connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
