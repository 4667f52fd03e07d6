//! An internet on one machine: every name has an address, every address answers, and every connection is noted. The machine must lead
//! every address to itself, as [`crate::machine`] does.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::internet_tls::InternetTls;

/// The ports that answer.
const PORTS: [u16; 16] =
    [21, 22, 25, 53, 80, 443, 1337, 3000, 4444, 5000, 8000, 8080, 8443, 9000, 9418, 9999];

/// The longest time that one client is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes that are kept of one connection.
const SENT_BYTES_MAX: usize = 1 << 20;

/// A connection that arrived.
#[derive(Clone, Debug)]
pub struct SeenConnection {
    /// The name that was looked up for its address, or the address itself.
    pub host: String,
    pub port: u16,
    /// The bytes that were sent. Of TLS, the name that the client asked for and the text inside.
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
    /// Every name that was looked up.
    queries: Arc<Mutex<Vec<String>>>,
    tls: Option<Arc<InternetTls>>,
    serving: Arc<AtomicUsize>,
}

impl FakeInternet {
    /// Starts to listen.
    pub fn start() -> Self {
        Self::started(None)
    }

    /// Starts to listen, also for TLS, with an authority that the programs of this machine trust from now on.
    pub fn start_with_tls() -> Self {
        Self::started(Some(Arc::new(InternetTls::trusted_here())))
    }

    fn started(tls: Option<Arc<InternetTls>>) -> Self {
        let internet = Self { tls, ..Self::default() };
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
                    own.serving.fetch_add(1, Ordering::SeqCst);
                    std::thread::spawn(move || {
                        own.serve(stream, at);
                        own.serving.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            });
        }
        internet
    }

    /// Serves this content at an address such as `pypi.org/simple/six/`, by HTTP. Every other address is then not found.
    pub fn serve_page(&self, address: &str, content: impl Into<Vec<u8>>) {
        self.pages.lock().unwrap().insert(address.to_owned(), content.into());
    }

    /// Takes the connections that arrived since the last time.
    pub fn take_seen(&self) -> Vec<SeenConnection> {
        let own = self.probe();
        self.take_others(&own)
    }

    /// Takes the connections that arrived since the last time, after all that they sent was read.
    pub fn take_delivered(&self) -> Vec<SeenConnection> {
        let own = self.probe();
        let began = Instant::now();
        // Each of them ends with its own patience at the latest.
        while self.serving.load(Ordering::SeqCst) > 0 && began.elapsed() < 3 * PATIENCE {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        self.take_others(&own)
    }

    /// Waits for every connection that arrived. A listener takes connections in their order, so each gets one from here and is waited for.
    fn probe(&self) -> Vec<(u16, u16)> {
        let streams: Vec<TcpStream> =
            PORTS.iter().map(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).unwrap()).collect();
        // Two of them may have the same port of their own, because they lead to different ones.
        let own = streams.iter().map(|stream| stream.local_addr().unwrap().port());
        let own: Vec<(u16, u16)> = PORTS.into_iter().zip(own).collect();
        let is_noted =
            |probe: &(u16, u16)| self.seen.lock().unwrap().iter().any(|one| (one.port, one.from) == *probe);
        while !own.iter().all(is_noted) {
            std::thread::yield_now();
        }
        own
    }

    fn take_others(&self, own: &[(u16, u16)]) -> Vec<SeenConnection> {
        let all = std::mem::take(&mut *self.seen.lock().unwrap());
        all.into_iter().filter(|one| !own.contains(&(one.port, one.from))).collect()
    }

    /// Takes the names that were looked up since the last time.
    pub fn take_queries(&self) -> Vec<String> {
        std::mem::take(&mut self.queries.lock().unwrap())
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

    fn serve(&self, stream: TcpStream, at: (u16, u16)) {
        // Keeps a broken client from holding the thread.
        drop(stream.set_read_timeout(Some(PATIENCE)));
        let mut first = [0];
        let is_tls = matches!(stream.peek(&mut first), Ok(1)) && first == [22];
        match self.tls.as_ref().filter(|_| is_tls) {
            Some(tls) => {
                let Some((name, inside)) = tls.accept(stream) else { return };
                self.converse(inside, at, format!("{name}\n").as_bytes());
            }
            None => self.converse(stream, at, &[]),
        }
    }

    /// Reads a request, answers it, and reads what is sent behind it.
    fn converse(&self, mut stream: impl Read + Write, at: (u16, u16), before: &[u8]) {
        let mut sent = Vec::new();
        let mut is_awaited = true;
        while sent.len() < SENT_BYTES_MAX && !is_whole_request(&sent) {
            if is_awaited && expects_continue(&sent) {
                is_awaited = false;
                drop(stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n"));
            }
            let mut part = vec![0; 65_536];
            let Ok(length @ 1..) = stream.read(&mut part) else { break };
            sent.extend(&part[..length]);
            self.keep(at, &[before, &sent].concat());
        }
        self.keep(at, &[before, &sent].concat());
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
        drop(stream.flush());
    }

    fn keep(&self, (port, from): (u16, u16), sent: &[u8]) {
        let mut seen = self.seen.lock().unwrap();
        if let Some(one) = seen.iter_mut().find(|one| (one.port, one.from) == (port, from)) {
            sent.clone_into(&mut one.sent);
        }
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
        self.queries.lock().unwrap().push(name.clone());
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

/// Checks whether nothing more of a request can follow. What is not HTTP is whole at once.
fn is_whole_request(sent: &[u8]) -> bool {
    if sent.is_empty() {
        return false;
    }
    let text = String::from_utf8_lossy(sent);
    let first = text.lines().next().unwrap_or_default();
    if text.contains('\n') && !first.contains(" HTTP/1") {
        return true;
    }
    let Some(end) = sent.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&sent[..end]).to_lowercase();
    let body = &sent[end + 4..];
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
    if header("transfer-encoding:").is_some() {
        return body.ends_with(b"0\r\n\r\n");
    }
    let length = header("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
    body.len() >= length
}

fn expects_continue(sent: &[u8]) -> bool {
    String::from_utf8_lossy(sent).to_lowercase().contains("expect: 100-continue")
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
