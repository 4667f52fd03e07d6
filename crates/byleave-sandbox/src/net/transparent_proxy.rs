//! The transparent proxy, for programs that do not use a proxy. A lookup maps a name to an address that leads here. The address
//! of a connection then gives the name back.
//!
//! No lookup ever leaves the sandbox, so lookups leak nothing. The addresses are in 198.18.0.0/15, which belongs to no host. That
//! route exists only inside the sandbox.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use byleave_core::host::LOCALHOST;
use parking_lot::Mutex;
use tokio::net::{TcpStream, UdpSocket};

use super::buffered_stream::BufferedStream;
use super::decision_log::HostAccessMethod;
use super::dns::{self, DnsAnswer};
use super::egress::{Egress, InsideService};
use super::host_normalize::{normalize_host, shorten};
use super::refusal::{ConnectionError, ConnectionRefusedError};
use super::session_router::{DefaultEgress, SessionRouter};
use super::{http, proxy, tunnel};

/// The first address that is given out. Earlier ones stay free.
const FIRST: u32 = Ipv4Addr::new(198, 18, 0, 16).to_bits();
/// More connections than the kernel queues at one of our sockets.
const WAITING_MAX: usize = 2048;
/// The maximum number of names that a session can look up.
const NAMES_MAX: usize = 65_536;

/// Maps names to addresses and back. It lives for a whole session, because a program may keep an address longer than a call.
#[derive(Debug, Default)]
pub struct NameAddressMap(Mutex<NameAddressTable>);

#[derive(Debug, Default)]
struct NameAddressTable {
    by_name: HashMap<String, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, String>,
}

impl NameAddressMap {
    /// Returns the address for a name, the same each time. `None` if no address is left.
    pub fn address_for(&self, name: &str) -> Option<Ipv4Addr> {
        let mut table = self.0.lock();
        if let Some(address) = table.by_name.get(name) {
            return Some(*address);
        }
        let taken = table.by_name.len();
        if taken >= NAMES_MAX {
            return None;
        }
        let address = Ipv4Addr::from_bits(FIRST.checked_add(u32::try_from(taken).ok()?)?);
        table.by_name.insert(name.to_owned(), address);
        table.by_address.insert(address, name.to_owned());
        Some(address)
    }

    /// Returns the name for an address.
    pub fn name_for(&self, address: Ipv4Addr) -> Option<String> {
        self.0.lock().by_address.get(&address).cloned()
    }
}

/// The check of a connection when it is accepted.
pub(crate) enum AcceptCheck {
    /// It is refused, and the refusal is in the log.
    Refused(ConnectionRefusedError),
    /// It wants this host, which may be granted.
    Wants(String),
    /// It is for a service of the gate.
    Service(Arc<dyn InsideService>),
}

/// Returns the host that a connection to this address wants. A connection to the loopback wants that of the machine outside.
fn name_of(names: &NameAddressMap, address: IpAddr) -> Option<String> {
    match address {
        IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST) => Some(LOCALHOST.to_owned()),
        IpAddr::V4(address) => names.name_for(address),
        IpAddr::V6(_) => None,
    }
}

/// Checks a connection to an address of this map before anything else happens. A program that connects and ends at once has
/// then left its trace, however late the connection is served.
pub(crate) fn check_accepted(door: &Egress, names: &NameAddressMap, to: SocketAddr) -> AcceptCheck {
    if let Some(service) = door.service_on(to.port()).filter(|_| to.ip().is_loopback()) {
        return AcceptCheck::Service(service);
    }
    let (host, refusal) = match name_of(names, to.ip()) {
        None => (to.ip().to_string(), ConnectionRefusedError::UnknownAddress(to.ip())),
        Some(name) => match door.check_lookup(&name, &[to.port()]) {
            Ok(()) => return AcceptCheck::Wants(name),
            Err(refusal) => (name, refusal),
        },
    };
    door.record_refusal(&host, to.port(), HostAccessMethod::Transparent, &refusal);
    AcceptCheck::Refused(refusal)
}

