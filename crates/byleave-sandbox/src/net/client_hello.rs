//! Parses a TLS ClientHello to find the server name. It performs no I/O, and its input is bounded.
//!
//! A hello that cannot be parsed is refused, because a misread hello would be an unchecked name.

/// The relevant content of a ClientHello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The server name, as it was sent.
    pub(crate) server_name: Option<String>,
    /// Whether there is a second, encrypted hello.
    pub(crate) has_encrypted_hello: bool,
    /// The length of the records that contain it.
    pub(crate) bytes: usize,
}

/// The result of parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientHelloResult {
    /// More bytes are needed.
    NeedMore,
    /// It is complete.
    Complete(ClientHello),
    /// It cannot be parsed.
    Invalid(&'static str),
}

/// The type of a handshake record.
pub(crate) const HANDSHAKE: u8 = 22;
/// The maximum length of a record after its header of five bytes.
pub(crate) const RECORD_BYTES_MAX: usize = 16_384 + 256;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_HELLO: u16 = 0xfe0d;
const ENCRYPTED_SERVER_NAME: u16 = 0xffce;

/// Parses the ClientHello at the beginning of these bytes, which are TLS records.
pub(crate) fn parse_client_hello(bytes: &[u8]) -> ClientHelloResult {
    let mut rest = ByteReader(bytes);
    let mut handshake = Vec::new();
    loop {
        if let Some(whole) = body(&handshake) {
            return match whole {
                Ok(body) => match hello(body) {
                    Some(hello) => {
                        let bytes = bytes.len().saturating_sub(rest.0.len());
                        ClientHelloResult::Complete(ClientHello { bytes, ..hello })
                    }
                    None => ClientHelloResult::Invalid("the ClientHello is malformed"),
                },
                Err(flaw) => ClientHelloResult::Invalid(flaw),
            };
        }
        let Some(kind) = rest.u8() else { return ClientHelloResult::NeedMore };
        if kind != HANDSHAKE {
            return ClientHelloResult::Invalid("the connection does not begin with a ClientHello");
        }
        let (Some(version), Some(length)) = (rest.u16(), rest.u16()) else {
            return ClientHelloResult::NeedMore;
        };
        let length = usize::from(length);
        if version >> 8 != 3 || length == 0 || length > RECORD_BYTES_MAX {
            return ClientHelloResult::Invalid("a TLS record is malformed");
        }
        let Some(fragment) = rest.take(length) else { return ClientHelloResult::NeedMore };
        handshake.extend_from_slice(fragment);
    }
}

/// Returns how many bytes, from the beginning, are records that begin no ClientHello. It may be more bytes than there are. `None`
/// if more bytes are needed to decide.
///
/// A server can ask for a second hello, even after early data, and the second could name another server. Once ciphers are agreed
/// on, a handshake record is ciphertext. It looks like a hello by chance in one of 65,536 cases.
pub(crate) fn other_records(bytes: &[u8]) -> Option<usize> {
    let mut rest = ByteReader(bytes);
    let mut passed: usize = 0;
    loop {
        let found = (|| {
            let kind = rest.u8()?;
            rest.u16()?;
            let length = usize::from(rest.u16()?);
            let begins =
                if kind == HANDSHAKE { begins_hello(rest.0.get(..length.min(2))?, length) } else { false };
            Some((length, begins))
        })();
        match found {
            None if passed == 0 => return None,
            None | Some((_, true)) => return Some(passed),
            Some((length, false)) => {
                passed = passed.saturating_add(5).saturating_add(length);
                if rest.take(length).is_none() {
                    return Some(passed);
                }
            }
        }
    }
}

fn begins_hello(content: &[u8], length: usize) -> bool {
    match content {
        // A record this short is not ciphertext.
        [CLIENT_HELLO, ..] if length < 16 => true,
        [CLIENT_HELLO, 0] => true,
        _ => false,
    }
}

/// Returns the body of the first handshake message, once it is complete.
fn body(handshake: &[u8]) -> Option<Result<&[u8], &'static str>> {
    let mut rest = ByteReader(handshake);
    if rest.u8()? != CLIENT_HELLO {
        return Some(Err("the connection does not begin with a ClientHello"));
    }
    let length = rest.u24()?;
    let body = rest.take(length)?;
    Some(if rest.0.is_empty() {
        Ok(body)
    } else {
        Err("more data follows the ClientHello in the same record")
    })
}

fn hello(body: &[u8]) -> Option<ClientHello> {
    let mut rest = ByteReader(body);
    rest.u16()?;
    rest.take(32)?;
    let session = rest.u8()?;
    rest.take(usize::from(session))?;
    let ciphers = rest.u16()?;
    rest.take(usize::from(ciphers))?;
    let compressions = rest.u8()?;
    rest.take(usize::from(compressions))?;
    let mut hello = ClientHello { server_name: None, has_encrypted_hello: false, bytes: 0 };
    if rest.0.is_empty() {
        return Some(hello);
    }
    let length = rest.u16()?;
    let mut extensions = ByteReader(rest.take(usize::from(length))?);
    if !rest.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let length = extensions.u16()?;
        let content = extensions.take(usize::from(length))?;
        match kind {
            // Two server names are ambiguous.
            SERVER_NAME if hello.server_name.is_some() => return None,
            SERVER_NAME => hello.server_name = Some(server_name(content)?),
            ENCRYPTED_HELLO | ENCRYPTED_SERVER_NAME => hello.has_encrypted_hello = true,
            _ => {}
        }
    }
    Some(hello)
}

