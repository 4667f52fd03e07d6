//! Reads packet lines from a connection, and the refs of a server.

use tokio::io::{AsyncRead, AsyncReadExt as _};

use std::io;

use super::protocol::{Packet, RefAdvertisement, parse_packet};

/// The number of bytes that are read at once.
const CHUNK: usize = 32 << 10;
/// The maximum length of the refs of a server.
const REFS_BYTES_MAX: usize = 64 << 20;

/// A connection with the bytes that were read too far.
pub(super) struct PacketReader<R> {
    reader: R,
    buffer: Vec<u8>,
}

/// The refs of a server.
pub(super) enum ServerRefs {
    /// All of them.
    Complete(RefAdvertisement),
    /// The server ended before it sent anything.
    Nothing,
}

impl<R: AsyncRead + Unpin> PacketReader<R> {
    /// Creates a reader.
    pub(super) const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    /// Reads the next packet. Returns nothing at the end.
    pub(super) async fn packet(&mut self) -> Result<Option<Packet>, String> {
        loop {
            let parsed = parse_packet(&self.buffer).map_err(|error| error.to_string())?;
            if let Some((packet, length)) = parsed {
                self.buffer.drain(..length);
                return Ok(Some(packet));
            }
            let read = self.fill().await.map_err(|error| format!("the connection broke: {error}"))?;
            if read == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err("the connection ended within a line".to_owned()),
                };
            }
        }
    }

    /// Reads the next bytes, whatever they are. Returns nothing at the end.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.buffer.is_empty() && self.fill().await? == 0 {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.buffer)))
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(CHUNK);
        self.reader.read_buf(&mut self.buffer).await
    }

    /// Reads the refs of a server for a push.
    pub(super) async fn refs(&mut self) -> Result<ServerRefs, String> {
        let (mut refs, mut total) = (RefAdvertisement::default(), 0_usize);
        loop {
            match self.packet().await? {
                Some(Packet::Data(line)) => {
                    total = total.saturating_add(line.len());
                    if total > REFS_BYTES_MAX {
                        return Err("the server has too many refs".to_owned());
                    }
                    refs.add_line(&line)?;
                }
                Some(Packet::Flush) => return Ok(ServerRefs::Complete(refs)),
                None if total == 0 => return Ok(ServerRefs::Nothing),
                _ => return Err("the refs of the server are incomplete".to_owned()),
            }
        }
    }
}

/// Returns the refs in a response without the line that names the service, which only HTTP has.
pub(super) fn without_service_line(bytes: &[u8]) -> Result<&[u8], String> {
    let parse = |bytes| parse_packet(bytes).map_err(|error| error.to_string());
    let Some((Packet::Data(line), length)) = parse(bytes)? else {
        return Err("the server does not speak Git's protocol".to_owned());
    };
    if !line.starts_with(b"# service=") {
        return Ok(bytes);
    }
    let rest = bytes.get(length..).unwrap_or_default();
    match parse(rest)? {
        Some((Packet::Flush, length)) => Ok(rest.get(length..).unwrap_or_default()),
        _ => Err("the server does not speak Git's protocol".to_owned()),
    }
}

/// Returns whether a response is of version 2 of the protocol.
pub(super) fn speaks_version_2(bytes: &[u8]) -> bool {
    matches!(parse_packet(bytes), Ok(Some((Packet::Data(line), _))) if line.starts_with(b"version 2"))
}

/// Parses the refs in a response.
pub(super) fn parse_refs(mut bytes: &[u8]) -> Result<RefAdvertisement, String> {
    let mut refs = RefAdvertisement::default();
    loop {
        match parse_packet(bytes).map_err(|error| error.to_string())? {
            Some((Packet::Data(line), length)) => {
                refs.add_line(&line)?;
                bytes = bytes.get(length..).unwrap_or_default();
            }
            Some((Packet::Flush, _)) => return Ok(refs),
            _ => return Err("the refs of the server are incomplete".to_owned()),
        }
    }
}
