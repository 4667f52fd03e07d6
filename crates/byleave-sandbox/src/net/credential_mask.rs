//! Masks a credential that a host sends back, before it gets inside.
//!
//! This protects against hosts that echo what they received. A host that encodes the credential first is not detected, so a
//! credential is only as safe as its host. Lengths do not change, so that every message ends where it did.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Sleep;
use zeroize::Zeroizing;

/// How long a possible beginning of a credential waits for the rest.
const PATIENCE: Duration = Duration::from_millis(20);
/// Shorter values would match ordinary text.
const SECRET_BYTES_MIN: usize = 6;

/// A reader that masks secrets.
pub(crate) struct MaskingReader<R> {
    inner: R,
    secrets: Vec<Zeroizing<Vec<u8>>>,
    /// Checked bytes, ready to be read.
    ready: Vec<u8>,
    /// Bytes that could be the beginning of a secret.
    kept: Vec<u8>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<R> MaskingReader<R> {
    /// Masks the last word of each of these values. The scheme before it is not a secret.
    pub(crate) fn new<'a>(inner: R, values: impl Iterator<Item = &'a [u8]>) -> Self {
        let word = |value: &'a [u8]| value.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        let secrets = values.map(word).filter(|word| word.len() >= SECRET_BYTES_MIN);
        let secrets = secrets.map(|word| Zeroizing::new(word.to_vec())).collect();
        Self { inner, secrets, ready: Vec::new(), kept: Vec::new(), waiting: None }
    }

    fn look_through(&mut self, came: &[u8]) {
        self.kept.extend_from_slice(came);
        let mut open = 0;
        for secret in &self.secrets {
            cover(&mut self.kept, secret);
            open = open.max(begun(&self.kept, secret));
        }
        let whole = self.kept.len().saturating_sub(open);
        self.ready.extend(self.kept.drain(..whole));
        self.waiting = (open > 0).then(|| Box::pin(tokio::time::sleep(PATIENCE)));
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MaskingReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.ready.is_empty() {
                let part = self.ready.len().min(to.remaining());
                to.put_slice(self.ready.get(..part).unwrap_or_default());
                self.ready.drain(..part);
                return Poll::Ready(Ok(()));
            }
            let mut space = vec![0; 16 << 10];
            let mut came = ReadBuf::new(&mut space);
            match Pin::new(&mut self.inner).poll_read(context, &mut came) {
                Poll::Ready(Ok(())) if came.filled().is_empty() => {
                    if self.kept.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    self.ready = std::mem::take(&mut self.kept);
                }
                Poll::Ready(Ok(())) => self.look_through(came.filled()),
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => match self.waiting.as_mut().map(|waiting| waiting.as_mut().poll(context)) {
                    Some(Poll::Ready(())) => {
                        self.waiting = None;
                        self.ready = std::mem::take(&mut self.kept);
                    }
                    Some(Poll::Pending) | None => return Poll::Pending,
                },
            }
        }
    }
}

/// Masks every occurrence of a secret.
fn cover(bytes: &mut [u8], secret: &[u8]) {
    let mut from = 0;
    while let Some(rest) = bytes.get_mut(from..) {
        let Some(at) = rest.windows(secret.len()).position(|window| window == secret) else { return };
        let end = at.saturating_add(secret.len());
        if let Some(found) = rest.get_mut(at..end) {
            found.fill(b'*');
        }
        from = from.saturating_add(end);
    }
}

/// Returns how many bytes at the end could be the beginning of a secret.
fn begun(bytes: &[u8], secret: &[u8]) -> usize {
    let longest = secret.len().saturating_sub(1).min(bytes.len());
    (1..=longest)
        .rev()
        .find(|length| secret.get(..*length).is_some_and(|begin| bytes.ends_with(begin)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_secret_is_covered_however_it_is_cut_and_nothing_else_is() {
        let text = "a hunter2hunter2 hunter hunter22, Bearer hunter2";
        for cut in 1..text.len() {
            let (mut far, near) = tokio::io::duplex(1024);
            let mut masked = MaskingReader::new(near, [&b"Bearer hunter2"[..]].into_iter());
            let (first, second) = text.as_bytes().split_at(cut);
            let mut got = Vec::new();
            far.write_all(first).await.unwrap();
            // Reads the available part before the rest arrives.
            let early = tokio::time::timeout(Duration::from_millis(1), masked.read_buf(&mut got)).await;
            drop(early);
            far.write_all(second).await.unwrap();
            drop(far);
            masked.read_to_end(&mut got).await.unwrap();
            assert_eq!(
                String::from_utf8_lossy(&got),
                "a ************** hunter *******2, Bearer *******",
                "{cut}"
            );
        }
    }

    #[tokio::test]
    async fn an_end_that_could_be_a_beginning_is_not_kept_for_ever() {
        let (mut far, near) = tokio::io::duplex(1024);
        let mut masked = MaskingReader::new(near, [&b"hunter2"[..]].into_iter());
        far.write_all(b"with h").await.unwrap();
        let mut got = [0; 6];
        masked.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"with h");
    }
}
