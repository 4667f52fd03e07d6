//! The proxy: one port that answers CONNECT, requests in plain HTTP, and SOCKS5.
//!
//! The port was made inside the sandbox and handed out; what is connected to it can reach nothing but this code. It reads no
//! settings and no variables of its own environment: every way out is the door's.

use std::io;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::credential::Over;
use super::doors::{self, Doors};
use super::head::Request;
use super::http::{self, After, Said, Upstream};
use super::line::Line;
use super::log::Way;
use super::policy::Door;
use super::spelling::{shortened, spelled};
use super::{socks, tunnel};

/// Serves one connection to the proxy.
pub(crate) async fn serve(doors: &Doors, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = Line::tcp(stream);
    let bounds = doors.bounds();
    // Until it shows whose it is, a connection may not linger.
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
        None => client.close_with(&Said::no_pass().bytes()).await,
    }
}

/// The pass that a request shows.
fn pass(request: &Request) -> Option<Vec<u8>> {
    let shown = request.headers.iter().find(|header| header.name == "proxy-authorization")?;
    Some(doors::pass_of(&shown.value))
}

async fn by_socks(door: &Door, mut client: Line, host: &str, port: u16) -> io::Result<()> {
    match enter(door, host, port, Way::Socks).await {
        Ok(upstream) => {
            client.writer.write_all(&socks::given()).await?;
            tunnel::run(door, client, upstream).await
        }
        Err(why) => client.close_with(&socks::unconnected(&why)).await,
    }
}

async fn by_http(door: &Door, mut client: Line, first: Request, shown: Option<Vec<u8>>) -> io::Result<()> {
    let mut kept = None;
    let mut next = Some(first);
    while let Some(request) = next {
        // One connection, one call: what began for one does not go on for another.
        if pass(&request) != shown {
            return client.close_with(&Said::no_pass().bytes()).await;
        }
        if request.method == "CONNECT" {
            drop(kept);
            return by_connect(door, client, &request.target).await;
        }
        if http::serve_named(door, &mut client, &request, &mut kept).await? == After::Close {
            return Ok(());
        }
        next = http::next_request(door.bounds(), &mut client).await?;
    }
    Ok(())
}

async fn by_connect(door: &Door, mut client: Line, target: &str) -> io::Result<()> {
    let Some((host, port)) = http::host_and_port(target, 443) else {
        let flaw = format!("`{}` is no host and port", shortened(target));
        return client.close_with(&Said::malformed(&flaw).bytes()).await;
    };
    match enter(door, host, port, Way::Connect).await {
        Ok(upstream) => {
            client.writer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            tunnel::run(door, client, upstream).await
        }
        Err(why) => client.close_with(&Said::unconnected(&why).bytes()).await,
    }
}

/// Goes through the door, to a host that is then spoken to as the client likes.
pub(crate) async fn enter(
    door: &Door,
    host: &str,
    port: u16,
    way: Way,
) -> Result<Upstream, super::refusal::Unconnected> {
    let passage = door.enter(host, port, way).await?;
    // The door spelled it the same way, or there would be no passage.
    let host = spelled(host)?;
    Ok(Upstream { host, port, over: Over::Plain, line: Line::tcp(passage.stream), entry: passage.entry })
}
