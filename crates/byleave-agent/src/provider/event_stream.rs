//! Splits the bytes of a response into events, independent of how they are chunked. Sizes are limited, and input that is not an event is an
//! error.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::error::Category;

use super::retry::TransportError;

/// The maximum size of an event, and of a line of one.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// The way in which an API separates its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventFraming {
    /// As server-sent events, of which only the data is used.
    Sse,
    /// As lines of JSON.
    Lines,
}

/// A splitter that assembles events from bytes.
#[derive(Debug)]
pub(super) struct EventSplitter {
    parted: EventFraming,
    /// The line so far.
    line: Vec<u8>,
    /// Whether the last line ended with a carriage return. A following line feed then belongs to the same line end.
    after_return: bool,
    /// The data of the event so far.
    data: Option<String>,
    ready: VecDeque<String>,
}

impl EventSplitter {
    pub(super) fn new(parted: EventFraming) -> Self {
        Self { parted, line: Vec::new(), after_return: false, data: None, ready: VecDeque::new() }
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    /// Adds bytes.
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
                std::str::from_utf8(&line).map_err(|_| TransportError::Unreadable("it is not text"))?,
            )?;
        }
        self.extend(bytes)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        if self.line.len() + bytes.len() > EVENT_BYTES_MAX {
            return Err(TransportError::TooLarge);
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
                // The standard skips such lines. A provider has no reason to send one, and a skipped line could be a call.
                _ => return Err(TransportError::Unreadable("it is not an event stream")),
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
            Some(_) => return Err(TransportError::TooLarge),
        }
        Ok(())
    }
}

fn some(event: String) -> Option<String> {
    (!event.trim().is_empty()).then_some(event)
}

/// Parses an event or a part of one. A known field that occurs twice is an error.
pub(super) fn parse_json<'a, T: Deserialize<'a>>(event: &'a str) -> Result<T, TransportError> {
    serde_json::from_str(event).map_err(|error| match error.classify() {
        Category::Eof => TransportError::CutOff,
        Category::Data => TransportError::Unreadable("it does not have the format of this provider"),
        Category::Syntax | Category::Io => TransportError::Unreadable("it is not JSON"),
    })
}
