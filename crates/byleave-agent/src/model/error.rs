//! Why a turn failed. An error consists of our own words and of the provider's message. It never contains parts of a request, so it has no
//! key and no header.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The reason why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelError {
    /// The key is missing or cannot be sent.
    #[error("there is no key for the model: set `{variable}`")]
    NoKey {
        /// The environment variable that should hold the key.
        variable: String,
    },
    /// The provider rejects the key.
    #[error("the provider rejects the key ({status})")]
    KeyRefused {
        /// The HTTP status.
        status: u16,
    },
    /// Too many requests, even after retries.
    #[error("the provider limits the request rate{}", after(*.wait_ms))]
    RateLimited {
        /// The waiting time that the provider asks for, if it does.
        wait_ms: Option<u64>,
    },
    /// The conversation is too long for the model.
    #[error("the conversation is too long for the model")]
    TooLong,
    /// The model does not support tools.
    #[error("the model does not support tools")]
    NoTools,
    /// The response was cut off in every attempt.
    #[error("the response was cut off")]
    CutOff,
    /// The provider failed in every attempt.
    #[error("the provider failed ({status}): {body}")]
    Failed {
        /// The HTTP status.
        status: u16,
        /// The provider's message.
        body: String,
    },
    /// The provider rejects the request.
    #[error("the provider rejects the request ({status}): {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The provider's message.
        body: String,
    },
    /// The provider could not be reached.
    #[error("cannot reach the provider: {reason}")]
    Unreached {
        /// The cause.
        reason: String,
    },
    /// The provider's response has an unexpected format.
    #[error("cannot read the response: {reason}")]
    Unreadable {
        /// The problem with it.
        reason: String,
    },
    /// The settings of the model cannot be used.
    #[error("the settings of the model are not valid: {reason}")]
    Unfit {
        /// The problem with them.
        reason: String,
    },
}

fn after(wait_ms: Option<u64>) -> String {
    wait_ms.map(|wait_ms| format!(", wait {} s", wait_ms.div_ceil(1000))).unwrap_or_default()
}
