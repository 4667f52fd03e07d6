//! Requests to a host that may be read, but to which nothing may be sent.
//!
//! Only requests without a body pass, and the one that `git fetch` needs. A request still carries its address and its headers, so
//! both are bounded, in each request and in all requests of a call. That limits how much can leave, and does not prevent it.

use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::read::GzDecoder;

use super::buffered_stream::StreamReader;
use super::http_head::{BodyFraming, Header, RequestHead};

/// The maximum length of the path and query of a request, in bytes.
const TARGET_BYTES_MAX: usize = 4 << 10;
/// The maximum length of the value of a header that can have a long one, such as a token, in bytes.
const LONG_VALUE_BYTES_MAX: usize = 4 << 10;
/// The maximum length of the value of any other header, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 10;
/// The maximum length of all headers of a request that are passed on, in bytes.
const HEADER_BYTES_MAX: usize = 8 << 10;
/// The maximum length of the request of `git fetch`, in bytes.
const FETCH_BYTES_MAX: usize = 2 << 20;

/// The headers that are passed on. The content of any other one does not leave.
const HEADERS: [&str; 17] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "content-type",
    "git-protocol",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "pragma",
    "range",
    "user-agent",
    "x-github-api-version",
];

/// A request that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadRequest {
    /// It has no body.
    Plain,
    /// The request of `git fetch`, whose body names the objects that git wants and has.
    GitFetch,
}

/// A request that does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadRequestError {
    /// It would send something.
    Sends(&'static str),
    /// It is an audit of npm, which sends the list of packages. An install works without it.
    Audit,
}

/// Checks a request to a host that may only be read. Returns the body of a `git fetch`, which it takes from the reader.
pub(crate) async fn admit(
    reader: &mut StreamReader,
    (head_bytes_max, idle_timeout): (usize, Duration),
    request: &RequestHead,
    path: &str,
) -> Result<Option<Vec<u8>>, ReadRequestError> {
    match check_request(request, path)? {
        ReadRequest::Plain => Ok(None),
        ReadRequest::GitFetch => {
            let reading = reader.read_body(request.framing, head_bytes_max, FETCH_BYTES_MAX);
            let read = tokio::time::timeout(idle_timeout, reading).await;
            let body = read.ok().and_then(Result::ok).and_then(|body| fetch_body(request, body));
            body.map(Some).ok_or(ReadRequestError::Sends("a `POST` request that is not a `git fetch`"))
        }
    }
}

/// Checks the head of a request to a host that may only be read.
fn check_request(request: &RequestHead, path: &str) -> Result<ReadRequest, ReadRequestError> {
    let sends = |what| Err(ReadRequestError::Sends(what));
    if path.len() > TARGET_BYTES_MAX {
        return sends("an address of more than 4 KiB");
    }
    let mut total = 0_usize;
    for header in request.headers.iter().filter(|header| is_passed_on(header)) {
        total = total.saturating_add(header.name.len()).saturating_add(header.value.len());
        let is_long = matches!(header.name.as_str(), "authorization" | "if-none-match" | "if-match");
        if header.value.len() > if is_long { LONG_VALUE_BYTES_MAX } else { VALUE_BYTES_MAX } {
            return sends("a long header");
        }
    }
    if total > HEADER_BYTES_MAX {
        return sends("headers of more than 8 KiB");
    }
    let (resource, query) = path.split_once('?').unwrap_or((path, ""));
    if query.split('&').any(|part| part == "service=git-receive-pack") {
        return sends("a `git push`");
    }
    let is_empty = request.framing == BodyFraming::Sized(0);
    match request.method.as_str() {
        "GET" | "HEAD" | "OPTIONS" if is_empty => Ok(ReadRequest::Plain),
        "GET" | "HEAD" | "OPTIONS" => sends("a request with a body"),
        "POST" if resource.starts_with("/-/npm/v1/security/") => Err(ReadRequestError::Audit),
        "POST" if resource.ends_with("/git-upload-pack") && query.is_empty() => Ok(ReadRequest::GitFetch),
        "POST" if resource.ends_with("/git-receive-pack") => sends("a `git push`"),
        "POST" => sends("a `POST` request"),
        "PUT" => sends("a `PUT` request"),
        "PATCH" => sends("a `PATCH` request"),
        "DELETE" => sends("a `DELETE` request"),
        _ => sends("a request with another method than `GET` and `HEAD`"),
    }
}

/// Checks whether a header is passed on to a host that may only be read.
pub(crate) fn is_passed_on(header: &Header) -> bool {
    HEADERS.contains(&header.name.as_str())
}

