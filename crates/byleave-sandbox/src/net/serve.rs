//! Serving: the sockets that were made inside, for the length of one call.

use std::future::Future;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::doors::Doors;
use super::log::Decision;
use super::proxy;
use super::transparent::{self, Names};

/// The sockets that were made inside the sandbox.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Where the proxy listens.
    pub proxy: Option<TcpListener>,
    /// Where names are looked up.
    pub lookups: Option<UdpSocket>,
    /// Where connections to the addresses of looked-up names arrive, one listener for each port.
    pub transparent: Vec<TcpListener>,
}

/// The sockets being served. Dropped or closed, every connection is ended.
#[derive(Debug)]
pub struct Serving {
    doors: Arc<Doors>,
    tasks: JoinSet<()>,
}

/// Serves the sockets through these doors. Must be called within a tokio runtime.
pub fn serve(sockets: Sockets, names: &Arc<Names>, doors: Arc<Doors>) -> io::Result<Serving> {
    let mut tasks = JoinSet::new();
    let permits = Arc::new(Semaphore::new(doors.bounds().connections_max));
    if let Some(listener) = sockets.proxy {
        let doors = Arc::clone(&doors);
        let each = move |stream| {
            let doors = Arc::clone(&doors);
            async move { proxy::serve(&doors, stream).await }
        };
        tasks.spawn(accept(listening(listener)?, Arc::clone(&permits), each));
    }
    let mut ports = Vec::new();
    for listener in sockets.transparent {
        let port = listener.local_addr()?.port();
        ports.push(port);
        let (doors, names) = (Arc::clone(&doors), Arc::clone(names));
        let each = move |stream| {
            let (door, names) = (doors.otherwise(), Arc::clone(&names));
            async move {
                // Nobody can show a pass here.
                let Some(door) = door else { return Ok(()) };
                door.while_open(transparent::serve(&door, &names, stream)).await
            }
        };
        tasks.spawn(accept(listening(listener)?, Arc::clone(&permits), each));
    }
    if let Some(socket) = sockets.lookups {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        let (door, names) = (doors.otherwise(), Arc::clone(names));
        tasks.spawn(async move { transparent::answer(door.as_deref(), &names, &socket, &ports).await });
    }
    Ok(Serving { doors, tasks })
}

impl Serving {
    /// What was wanted so far without a pass, and what was given; the rest is with the passes.
    pub fn decisions(&self) -> Vec<Decision> {
        self.doors.otherwise().map(|door| door.decisions()).unwrap_or_default()
    }

    /// Ends every connection, and says what was wanted without a pass and what was given.
    pub async fn close(mut self) -> Vec<Decision> {
        self.tasks.shutdown().await;
        self.decisions()
    }
}

fn listening(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// Accepts as many connections as may be open at a time; the others wait in the kernel. The connections end with this.
async fn accept<F, W>(listener: tokio::net::TcpListener, permits: Arc<Semaphore>, each: F)
where
    F: Fn(TcpStream) -> W,
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let work = each(stream);
                open.spawn(async move {
                    // A line that breaks has nobody left to be told; what was decided stands in the log.
                    work.await.ok();
                    drop(permit);
                });
            }
            // Out of descriptors, most likely: they come back as connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
