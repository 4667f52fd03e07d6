//! Classifies a failed attempt: which error it is, whether a retry may succeed, and how long to wait.
//!
//! Of a provider's response only the message is kept, limited and without the key. Nothing is taken from a request.

use std::error::Error as _;
use std::time::SystemTime;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::model::ModelError;

/// The number of characters that are kept of a provider's message.
const SAID_CHARS: usize = 500;

/// The reason why a request has no response.
#[derive(Debug)]
pub(super) enum TransportError {
    /// The stream ended early.
    CutOff,
    /// Nothing arrived for too long.
    IdleTimeout,
    /// The response is too long.
    TooLarge,
    /// The response has an unexpected format.
    Unreadable(&'static str),
    /// The provider returned an error.
    Status { status: u16, wait_ms: Option<u64>, body: String },
    /// The transport failed.
    Http(reqwest::Error),
}

impl TransportError {
    /// Creates an error from an error within a stream that has no HTTP status of its own.
    pub(super) fn error(error: &Value) -> Self {
        Self::Status { status: status_of(error), wait_ms: None, body: json!({"error": error}).to_string() }
    }
}

impl From<reqwest::Error> for TransportError {
    fn from(error: reqwest::Error) -> Self {
        Self::Http(error)
    }
}

/// A failed attempt.
pub(super) struct AttemptFailure {
    pub(super) error: ModelError,
    /// Whether a retry may succeed.
    pub(super) is_retryable: bool,
    /// The waiting time that the provider asks for.
    pub(super) wait_ms: Option<u64>,
}

impl AttemptFailure {
    pub(super) fn from_transport(broken: TransportError, key: &str, with_tools: bool) -> Self {
        match broken {
            TransportError::CutOff => Self::passing(ModelError::CutOff),
            TransportError::IdleTimeout => {
                Self::passing(ModelError::Unreached { reason: "no data arrived for too long".to_owned() })
            }
            TransportError::TooLarge => {
                Self::permanent(ModelError::Unreadable { reason: "it is too long".to_owned() })
            }
            TransportError::Unreadable(why) => {
                Self::permanent(ModelError::Unreadable { reason: why.to_owned() })
            }
            TransportError::Status { status, wait_ms, body } => {
                let trouble = ErrorResponse { status, body: &body, key, with_tools }.trouble();
                let fault = match trouble.error {
                    ModelError::RateLimited { .. } => ModelError::RateLimited { wait_ms },
                    fault => fault,
                };
                Self { error: fault, wait_ms, ..trouble }
            }
            TransportError::Http(error) => Self::on_the_way(&error),
        }
    }

    fn on_the_way(error: &reqwest::Error) -> Self {
        if error.is_connect() || error.is_request() {
            // The innermost error does not contain the address.
            let mut cause = error.source();
            while let Some(deeper) = cause.and_then(|cause| cause.source()) {
                cause = Some(deeper);
            }
            let why = cause.map_or_else(|| "no connection".to_owned(), ToString::to_string);
            return Self::passing(ModelError::Unreached { reason: why });
        }
        if error.is_builder() {
            return Self::permanent(ModelError::Unfit {
                reason: "no request can be built from them".to_owned(),
            });
        }
        Self::passing(ModelError::CutOff)
    }

    fn passing(fault: ModelError) -> Self {
        Self { error: fault, is_retryable: true, wait_ms: None }
    }

    pub(super) fn permanent(fault: ModelError) -> Self {
        Self { error: fault, is_retryable: false, wait_ms: None }
    }
}

/// An error response.
struct ErrorResponse<'a> {
    status: u16,
    body: &'a str,
    key: &'a str,
    with_tools: bool,
}

impl ErrorResponse<'_> {
    fn trouble(&self) -> AttemptFailure {
        let status = self.status;
        let words = self.body.to_lowercase();
        let says = |any: &[&str]| any.iter().any(|words_of_it| words.contains(words_of_it));
        match status {
            401 | 403 => AttemptFailure::permanent(ModelError::KeyRefused { status }),
            429 => AttemptFailure::passing(ModelError::RateLimited { wait_ms: None }),
            408 | 500.. => AttemptFailure::passing(ModelError::Failed { status, body: self.said() }),
            413 => AttemptFailure::permanent(ModelError::TooLong),
            _ if says(&KEY_REFUSED) => AttemptFailure::permanent(ModelError::KeyRefused { status }),
            _ if says(&TOO_LONG) => AttemptFailure::permanent(ModelError::TooLong),
            _ if self.with_tools && says(&NO_TOOLS) => AttemptFailure::permanent(ModelError::NoTools),
            _ => AttemptFailure::permanent(ModelError::Refused { status, body: self.said() }),
        }
    }

    /// Returns the message of the response, or its beginning, without the key.
    fn said(&self) -> String {
        let body: Value = serde_json::from_str(self.body).unwrap_or(Value::Null);
        let places = ["/error/message", "/message", "/error"];
        let message = places.iter().find_map(|place| body.pointer(place).and_then(Value::as_str));
        let mut said = message.unwrap_or(self.body).to_owned();
        if !self.key.is_empty() {
            said = said.replace(self.key, "…");
        }
        said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SAID_CHARS).collect()
    }
}

// No provider has codes for all of these, so they are recognized by words. Unknown words mean a refusal.
const KEY_REFUSED: [&str; 2] = ["api_key_invalid", "invalid_api_key"];
const TOO_LONG: [&str; 6] = [
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceeds the maximum number of tokens",
    "exceeds the context window",
    "exceeds the available context size",
];
const NO_TOOLS: [&str; 6] = [
    "does not support tool",
    "support tool use",
    "does not support function",
    "function calling is not",
    "tools are not supported",
    "--enable-auto-tool-choice",
];

/// Returns the HTTP status that corresponds to an error within a stream.
fn status_of(error: &Value) -> u16 {
    if let Some(code) = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()) {
        return code;
    }
    let words =
        ["type", "code", "status"].map(|field| error.get(field).and_then(Value::as_str).unwrap_or_default());
    let is = |any: &[&str]| words.iter().any(|word| any.contains(word));
    if is(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) {
        429
    } else if is(&["overloaded_error", "api_error", "server_error", "internal_server_error", "timeout_error"])
        // Ollama's format. Errors that it knows before the stream have an HTTP status.
        || error.is_string()
    {
        500
    } else if is(&["authentication_error", "permission_error", "invalid_api_key"]) {
        401
    } else {
        400
    }
}

/// Returns the waiting time from the headers: a number of milliseconds, of seconds, or a date.
pub(super) fn wait_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    if let Some(wait_ms) = number("retry-after-ms").or_else(|| Some(number("retry-after")? * 1000.0)) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounded, and `as` saturates"
        )]
        let whole = wait_ms.ceil() as u64;
        return wait_ms.is_finite().then_some(whole);
    }
    let date = httpdate::parse_http_date(text("retry-after")?).ok()?;
    // A date in the past means no wait.
    let wait = date.duration_since(now).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}
