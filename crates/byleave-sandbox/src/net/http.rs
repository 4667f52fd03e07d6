//! Serves plain HTTP requests. Each one is parsed, checked against the grant, and serialized again.
//!
//! This holds for every request on a kept connection. A request never goes to a host that it does not name. The proxy sends only
//! what it parsed, never the original bytes.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;

use super::buffered_stream::{
    BufferedStream, ChunkFraming, ReadHeadError, StreamReader, StreamWriter, malformed_error,
    with_idle_timeout,
};
use super::credential::{Credential, CredentialTransport};
use super::credential_mask::MaskingReader;
use super::decision_log::{HostAccessMethod, NetworkLogEntry};
use super::egress::{Egress, NetworkLimits};
use super::host_normalize::{normalize_host, shorten};
use super::http_head::{BodyFraming, Header, HttpVersion, RequestHead, ResponseHead};
use super::read_only::{self, ReadRequestError};
use super::refusal::{ConnectionError, ConnectionRefusedError};

/// A granted host and the connection to it.
pub(crate) struct UpstreamConnection {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) transport: CredentialTransport,
    pub(crate) stream: BufferedStream,
    pub(crate) entry: Arc<NetworkLogEntry>,
}

impl UpstreamConnection {
    /// Returns the credentials that are added to requests to it.
    fn added<'a>(&self, door: &'a Egress) -> Vec<&'a Credential> {
        door.credentials().iter().filter(|one| one.matches(&self.host, self.port, self.transport)).collect()
    }

    /// Masks the added credentials in replies.
    fn masked(mut self, door: &Egress) -> Self {
        let added = self.added(door);
        if !added.is_empty() {
            let masked = MaskingReader::new(self.stream.reader, added.iter().map(|one| one.expose()));
            self.stream.reader = StreamReader::new(Box::new(masked));
        }
        self
    }
}

/// A response of the proxy itself.
pub(crate) struct ProxyResponse {
    status: &'static str,
    code: &'static str,
    text: String,
}

impl ProxyResponse {
    pub(crate) fn malformed(flaw: &str) -> Self {
        Self {
            status: "400 Bad Request",
            code: "malformed",
            text: format!("cannot read the request: {flaw}"),
        }
    }

    pub(crate) fn invalid_token() -> Self {
        let text = "blocked by policy: the connection has no valid token of a running call: use the proxy variables unchanged";
        Self { status: "407 Proxy Authentication Required", code: "no-pass", text: text.to_owned() }
    }

    pub(crate) fn connection_failed(why: &ConnectionError) -> Self {
        let text = why.to_string();
        match why {
            ConnectionError::Refused(refusal) => Self { status: "403 Forbidden", code: refusal.code(), text },
            ConnectionError::Failed { .. } => Self { status: "502 Bad Gateway", code: "unreachable", text },
        }
    }

    pub(crate) fn head_error(why: &ReadHeadError) -> Option<Self> {
        let (status, text) = match why {
            ReadHeadError::Closed | ReadHeadError::Io(_) => return None,
            ReadHeadError::TooLong => {
                ("431 Request Header Fields Too Large", "the request headers are too long")
            }
            ReadHeadError::TooSlow => ("408 Request Timeout", "the request headers took too long"),
        };
        Some(Self { status, code: "malformed", text: text.to_owned() })
    }

    fn broken(fault: &io::Error) -> Self {
        Self {
            status: "502 Bad Gateway",
            code: "unreachable",
            text: format!("the host sent a bad answer: {fault}"),
        }
    }

    /// Returns its bytes, as the last response on a connection.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (status, code, text) = (self.status, self.code, &self.text);
        let length = text.len().saturating_add(1);
        let challenge = if self.status.starts_with("407") {
            "proxy-authenticate: Basic realm=\"byleave\"\r\n"
        } else {
            ""
        };
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nx-byleave-refusal: {code}\r\n\
             {challenge}content-length: {length}\r\nconnection: close\r\n\r\n{text}\n"
        )
        .into_bytes()
    }
}

/// The target of a proxy request.
pub(crate) struct RequestTarget {
    pub(crate) host: String,
    pub(crate) port: u16,
    path: String,
}

