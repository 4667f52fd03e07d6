//! The proxy: one port for CONNECT, plain HTTP requests and SOCKS5.
//!
//! The port was created inside the sandbox and passed out. A connection to it can reach only this code. The proxy reads no
//! settings and no environment variables: every way out goes through the [`Egress`].

use std::io;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::buffered_stream::BufferedStream;
use super::credential::CredentialTransport;
use super::decision_log::HostAccessMethod;
use super::egress::Egress;
use super::host_normalize::{shortened, spelled};
use super::http::{self, ConnectionReuse, ProxyResponse, UpstreamConnection};
use super::http_head::RequestHead;
use super::session_router::{self, SessionRouter};
use super::{socks, tunnel};

/// Serves one connection to the proxy.
pub(crate) async fn serve(doors: &SessionRouter, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = BufferedStream::tcp(stream);
    let bounds = doors.bounds();
    // A connection must identify its call quickly.
    match tokio::time::timeout(bounds.head_timeout, client.reader.more()).await {
        Ok(read) => read?,
        Err(_) => return Ok(()),
    };
    if client.reader.held().first() == Some(&socks::VERSION) {
        let wanted = tokio::time::timeout(bounds.head_timeout, socks::wanted(&mut client)).await;
        let Some(wanted) = wanted.unwrap_or(Ok(None))? else { return Ok(()) };
        return match doors.shown(wanted.pass.as_deref()) {
            Some(door) => door.while_open(by_socks(&door, client, &wanted.host, wanted.port)).await,
            None => client.close_with(&socks::no_pass()).await,
        };
    }
    let Some(first) = http::next_request(bounds, &mut client).await? else { return Ok(()) };
    let pass = pass(&first);
    match doors.shown(pass.as_deref()) {
        Some(door) => door.while_open(by_http(&door, client, first, pass)).await,
        None => client.close_with(&ProxyResponse::no_pass().bytes()).await,
    }
}

/// Returns the token that a request presents.
fn pass(request: &RequestHead) -> Option<Vec<u8>> {
    let shown = request.headers.iter().find(|header| header.name == "proxy-authorization")?;
    Some(session_router::pass_of(&shown.value))
}

async fn by_socks(door: &Egress, mut client: BufferedStream, host: &str, port: u16) -> io::Result<()> {
    match enter(door, host, port, HostAccessMethod::Socks).await {
        Ok(upstream) => {
            client.writer.write_all(&socks::given()).await?;
            tunnel::run(door, client, upstream).await
        }
        Err(why) => client.close_with(&socks::unconnected(&why)).await,
    }
}

async fn by_http(
    door: &Egress,
    mut client: BufferedStream,
    first: RequestHead,
    shown: Option<Vec<u8>>,
) -> io::Result<()> {
    let mut kept = None;
    let mut next = Some(first);
    while let Some(request) = next {
        // A connection belongs to one call. It cannot continue for another.
        if pass(&request) != shown {
            return client.close_with(&ProxyResponse::no_pass().bytes()).await;
        }
        if request.method == "CONNECT" {
            drop(kept);
            return by_connect(door, client, &request.target).await;
        }
        if http::serve_named(door, &mut client, &request, &mut kept).await? == ConnectionReuse::Close {
            return Ok(());
        }
        next = http::next_request(door.bounds(), &mut client).await?;
    }
    Ok(())
}

async fn by_connect(door: &Egress, mut client: BufferedStream, target: &str) -> io::Result<()> {
    let Some((host, port)) = http::host_and_port(target, 443) else {
        let flaw = format!("`{}` is no host and port", shortened(target));
        return client.close_with(&ProxyResponse::malformed(&flaw).bytes()).await;
    };
    match enter(door, host, port, HostAccessMethod::Connect).await {
        Ok(upstream) => {
            client.writer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            tunnel::run(door, client, upstream).await
        }
        Err(why) => client.close_with(&ProxyResponse::unconnected(&why).bytes()).await,
    }
}

/// Connects to a host through the egress. The client chooses the protocol.
pub(crate) async fn enter(
    door: &Egress,
    host: &str,
    port: u16,
    way: HostAccessMethod,
) -> Result<UpstreamConnection, super::refusal::ConnectionError> {
    let passage = door.enter(host, port, way).await?;
    // The egress normalized it in the same way, or there would be no connection.
    let host = spelled(host)?;
    Ok(UpstreamConnection {
        host,
        port,
        over: CredentialTransport::Plain,
        line: BufferedStream::tcp(passage.stream),
        entry: passage.entry,
    })
}