/// Returns the body of a `git fetch`, uncompressed. `None` if it is anything else.
fn fetch_body(request: &RequestHead, body: Vec<u8>) -> Option<Vec<u8>> {
    let value = |name| {
        let mut all = request.headers.iter().filter(|header| header.name == name);
        (all.next().map(|header| header.value.as_slice()), all.next().is_none())
    };
    if value("content-type") != (Some(b"application/x-git-upload-pack-request"), true) {
        return None;
    }
    let body = match value("content-encoding") {
        (None, _) => body,
        (Some(b"gzip"), true) => {
            let mut text = Vec::new();
            let limit = FETCH_BYTES_MAX as u64;
            GzDecoder::new(body.as_slice()).take(limit.saturating_add(1)).read_to_end(&mut text).ok()?;
            text
        }
        _ => return None,
    };
    (body.len() <= FETCH_BYTES_MAX && is_fetch(&body)).then_some(body)
}

/// Checks whether a text consists of the lines of git's fetch protocol, of version 0, 1 or 2.
fn is_fetch(mut body: &[u8]) -> bool {
    while !body.is_empty() {
        let Some((digits, rest)) = body.split_at_checked(4) else { return false };
        let length = str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
        match length {
            // The end of a section, and the marks between sections.
            Some(0..=2) => body = rest,
            Some(length @ 4..) => {
                let Some((line, rest)) = rest.split_at_checked(length.saturating_sub(4)) else {
                    return false;
                };
                if !str::from_utf8(line).is_ok_and(is_fetch_line) {
                    return false;
                }
                body = rest;
            }
            _ => return false,
        }
    }
    true
}

fn is_fetch_line(line: &str) -> bool {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "want" | "have" | "shallow" => {
            let mut words = rest.split(' ');
            // In versions 0 and 1, the first line lists capabilities.
            words.next().is_some_and(is_object_id)
                && (word == "want" || rest.len() <= 64)
                && words.all(is_capability)
        }
        "want-ref" | "ref-prefix" | "deepen-not" => {
            rest.len() <= 255 && rest.starts_with("refs/") || rest == "HEAD"
        }
        "deepen" | "deepen-since" => {
            !rest.is_empty() && rest.len() <= 20 && rest.bytes().all(|byte| byte.is_ascii_digit())
        }
        "filter" => {
            rest.len() <= 64
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":=+.".contains(&byte))
        }
        "done" | "peel" | "symrefs" | "unborn" => rest.is_empty(),
        _ => rest.is_empty() && is_capability(word),
    }
}

fn is_object_id(word: &str) -> bool {
    matches!(word.len(), 40 | 64) && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Checks whether a word is a capability of the fetch protocol.
fn is_capability(word: &str) -> bool {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "command" => matches!(value, "ls-refs" | "fetch"),
        "object-format" => matches!(value, "sha1" | "sha256"),
        "agent" => value.len() <= 64 && value.bytes().all(|byte| byte.is_ascii_graphic()),
        "multi_ack"
        | "multi_ack_detailed"
        | "no-done"
        | "thin-pack"
        | "side-band"
        | "side-band-64k"
        | "ofs-delta"
        | "shallow"
        | "deepen-since"
        | "deepen-not"
        | "deepen-relative"
        | "no-progress"
        | "include-tag"
        | "allow-tip-sha1-in-want"
        | "allow-reachable-sha1-in-want"
        | "filter"
        | "sideband-all"
        | "wait-for-done"
        | "packfile-uris" => value.is_empty(),
        _ => false,
    }
}

/// The bytes that the requests of one call carried to hosts that may only be read.
#[derive(Debug, Default)]
pub(crate) struct ReadRequestBytes(AtomicU64);

