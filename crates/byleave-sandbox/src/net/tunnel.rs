//! Tunnels: a connection that was granted for a host is held to that host.
//!
//! TLS must name it in every ClientHello, plain HTTP in every request. On the ports of the web nothing else is let through;
//! on others a protocol that is neither goes to the host that was granted, and what it says there is not looked at.

use std::io;
use std::sync::Arc;

use super::credential::Over;
use super::head::is_token;
use super::hello::{self, HANDSHAKE, Hello, Reading};
use super::http::{self, Said, Upstream};
use super::line::{Line, Reader, Writer, relay, unless_silent};
use super::log::Entry;
use super::policy::{Bounds, Door};
use super::refusal::Refusal;
use super::spelling::{shortened, spelled};

/// What is spoken in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Tls,
    Http,
    Other,
    Nothing,
}

/// The longest word that could be a method.
const METHOD_BYTES_MAX: usize = 64;
/// How many bytes are waited for until the first line ends.
const FIRST_LINE_BYTES_MAX: usize = 8 << 10;

/// "Access denied", fatal: what TLS has to say in place of a reason.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Runs a tunnel to a host that was granted, until both ends are closed.
pub(crate) async fn run(door: &Door, mut client: Line, mut upstream: Upstream) -> io::Result<()> {
    let bounds = door.bounds();
    let web = matches!(upstream.port, 80 | 443);
    let hearing = spoken(&mut client.reader, &mut upstream.line.reader, web);
    let heard = match tokio::time::timeout(bounds.idle_timeout, hearing).await {
        Ok(heard) => heard?,
        Err(_) => return Ok(()),
    };
    match heard {
        Spoken::Nothing => Ok(()),
        Spoken::Http => http::serve_pinned(door, &mut client, upstream).await,
        Spoken::Tls => tls(door, client, upstream).await,
        Spoken::Other if web => {
            let refusal = Refusal::OtherProtocol { host: upstream.host.clone(), port: upstream.port };
            upstream.entry.refuse(&refusal.to_string());
            drop(upstream);
            client.close_with(&Said::unconnected(&refusal.into()).bytes()).await
        }
        Spoken::Other => relay(&mut client, &mut upstream.line, &upstream.entry, bounds.idle_timeout).await,
    }
}

/// Listens who speaks first, and what. The bytes stay held.
async fn spoken(client: &mut Reader, upstream: &mut Reader, web: bool) -> io::Result<Spoken> {
    loop {
        if let Some(spoken) = heard(client.held()) {
            return Ok(spoken);
        }
        if web {
            if client.more().await? == 0 {
                return Ok(if client.held().is_empty() { Spoken::Nothing } else { Spoken::Other });
            }
            continue;
        }
        tokio::select! {
            read = client.more() => if read? == 0 {
                return Ok(Spoken::Other);
            },
            read = upstream.more() => {
                read?;
                return Ok(Spoken::Other);
            }
        }
    }
}

/// What these first bytes of a client are; `None` where more are needed.
///
/// Lenient where servers are: whatever one of them could take for a request is one, and is then read strictly.
fn heard(bytes: &[u8]) -> Option<Spoken> {
    if *bytes.first()? == HANDSHAKE {
        return Some(Spoken::Tls);
    }
    let blank = |byte: &u8| matches!(byte, 9..=13 | 28..=32);
    let begun = bytes.iter().position(|byte| !blank(byte));
    let line = begun.and_then(|begun| bytes.get(begun..)).unwrap_or_default();
    let word = line.split(blank).next().unwrap_or_default();
    if word.len() > METHOD_BYTES_MAX || !word.is_empty() && !is_token(word) {
        return Some(Spoken::Other);
    }
    let whole = line.iter().position(|byte| *byte == b'\n');
    let first = whole.and_then(|end| line.get(..end));
    match first {
        Some(first) if first.to_ascii_uppercase().windows(5).any(|five| five == b"HTTP/") => {
            Some(Spoken::Http)
        }
        Some(_) => Some(Spoken::Other),
        // A first line without an end: whoever reads it strictly says so.
        None if bytes.len() > FIRST_LINE_BYTES_MAX => Some(Spoken::Http),
        None => None,
    }
}

async fn tls(door: &Door, mut client: Line, mut upstream: Upstream) -> io::Result<()> {
    let bounds = door.bounds();
    let hello = match hello(&mut client.reader, &upstream.host, bounds).await? {
        Ok(hello) => hello,
        Err(refusal) => return refused(&mut client, upstream, &refusal).await,
    };
    let added = door.credentials().iter().any(|one| one.fits(&upstream.host, upstream.port, Over::Tls));
    if added {
        // A door with a credential for TLS has an interception: without one it cannot be made.
        let Some(interception) = door.interception() else { return Ok(()) };
        let Upstream { host, port, line, entry, .. } = upstream;
        let opened = interception.open(&host, client, line, bounds.head_timeout).await;
        let (mut client, line) = opened.inspect_err(|fault| entry.note(&fault.to_string()))?;
        let upstream = Upstream { host, port, over: Over::Tls, line, entry };
        return http::serve_pinned(door, &mut client, upstream).await;
    }
    let (host, entry) = (upstream.host.clone(), Arc::clone(&upstream.entry));
    let up = copy_hellos(&mut client.reader, &mut upstream.line.writer, &host, hello, bounds, &entry);
    let down = upstream.line.reader.copy_all(&mut client.writer, |bytes| entry.count_received(bytes));
    let both = async { tokio::try_join!(up, async { down.await.map_err(Ended::from) }) };
    let both = async {
        match both.await {
            Ok(_) => Ok(None),
            Err(Ended::Refused(refusal)) => Ok(Some(refusal)),
            Err(Ended::Broken(fault)) => Err(fault),
        }
    };
    match unless_silent(both, &entry, bounds.idle_timeout).await? {
        Some(refusal) => refused(&mut client, upstream, &refusal).await,
        None => Ok(()),
    }
}

