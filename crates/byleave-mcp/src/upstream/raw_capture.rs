//! Captures the bytes that a server sends. Tool definitions are pinned exactly as they came, and a flood is cut off.
//!
//! The protocol's own types keep only known fields. A pin over them would miss changes of the others.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};

/// The maximum size of one message.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;
/// The maximum number of bytes that a server may send within [`SPAN`]: twice the most that was observed.
const SPAN_BYTES_MAX: u64 = 512 << 20;
const SPAN_LINES_MAX: u64 = 250_000;
const SPAN: Duration = Duration::from_secs(5);

/// The captured data.
#[derive(Clone, Debug, Default)]
pub(super) struct CapturedListing(Arc<Mutex<CaptureState>>);

#[derive(Debug, Default)]
struct CaptureState {
    /// The tool definitions since the capture began.
    tools: Option<Vec<Value>>,
    /// Why the server was cut off.
    cut: Option<&'static str>,
}

/// The stream of a server on its way to the reader.
#[derive(Debug)]
pub(super) struct CapturingReader<R> {
    from: R,
    heard: CapturedListing,
    line: Vec<u8>,
    listening: bool,
    span: RateWindow,
}

#[derive(Debug)]
struct RateWindow {
    since: Instant,
    bytes: u64,
    lines: u64,
    line_bytes: usize,
}

impl CapturedListing {
    /// Begins to capture tool definitions.
    pub(super) fn start_capture(&self) {
        self.state().tools = Some(Vec::new());
    }

    /// Ends the capture and returns the tool definitions.
    pub(super) fn tools(&self) -> Vec<Value> {
        self.state().tools.take().unwrap_or_default()
    }

    /// Returns why the server was cut off, if it was.
    pub(super) fn cut(&self) -> Option<&'static str> {
        self.state().cut
    }

    fn listening(&self) -> bool {
        self.state().tools.is_some()
    }

    fn line(&self, line: &[u8]) {
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else { return };
        let Some(Value::Array(tools)) = message.pointer_mut("/result/tools").map(Value::take) else { return };
        if let Some(heard) = &mut self.state().tools {
            heard.extend(tools);
        }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, CaptureState> {
        self.0.lock()
    }
}

impl<R> CapturingReader<R> {
    pub(super) fn new(from: R, heard: CapturedListing) -> Self {
        let span = RateWindow { since: Instant::now(), bytes: 0, lines: 0, line_bytes: 0 };
        Self { from, heard, line: Vec::new(), listening: false, span }
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.span.count(bytes)?;
        // Checked once for each piece that is read, which is cheap compared to the read.
        let listening = self.heard.listening();
        if !listening && !self.listening {
            return Ok(());
        }
        self.listening = listening;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.heard.line(&self.line);
                self.line.clear();
            }
        }
        if !listening {
            self.line.clear();
        }
        Ok(())
    }
}

impl RateWindow {
    fn count(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if self.since.elapsed() > SPAN {
            (self.since, self.bytes, self.lines) = (Instant::now(), 0, 0);
        }
        self.bytes += bytes.len() as u64;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line_bytes += piece.len();
            if self.line_bytes > MAX_LINE_BYTES {
                return Err("it sent a message that is longer than 16 MiB");
            }
            if piece.ends_with(b"\n") {
                (self.lines, self.line_bytes) = (self.lines + 1, 0);
            }
        }
        if self.bytes > SPAN_BYTES_MAX || self.lines > SPAN_LINES_MAX {
            return Err("it sent too much data in a short time");
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CapturingReader<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.from).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = &read {
            let fresh = buffer.filled().get(before..).unwrap_or_default().to_vec();
            if let Err(why) = this.pass(&fresh) {
                this.heard.state().cut = Some(why);
                return Poll::Ready(Err(io::Error::other(why)));
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn tools_are_heard_as_they_were_sent() {
        let heard = CapturedListing::default();
        let text =
            b"{\"id\":1,\"result\":{\"tools\":[{\"name\":\"a\",\"odd\":1}]}}\n{\"id\":2,\"result\":{}}\n";
        heard.start_capture();
        let mut tap = CapturingReader::new(&text[..], heard.clone());
        let mut read = Vec::new();
        // In small chunks, as pipes may deliver them.
        let mut piece = [0; 7];
        loop {
            let n = tap.read(&mut piece).await.unwrap();
            if n == 0 {
                break;
            }
            read.extend_from_slice(&piece[..n]);
        }
        assert_eq!(read, text);
        assert_eq!(heard.tools(), [serde_json::json!({"name": "a", "odd": 1})]);
        assert_eq!(heard.cut(), None);
    }

    // req: M2
    #[tokio::test]
    async fn a_line_without_an_end_is_cut_off() {
        let heard = CapturedListing::default();
        let mut tap = CapturingReader::new(tokio::io::repeat(b'x'), heard.clone());
        let mut piece = vec![0; 1 << 20];
        let ended = loop {
            if let Err(error) = tap.read(&mut piece).await {
                break error;
            }
        };
        assert!(ended.to_string().contains("16 MiB"), "{ended}");
        assert!(heard.cut().is_some());
    }
}
