//! Events out of the bytes of an answer, however they are cut. Bounded, and what is no event is no answer.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::error::Category;

use super::retry::TransportError;

/// An event, and a line of one, has at most so many bytes.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// How a dialect parts its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventFraming {
    /// As server-sent events, of which only the data counts.
    Sse,
    /// By lines, each one JSON.
    Lines,
}

/// Gathers bytes to events.
#[derive(Debug)]
pub(super) struct EventSplitter {
    parted: EventFraming,
    /// The line so far.
    line: Vec<u8>,
    /// The line before ended with a carriage return: a line feed now is of the same end.
    after_return: bool,
    /// The data of the event so far.
    data: Option<String>,
    ready: VecDeque<String>,
}

impl EventSplitter {
    pub(super) fn new(parted: EventFraming) -> Self {
        Self { parted, line: Vec::new(), after_return: false, data: None, ready: VecDeque::new() }
    }

    /// The next event that is whole.
    pub(super) fn next(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    /// Takes more bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TransportError> {
        while let Some(at) = memchr::memchr2(b'\n', b'\r', bytes)
            && let Some((line, [end, rest @ ..])) = bytes.split_at_checked(at)
        {
            bytes = rest;
            let was_return = std::mem::replace(&mut self.after_return, *end == b'\r');
            if was_return && *end == b'\n' && line.is_empty() && self.line.is_empty() {
                continue;
            }
            self.extend(line)?;
            let line = std::mem::take(&mut self.line);
            self.end_line(
                std::str::from_utf8(&line).map_err(|_| TransportError::Unreadable("it is no text"))?,
            )?;
        }
        self.extend(bytes)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        if self.line.len() + bytes.len() > EVENT_BYTES_MAX {
            return Err(TransportError::Endless);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, line: &str) -> Result<(), TransportError> {
        match self.parted {
            EventFraming::Lines => self.ready.extend(some(line.to_owned())),
            EventFraming::Sse if line.is_empty() => self.ready.extend(self.data.take().and_then(some)),
            EventFraming::Sse => match line.split_once(':') {
                Some(("data", data)) => self.add(data.strip_prefix(' ').unwrap_or(data))?,
                Some(("" | "event" | "id" | "retry", _)) => {}
                // Elsewhere such lines are skipped. A provider has no reason to send any, and what is skipped could be a call.
                _ => return Err(TransportError::Unreadable("it is no stream of events")),
            },
        }
        Ok(())
    }

    fn add(&mut self, more: &str) -> Result<(), TransportError> {
        match &mut self.data {
            None => self.data = Some(more.to_owned()),
            Some(data) if data.len() + more.len() < EVENT_BYTES_MAX => {
                data.push('\n');
                data.push_str(more);
            }
            Some(_) => return Err(TransportError::Endless),
        }
        Ok(())
    }
}

fn some(event: String) -> Option<String> {
    (!event.trim().is_empty()).then_some(event)
}

/// What an event, or a part of one, holds. A field that is known and stands twice is not chosen between.
pub(super) fn json<'a, T: Deserialize<'a>>(event: &'a str) -> Result<T, TransportError> {
    serde_json::from_str(event).map_err(|error| match error.classify() {
        Category::Eof => TransportError::Off,
        Category::Data => TransportError::Unreadable("it does not have the form of this provider"),
        Category::Syntax | Category::Io => TransportError::Unreadable("it is no JSON"),
    })
}
