//! Reads and writes JSON-RPC lines within limits. It parses no more than necessary and passes lines on unchanged.
//!
//! It does not pass on an agent's line that two readers could read differently: a duplicate field, a batch, or no object. The gate must
//! evaluate exactly what the receiver reads.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// The maximum length of a message.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// The envelope of a message. Unknown fields are ignored; a known field that occurs twice is an error.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Option<Value>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Parses a line. Returns `None` if it is not one message with exactly one reading.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let envelope: Self = serde_json::from_slice(line).ok()?;
        let is_answer = envelope.result.is_some() || envelope.error.is_some();
        (envelope.method.is_some() != is_answer).then_some(envelope)
    }

    /// Returns the id of the request, or of the request that this message answers.
    pub(crate) fn id(&self) -> Option<RequestId> {
        self.id.clone().filter(|id| !id.is_null()).map(RequestId)
    }

    /// Checks whether the message is an answer.
    pub(crate) const fn is_response(&self) -> bool {
        self.method.is_none()
    }
}

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestId(Value);

/// A message to write.
#[derive(Debug)]
pub(crate) enum OutgoingMessage {
    /// A line. The writer adds a line end if there is none.
    Line(Vec<u8>),
    /// The end of the stream.
    End,
}

/// Returns a successful answer to a request.
pub(crate) fn result(id: &RequestId, result: &Value) -> OutgoingMessage {
    line(&json!({ "jsonrpc": "2.0", "id": id.0, "result": result }))
}

/// Returns an error as the answer to a request.
pub(crate) fn error(id: &RequestId, code: i32, message: &str) -> OutgoingMessage {
    line(&json!({ "jsonrpc": "2.0", "id": id.0, "error": { "code": code, "message": message } }))
}

/// Returns a request.
pub(crate) fn request_message(id: &RequestId, method: &str, params: &Value) -> OutgoingMessage {
    line(&json!({ "jsonrpc": "2.0", "id": id.0, "method": method, "params": params }))
}

fn line(value: &Value) -> OutgoingMessage {
    OutgoingMessage::Line(format!("{value}\n").into_bytes())
}

/// Reads the next line with its line end. Returns `None` at the end of the stream, and an error if the line is too long.
pub(crate) async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    loop {
        let mut line = Vec::new();
        (&mut *from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.len() as u64 >= LINE_BYTES_MAX {
            return Err(std::io::Error::other("a message is too long"));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(line));
        }
    }
}

/// Writes messages until the end of the stream.
pub(crate) async fn write_messages(
    mut to: impl AsyncWrite + Unpin,
    mut from: mpsc::Receiver<OutgoingMessage>,
) -> std::io::Result<()> {
    while let Some(OutgoingMessage::Line(line)) = from.recv().await {
        to.write_all(&line).await?;
        if !line.ends_with(b"\n") {
            to.write_all(b"\n").await?;
        }
        to.flush().await?;
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_readers_could_read_differently_is_not_read() {
        for bad in [
            r#"{"method":"a","method":"fs/write_text_file","id":1}"#,
            r#"{"id":1,"method":"a","id":2}"#,
            r#"{"method":"a","params":{},"params":{}}"#,
            r#"[{"method":"fs/write_text_file","id":1}]"#,
            r#"{"id":1}"#,
            r#"{"id":1,"method":"a","result":{}}"#,
            r#"{"id":1,"method":"a"} {"id":2,"method":"b"}"#,
            "null",
            "{",
        ] {
            assert!(Envelope::parse(bad.as_bytes()).is_none(), "{bad}");
        }
        let escaped =
            Envelope::parse(br#"{"method":"fs\/write_text_\u0066ile","id":"x","params":{"a":1}}"#).unwrap();
        assert_eq!(escaped.method.as_deref(), Some("fs/write_text_file"));
        assert!(Envelope::parse(br#"{"id":1,"result":null}"#).is_none_or(|answer| answer.is_response()));
    }
}
