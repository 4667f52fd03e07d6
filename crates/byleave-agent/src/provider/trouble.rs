//! What was in the way of a try: which fault it is, whether it may pass, and how long to wait.
//!
//! Of what a provider said only its message is kept, bounded and without the key. Nothing is taken from a request.

use std::error::Error as _;

use genai::Error;
use genai::webc::StreamTimeout;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::response::Broken;
use crate::model::Fault;

/// Characters kept of what a provider said.
const SAID_CHARS: usize = 500;

/// What was in the way of a try.
pub(super) struct Trouble {
    pub(super) fault: Fault,
    /// Another try may go well.
    pub(super) may_pass: bool,
    /// How long the provider says to wait.
    pub(super) wait_ms: Option<u64>,
}

impl Trouble {
    pub(super) fn of(broken: Broken, key: &str, with_tools: bool) -> Self {
        match broken {
            Broken::Off => Self::passing(Fault::CutOff),
            Broken::Endless => Self::lasting(Fault::Unreadable { why: "it is too long".to_owned() }),
            Broken::By(error) => Self::by(*error, key, with_tools),
        }
    }

    fn by(error: Error, key: &str, with_tools: bool) -> Self {
        match error {
            Error::HttpError { status, body, headers, .. } => {
                let answer = Answer { status: status.as_u16(), body: &body, key, with_tools };
                let wait_ms = wait_ms(&headers);
                match answer.trouble() {
                    Self { fault: Fault::TooMany { .. }, may_pass, .. } => {
                        Self { fault: Fault::TooMany { wait_ms }, may_pass, wait_ms }
                    }
                    trouble => Self { wait_ms, ..trouble },
                }
            }
            Error::WebStream { error, .. } => match error.downcast::<Error>() {
                Ok(inner) => Self::by(*inner, key, with_tools),
                Err(error) => Self::on_the_way(error.as_ref()),
            },
            // Within the stream, where it has no status of its own.
            Error::ChatResponse { body, .. } => {
                let status = status_of(&body);
                Answer { status, body: &body.to_string(), key, with_tools }.trouble()
            }
            Error::StreamParse { serde_error, .. } if serde_error.is_eof() => Self::passing(Fault::CutOff),
            Error::StreamParse { .. } => Self::lasting(Fault::Unreadable { why: "it is no JSON".to_owned() }),
            // Their words may hold the request or its address.
            _ => Self::lasting(Fault::Unreadable {
                why: "it does not have the form of this provider".to_owned(),
            }),
        }
    }

    fn on_the_way(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Self {
        if error.is::<StreamTimeout>() {
            return Self::passing(Fault::Unreached { why: "nothing came for too long".to_owned() });
        }
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) if error.is_connect() || error.is_request() => {
                // The innermost has no address in it.
                let mut cause = error.source();
                while let Some(deeper) = cause.and_then(|cause| cause.source()) {
                    cause = Some(deeper);
                }
                let why = cause.map_or_else(|| "no connection".to_owned(), ToString::to_string);
                Self::passing(Fault::Unreached { why })
            }
            Some(error) if error.is_builder() => {
                Self::lasting(Fault::Unfit { why: "no request can be made of them".to_owned() })
            }
            _ => Self::passing(Fault::CutOff),
        }
    }

    fn passing(fault: Fault) -> Self {
        Self { fault, may_pass: true, wait_ms: None }
    }

    fn lasting(fault: Fault) -> Self {
        Self { fault, may_pass: false, wait_ms: None }
    }
}

/// An answer that says no.
struct Answer<'a> {
    status: u16,
    body: &'a str,
    key: &'a str,
    with_tools: bool,
}

impl Answer<'_> {
    fn trouble(&self) -> Trouble {
        let status = self.status;
        let words = self.body.to_lowercase();
        let says = |any: &[&str]| any.iter().any(|words_of_it| words.contains(words_of_it));
        match status {
            401 | 403 => Trouble::lasting(Fault::KeyRefused { status }),
            429 => Trouble::passing(Fault::TooMany { wait_ms: None }),
            408 | 500.. => Trouble::passing(Fault::Failed { status, said: self.said() }),
            413 => Trouble::lasting(Fault::TooLong),
            _ if says(&KEY_REFUSED) => Trouble::lasting(Fault::KeyRefused { status }),
            _ if says(&TOO_LONG) => Trouble::lasting(Fault::TooLong),
            _ if self.with_tools && says(&NO_TOOLS) => Trouble::lasting(Fault::NoTools),
            _ => Trouble::lasting(Fault::Refused { status, said: self.said() }),
        }
    }

    /// The message in an answer, or its beginning, without the key.
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

// No provider has a code for all of these, so they are told by their words; a word that is not known is a refusal.
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

/// The status that an error within a stream stands for.
fn status_of(body: &Value) -> u16 {
    let error = body.get("error").unwrap_or(body);
    if let Some(code) = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()) {
        return code;
    }
    let words =
        ["type", "code", "status"].map(|field| error.get(field).and_then(Value::as_str).unwrap_or_default());
    let is = |any: &[&str]| words.iter().any(|word| any.contains(word));
    if is(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) {
        429
    } else if is(&["overloaded_error", "api_error", "server_error", "internal_server_error", "timeout_error"])
    {
        500
    } else if is(&["authentication_error", "permission_error", "invalid_api_key"]) {
        401
    } else {
        400
    }
}

/// How long to wait, by the headers. A date in place of seconds is not read: then we wait as long as we would.
fn wait_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let wait_ms = number("retry-after-ms").or_else(|| Some(number("retry-after")? * 1000.0))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded, and `as` saturates"
    )]
    let whole = wait_ms.ceil() as u64;
    wait_ms.is_finite().then_some(whole)
}
