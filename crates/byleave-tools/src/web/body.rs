//! Reads a response body as it arrives, decompresses it, and never keeps more than the limit.
//!
//! The limit applies to the decompressed size, because a few kilobytes of gzip can expand to gigabytes. A second limit applies to the
//! received size, because an endless stream can expand to nothing.

use std::io::{self, Write};
use std::time::Duration;

use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::CONTENT_ENCODING;
use tokio::time::{Instant, timeout_at};

/// The number of bytes by which a compressed body may exceed the limit on the wire: headers of members, and blocks that do not shrink.
const WIRE_SLACK_BYTES: usize = 64 << 10;

/// A body, as far as it was read.
#[derive(Debug)]
pub(super) struct ResponseBody {
    pub(super) bytes: Vec<u8>,
    /// The number of received bytes.
    pub(super) received_bytes: usize,
    pub(super) end: BodyEnd,
}

/// The reason why reading ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// The body is complete.
    Complete,
    /// The limit was reached.
    Truncated,
    /// The time was over.
    TimedOut(Duration),
    /// The connection broke, or the content cannot be decompressed.
    Failed(String),
}

/// Checks whether a body has a supported compression. `Err` names an unsupported one.
pub(super) fn is_compressed(headers: &HeaderMap) -> Result<bool, String> {
    let mut packed = false;
    for value in headers.get_all(CONTENT_ENCODING) {
        for way in String::from_utf8_lossy(value.as_bytes()).split(',') {
            match way.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => {}
                "gzip" | "x-gzip" if !packed => packed = true,
                other => return Err(other.chars().take(40).flat_map(char::escape_default).collect()),
            }
        }
    }
    Ok(packed)
}

/// Reads a body until it ends, reaches its limit, or its time is over.
pub(super) async fn read_body(
    body: Incoming,
    packed: bool,
    bytes_max: usize,
    began: Instant,
    until: Instant,
) -> ResponseBody {
    let mut sink = if packed {
        BodySink::Packed(Box::new(MultiGzDecoder::new(LimitedBuffer::to(bytes_max))))
    } else {
        BodySink::Plain(LimitedBuffer::to(bytes_max))
    };
    let mut received = 0_usize;
    let end = fill(body, &mut sink, &mut received, bytes_max.saturating_add(WIRE_SLACK_BYTES), until).await;
    let end = end.unwrap_or_else(|_| BodyEnd::TimedOut(until.duration_since(began)));
    let (bytes, end) = sink.finish(end);
    ResponseBody { bytes, received_bytes: received, end }
}

/// The error for a time that is over.
struct BodyTimeoutError;

async fn fill(
    mut body: Incoming,
    sink: &mut BodySink,
    received: &mut usize,
    wire_max: usize,
    until: Instant,
) -> Result<BodyEnd, BodyTimeoutError> {
    loop {
        let frame = match timeout_at(until, body.frame()).await.map_err(|_| BodyTimeoutError)? {
            None => return Ok(BodyEnd::Complete),
            Some(Err(error)) => return Ok(BodyEnd::Failed(format!("the connection failed: {error}"))),
            Some(Ok(frame)) => frame,
        };
        let Ok(bytes) = frame.into_data() else { continue };
        *received = received.saturating_add(bytes.len());
        match sink.write_all(&bytes) {
            Ok(()) if *received > wire_max => return Ok(BodyEnd::Truncated),
            Ok(()) => {}
            Err(_) if sink.is_full() => return Ok(BodyEnd::Truncated),
            Err(error) => return Ok(BodyEnd::Failed(format!("the body cannot be decompressed: {error}"))),
        }
    }
}

/// The destination of a body.
enum BodySink {
    Plain(LimitedBuffer),
    Packed(Box<MultiGzDecoder<LimitedBuffer>>),
}

impl BodySink {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(limited) => limited.write_all(bytes),
            // Without the flush, decompressed data would stay inside until more input arrives.
            Self::Packed(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Plain(limited) => limited.is_full,
            Self::Packed(decoder) => decoder.get_ref().is_full,
        }
    }

    fn finish(self, end: BodyEnd) -> (Vec<u8>, BodyEnd) {
        match self {
            Self::Plain(limited) => (limited.bytes, end),
            Self::Packed(mut decoder) => {
                let end = match (end, decoder.try_finish()) {
                    (BodyEnd::Complete, Err(_)) if decoder.get_ref().is_full => BodyEnd::Truncated,
                    (BodyEnd::Complete, Err(error)) => {
                        BodyEnd::Failed(format!("the body cannot be decompressed: {error}"))
                    }
                    (end, _) => end,
                };
                (std::mem::take(&mut decoder.get_mut().bytes), end)
            }
        }
    }
}

/// A buffer that accepts this many bytes and fails on the next.
struct LimitedBuffer {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_full: bool,
}

impl LimitedBuffer {
    fn to(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, is_full: false }
    }
}

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.bytes_max.saturating_sub(self.bytes.len());
        if room == 0 && !bytes.is_empty() {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.bytes.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