/// Serves requests to one granted host, until either end closes.
pub(crate) async fn serve_pinned(
    door: &Egress,
    client: &mut BufferedStream,
    upstream: UpstreamConnection,
) -> io::Result<()> {
    let mut upstream = upstream.masked(door);
    loop {
        let request = match next_request(door.bounds(), client).await? {
            Some(request) => request,
            None => return Ok(()),
        };
        let path = match pinned_path(&request, &upstream) {
            Ok(path) => path,
            Err(refusal) => {
                upstream.entry.revoke(&refusal.to_string());
                drop(upstream);
                return client
                    .close_with(&ProxyResponse::connection_failed(&refusal.into()).to_bytes())
                    .await;
            }
        };
        if exchange(door, client, &mut upstream, &request, &path).await? != ConnectionReuse::KeepBoth {
            return Ok(());
        }
    }
}

/// Serves one request with an absolute target. Keeps the connection to a host for the next request to it.
pub(crate) async fn serve_named(
    door: &Egress,
    client: &mut BufferedStream,
    request: &RequestHead,
    kept: &mut Option<UpstreamConnection>,
) -> io::Result<ConnectionReuse> {
    let aim = match aim(request) {
        Ok(aim) => aim,
        Err(RequestError::Malformed(flaw)) => {
            client.close_with(&ProxyResponse::malformed(flaw).to_bytes()).await?;
            return Ok(ConnectionReuse::Close);
        }
        Err(RequestError::Refused { host, port, refusal }) => {
            door.record_refusal(&host, port, HostAccessMethod::Http, &refusal);
            client.close_with(&ProxyResponse::connection_failed(&refusal.into()).to_bytes()).await?;
            return Ok(ConnectionReuse::Close);
        }
    };
    let mut upstream = match reused(door, kept, &aim).await {
        Some(upstream) => upstream,
        None => match door.connect_recorded(&aim.host, aim.port, HostAccessMethod::Http).await {
            Ok(passage) => UpstreamConnection {
                host: aim.host.clone(),
                port: aim.port,
                transport: CredentialTransport::Plain,
                stream: BufferedStream::tcp(passage.stream),
                entry: passage.entry,
            }
            .masked(door),
            Err(why) => {
                client.close_with(&ProxyResponse::connection_failed(&why).to_bytes()).await?;
                return Ok(ConnectionReuse::Close);
            }
        },
    };
    let after = exchange(door, client, &mut upstream, request, &aim.path).await?;
    if after == ConnectionReuse::KeepBoth {
        *kept = Some(upstream);
    }
    Ok(after)
}

/// Reads the next request. `None` if there is none, or if it was already answered.
pub(crate) async fn next_request(
    bounds: &NetworkLimits,
    client: &mut BufferedStream,
) -> io::Result<Option<RequestHead>> {
    let head = client.reader.read_head(bounds.max_head_bytes, bounds.idle_timeout, bounds.head_timeout).await;
    let said = match head {
        Ok(head) => match RequestHead::parse(&head) {
            Ok(request) => return Ok(Some(request)),
            Err(flaw) => ProxyResponse::malformed(flaw),
        },
        Err(why) => match ProxyResponse::head_error(&why) {
            Some(said) => said,
            None => return Ok(None),
        },
    };
    client.close_with(&said.to_bytes()).await?;
    Ok(None)
}

async fn reused(
    door: &Egress,
    kept: &mut Option<UpstreamConnection>,
    aim: &RequestTarget,
) -> Option<UpstreamConnection> {
    let mut upstream = kept.take().filter(|kept| kept.host == aim.host && kept.port == aim.port)?;
    // Checks again, because a grant could be revoked between two requests.
    (door.recheck_host(&aim.host, aim.port).await.is_ok() && upstream.stream.reader.is_idle().await)
        .then_some(upstream)
}

