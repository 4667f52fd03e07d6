//! Parses SOCKS5 requests. Only connecting is supported. The token is in the password.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::buffered_stream::{BufferedStream, StreamReader, malformed_error};
use super::refusal::ConnectionError;

/// The first byte of SOCKS5.
pub(crate) const VERSION: u8 = 5;

const PASSWORD: u8 = 2;
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const UNREACHABLE: u8 = 4;
const NO_SUCH_COMMAND: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;

/// A SOCKS request.
pub(crate) struct SocksRequest {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The presented token.
    pub(crate) token: Option<Vec<u8>>,
}

/// Reads the request. `None` if it is not a connect request, which was then answered.
pub(crate) async fn read_request(client: &mut BufferedStream) -> io::Result<Option<SocksRequest>> {
    let reader = &mut client.reader;
    if reader.read_u8().await? != VERSION {
        return Err(malformed_error("not SOCKS5"));
    }
    let mut methods = vec![0; usize::from(reader.read_u8().await?)];
    reader.read_exact(&mut methods).await?;
    // A client that offers a name and password has a token.
    let pass = if methods.contains(&PASSWORD) {
        client.writer.write_all(&[VERSION, PASSWORD]).await?;
        let pass = password(reader).await?;
        client.writer.write_all(&[1, 0]).await?;
        Some(pass)
    } else if methods.contains(&0) {
        client.writer.write_all(&[VERSION, 0]).await?;
        None
    } else {
        client.close_with(&[VERSION, 0xff]).await?;
        return Ok(None);
    };
    let mut head = [0; 4];
    reader.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != VERSION {
        return Err(malformed_error("not SOCKS5"));
    }
    let host = match kind {
        1 => Ipv4Addr::from_bits(reader.read_u32().await?).to_string(),
        4 => Ipv6Addr::from_bits(reader.read_u128().await?).to_string(),
        3 => {
            let mut name = vec![0; usize::from(reader.read_u8().await?)];
            reader.read_exact(&mut name).await?;
            // Bytes that are not valid text become an invalid host, which is refused.
            String::from_utf8(name).unwrap_or_else(|_| "\u{0}".to_owned())
        }
        _ => {
            client.close_with(&reply(NO_SUCH_ADDRESS)).await?;
            return Ok(None);
        }
    };
    let port = reader.read_u16().await?;
    if command != 1 || port == 0 {
        client.close_with(&reply(NO_SUCH_COMMAND)).await?;
        return Ok(None);
    }
    Ok(Some(SocksRequest { host, port, token: pass }))
}

/// Reads the password. The user name is ignored.
async fn password(reader: &mut StreamReader) -> io::Result<Vec<u8>> {
    if reader.read_u8().await? != 1 {
        return Err(malformed_error("not a SOCKS5 user name and password"));
    }
    let mut name = vec![0; usize::from(reader.read_u8().await?)];
    reader.read_exact(&mut name).await?;
    let mut password = vec![0; usize::from(reader.read_u8().await?)];
    reader.read_exact(&mut password).await?;
    Ok(password)
}

/// Returns the reply to a client without a token of a running call.
pub(crate) fn invalid_token_reply() -> [u8; 10] {
    reply(NOT_ALLOWED)
}

/// Returns the reply to a granted request.
pub(crate) fn success_reply() -> [u8; 10] {
    reply(SUCCEEDED)
}

/// Returns the reply to a request that was refused or failed.
pub(crate) fn failure_reply(why: &ConnectionError) -> [u8; 10] {
    reply(match why {
        ConnectionError::Refused(_) => NOT_ALLOWED,
        ConnectionError::Failed { .. } => UNREACHABLE,
    })
}

const fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}