fn server_name(content: &[u8]) -> Option<String> {
    let mut rest = ByteReader(content);
    let length = rest.u16()?;
    let mut list = ByteReader(rest.take(usize::from(length))?);
    if !rest.0.is_empty() || list.u8()? != 0 {
        return None;
    }
    let length = list.u16()?;
    let name = list.take(usize::from(length))?;
    if !list.0.is_empty() || name.is_empty() || !name.is_ascii() {
        return None;
    }
    String::from_utf8(name.to_vec()).ok()
}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        let taken = self.take(2)?;
        Some(u16::from_be_bytes(taken.try_into().ok()?))
    }

    fn u24(&mut self) -> Option<usize> {
        let high = usize::from(self.u8()?);
        Some(high << 16 | usize::from(self.u16()?))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds a ClientHello with these extensions, split into records of this many bytes.
    pub(crate) fn made(extensions: &[(u16, Vec<u8>)], cut: usize) -> Vec<u8> {
        let mut listed = Vec::new();
        for (kind, content) in extensions {
            listed.extend(kind.to_be_bytes());
            listed.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
            listed.extend(content);
        }
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend(u16::try_from(listed.len()).unwrap().to_be_bytes());
        body.extend(listed);
        let mut message = vec![CLIENT_HELLO, 0];
        message.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        message.extend(body);
        let record = |part: &[u8]| {
            let mut record = vec![HANDSHAKE, 3, 1];
            record.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
            record.extend(part);
            record
        };
        message.chunks(cut).flat_map(record).collect()
    }

    pub(crate) fn named(name: &str) -> (u16, Vec<u8>) {
        let length = u16::try_from(name.len()).unwrap();
        let mut content = (length + 3).to_be_bytes().to_vec();
        content.push(0);
        content.extend(length.to_be_bytes());
        content.extend(name.bytes());
        (SERVER_NAME, content)
    }

    fn whole(server_name: Option<&str>, hides_another: bool) -> ClientHelloResult {
        ClientHelloResult::Complete(ClientHello {
            server_name: server_name.map(Into::into),
            has_encrypted_hello: hides_another,
            bytes: 0,
        })
    }

    fn parse_client_hello(bytes: &[u8]) -> ClientHelloResult {
        match super::parse_client_hello(bytes) {
            ClientHelloResult::Complete(hello) => {
                assert_eq!(hello.bytes, bytes.len());
                ClientHelloResult::Complete(ClientHello { bytes: 0, ..hello })
            }
            other => other,
        }
    }

    #[test]
    fn a_second_hello_is_seen_behind_other_records() {
        let hello = made(&[named("b.example")], 16_000);
        let other = [20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 2, 1, 0];
        let finished = [&[22, 3, 3, 0, 40][..], &[0; 40]].concat();
        assert_eq!(other_records(&other), Some(13));
        assert_eq!(other_records(&[&other[..], &finished, &hello].concat()), Some(13 + 45));
        assert_eq!(other_records(&[&other[..], &made(&[], 1)].concat()), Some(13));
        assert_eq!(other_records(&[23, 3, 3, 0, 9, 1]), Some(14));
        assert_eq!(other_records(&hello), Some(0));
        assert_eq!(other_records(&[22, 3, 3, 0, 9]), None);
        assert_eq!(other_records(&[23, 3]), None);
    }

    #[test]
    fn a_hello_names_its_server_however_it_is_cut() {
        for cut in [1, 3, 50, 16_000] {
            let bytes = made(&[(10, vec![1, 2]), named("a.example")], cut);
            assert_eq!(parse_client_hello(&bytes), whole(Some("a.example"), false), "{cut}");
            for short in 0..bytes.len() {
                assert_eq!(parse_client_hello(&bytes[..short]), ClientHelloResult::NeedMore, "{cut} {short}");
            }
        }
        assert_eq!(parse_client_hello(&made(&[], 16_000)), whole(None, false));
        assert_eq!(
            parse_client_hello(&made(&[named("a.example"), (0xfe0d, vec![0])], 16_000)),
            whole(Some("a.example"), true)
        );
    }

    #[test]
    fn a_hello_that_could_be_read_two_ways_is_not_read() {
        let flawed = |bytes: &[u8], what: &str| {
            assert!(matches!(parse_client_hello(bytes), ClientHelloResult::Invalid(_)), "{what}")
        };
        flawed(&made(&[named("a.example"), named("b.example")], 16_000), "two extensions");
        let mut two = named("a.example").1;
        two.extend(named("b.example").1);
        flawed(&made(&[(0, two)], 16_000), "two lists");
        flawed(&made(&[(0, vec![0, 0])], 16_000), "an empty list");
        flawed(&made(&[named("a\u{e9}.example")], 16_000), "not ascii");
        flawed(&[23, 3, 3, 0, 1, 0], "application data");
        flawed(&[22, 3, 1, 0, 0], "an empty record");
        flawed(&[22, 3, 1, 255, 255], "a record too long");
        flawed(&[22, 2, 1, 0, 9], "no version of TLS");
        flawed(&[22, 3, 1, 0, 1, 2], "another handshake message");
        let mut longer = made(&[named("a.example")], 16_000);
        longer[4] += 1;
        longer.push(0);
        flawed(&longer, "more in the record");
    }
}
