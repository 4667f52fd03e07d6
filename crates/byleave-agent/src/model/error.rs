//! Why a turn came to nothing. Made of our own words and of what a provider said; never of a request, so of no key and no header.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a turn came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelError {
    /// There is no key, or none that could be sent.
    #[error("no key for the model: set `{variable}`")]
    NoKey {
        /// Where it is looked for.
        variable: String,
    },
    /// The provider does not take the key.
    #[error("the provider refuses the key ({status})")]
    KeyRefused {
        /// The status of its answer.
        status: u16,
    },
    /// Too many requests, also after waiting.
    #[error("the provider has too many requests{}", after(*.wait_ms))]
    TooMany {
        /// How long it says to wait, if it says so.
        wait_ms: Option<u64>,
    },
    /// The conversation is too long for the model.
    #[error("the conversation is too long for the model")]
    TooLong,
    /// The model takes no tools.
    #[error("the model takes no tools")]
    NoTools,
    /// The answer broke off in the middle, each time.
    #[error("the answer was cut off in the middle")]
    CutOff,
    /// The provider failed, each time.
    #[error("the provider failed ({status}): {said}")]
    Failed {
        /// The status of its answer.
        status: u16,
        /// What it said.
        said: String,
    },
    /// The provider does not take the request.
    #[error("the provider refuses the request ({status}): {said}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it said.
        said: String,
    },
    /// The provider was not reached.
    #[error("the provider was not reached: {why}")]
    Unreached {
        /// What was in the way.
        why: String,
    },
    /// What the provider sent is not what it should be.
    #[error("the answer cannot be read: {why}")]
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
    /// The settings of the model cannot be used.
    #[error("the model's settings cannot be used: {why}")]
    Unfit {
        /// What is wrong with them.
        why: String,
    },
}

fn after(wait_ms: Option<u64>) -> String {
    wait_ms.map(|wait_ms| format!(", wait {} s", wait_ms.div_ceil(1000))).unwrap_or_default()
}
