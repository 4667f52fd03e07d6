//! Transparent mode: for programs that know no proxy. A lookup gives a name an address that leads here, and the address that
//! a connection was made to gives the name back.
//!
//! No lookup ever leaves: what is asked for tells nobody anything. The addresses are of 198.18.0.0/15, which belongs to no
//! host; that route exists inside the sandbox alone.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpStream, UdpSocket};

use super::buffered_stream::BufferedStream;
use super::decision_log::{HostAccessMethod, locked};
use super::dns::{self, DnsAnswer};
use super::egress::Egress;
use super::host_normalize::{shortened, spelled};
use super::refusal::{ConnectionError, ConnectionRefusedError};
use super::session_router::{DefaultEgress, SessionRouter};
use super::{http, proxy, tunnel};

/// The first address that is given out; the ones before it stay free.
const FIRST: u32 = Ipv4Addr::new(198, 18, 0, 16).to_bits();
/// How many names a session can look up.
const NAMES_MAX: usize = 65_536;

/// Which address stands for which name. For a whole session: a program may keep an address longer than a call.
#[derive(Debug, Default)]
pub struct NameAddressMap(Mutex<NameAddressTable>);

#[derive(Debug, Default)]
struct NameAddressTable {
    by_name: HashMap<String, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, String>,
}

impl NameAddressMap {
    /// The address that stands for a name, the same each time; `None` when there are no more.
    pub fn address(&self, name: &str) -> Option<Ipv4Addr> {
        let mut table = locked(&self.0);
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

    /// The name that an address stands for.
    pub fn name(&self, address: Ipv4Addr) -> Option<String> {
        locked(&self.0).by_address.get(&address).cloned()
    }
}

/// Serves one connection to an address that stands for a name.
pub(crate) async fn serve(door: &Egress, names: &NameAddressMap, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let (address, port) = (local.ip(), local.port());
    let name = match address {
        IpAddr::V4(address) => names.name(address),
        IpAddr::V6(_) => None,
    };
    let client = BufferedStream::tcp(stream);
    let why: ConnectionError = match name {
        Some(name) => match proxy::enter(door, &name, port, HostAccessMethod::Transparent).await {
            Ok(upstream) => return tunnel::run(door, client, upstream).await,
            Err(why) => why,
        },
        None => {
            let refusal = ConnectionRefusedError::NoName(address);
            door.refused(&address.to_string(), port, HostAccessMethod::Transparent, &refusal);
            refusal.into()
        }
    };
    told(client, port, &why).await
}

/// Refuses a connection that one of several calls made, and nothing says which.
pub(crate) async fn refuse(
    doors: &[Arc<Egress>],
    names: &NameAddressMap,
    stream: TcpStream,
) -> io::Result<()> {
    let local = stream.local_addr()?;
    let name = match local.ip() {
        IpAddr::V4(address) => names.name(address),
        IpAddr::V6(_) => None,
    };
    let host = name.unwrap_or_else(|| local.ip().to_string());
    let refusal = ConnectionRefusedError::WhoseCall(host.clone());
    for door in doors {
        door.refused(&host, local.port(), HostAccessMethod::Transparent, &refusal);
    }
    told(BufferedStream::tcp(stream), local.port(), &refusal.into()).await
}

/// Whoever speaks HTTP can read why; others find the connection closed.
async fn told(mut client: BufferedStream, port: u16, why: &ConnectionError) -> io::Result<()> {
    if port == 80 { client.close_with(&http::ProxyResponse::unconnected(why).bytes()).await } else { Ok(()) }
}

/// Answers lookups until it is stopped.
pub(crate) async fn answer(doors: &SessionRouter, names: &NameAddressMap, socket: &UdpSocket, ports: &[u16]) {
    let mut query = vec![0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut query).await else {
            // An error of a former answer shows here; the socket itself goes on.
            tokio::task::yield_now().await;
            continue;
        };
        let answer =
            query.get(..length).and_then(|query| dns::answer(query, |name| found(doors, names, ports, name)));
        if let Some(answer) = answer {
            // Whoever is gone needs no answer.
            socket.send_to(&answer, from).await.ok();
        }
    }
}

fn found(doors: &SessionRouter, names: &NameAddressMap, ports: &[u16], wanted: &str) -> DnsAnswer {
    let open = match doors.unshown() {
        DefaultEgress::Door(door) => vec![door],
        // An address lets nobody through by itself.
        DefaultEgress::Several(open) => open,
        DefaultEgress::Nobody => return DnsAnswer::Refused,
    };
    let name = match spelled(wanted) {
        Ok(name) => name,
        Err(refusal) => {
            open.iter()
                .for_each(|door| door.refused(&shortened(wanted), 0, HostAccessMethod::Lookup, &refusal));
            return DnsAnswer::Refused;
        }
    };
    let judged: Vec<_> = open.iter().map(|door| (door, door.might_pass(&name, ports))).collect();
    if judged.iter().any(|(_, judged)| judged.is_ok()) {
        return names.address(&name).map_or(DnsAnswer::Failed, DnsAnswer::Found);
    }
    let mut answers = false;
    for (door, judged) in judged {
        if let Err(refusal) = judged {
            door.refused(&name, 0, HostAccessMethod::Lookup, &refusal);
            answers |= door.answers_lookups();
        }
    }
    if answers {
        names.address(&name).map_or(DnsAnswer::Failed, DnsAnswer::Found)
    } else {
        DnsAnswer::Refused
    }
}
