//! A request and the stream that answers it. Nothing is waited for longer than silence may last, and a stream counts only with its end.

use std::time::{Duration, SystemTime};

use reqwest::{RequestBuilder, Response};
use tokio::time::timeout;

use super::event_stream::{EventFraming, EventSplitter};
use super::response_builder::ResponseBuilder;
use super::retry::{TransportError, wait_ms};

/// Of an answer that says no, so many bytes are read.
const NO_BYTES_MAX: usize = 64 << 10;

/// Reads the events of a dialect.
pub(super) trait EventParser: Send {
    /// Takes an event.
    fn read(&mut self, event: &str, speech: &mut ResponseBuilder<'_>) -> Result<StreamState, TransportError>;
}

/// Where a stream is after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    /// Before its end.
    GoesOn,
    /// It may end here: the dialect has said why it stopped, and has no other end.
    MayEnd,
    /// It ended.
    Ended,
}

/// Sends a request and hears what answers it to its end.
pub(super) async fn hear(
    request: RequestBuilder,
    silence: Duration,
    parted: EventFraming,
    reader: &mut dyn EventParser,
    speech: &mut ResponseBuilder<'_>,
) -> Result<(), TransportError> {
    let mut response = timeout(silence, request.send()).await.map_err(|_| TransportError::Silent)??;
    if !response.status().is_success() {
        return Err(no(response, silence).await);
    }
    let mut events = EventSplitter::new(parted);
    let mut now = StreamState::GoesOn;
    while let Some(bytes) = timeout(silence, response.chunk()).await.map_err(|_| TransportError::Silent)?? {
        events.push(&bytes)?;
        while let Some(event) = events.next() {
            now = reader.read(&event, speech)?;
            if now == StreamState::Ended {
                return Ok(());
            }
        }
    }
    if now == StreamState::MayEnd { Ok(()) } else { Err(TransportError::Off) }
}

/// An answer that says no, as far as it can be read.
async fn no(mut response: Response, silence: Duration) -> TransportError {
    let status = response.status().as_u16();
    let wait_ms = wait_ms(response.headers(), SystemTime::now());
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await
            && body.len() < NO_BYTES_MAX
        {
            body.extend_from_slice(&bytes);
        }
    };
    // What it says is of use, but the status is enough.
    drop(timeout(silence, reading).await);
    body.truncate(NO_BYTES_MAX);
    TransportError::No { status, wait_ms, body: String::from_utf8_lossy(&body).into_owned() }
}