pub(crate) enum RequestError {
    Malformed(&'static str),
    Refused { host: String, port: u16, refusal: ConnectionRefusedError },
}

fn aim(request: &RequestHead) -> Result<RequestTarget, RequestError> {
    let (authority, path) = absolute(&request.target)
        .ok_or(RequestError::Malformed("this is a proxy: ask for `http://host/path`, or use CONNECT"))?;
    let (host, port) = host_and_port(authority, 80)
        .ok_or(RequestError::Malformed("the host of the request is malformed"))?;
    let refused = |host: &str, refusal| RequestError::Refused { host: host.to_owned(), port, refusal };
    let host = normalize_host(host).map_err(|refusal| refused(&shorten(host), refusal))?;
    if let Some(said) = request.host().map_err(RequestError::Malformed)? {
        same_host(&host, port, said).map_err(|refusal| refused(&host, refusal))?;
    }
    Ok(RequestTarget { host, port, path })
}

fn pinned_path(
    request: &RequestHead,
    upstream: &UpstreamConnection,
) -> Result<String, ConnectionRefusedError> {
    let other = |said: &str| ConnectionRefusedError::HostMismatch {
        granted: upstream.host.clone(),
        received: shorten(said),
    };
    if request.method == "CONNECT" {
        return Err(other(&request.target));
    }
    match request.host() {
        Ok(Some(said)) => same_host(&upstream.host, upstream.port, said)?,
        Ok(None) => {}
        Err(_) => return Err(other("the request names two different hosts")),
    }
    if request.target.starts_with('/') || request.target == "*" {
        return Ok(request.target.clone());
    }
    let (authority, path) = absolute(&request.target).ok_or_else(|| other(&request.target))?;
    same_host(&upstream.host, upstream.port, authority)?;
    Ok(path)
}

/// Returns the authority and the path of `http://authority/path`. User information before the host is dropped.
fn absolute(target: &str) -> Option<(&str, String)> {
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
    let rest = target.strip_prefix(scheme)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    (!authority.contains(['@', '\\'])).then_some((authority, path))
}

/// Splits a host from its port.
pub(crate) fn host_and_port(authority: &str, otherwise: u16) -> Option<(&str, u16)> {
    let split = match authority.rfind(']') {
        Some(end) => {
            let (host, rest) = authority.split_at_checked(end.checked_add(1)?)?;
            if rest.is_empty() { None } else { Some((host, rest.strip_prefix(':')?)) }
        }
        None => authority.split_once(':'),
    };
    let Some((host, port)) = split else { return Some((authority, otherwise)) };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| digits && *port != 0)?;
    Some((host, port))
}

fn same_host(granted: &str, port: u16, said: &str) -> Result<(), ConnectionRefusedError> {
    let other =
        || ConnectionRefusedError::HostMismatch { granted: granted.to_owned(), received: shorten(said) };
    let (host, said_port) = host_and_port(said, port).ok_or_else(other)?;
    let host = normalize_host(host).map_err(|_| other())?;
    if host == granted && said_port == port { Ok(()) } else { Err(other()) }
}

/// The state of the two connections after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionReuse {
    /// Both are kept.
    KeepBoth,
    /// The client's connection is kept.
    KeepClient,
    /// Both are closed.
    Close,
}

/// Sends a request and returns its response to the client.
async fn exchange(
    door: &Egress,
    client: &mut BufferedStream,
    upstream: &mut UpstreamConnection,
    request: &RequestHead,
    path: &str,
) -> io::Result<ConnectionReuse> {
    let added = upstream.added(door);
    let read_only = door.read_only_reason(&upstream.host, upstream.port);
    let mut fetch = None;
    if let Some(reason) = &read_only {
        let bounds = (door.bounds().max_head_bytes, door.bounds().idle_timeout);
        match read_only::admit(&mut client.reader, bounds, request, path).await {
            Ok(body) => fetch = body,
            Err(ReadRequestError::Audit) => {
                // Package managers go on without an audit, so this is not worth a message.
                upstream.entry.add_reason("an audit of packages was not sent");
                let text = "blocked by policy: an audit sends the list of packages".to_owned();
                let response = ProxyResponse { status: "403 Forbidden", code: "only-reading", text };
                client.close_with(&response.to_bytes()).await?;
                return Ok(ConnectionReuse::Close);
            }
            Err(ReadRequestError::Sends(what)) => {
                return refuse_send(client, upstream, what, reason.clone()).await;
            }
        }
    }
    if request.method == "TRACE" && !added.is_empty() {
        upstream.entry.revoke(&ConnectionRefusedError::TraceMethod.to_string());
        client
            .close_with(
                &ProxyResponse::connection_failed(&ConnectionRefusedError::TraceMethod.into()).to_bytes(),
            )
            .await?;
        return Ok(ConnectionReuse::Close);
    }
    if !added.is_empty() {
        upstream.entry.set_credential_added();
    }
    let head = match &fetch {
        None => written(request, upstream, path, &added, read_only.is_some()),
        Some(body) => {
            let request = RequestHead { framing: BodyFraming::Sized(body.len() as u64), ..request.clone() };
            [written(&request, upstream, path, &added, true).as_slice(), body].concat()
        }
    };
    if read_only.is_some() && !door.count_read_request(head.len()) {
        let reason = "the requests of one command are limited in total".to_owned();
        return refuse_send(client, upstream, "so many requests", reason).await;
    }
    // The body of a fetch was read and is sent with the head.
    let without_body = RequestHead { framing: BodyFraming::Sized(0), ..request.clone() };
    let request = if fetch.is_some() { &without_body } else { request };
    let entry = Arc::clone(&upstream.entry);
    let bounds = door.bounds();
    let mut answered = false;
    let both = both_ways(client, &mut upstream.stream, &head, request, bounds, &entry, &mut answered);
    match with_idle_timeout(both, &entry, bounds.idle_timeout).await {
        Ok(after) => Ok(after),
        Err(fault) if answered => Err(fault),
        Err(fault) => {
            client.close_with(&ProxyResponse::broken(&fault).to_bytes()).await?;
            Ok(ConnectionReuse::Close)
        }
    }
}