impl ReadRequestBytes {
    /// Counts the bytes of a request. Returns whether the call stays within its limit.
    pub(crate) fn count(&self, bytes: usize, max: u64) -> bool {
        let before = self.0.fetch_add(bytes as u64, Ordering::Relaxed);
        before.saturating_add(bytes as u64) <= max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> RequestHead {
        RequestHead::parse(format!("{head}\r\n\r\n").as_bytes()).unwrap()
    }

    fn checked(head: &str) -> Result<ReadRequest, ReadRequestError> {
        let request = request(head);
        check_request(&request, &request.target)
    }

    // req: E7
    #[test]
    fn only_requests_that_read_pass() {
        let long = "x".repeat(5_000);
        for passes in [
            "GET / HTTP/1.1",
            "HEAD /a?b=c HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "GET / HTTP/1.1\r\nContent-Length: 0",
            "GET / HTTP/1.1\r\nAuthorization: Bearer abc",
            "GET /o/r.git/info/refs?service=git-upload-pack HTTP/1.1",
        ] {
            assert_eq!(checked(passes), Ok(ReadRequest::Plain), "{passes}");
        }
        let fetch = checked("POST /o/r.git/git-upload-pack HTTP/1.1\r\nContent-Length: 4");
        assert_eq!(fetch, Ok(ReadRequest::GitFetch));
        for sends in [
            "POST / HTTP/1.1",
            "PUT /x HTTP/1.1\r\nContent-Length: 3",
            "DELETE /x HTTP/1.1",
            "PATCH /x HTTP/1.1",
            "get / HTTP/1.1",
            "PROPFIND / HTTP/1.1",
            "TRACE / HTTP/1.1",
            "GET / HTTP/1.1\r\nContent-Length: 3",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked",
            "POST /o/r.git/git-receive-pack HTTP/1.1\r\nContent-Length: 4",
            "POST /o/r.git/git-upload-pack?x=1 HTTP/1.1\r\nContent-Length: 4",
            "GET /o/r.git/info/refs?service=git-receive-pack HTTP/1.1",
            &format!("GET /{long} HTTP/1.1"),
            &format!("GET / HTTP/1.1\r\nUser-Agent: {long}"),
            &format!("GET / HTTP/1.1\r\nAuthorization: {long}"),
            &["GET / HTTP/1.1", &"\r\nAccept: x".repeat(2_000)].concat(),
        ] {
            assert!(matches!(checked(sends), Err(ReadRequestError::Sends(_))), "{sends}");
        }
        let audit = "POST /-/npm/v1/security/advisories/bulk HTTP/1.1\r\nContent-Length: 3";
        assert_eq!(checked(audit), Err(ReadRequestError::Audit));
    }

    #[test]
    fn a_header_that_no_reading_needs_does_not_leave() {
        let head =
            request("GET / HTTP/1.1\r\nX-Canary: secret\r\nCookie: secret\r\nAccept: */*\r\nReferer: secret");
        let passed: Vec<&str> = head
            .headers
            .iter()
            .filter(|header| is_passed_on(header))
            .map(|header| header.name.as_str())
            .collect();
        assert_eq!(passed, ["accept"]);
    }

    // req: E7
    #[test]
    fn only_the_lines_of_a_fetch_are_sent_as_a_fetch() {
        let fetch = "POST /r/git-upload-pack HTTP/1.1\r\nContent-Type: application/x-git-upload-pack-request";
        let id = "0123456789abcdef0123456789abcdef01234567";
        let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
        let two = [
            line("command=fetch"),
            line("agent=git/2.47.3-Linux"),
            line("object-format=sha1"),
            "0001".into(),
            line("thin-pack"),
            line("ofs-delta"),
            line(&format!("want {id}\n")),
            line(&format!("have {id}\n")),
            line("done\n"),
            "0000".into(),
        ]
        .concat();
        let zero = [
            line(&format!("want {id} multi_ack_detailed side-band-64k thin-pack ofs-delta agent=git/2.0\n")),
            "0000".into(),
            line("done\n"),
        ]
        .concat();
        let refs = [
            line("command=ls-refs\n"),
            "0001".into(),
            line("peel\n"),
            line("ref-prefix refs/heads/\n"),
            "0000".into(),
        ];
        for body in [two, zero, refs.concat(), "0000".into()] {
            assert_eq!(fetch_body(&request(fetch), body.clone().into_bytes()), Some(body.into_bytes()));
        }
        let canary = "the content of a canary file\n";
        for body in [
            canary.to_owned(),
            line(canary),
            line(&format!("want {canary}")),
            line(&format!("want {id} {canary}")),
            line("want-ref secret/canary"),
            line(&format!("agent={}", "a".repeat(100))),
            [line("done\n"), canary.to_owned()].concat(),
            "0003".into(),
        ] {
            assert_eq!(fetch_body(&request(fetch), body.clone().into_bytes()), None, "{body}");
        }
        let other = "POST /r/git-upload-pack HTTP/1.1\r\nContent-Type: text/plain";
        assert_eq!(fetch_body(&request(other), b"0000".to_vec()), None);
    }

    #[test]
    fn the_requests_of_a_call_are_bounded_together() {
        let bytes = ReadRequestBytes::default();
        assert!(bytes.count(60, 100) && bytes.count(40, 100) && !bytes.count(1, 100));
    }
}
