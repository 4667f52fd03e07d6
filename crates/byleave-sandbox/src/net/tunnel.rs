//! Tunnels that restrict a granted connection to its host.
//!
//! TLS must name the host in every ClientHello, plain HTTP in every request. On web ports no other protocol is let through. On
//! other ports another protocol is passed to the granted host without inspection.

use std::io;
use std::sync::Arc;

use byleave_core::host::is_localhost;

use super::buffered_stream::{BufferedStream, StreamReader, StreamWriter, relay, with_idle_timeout};
use super::client_hello::{self, ClientHello, ClientHelloResult, HANDSHAKE};
use super::credential::CredentialTransport;
use super::decision_log::NetworkLogEntry;
use super::egress::{Egress, NetworkLimits};
use super::host_normalize::{normalize_host, shorten};
use super::http::{self, ProxyResponse, UpstreamConnection};
use super::http_head::is_token;
use super::refusal::ConnectionRefusedError;

/// The protocol in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TunnelProtocol {
    Tls,
    Http,
    Other,
    Nothing,
}

/// The maximum length of a possible method.
const METHOD_BYTES_MAX: usize = 64;
/// The maximum number of bytes to wait for the end of the first line.
const FIRST_LINE_BYTES_MAX: usize = 8 << 10;

/// The fatal TLS alert "access denied", because TLS cannot carry a reason.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Runs a tunnel to a granted host, until both ends are closed.
pub(crate) async fn run(
    door: &Egress,
    mut client: BufferedStream,
    mut upstream: UpstreamConnection,
) -> io::Result<()> {
    let bounds = door.bounds();
    // A port of this machine is opened whole, unless a rule is about sending there. Its service has no certificate, and answers to any name.
    if is_localhost(&upstream.host) && door.read_only_reason(&upstream.host, upstream.port).is_none() {
        return relay(&mut client, &mut upstream.stream, &upstream.entry, bounds.idle_timeout).await;
    }
    let web = matches!(upstream.port, 80 | 443);
    let read_only = door.read_only_reason(&upstream.host, upstream.port);
    let hearing = spoken(&mut client.reader, &mut upstream.stream.reader, web);
    let heard = match tokio::time::timeout(bounds.idle_timeout, hearing).await {
        Ok(heard) => heard?,
        Err(_) => return Ok(()),
    };
    match heard {
        TunnelProtocol::Nothing => Ok(()),
        TunnelProtocol::Http => http::serve_pinned(door, &mut client, upstream).await,
        TunnelProtocol::Tls => tls(door, client, upstream, read_only).await,
        TunnelProtocol::Other if read_only.is_some() => {
            let what = "a protocol other than HTTP";
            let refusal = only_reading(&upstream, what, read_only.unwrap_or_default());
            upstream.entry.revoke_send(&refusal.to_string());
            drop(upstream);
            client.close_with(&ProxyResponse::connection_failed(&refusal.into()).to_bytes()).await
        }
        TunnelProtocol::Other if web => {
            let refusal = ConnectionRefusedError::UnsupportedProtocol {
                host: upstream.host.clone(),
                port: upstream.port,
            };
            upstream.entry.revoke(&refusal.to_string());
            drop(upstream);
            client.close_with(&ProxyResponse::connection_failed(&refusal.into()).to_bytes()).await
        }
        TunnelProtocol::Other => {
            relay(&mut client, &mut upstream.stream, &upstream.entry, bounds.idle_timeout).await
        }
    }
}

/// Detects which end sends first, and the protocol. The bytes stay buffered.
async fn spoken(
    client: &mut StreamReader,
    upstream: &mut StreamReader,
    web: bool,
) -> io::Result<TunnelProtocol> {
    loop {
        if let Some(spoken) = heard(client.buffered()) {
            return Ok(spoken);
        }
        if web {
            if client.fill_buffer().await? == 0 {
                return Ok(if client.buffered().is_empty() {
                    TunnelProtocol::Nothing
                } else {
                    TunnelProtocol::Other
                });
            }
            continue;
        }
        tokio::select! {
            read = client.fill_buffer() => if read? == 0 {
                return Ok(TunnelProtocol::Other);
            },
            read = upstream.fill_buffer() => {
                read?;
                return Ok(TunnelProtocol::Other);
            }
        }
    }
}

