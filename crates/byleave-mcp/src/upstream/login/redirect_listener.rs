//! The local listener that the browser is redirected to. It accepts one redirect and closes.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

const PATH: &str = "/byleave/login";
/// The maximum size of a request.
const REQUEST_BYTES_MAX: usize = 32 << 10;
/// How long a browser may take to send it.
const REQUEST: Duration = Duration::from_secs(10);
/// The maximum number of connections at once. Browsers connect ahead of time, and other programs may connect too.
const AT_ONCE_MAX: usize = 32;

/// The listener that the browser is redirected to.
pub(super) struct RedirectListener {
    listener: TcpListener,
    port: u16,
}

/// The parameters of the redirect.
#[derive(Default)]
pub(super) struct RedirectParams {
    pub(super) state: String,
    pub(super) code: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
}

impl RedirectListener {
    pub(super) async fn new() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns its address.
    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the one redirect. Every other request gets "not found" and is ignored.
    pub(super) async fn wait_for_redirect(self, state: &str) -> io::Result<RedirectParams> {
        let mut here = JoinSet::new();
        loop {
            tokio::select! {
                came = self.listener.accept(), if here.len() < AT_ONCE_MAX => {
                    let (stream, _) = came?;
                    let (port, state) = (self.port, state.to_owned());
                    here.spawn(tokio::time::timeout(REQUEST, heard(stream, port, state)));
                }
                Some(heard) = here.join_next() => {
                    if let Ok(Ok(Ok(Some(redirected)))) = heard {
                        return Ok(redirected);
                    }
                }
            }
        }
    }
}

async fn heard(mut stream: TcpStream, port: u16, state: String) -> io::Result<Option<RedirectParams>> {
    let mut said = Vec::new();
    let mut piece = [0; 4_096];
    while !said.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await?;
        if read == 0 || said.len() + read > REQUEST_BYTES_MAX {
            return Ok(None);
        }
        said.extend_from_slice(piece.get(..read).unwrap_or_default());
    }
    let redirected = read(&String::from_utf8_lossy(&said), port);
    let (status, words) = match &redirected {
        None => ("404 Not Found", "There is nothing here."),
        Some(came) if came.state != state => {
            ("400 Bad Request", "This response belongs to another login. Nothing was done.")
        }
        Some(came) if came.code.is_none() => {
            ("200 OK", "You are not logged in. The terminal says why. You can close this page.")
        }
        Some(_) => {
            ("200 OK", "Go back to the terminal to see whether you are logged in. You can close this page.")
        }
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{words}",
        words.len()
    );
    // It does not matter whether the browser still receives this.
    if stream.write_all(answer.as_bytes()).await.is_ok() {
        drop(stream.shutdown().await);
    }
    Ok(redirected)
}

/// Parses a request if it is the redirect: a GET request for the exact path and host.
fn read(request: &str, port: u16) -> Option<RedirectParams> {
    let mut lines = request.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    let mut hosts =
        lines.filter_map(|line| line.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let ours = hosts.next()?.1.trim() == format!("127.0.0.1:{port}") && hosts.next().is_none();
    if method != "GET" || !version.starts_with("HTTP/1.") || words.next().is_some() || !ours {
        return None;
    }
    let url = Url::parse(&format!("http://127.0.0.1{PATH}?{query}")).ok()?;
    let mut redirected = RedirectParams::default();
    for (name, value) in url.query_pairs() {
        let value = value.into_owned();
        match name.as_ref() {
            "state" => redirected.state = value,
            "code" => redirected.code = Some(value),
            "iss" => redirected.issuer = Some(value),
            "error" => redirected.error = Some(value),
            _ => {}
        }
    }
    // A request with neither is not the redirect.
    (redirected.code.is_some() || redirected.error.is_some()).then_some(redirected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_redirect_counts() {
        let asked = |line: &str, host: &str| read(&format!("{line}\r\nHost: {host}\r\n\r\n"), 7);
        let good =
            asked("GET /byleave/login?code=c&state=s&iss=https%3A%2F%2Fa HTTP/1.1", "127.0.0.1:7").unwrap();
        assert_eq!((good.code.as_deref(), good.state.as_str()), (Some("c"), "s"));
        assert_eq!(good.issuer.as_deref(), Some("https://a"));
        for (line, host) in [
            ("GET /favicon.ico HTTP/1.1", "127.0.0.1:7"),
            ("GET /byleave/login HTTP/1.1", "127.0.0.1:7"),
            ("GET /byleave/login?x=1 HTTP/1.1", "127.0.0.1:7"),
            ("GET /byleave/login/?code=c&state=s HTTP/1.1", "127.0.0.1:7"),
            ("GET /byleave/login/../login?code=c&state=s HTTP/1.1", "127.0.0.1:7"),
            ("GET //byleave/login?code=c&state=s HTTP/1.1", "127.0.0.1:7"),
            ("POST /byleave/login?code=c&state=s HTTP/1.1", "127.0.0.1:7"),
            ("GET /byleave/login?code=c&state=s HTTP/1.1", "evil.example:7"),
            ("GET /byleave/login?code=c&state=s HTTP/1.1", "127.0.0.1:8"),
            ("GET /byleave/login?code=c&state=s", "127.0.0.1:7"),
        ] {
            assert!(asked(line, host).is_none(), "{line} {host}");
        }
    }
}