/// Refuses a request that would send something to a host that may only be read.
async fn refuse_send(
    client: &mut BufferedStream,
    upstream: &mut UpstreamConnection,
    what: &'static str,
    reason: String,
) -> io::Result<ConnectionReuse> {
    let (host, port) = (upstream.host.clone(), upstream.port);
    let refusal = ConnectionRefusedError::OnlyReading { host, port, what, reason };
    upstream.entry.revoke_send(&refusal.to_string());
    client.close_with(&ProxyResponse::connection_failed(&refusal.into()).to_bytes()).await?;
    Ok(ConnectionReuse::Close)
}

/// Serializes the head of the request.
fn written(
    request: &RequestHead,
    upstream: &UpstreamConnection,
    path: &str,
    added: &[&Credential],
    read_only: bool,
) -> Vec<u8> {
    let mut out = format!("{} {path} HTTP/1.1\r\n", request.method).into_bytes();
    let host =
        if upstream.host.contains(':') { format!("[{}]", upstream.host) } else { upstream.host.clone() };
    let usual = match upstream.transport {
        CredentialTransport::Plain => 80,
        CredentialTransport::Tls => 443,
    };
    let host = if upstream.port == usual { host } else { format!("{host}:{}", upstream.port) };
    Header::write("host", host.as_bytes(), &mut out);
    // Added credentials could not be found in a compressed response.
    let plainly = |header: &Header| header.name == "accept-encoding" && !added.is_empty();
    let replaced = |header: &Header| plainly(header) || added.iter().any(|one| one.header() == header.name);
    let travelling = request
        .headers
        .iter()
        .filter(|header| header.name != "host" && header.is_forwarded(&request.headers));
    let travelling = travelling.filter(|header| !read_only || read_only::is_passed_on(header));
    for header in travelling.filter(|header| !replaced(header)) {
        Header::write(&header.name, &header.value, &mut out);
    }
    if !added.is_empty() {
        Header::write("accept-encoding", b"identity", &mut out);
    }
    for one in added {
        Header::write(one.header(), one.expose(), &mut out);
    }
    // A `GET` without a body needs no length. If the client sent a length of 0, it is kept.
    if request.framing != BodyFraming::Sized(0)
        || request.headers.iter().any(|header| header.name == "content-length")
    {
        request.framing.write(&mut out);
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// How far the body of a request was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyProgress {
    NotYet,
    Partly,
    Whole,
}

async fn both_ways(
    client: &mut BufferedStream,
    upstream: &mut BufferedStream,
    head: &[u8],
    request: &RequestHead,
    bounds: &NetworkLimits,
    entry: &NetworkLogEntry,
    answered: &mut bool,
) -> io::Result<ConnectionReuse> {
    upstream.writer.write_all(head).await?;
    entry.count_sent(head.len());
    let sending = send_body(&mut client.reader, &mut upstream.writer, request.framing, bounds, entry);
    let receiving = receive(&mut upstream.reader, &mut client.writer, request, bounds, entry, answered);
    tokio::pin!(sending, receiving);
    // A response may come before the whole body is sent. The rest of the body is then discarded.
    let mut sent = BodyProgress::NotYet;
    loop {
        tokio::select! {
            // In this order: a response that is already there must not hide that the body was sent.
            biased;
            done = &mut sending, if sent == BodyProgress::NotYet => match done {
                Ok(()) => sent = BodyProgress::Whole,
                // A host that needs no more of the body closes, and its response gives the reason.
                Err(fault) if matches!(fault.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    sent = BodyProgress::Partly;
                }
                Err(fault) => return Err(fault),
            },
            after = &mut receiving => {
                let after = after?;
                return Ok(if sent == BodyProgress::Whole { after } else { ConnectionReuse::Close });
            }
        }
    }
}

async fn send_body(
    from: &mut StreamReader,
    to: &mut StreamWriter,
    framing: BodyFraming,
    bounds: &NetworkLimits,
    entry: &NetworkLogEntry,
) -> io::Result<()> {
    let count = |bytes| entry.count_sent(bytes);
    match framing {
        BodyFraming::Sized(length) => from.copy_sized(to, length, count).await?,
        BodyFraming::Chunked => {
            from.copy_chunked(to, ChunkFraming::Chunked, bounds.max_head_bytes, count).await?
        }
        BodyFraming::UntilClosed => return Err(malformed_error("a request has no end")),
    }
    to.flush().await
}

async fn receive(
    from: &mut StreamReader,
    to: &mut StreamWriter,
    request: &RequestHead,
    bounds: &NetworkLimits,
    entry: &NetworkLogEntry,
    answered: &mut bool,
) -> io::Result<ConnectionReuse> {
    let (response, framing, keeps) = loop {
        let head = from.read_head(bounds.max_head_bytes, bounds.idle_timeout, bounds.head_timeout).await;
        let head = head.map_err(|why| match why {
            ReadHeadError::Closed => malformed_error("the host closed the connection without an answer"),
            ReadHeadError::TooLong => malformed_error("the response headers are too long"),
            ReadHeadError::TooSlow => malformed_error("the response headers took too long"),
            ReadHeadError::Io(fault) => fault,
        })?;
        entry.count_received(head.len());
        let response = ResponseHead::parse(&head).map_err(malformed_error)?;
        match response.status {
            // No upgrade was requested. A switch would leave HTTP unchecked.
            101 => return Err(malformed_error("the host switched to another protocol without a request")),
            100..=199 if request.version == HttpVersion::Zero => {}
            100..=199 => {
                *answered = true;
                to.write_all(&passed_on(&response, BodyFraming::UntilClosed, true)).await?;
                to.flush().await?;
            }
            _ => {
                let silent = request.method == "HEAD" || matches!(response.status, 204 | 304);
                let framing = if silent { BodyFraming::Sized(0) } else { response.framing };
                let readable = request.version == HttpVersion::One || framing != BodyFraming::Chunked;
                let keeps = request.keeps_alive() && readable && framing != BodyFraming::UntilClosed;
                break (response, framing, keeps);
            }
        }
    };
    *answered = true;
    let silent = request.method == "HEAD" || matches!(response.status, 204 | 304);
    let told = match framing {
        BodyFraming::Chunked if request.version == HttpVersion::Zero => BodyFraming::UntilClosed,
        _ if silent => BodyFraming::UntilClosed,
        framing => framing,
    };
    let mut head = passed_on(&response, told, keeps);
    if silent {
        // The client needs the length that the body would have had.
        head.truncate(head.len().saturating_sub(2));
        let lengths = response.headers.iter().filter(|header| header.name == "content-length");
        for length in lengths.filter(|_| response.status != 204).take(1) {
            Header::write("content-length", &length.value, &mut head);
        }
        head.extend_from_slice(b"\r\n");
    }
    to.write_all(&head).await?;
    let count = |bytes| entry.count_received(bytes);
    match framing {
        BodyFraming::Sized(length) => from.copy_sized(to, length, count).await?,
        BodyFraming::Chunked => {
            let chunks =
                if request.version == HttpVersion::One { ChunkFraming::Chunked } else { ChunkFraming::Raw };
            from.copy_chunked(to, chunks, bounds.max_head_bytes, count).await?;
        }
        BodyFraming::UntilClosed => from.copy_all(to, count).await?,
    }
    to.flush().await?;
    Ok(match (keeps, response.keeps_alive(framing)) {
        (false, _) => ConnectionReuse::Close,
        (true, true) => ConnectionReuse::KeepBoth,
        (true, false) => ConnectionReuse::KeepClient,
    })
}

fn passed_on(response: &ResponseHead, framing: BodyFraming, keeps: bool) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {} {}\r\n", response.status, response.reason).into_bytes();
    for header in response.headers.iter().filter(|header| header.is_forwarded(&response.headers)) {
        Header::write(&header.name, &header.value, &mut out);
    }
    framing.write(&mut out);
    if !keeps {
        Header::write("connection", b"close", &mut out);
    }
    out.extend_from_slice(b"\r\n");
    out
}