/// Detects the protocol from the first bytes of a client. `None` if more are needed.
///
/// This is as lenient as servers are. Bytes that any server could accept as a request are treated as HTTP, and then parsed
/// strictly.
fn heard(bytes: &[u8]) -> Option<TunnelProtocol> {
    if *bytes.first()? == HANDSHAKE {
        return Some(TunnelProtocol::Tls);
    }
    let blank = |byte: &u8| matches!(byte, 9..=13 | 28..=32);
    let begun = bytes.iter().position(|byte| !blank(byte));
    let line = begun.and_then(|begun| bytes.get(begun..)).unwrap_or_default();
    let word = line.split(blank).next().unwrap_or_default();
    if word.len() > METHOD_BYTES_MAX || !word.is_empty() && !is_token(word) {
        return Some(TunnelProtocol::Other);
    }
    let whole = line.iter().position(|byte| *byte == b'\n');
    let first = whole.and_then(|end| line.get(..end));
    match first {
        Some(first) if first.to_ascii_uppercase().windows(5).any(|five| five == b"HTTP/") => {
            Some(TunnelProtocol::Http)
        }
        Some(_) => Some(TunnelProtocol::Other),
        // A first line without an end is left to the strict parser, which refuses it.
        None if bytes.len() > FIRST_LINE_BYTES_MAX => Some(TunnelProtocol::Http),
        None => None,
    }
}

/// Returns the refusal to send something to a host that may only be read.
fn only_reading(upstream: &UpstreamConnection, what: &'static str, reason: String) -> ConnectionRefusedError {
    ConnectionRefusedError::OnlyReading { host: upstream.host.clone(), port: upstream.port, what, reason }
}

async fn tls(
    door: &Egress,
    mut client: BufferedStream,
    mut upstream: UpstreamConnection,
    read_only: Option<String>,
) -> io::Result<()> {
    let bounds = door.bounds();
    let hello = match hello(&mut client.reader, &upstream.host, bounds).await? {
        Ok(hello) => hello,
        Err(refusal) => return refused(&mut client, upstream, &refusal).await,
    };
    let added = door
        .credentials()
        .iter()
        .any(|one| one.matches(&upstream.host, upstream.port, CredentialTransport::Tls));
    if added || read_only.is_some() {
        // An egress with a credential for TLS always has an interceptor, because it cannot be created without one.
        let Some(interception) = door.interception() else {
            let refusal =
                only_reading(&upstream, "TLS that the proxy cannot read", read_only.unwrap_or_default());
            upstream.entry.revoke_send(&refusal.to_string());
            drop(upstream);
            return client.close_with(&ALERT).await;
        };
        let UpstreamConnection { host, port, stream: line, entry, .. } = upstream;
        let opened = interception.intercept(&host, client, line, bounds.head_timeout).await;
        let (mut client, line) = opened.inspect_err(|fault| match &read_only {
            None => entry.add_reason(&fault.to_string()),
            Some(_) => entry.revoke_send(&format!(
                "{fault}; a rule with `send = [\"{host}\"]` lets the program connect directly"
            )),
        })?;
        let upstream =
            UpstreamConnection { host, port, transport: CredentialTransport::Tls, stream: line, entry };
        return http::serve_pinned(door, &mut client, upstream).await;
    }
    let (host, entry) = (upstream.host.clone(), Arc::clone(&upstream.entry));
    let up = copy_hellos(&mut client.reader, &mut upstream.stream.writer, &host, hello, bounds, &entry);
    let down = upstream.stream.reader.copy_all(&mut client.writer, |bytes| entry.count_received(bytes));
    let both = async { tokio::try_join!(up, async { down.await.map_err(TunnelError::from) }) };
    let both = async {
        match both.await {
            Ok(_) => Ok(None),
            Err(TunnelError::Refused(refusal)) => Ok(Some(refusal)),
            Err(TunnelError::Broken(fault)) => Err(fault),
        }
    };
    match with_idle_timeout(both, &entry, bounds.idle_timeout).await? {
        Some(refusal) => refused(&mut client, upstream, &refusal).await,
        None => Ok(()),
    }
}

async fn refused(
    client: &mut BufferedStream,
    upstream: UpstreamConnection,
    refusal: &ConnectionRefusedError,
) -> io::Result<()> {
    upstream.entry.revoke(&refusal.to_string());
    drop(upstream);
    client.close_with(&ALERT).await
}

/// The reason why copying ended.
enum TunnelError {
    Refused(ConnectionRefusedError),
    Broken(io::Error),
}

impl From<io::Error> for TunnelError {
    fn from(fault: io::Error) -> Self {
        Self::Broken(fault)
    }
}