async fn refused(client: &mut Line, upstream: Upstream, refusal: &Refusal) -> io::Result<()> {
    upstream.entry.refuse(&refusal.to_string());
    drop(upstream);
    client.close_with(&ALERT).await
}

/// Why copying ended.
enum Ended {
    Refused(Refusal),
    Broken(io::Error),
}

impl From<io::Error> for Ended {
    fn from(fault: io::Error) -> Self {
        Self::Broken(fault)
    }
}

/// Copies what a client of TLS sends, and holds every ClientHello in it to the name.
async fn copy_hellos(
    from: &mut Reader,
    to: &mut Writer,
    host: &str,
    first: Hello,
    bounds: &Bounds,
    entry: &Entry,
) -> Result<(), Ended> {
    let count = |bytes| entry.count_sent(bytes);
    from.copy_sized(to, first.bytes as u64, count).await?;
    loop {
        match hello::other_records(from.held()) {
            Some(0) => {
                let hello = hello(from, host, bounds).await?.map_err(Ended::Refused)?;
                from.copy_sized(to, hello.bytes as u64, count).await?;
            }
            Some(bytes) => from.copy_sized(to, bytes as u64, count).await?,
            None => {
                if from.more().await? == 0 {
                    return Ok(from.copy_all(to, count).await?);
                }
            }
        }
    }
}

/// Reads the ClientHello that comes next, and holds it against the name. The bytes stay held.
async fn hello(from: &mut Reader, host: &str, bounds: &Bounds) -> io::Result<Result<Hello, Refusal>> {
    let unread = |flaw| Refusal::UnreadHello { host: host.to_owned(), flaw };
    let reading = async {
        loop {
            match hello::read(from.held()) {
                Reading::Whole(hello) => return Ok(named(&hello, host).map(|()| hello)),
                Reading::Flawed(flaw) => return Ok(Err(unread(flaw))),
                Reading::More if from.held().len() > bounds.head_bytes_max => {
                    return Ok(Err(unread("its ClientHello is too long")));
                }
                Reading::More => {}
            }
            if from.more().await? == 0 {
                return Ok(Err(unread("its ClientHello has no end")));
            }
        }
    };
    tokio::time::timeout(bounds.head_timeout, reading)
        .await
        .unwrap_or_else(|_| Ok(Err(unread("its ClientHello took too long"))))
}

fn named(hello: &Hello, host: &str) -> Result<(), Refusal> {
    if hello.hides_another {
        return Err(Refusal::HiddenServerName(host.to_owned()));
    }
    match &hello.server_name {
        // An address has no name to send.
        None if host.parse::<std::net::IpAddr>().is_ok() => Ok(()),
        None => Err(Refusal::NoServerName(host.to_owned())),
        Some(said) if spelled(said).is_ok_and(|said| said == host) => Ok(()),
        Some(said) => Err(Refusal::OtherServerName { granted: host.to_owned(), said: shortened(said) }),
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
            (b"GET / HTTP/1.1\r\n", Some(Spoken::Http)),
            (b"\r\n \nGET / HTTP/1.1\n", Some(Spoken::Http)),
            (b"get / http/1.0 \r\n", Some(Spoken::Http)),
            (b"PRI * HTTP/2.0\r\n", Some(Spoken::Http)),
            (b"\x0bGET\x0c/\tHTTP/1.1\n", Some(Spoken::Http)),
            (b"GET /\xc3\xa9\x01\0 HTTP/1.1\n", Some(Spoken::Http)),
            (b"GET / HTTP/1.1 x\r\n", Some(Spoken::Http)),
            (&[b"GET /", &[b'x'; 9_000][..]].concat(), Some(Spoken::Http)),
            (&[b'x'; 70], Some(Spoken::Other)),
            (b"AMQP\0\0\x09\x01", Some(Spoken::Other)),
            (b"*1\r\n$4\r\nPING\r\n", Some(Spoken::Other)),
            (b"SSH-2.0-x\r\n", Some(Spoken::Other)),
            (b"\x00\x00\x00\x08", Some(Spoken::Other)),
            (b"\x16", Some(Spoken::Tls)),
        ] {
            assert_eq!(heard(bytes), spoken, "{bytes:?}");
        }
    }
}
