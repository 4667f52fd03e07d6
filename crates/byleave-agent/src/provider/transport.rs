//! Sends a request and reads the stream of its response. It never waits longer than the silence limit, and it accepts a stream only with
//! its end.

use std::time::{Duration, SystemTime};

use reqwest::{RequestBuilder, Response};
use tokio::time::timeout;

use super::event_stream::{EventFraming, EventSplitter};
use super::response_builder::ResponseBuilder;
use super::retry::{TransportError, wait_ms};

/// The maximum number of bytes that are read of an error response.
const NO_BYTES_MAX: usize = 64 << 10;

/// A parser for the events of an API.
pub(super) trait EventParser: Send {
    /// Parses an event.
    fn parse_event(
        &mut self,
        event: &str,
        speech: &mut ResponseBuilder<'_>,
    ) -> Result<StreamState, TransportError>;
}

/// The state of a stream after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    /// The stream continues.
    Continues,
    /// The stream may end here: the API has sent the stop reason and has no other end.
    MayEnd,
    /// The stream has ended.
    Ended,
}

/// Sends a request and reads its response to the end.
pub(super) async fn stream_response(
    request: RequestBuilder,
    silence: Duration,
    parted: EventFraming,
    reader: &mut dyn EventParser,
    speech: &mut ResponseBuilder<'_>,
) -> Result<(), TransportError> {
    let mut response = timeout(silence, request.send()).await.map_err(|_| TransportError::IdleTimeout)??;
    if !response.status().is_success() {
        return Err(no(response, silence).await);
    }
    let mut events = EventSplitter::new(parted);
    let mut now = StreamState::Continues;
    while let Some(bytes) =
        timeout(silence, response.chunk()).await.map_err(|_| TransportError::IdleTimeout)??
    {
        events.push(&bytes)?;
        while let Some(event) = events.next() {
            now = reader.parse_event(&event, speech)?;
            if now == StreamState::Ended {
                return Ok(());
            }
        }
    }
    if now == StreamState::MayEnd { Ok(()) } else { Err(TransportError::CutOff) }
}

/// Reads an error response as far as possible.
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
    // The body is useful, but the status is enough.
    drop(timeout(silence, reading).await);
    body.truncate(NO_BYTES_MAX);
    TransportError::Status { status, wait_ms, body: String::from_utf8_lossy(&body).into_owned() }
}
