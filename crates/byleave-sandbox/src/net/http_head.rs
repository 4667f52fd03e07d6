//! Parses HTTP/1 heads strictly and serializes them again. It performs no I/O.
//!
//! If two parsers disagree where a message ends, a request can be smuggled in another. So nothing is passed on as received. Lines
//! end in CR LF, a length is given once and in one way, and only parsed content is sent.

/// Where the body of a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// There is none, or it has this many bytes.
    Sized(u64),
    /// In chunks.
    Chunked,
    /// At the end of the connection.
    UntilClosed,
}

/// A header, its name in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) version: HttpVersion,
    pub(crate) headers: Vec<Header>,
    pub(crate) framing: BodyFraming,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) version: HttpVersion,
    pub(crate) headers: Vec<Header>,
    /// The framing that its headers declare. A response to `HEAD` never has a body.
    pub(crate) framing: BodyFraming,
}

/// A version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    /// HTTP/1.0, which closes after each response.
    Zero,
    /// HTTP/1.1.
    One,
}

/// Hop-by-hop headers, which are not forwarded, and headers that the proxy writes itself.
const OURS: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
    "transfer-encoding",
    "content-length",
    "http2-settings",
    "alt-svc",
];

/// Returns the length of a head, including the empty line at its end.
pub(crate) fn find_end(bytes: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3);
    let found = bytes.get(start..)?.windows(4).position(|four| four == b"\r\n\r\n")?;
    start.checked_add(found)?.checked_add(4)
}

impl RequestHead {
    /// Parses the head of a request, including the empty line.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let (line, headers) = lines(bytes)?;
        let line = str::from_utf8(line).map_err(|_| "the first line is not text")?;
        let [method, target, version] = line
            .split(' ')
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| "the first line does not have three words")?;
        if !is_token(method.as_bytes())
            || !target.bytes().all(|byte| byte.is_ascii_graphic())
            || target.is_empty()
        {
            return Err("the first line has a forbidden character");
        }
        let version = HttpVersion::read(version).ok_or("the version is not HTTP/1.0 or HTTP/1.1")?;
        let framing = framing(&headers, BodyFraming::Sized(0))?;
        if version == HttpVersion::Zero && framing == BodyFraming::Chunked {
            return Err("the message is HTTP/1.0 and chunked");
        }
        Ok(Self { method: method.to_owned(), target: target.to_owned(), version, headers, framing })
    }

    /// Returns its only `Host`. `Err` if there are several, or if it is not valid text.
    pub(crate) fn host(&self) -> Result<Option<&str>, &'static str> {
        let mut hosts = self.headers.iter().filter(|header| header.name == "host");
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err("the message has more than one `Host`");
        }
        host.map(|host| str::from_utf8(&host.value).map_err(|_| "the `Host` header is not text")).transpose()
    }

    /// Returns whether another request may follow on the connection.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.version == HttpVersion::One && !says_close(&self.headers)
    }
}

impl ResponseHead {
    /// Parses the head of a response, including the empty line.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let (line, headers) = lines(bytes)?;
        let line = String::from_utf8_lossy(line);
        let mut words = line.splitn(3, ' ');
        let version =
            words.next().and_then(HttpVersion::read).ok_or("the version is not HTTP/1.0 or HTTP/1.1")?;
        let status =
            words.next().filter(|word| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit()));
        let status: u16 = status.and_then(|word| word.parse().ok()).ok_or("the response has no status")?;
        let reason: String = words.next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        let framing = match status {
            100..=199 | 204 | 304 => BodyFraming::Sized(0),
            _ => framing(&headers, BodyFraming::UntilClosed)?,
        };
        Ok(Self { status, reason, version, headers, framing })
    }

    /// Returns whether another request may follow on the connection, if the body has this framing.
    pub(crate) fn keeps_alive(&self, framing: BodyFraming) -> bool {
        self.version == HttpVersion::One && !says_close(&self.headers) && framing != BodyFraming::UntilClosed
    }
}

impl HttpVersion {
    fn read(text: &str) -> Option<Self> {
        match text {
            "HTTP/1.0" => Some(Self::Zero),
            "HTTP/1.1" => Some(Self::One),
            _ => None,
        }
    }
}

