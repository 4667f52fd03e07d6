//! The two ends of a connection, with buffered reading and counted copying.
//!
//! Buffered bytes were read but not passed on yet. They can be inspected repeatedly before they are forwarded.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::decision_log::NetworkLogEntry;
use super::http_head;

/// The size of one read.
const STRIDE: usize = 64 << 10;

/// The write half of a connection.
pub(crate) type StreamWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// One end of a connection.
pub(crate) struct BufferedStream {
    pub(crate) reader: StreamReader,
    pub(crate) writer: StreamWriter,
}

/// The read half of a connection, with its unused bytes.
pub(crate) struct StreamReader {
    inner: Box<dyn AsyncRead + Send + Unpin>,
    buffer: Vec<u8>,
    used: usize,
}

/// The error for a head that could not be read.
#[derive(Debug)]
pub(crate) enum ReadHeadError {
    /// The peer closed before the head began.
    Closed,
    /// It exceeds the maximum size.
    TooLong,
    /// It took too long.
    TooSlow,
    /// The connection failed.
    Io(io::Error),
}

impl BufferedStream {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: StreamReader::new(Box::new(reader)), writer: Box::new(writer) }
    }

    pub(crate) fn from_stream<S: AsyncRead + AsyncWrite + Send + 'static>(stream: S) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: StreamReader::new(Box::new(reader)), writer: Box::new(writer) }
    }

    /// Writes a final message, and keeps reading for a moment. Closing a connection with unread bytes would reset it, and the
    /// message would be lost.
    pub(crate) async fn close_with(&mut self, last: &[u8]) -> io::Result<()> {
        self.writer.write_all(last).await?;
        self.writer.shutdown().await?;
        let drained = async {
            let mut left: usize = 1 << 20;
            while left > 0 {
                self.reader.consume(usize::MAX);
                match self.reader.fill_buffer().await? {
                    0 => break,
                    read => left = left.saturating_sub(read),
                }
            }
            Ok(())
        };
        tokio::time::timeout(Duration::from_secs(1), drained).await.unwrap_or(Ok(()))
    }
}

impl StreamReader {
    pub(crate) fn new(inner: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self { inner, buffer: Vec::new(), used: 0 }
    }