/// Serves one connection to an address of this map.
pub(crate) async fn serve(door: &Egress, check: AcceptCheck, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let port = stream.local_addr()?.port();
    if let AcceptCheck::Service(service) = check {
        return service.serve(stream).await;
    }
    let client = BufferedStream::tcp(stream);
    let why: ConnectionError = match check {
        AcceptCheck::Service(_) => return Ok(()),
        AcceptCheck::Wants(name) => {
            match proxy::connect_upstream(door, &name, port, HostAccessMethod::Transparent).await {
                Ok(upstream) => return tunnel::run(door, client, upstream).await,
                Err(why) => why,
            }
        }
        AcceptCheck::Refused(refusal) => refusal.into(),
    };
    told(client, port, &why).await
}

/// Connections of programs inside that nobody has accepted yet.
#[derive(Debug)]
pub(crate) struct WaitingConnections {
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) names: Arc<NameAddressMap>,
}

impl WaitingConnections {
    /// Closes the connections that wait now, and logs what they wanted.
    pub(crate) fn drain(&self, door: &Egress) {
        for listener in &self.listeners {
            // As many as can wait, because those of this call are the first.
            for _ in 0..WAITING_MAX {
                let Ok((stream, _)) = listener.accept() else { break };
                if let Ok(to) = stream.local_addr() {
                    check_accepted(door, &self.names, to);
                }
            }
        }
    }
}

/// Refuses a connection that cannot be attributed to one of several calls.
pub(crate) async fn refuse(
    doors: &[Arc<Egress>],
    names: &NameAddressMap,
    stream: TcpStream,
) -> io::Result<()> {
    let local = stream.local_addr()?;
    let host = name_of(names, local.ip()).unwrap_or_else(|| local.ip().to_string());
    let refusal = ConnectionRefusedError::AmbiguousCall(host.clone());
    for door in doors {
        door.record_refusal(&host, local.port(), HostAccessMethod::Transparent, &refusal);
    }
    told(BufferedStream::tcp(stream), local.port(), &refusal.into()).await
}

/// Sends the reason to HTTP clients. For others the connection is just closed.
async fn told(mut client: BufferedStream, port: u16, why: &ConnectionError) -> io::Result<()> {
    if port == 80 {
        client.close_with(&http::ProxyResponse::connection_failed(why).to_bytes()).await
    } else {
        Ok(())
    }
}

/// Answers lookups until it is stopped.
pub(crate) async fn serve_lookups(
    doors: &SessionRouter,
    names: &NameAddressMap,
    socket: &UdpSocket,
    ports: &[u16],
) {
    let mut query = vec![0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut query).await else {
            // An error of an earlier answer appears here. The socket itself still works.
            tokio::task::yield_now().await;
            continue;
        };
        let answer = query
            .get(..length)
            .and_then(|query| dns::answer_query(query, |name| found(doors, names, ports, name)));
        if let Some(answer) = answer {
            // A client that is gone needs no answer.
            socket.send_to(&answer, from).await.ok();
        }
    }
}

fn found(doors: &SessionRouter, names: &NameAddressMap, ports: &[u16], wanted: &str) -> DnsAnswer {
    let open = match doors.egress_without_token() {
        DefaultEgress::Single(door) => vec![door],
        // An address alone lets nothing through.
        DefaultEgress::Ambiguous(open) => open,
        DefaultEgress::Unavailable => return DnsAnswer::Refused,
    };
    let name = match normalize_host(wanted) {
        Ok(name) => name,
        Err(refusal) => {
            open.iter().for_each(|door| {
                door.record_refusal(&shorten(wanted), 0, HostAccessMethod::Lookup, &refusal)
            });
            return DnsAnswer::Refused;
        }
    };
    let judged: Vec<_> = open.iter().map(|door| (door, door.check_lookup(&name, ports))).collect();
    if judged.iter().any(|(_, judged)| judged.is_ok()) {
        return names.address_for(&name).map_or(DnsAnswer::Failed, DnsAnswer::Address);
    }
    let mut answers = false;
    for (door, judged) in judged {
        if let Err(refusal) = judged {
            door.record_refusal(&name, 0, HostAccessMethod::Lookup, &refusal);
            answers |= door.answers_lookups();
        }
    }
    if answers {
        names.address_for(&name).map_or(DnsAnswer::Failed, DnsAnswer::Address)
    } else {
        DnsAnswer::Refused
    }
}