impl Header {
    /// Returns whether the header is forwarded: it is not hop-by-hop, and `Connection` does not name it.
    pub(crate) fn is_forwarded(&self, all: &[Self]) -> bool {
        let named = || {
            all.iter()
                .filter(|header| header.name == "connection")
                .any(|header| lists(&header.value, &self.name))
        };
        !OURS.contains(&self.name.as_str()) && !named()
    }

    pub(crate) fn write(name: &str, value: &[u8], out: &mut Vec<u8>) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
}

impl BodyFraming {
    /// Writes the header that declares this framing.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Sized(length) => Header::write("content-length", length.to_string().as_bytes(), out),
            Self::Chunked => Header::write("transfer-encoding", b"chunked", out),
            Self::UntilClosed => {}
        }
    }
}

/// Returns whether the bytes are a token, as in header names and methods.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(fits)
}

fn lines(bytes: &[u8]) -> Result<(&[u8], Vec<Header>), &'static str> {
    let bytes = bytes.strip_suffix(b"\r\n\r\n").ok_or("the headers have no end")?;
    let mut lines = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        lines.push(line);
    }
    let last = lines.len().saturating_sub(1);
    let mut whole = Vec::with_capacity(lines.len());
    for (at, line) in lines.into_iter().enumerate() {
        // Every line ends in CR LF, except for the last, whose end was removed above.
        let line = if at == last {
            line
        } else {
            line.strip_suffix(b"\r").ok_or("a header line ends in LF only")?
        };
        if line.iter().any(|byte| matches!(byte, b'\r' | 0)) {
            return Err("a header line has a CR or a NUL");
        }
        whole.push(line);
    }
    let (first, rest) = whole.split_first().ok_or("the headers are empty")?;
    let headers = rest.iter().map(|line| header(line)).collect::<Result<_, _>>()?;
    Ok((first, headers))
}

fn header(line: &[u8]) -> Result<Header, &'static str> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or("a header has no colon")?;
    let (name, value) = line.split_at(colon);
    // Also refuses a folded line, which begins with a space.
    if !is_token(name) {
        return Err("a header name has a forbidden character");
    }
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Ok(Header { name, value: value.to_vec() })
}

fn framing(headers: &[Header], otherwise: BodyFraming) -> Result<BodyFraming, &'static str> {
    let all = |name: &str| {
        headers
            .iter()
            .filter(|header| header.name == name)
            .map(|header| header.value.as_slice())
            .collect::<Vec<_>>()
    };
    match (all("transfer-encoding").as_slice(), all("content-length").as_slice()) {
        ([], []) => Ok(otherwise),
        ([coding], []) if coding.eq_ignore_ascii_case(b"chunked") => Ok(BodyFraming::Chunked),
        ([], [length]) => {
            let digits = !length.is_empty() && length.len() < 19 && length.iter().all(u8::is_ascii_digit);
            let length =
                str::from_utf8(length).ok().filter(|_| digits).and_then(|length| length.parse().ok());
            length.map(BodyFraming::Sized).ok_or("the content length is not a number")
        }
        (_, []) => Err("the message has a transfer coding other than `chunked`"),
        _ => Err("the message states its length twice"),
    }
}

fn says_close(headers: &[Header]) -> bool {
    headers.iter().filter(|header| header.name == "connection").any(|header| lists(&header.value, "close"))
}

fn lists(value: &[u8], word: &str) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read() {
        let read = RequestHead::parse(
            b"POST http://a.example/x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\n",
        )
        .unwrap();
        assert_eq!((read.method.as_str(), read.target.as_str()), ("POST", "http://a.example/x"));
        assert_eq!(
            (read.framing, read.host(), read.keeps_alive()),
            (BodyFraming::Sized(3), Ok(Some("a.example")), true)
        );
        assert_eq!(find_end(b"GET / HTTP/1.1\r\n\r\nrest", 0), Some(18));
    }

    #[test]
    fn what_two_readers_would_read_differently_is_not_read() {
        for head in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / x HTTP/1.1\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(RequestHead::parse(head.as_bytes()).is_err(), "{head:?}");
        }
        let two = RequestHead::parse(b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n").unwrap();
        assert!(two.host().is_err());
    }
}