/// Copies what a TLS client sends, and checks the name in every ClientHello.
async fn copy_hellos(
    from: &mut StreamReader,
    to: &mut StreamWriter,
    host: &str,
    first: ClientHello,
    bounds: &NetworkLimits,
    entry: &NetworkLogEntry,
) -> Result<(), TunnelError> {
    let count = |bytes| entry.count_sent(bytes);
    from.copy_sized(to, first.bytes as u64, count).await?;
    loop {
        match client_hello::other_records(from.buffered()) {
            Some(0) => {
                let hello = hello(from, host, bounds).await?.map_err(TunnelError::Refused)?;
                from.copy_sized(to, hello.bytes as u64, count).await?;
            }
            Some(bytes) => from.copy_sized(to, bytes as u64, count).await?,
            None => {
                if from.fill_buffer().await? == 0 {
                    return Ok(from.copy_all(to, count).await?);
                }
            }
        }
    }
}

/// Parses the next ClientHello and checks its name. The bytes stay buffered.
async fn hello(
    from: &mut StreamReader,
    host: &str,
    bounds: &NetworkLimits,
) -> io::Result<Result<ClientHello, ConnectionRefusedError>> {
    let unread = |flaw| ConnectionRefusedError::InvalidClientHello { host: host.to_owned(), problem: flaw };
    let reading = async {
        loop {
            match client_hello::parse_client_hello(from.buffered()) {
                ClientHelloResult::Complete(hello) => return Ok(named(&hello, host).map(|()| hello)),
                ClientHelloResult::Invalid(flaw) => return Ok(Err(unread(flaw))),
                ClientHelloResult::NeedMore if from.buffered().len() > bounds.max_head_bytes => {
                    return Ok(Err(unread("the ClientHello is too long")));
                }
                ClientHelloResult::NeedMore => {}
            }
            if from.fill_buffer().await? == 0 {
                return Ok(Err(unread("the ClientHello is incomplete")));
            }
        }
    };
    tokio::time::timeout(bounds.head_timeout, reading)
        .await
        .unwrap_or_else(|_| Ok(Err(unread("the ClientHello took too long"))))
}

fn named(hello: &ClientHello, host: &str) -> Result<(), ConnectionRefusedError> {
    if hello.has_encrypted_hello {
        return Err(ConnectionRefusedError::HiddenServerName(host.to_owned()));
    }
    match &hello.server_name {
        // An address has no name to send.
        None if host.parse::<std::net::IpAddr>().is_ok() => Ok(()),
        None => Err(ConnectionRefusedError::NoServerName(host.to_owned())),
        Some(said) if normalize_host(said).is_ok_and(|said| said == host) => Ok(()),
        Some(said) => Err(ConnectionRefusedError::ServerNameMismatch {
            granted: host.to_owned(),
            received: shorten(said),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spoken_shows_in_the_first_line() {
        for (bytes, spoken) in [
            (&b""[..], None),
            (b"G", None),
            (b"GET / HTTP/1.1", None),
            (b"GET / HTTP/1.1\r\n", Some(TunnelProtocol::Http)),
            (b"\r\n \nGET / HTTP/1.1\n", Some(TunnelProtocol::Http)),
            (b"get / http/1.0 \r\n", Some(TunnelProtocol::Http)),
            (b"PRI * HTTP/2.0\r\n", Some(TunnelProtocol::Http)),
            (b"\x0bGET\x0c/\tHTTP/1.1\n", Some(TunnelProtocol::Http)),
            (b"GET /\xc3\xa9\x01\0 HTTP/1.1\n", Some(TunnelProtocol::Http)),
            (b"GET / HTTP/1.1 x\r\n", Some(TunnelProtocol::Http)),
            (&[b"GET /", &[b'x'; 9_000][..]].concat(), Some(TunnelProtocol::Http)),
            (&[b'x'; 70], Some(TunnelProtocol::Other)),
            (b"AMQP\0\0\x09\x01", Some(TunnelProtocol::Other)),
            (b"*1\r\n$4\r\nPING\r\n", Some(TunnelProtocol::Other)),
            (b"SSH-2.0-x\r\n", Some(TunnelProtocol::Other)),
            (b"\x00\x00\x00\x08", Some(TunnelProtocol::Other)),
            (b"\x16", Some(TunnelProtocol::Tls)),
        ] {
            assert_eq!(heard(bytes), spoken, "{bytes:?}");
        }
    }
}
