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

use super::dns::{self, Answer};
use super::doors::{Doors, Unshown};
use super::line::Line;
use super::log::{Way, locked};
use super::policy::Door;
use super::refusal::{Refusal, Unconnected};
use super::spelling::{shortened, spelled};
use super::{http, proxy, tunnel};

/// The first address that is given out; the ones before it stay free.
const FIRST: u32 = Ipv4Addr::new(198, 18, 0, 16).to_bits();
/// How many names a session can look up.
const NAMES_MAX: usize = 65_536;

/// Which address stands for which name. For a whole session: a program may keep an address longer than a call.
#[derive(Debug, Default)]
pub struct Names(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<String, Ipv4Addr>,
    by_address: HashMap<Ipv4Addr, String>,
}

impl Names {
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
pub(crate) async fn serve(door: &Door, names: &Names, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let (address, port) = (local.ip(), local.port());
    let name = match address {
        IpAddr::V4(address) => names.name(address),
        IpAddr::V6(_) => None,
    };
    let client = Line::tcp(stream);
    let why: Unconnected = match name {
        Some(name) => match proxy::enter(door, &name, port, Way::Transparent).await {
            Ok(upstream) => return tunnel::run(door, client, upstream).await,
            Err(why) => why,
        },
        None => {
            let refusal = Refusal::NoName(address);
            door.refused(&address.to_string(), port, Way::Transparent, &refusal);
            refusal.into()
        }
    };
    told(client, port, &why).await
}

/// Refuses a connection that one of several calls made, and nothing says which.
pub(crate) async fn refuse(doors: &[Arc<Door>], names: &Names, stream: TcpStream) -> io::Result<()> {
    let local = stream.local_addr()?;
    let name = match local.ip() {
        IpAddr::V4(address) => names.name(address),
        IpAddr::V6(_) => None,
    };
    let host = name.unwrap_or_else(|| local.ip().to_string());
    let refusal = Refusal::WhoseCall(host.clone());
    for door in doors {
        door.refused(&host, local.port(), Way::Transparent, &refusal);
    }
    told(Line::tcp(stream), local.port(), &refusal.into()).await
}

/// Whoever speaks HTTP can read why; others find the connection closed.
async fn told(mut client: Line, port: u16, why: &Unconnected) -> io::Result<()> {
    if port == 80 { client.close_with(&http::Said::unconnected(why).bytes()).await } else { Ok(()) }
}

/// Answers lookups until it is stopped.
pub(crate) async fn answer(doors: &Doors, names: &Names, socket: &UdpSocket, ports: &[u16]) {
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

fn found(doors: &Doors, names: &Names, ports: &[u16], wanted: &str) -> Answer {
    let open = match doors.unshown() {
        Unshown::Door(door) => vec![door],
        // An address lets nobody through by itself.
        Unshown::Several(open) => open,
        Unshown::Nobody => return Answer::Refused,
    };
    let name = match spelled(wanted) {
        Ok(name) => name,
        Err(refusal) => {
            open.iter().for_each(|door| door.refused(&shortened(wanted), 0, Way::Lookup, &refusal));
            return Answer::Refused;
        }
    };
    let judged: Vec<_> = open.iter().map(|door| (door, door.might_pass(&name, ports))).collect();
    if judged.iter().any(|(_, judged)| judged.is_ok()) {
        return names.address(&name).map_or(Answer::Failed, Answer::Found);
    }
    let mut answers = false;
    for (door, judged) in judged {
        if let Err(refusal) = judged {
            door.refused(&name, 0, Way::Lookup, &refusal);
            answers |= door.answers_lookups();
        }
    }
    if answers { names.address(&name).map_or(Answer::Failed, Answer::Found) } else { Answer::Refused }
}
