//! An internet on one machine: every name has an address, every address answers, and every connection is noted. The machine must lead
//! every address to itself, as [`crate::machine`] does.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The ports that answer.
const PORTS: [u16; 16] =
    [21, 22, 25, 53, 80, 443, 1337, 3000, 4444, 5000, 8000, 8080, 8443, 9000, 9418, 9999];

/// A connection that arrived.
#[derive(Clone, Debug)]
pub struct SeenConnection {
    /// The name that was looked up for its address, or the address itself.
    pub host: String,
    pub port: u16,
    /// The first bytes that were sent.
    pub sent: Vec<u8>,
    /// The port that it came from.
    from: u16,
}

/// The listeners of a machine. They last as long as its process.
#[derive(Clone, Default)]
pub struct FakeInternet {
    names: Arc<Mutex<BTreeMap<String, Ipv4Addr>>>,
    seen: Arc<Mutex<Vec<SeenConnection>>>,
    pages: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl FakeInternet {
    /// Starts to listen.
    pub fn start() -> Self {
        let internet = Self::default();
        for server in name_servers() {
            let socket = UdpSocket::bind((server, 53)).unwrap();
            let own = internet.clone();
            std::thread::spawn(move || own.answer_names(&socket));
        }
        for port in PORTS {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
            let own = internet.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    // Noted in the order in which they arrive.
                    let Some(at) = own.note(&stream) else { continue };
                    let own = own.clone();
                    std::thread::spawn(move || own.serve(stream, at));
                }
            });
        }
        internet
    }

    /// Serves this content at an address such as `pypi.org/simple/six/`, by HTTP. Every other address is then not found.
    pub fn serve_page(&self, address: &str, content: impl Into<Vec<u8>>) {
        self.pages.lock().unwrap().insert(address.to_owned(), content.into());
    }

    /// Takes the connections that arrived since the last time. A listener takes connections in their order, so each gets one from here and
    /// is waited for.
    pub fn take_seen(&self) -> Vec<SeenConnection> {
        let streams: Vec<TcpStream> =
            PORTS.iter().map(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).unwrap()).collect();
        // Two of them may have the same port of their own, because they lead to different ones.
        let own = streams.iter().map(|stream| stream.local_addr().unwrap().port());
        let own: Vec<(u16, u16)> = PORTS.into_iter().zip(own).collect();
        loop {
            let mut seen = self.seen.lock().unwrap();
            if own.iter().all(|probe| seen.iter().any(|one| (one.port, one.from) == *probe)) {
                let all = std::mem::take(&mut *seen);
                return all.into_iter().filter(|one| !own.contains(&(one.port, one.from))).collect();
            }
            drop(seen);
            std::thread::yield_now();
        }
    }

    fn note(&self, stream: &TcpStream) -> Option<(u16, u16)> {
        let (SocketAddr::V4(reached), from) = (stream.local_addr().ok()?, stream.peer_addr().ok()?.port())
        else {
            return None;
        };
        let names = self.names.lock().unwrap();
        let name = names.iter().find(|(_, address)| *address == reached.ip()).map(|(name, _)| name.clone());
        drop(names);
        let host = name.unwrap_or_else(|| reached.ip().to_string());
        let one = SeenConnection { host, port: reached.port(), sent: Vec::new(), from };
        self.seen.lock().unwrap().push(one);
        Some((reached.port(), from))
    }

    fn serve(&self, mut stream: TcpStream, (port, from): (u16, u16)) {
        // Keeps a broken client from holding the thread.
        drop(stream.set_read_timeout(Some(Duration::from_secs(5))));
        let mut sent = vec![0; 65_536];
        let length = stream.read(&mut sent).unwrap_or(0);
        sent.truncate(length);
        if let Some(one) =
            self.seen.lock().unwrap().iter_mut().find(|one| (one.port, one.from) == (port, from))
        {
            one.sent.clone_from(&sent);
        }
        let requested = String::from_utf8_lossy(&sent).into_owned();
        let pages = self.pages.lock().unwrap();
        let page = address_of_request(&requested)
            .and_then(|address| Some((address.clone(), pages.get(&address)?.clone())));
        let is_empty = pages.is_empty();
        drop(pages);
        let (status, kind, content) = match page {
            Some((address, content)) => ("200 OK", content_type(&address), content),
            None if is_empty => ("200 OK", "text/plain", b"ok".to_vec()),
            None => ("404 Not Found", "application/json", b"{}".to_vec()),
        };
        let length = content.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        // The client may have gone.
        drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&content)));
    }

    /// Answers each question for an IPv4 address with an address of its own for that name.
    fn answer_names(&self, socket: &UdpSocket) {
        let mut packet = [0_u8; 1_500];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            if let Some(answer) = self.answer(&packet[..length]) {
                drop(socket.send_to(&answer, from));
            }
        }
    }

    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let (mut at, mut labels) = (12, Vec::new());
        loop {
            let length = usize::from(*question.get(at)?);
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(question.get(at + 1..at + 1 + length)?).to_lowercase());
            at += 1 + length;
        }
        let name = labels.join(".");
        let asked_for = u16::from_be_bytes([*question.get(at + 1)?, *question.get(at + 2)?]);
        let mut answer = question.get(..at + 5)?.to_vec();
        let is_address = asked_for == 1;
        answer.splice(2..12, [0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
        if is_address {
            let address = self.address_of(&name);
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            answer.extend(address.octets());
        }
        Some(answer)
    }

    fn address_of(&self, name: &str) -> Ipv4Addr {
        let mut names = self.names.lock().unwrap();
        let [high, low] = u16::try_from(names.len()).unwrap().to_be_bytes();
        *names.entry(name.to_owned()).or_insert_with(|| Ipv4Addr::new(93, 184, high, low))
    }
}

/// Returns host and path of an HTTP request.
fn address_of_request(request: &str) -> Option<String> {
    let path = request.split(' ').nth(1)?;
    // A proxy gets the whole address.
    if let Some(address) = path.strip_prefix("http://") {
        return Some(address.to_owned());
    }
    let host =
        request.lines().find_map(|line| line.to_lowercase().strip_prefix("host: ").map(str::to_owned))?;
    let host = host.trim().trim_end_matches(":80");
    Some(format!("{host}{path}"))
}

fn content_type(address: &str) -> &'static str {
    match () {
        () if address.ends_with('/') => "text/html",
        () if address.ends_with(".tgz") || address.ends_with(".whl") => "application/octet-stream",
        () => "application/json",
    }
}

/// The name servers of the machine.
fn name_servers() -> Vec<Ipv4Addr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let mut servers: Vec<Ipv4Addr> =
        text.lines().filter_map(|line| line.strip_prefix("nameserver ")?.trim().parse().ok()).collect();
    servers.sort_unstable();
    servers.dedup();
    if servers.is_empty() { vec![Ipv4Addr::LOCALHOST] } else { servers }
}
