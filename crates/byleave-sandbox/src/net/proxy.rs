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
use super::host_normalize::{normalize_host, shorten};
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
    match tokio::time::timeout(bounds.head_timeout, client.reader.fill_buffer()).await {
        Ok(read) => read?,
        Err(_) => return Ok(()),
    };
    if client.reader.buffered().first() == Some(&socks::VERSION) {
        let wanted = tokio::time::timeout(bounds.head_timeout, socks::read_request(&mut client)).await;
        let Some(wanted) = wanted.unwrap_or(Ok(None))? else { return Ok(()) };
        return match doors.egress_for_token(wanted.token.as_deref()) {
            Some(door) => door.run_while_open(by_socks(&door, client, &wanted.host, wanted.port)).await,
            None => client.close_with(&socks::invalid_token_reply()).await,
        };
    }
    let Some(first) = http::next_request(bounds, &mut client).await? else { return Ok(()) };
    let pass = pass(&first);
    match doors.egress_for_token(pass.as_deref()) {
        Some(door) => door.run_while_open(by_http(&door, client, first, pass)).await,
        None => client.close_with(&ProxyResponse::invalid_token().to_bytes()).await,
    }
}

/// Returns the token that a request presents.
fn pass(request: &RequestHead) -> Option<Vec<u8>> {
    let shown = request.headers.iter().find(|header| header.name == "proxy-authorization")?;
    Some(session_router::parse_token(&shown.value))
}

async fn by_socks(door: &Egress, mut client: BufferedStream, host: &str, port: u16) -> io::Result<()> {
    match connect_upstream(door, host, port, HostAccessMethod::Socks).await {
        Ok(upstream) => {
            client.writer.write_all(&socks::success_reply()).await?;
            tunnel::run(door, client, upstream).await
        }
        Err(why) => client.close_with(&socks::failure_reply(&why)).await,
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
            return client.close_with(&ProxyResponse::invalid_token().to_bytes()).await;
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
        let flaw = format!("`{}` is not a host and port", shorten(target));
        return client.close_with(&ProxyResponse::malformed(&flaw).to_bytes()).await;
    };
    match connect_upstream(door, host, port, HostAccessMethod::Connect).await {
        Ok(upstream) => {
            client.writer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            tunnel::run(door, client, upstream).await
        }
        Err(why) => client.close_with(&ProxyResponse::connection_failed(&why).to_bytes()).await,
    }
}

/// Connects to a host through the egress. The client chooses the protocol.
pub(crate) async fn connect_upstream(
    door: &Egress,
    host: &str,
    port: u16,
    way: HostAccessMethod,
) -> Result<UpstreamConnection, super::refusal::ConnectionError> {
    let passage = door.connect_recorded(host, port, way).await?;
    // The egress normalized it in the same way, or there would be no connection.
    let host = normalize_host(host)?;
    Ok(UpstreamConnection {
        host,
        port,
        transport: CredentialTransport::Plain,
        stream: BufferedStream::tcp(passage.stream),
        entry: passage.entry,
    })
}