    /// Returns the unused bytes.
    pub(crate) fn buffered(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    /// Consumes this many of the unused bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.used = self.used.saturating_add(count).min(self.buffer.len());
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// Reads more bytes after the unused ones. Returns 0 at the end. It is cancel-safe.
    pub(crate) async fn fill_buffer(&mut self) -> io::Result<usize> {
        if self.buffer.capacity().saturating_sub(self.buffer.len()) < STRIDE / 4 {
            self.buffer.drain(..self.used.min(self.buffer.len()));
            self.used = 0;
            self.buffer.reserve(STRIDE);
        }
        self.inner.read_buf(&mut self.buffer).await
    }

    /// Returns whether the peer is still connected and has sent nothing unexpected.
    pub(crate) async fn is_idle(&mut self) -> bool {
        if !self.buffered().is_empty() {
            return false;
        }
        let mut more = Box::pin(self.fill_buffer());
        poll_fn(|context| Poll::Ready(more.as_mut().poll(context).is_pending())).await
    }

    /// Takes the next HTTP head.
    pub(crate) async fn read_head(
        &mut self,
        bytes_max: usize,
        idle: Duration,
        whole: Duration,
    ) -> Result<Vec<u8>, ReadHeadError> {
        if self.buffered().is_empty() {
            match tokio::time::timeout(idle, self.fill_buffer()).await {
                Err(_) | Ok(Ok(0)) => return Err(ReadHeadError::Closed),
                Ok(read) => read.map_err(ReadHeadError::Io)?,
            };
        }
        tokio::time::timeout(whole, self.head_begun(bytes_max)).await.unwrap_or(Err(ReadHeadError::TooSlow))
    }

    async fn head_begun(&mut self, bytes_max: usize) -> Result<Vec<u8>, ReadHeadError> {
        let mut searched = 0;
        loop {
            let held = self.buffered();
            if let Some(end) = http_head::find_end(held, searched) {
                if end > bytes_max {
                    return Err(ReadHeadError::TooLong);
                }
                let head = held.get(..end).unwrap_or_default().to_vec();
                self.consume(end);
                return Ok(head);
            }
            searched = held.len();
            if searched > bytes_max {
                return Err(ReadHeadError::TooLong);
            }
            if self.fill_buffer().await.map_err(ReadHeadError::Io)? == 0 {
                return Err(ReadHeadError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Takes a line that ends in CR LF, without its end.
    async fn line(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffered().windows(2).position(|two| two == b"\r\n") {
                if end > bytes_max {
                    return Err(malformed_error("a line of a chunk is too long"));
                }
                let line = self.buffered().get(..end).unwrap_or_default().to_vec();
                self.consume(end.saturating_add(2));
                return Ok(line);
            }
            if self.buffered().len() > bytes_max.saturating_add(2) {
                return Err(malformed_error("a line of a chunk is too long"));
            }
            self.need_more().await?;
        }
    }

    async fn need_more(&mut self) -> io::Result<()> {
        if self.fill_buffer().await? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Copies everything until the peer closes, and then closes.
    pub(crate) async fn copy_all(&mut self, to: &mut StreamWriter, count: impl Fn(usize)) -> io::Result<()> {
        loop {
            if self.buffered().is_empty() && self.fill_buffer().await? == 0 {
                return to.shutdown().await;
            }
            let held = self.buffered();
            to.write_all(held).await?;
            to.flush().await?;
            let copied = held.len();
            count(copied);
            self.consume(copied);
        }
    }

    /// Copies this many bytes.
    pub(crate) async fn copy_sized(
        &mut self,
        to: &mut StreamWriter,
        length: u64,
        count: impl Fn(usize),
    ) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            if self.buffered().is_empty() {
                // Flushes before waiting, because the receiver may need these bytes before the next ones come.
                to.flush().await?;
                self.need_more().await?;
            }
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffered().len());
            to.write_all(self.buffered().get(..part).unwrap_or_default()).await?;
            count(part);
            self.consume(part);
            left = left.saturating_sub(part as u64);
        }
        Ok(())
    }

    /// Takes a body of at most this many bytes.
    pub(crate) async fn read_body(
        &mut self,
        framing: http_head::BodyFraming,
        trailer_bytes_max: usize,
        bytes_max: usize,
    ) -> io::Result<Vec<u8>> {
        let body = BoundedBody { bytes: Arc::default(), bytes_max };
        let mut writer: StreamWriter = Box::new(body.clone());
        match framing {
            http_head::BodyFraming::Sized(length) => self.copy_sized(&mut writer, length, |_| {}).await?,
            http_head::BodyFraming::Chunked => {
                self.copy_chunked(&mut writer, ChunkFraming::Raw, trailer_bytes_max, |_| {}).await?
            }
            http_head::BodyFraming::UntilClosed => return Err(malformed_error("a request has no end")),
        }
        Ok(std::mem::take(&mut *body.bytes.lock()))
    }

    /// Copies a chunked body, either as new chunks or, for a receiver that cannot read them, as plain bytes. Chunk extensions and
    /// trailers are dropped.
    pub(crate) async fn copy_chunked(
        &mut self,
        to: &mut StreamWriter,
        written: ChunkFraming,
        bytes_max: usize,
        count: impl Fn(usize),
    ) -> io::Result<()> {
        loop {
            to.flush().await?;
            let line = self.line(1024).await?;
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
            let hex = !digits.is_empty() && digits.len() < 16 && digits.iter().all(u8::is_ascii_hexdigit);
            let size = str::from_utf8(digits).ok().filter(|_| hex);
            let size = size.and_then(|size| u64::from_str_radix(size, 16).ok());
            let size = size.ok_or_else(|| malformed_error("the size of a chunk is not a number"))?;
            if written == ChunkFraming::Chunked {
                to.write_all(format!("{size:x}\r\n").as_bytes()).await?;
            }
            if size == 0 {
                break;
            }
            self.copy_sized(to, size, &count).await?;
            if !self.line(0).await?.is_empty() {
                return Err(malformed_error("a chunk is longer than it says"));
            }
            if written == ChunkFraming::Chunked {
                to.write_all(b"\r\n").await?;
            }
        }
        let mut left = bytes_max;
        loop {
            let line = self.line(left).await?;
            if line.is_empty() {
                break;
            }
            left = left.checked_sub(line.len()).ok_or_else(|| malformed_error("the trailer is too long"))?;
        }
        if written == ChunkFraming::Chunked { to.write_all(b"\r\n").await } else { Ok(()) }
    }
}

/// A body that is collected up to a limit.
#[derive(Clone)]
struct BoundedBody {
    bytes: Arc<Mutex<Vec<u8>>>,
    bytes_max: usize,
}

impl AsyncWrite for BoundedBody {
    fn poll_write(self: Pin<&mut Self>, _context: &mut Context<'_>, part: &[u8]) -> Poll<io::Result<usize>> {
        let mut bytes = self.bytes.lock();
        if bytes.len().saturating_add(part.len()) > self.bytes_max {
            return Poll::Ready(Err(malformed_error("the body is too long")));
        }
        bytes.extend_from_slice(part);
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The way a chunked body is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkFraming {
    /// As chunks.
    Chunked,
    /// As plain bytes.
    Raw,
}

impl AsyncRead for StreamReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.buffered().is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, to);
        }
        let part = self.buffered().len().min(to.remaining());
        to.put_slice(self.buffered().get(..part).unwrap_or_default());
        self.consume(part);
        Poll::Ready(Ok(()))
    }
}

/// Copies in both directions until both are closed, or nothing moves for too long.
pub(crate) async fn relay(
    client: &mut BufferedStream,
    upstream: &mut BufferedStream,
    entry: &NetworkLogEntry,
    idle: Duration,
) -> io::Result<()> {
    let up = client.reader.copy_all(&mut upstream.writer, |bytes| entry.count_sent(bytes));
    let down = upstream.reader.copy_all(&mut client.writer, |bytes| entry.count_received(bytes));
    let both = async { tokio::try_join!(up, down).map(drop) };
    with_idle_timeout(both, entry, idle).await
}

/// Runs this future, unless no byte is counted for too long.
pub(crate) async fn with_idle_timeout<T>(
    work: impl Future<Output = io::Result<T>>,
    entry: &NetworkLogEntry,
    idle: Duration,
) -> io::Result<T> {
    let silence = async {
        let mut before = entry.total_bytes();
        loop {
            tokio::time::sleep(idle).await;
            let now = entry.total_bytes();
            if now == before {
                return;
            }
            before = now;
        }
    };
    tokio::select! {
        done = work => done,
        () = silence => {
            entry.add_reason("closed, because no data moved for too long");
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

pub(crate) fn malformed_error(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
