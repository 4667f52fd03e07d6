//! The protocol for reviewers outside this process.
//!
//! The subject is a JSON object with `stage` (`input` or `output`), `call`, `tool`, `arguments`, and `plan` or `output`.
//! The opinion is `true`, `false`, or an object with `opinion` (`pass`, `change`, `hold`, `deny`), `reason`, and for a
//! change `value`. Anything else is invalid and therefore an objection.

use byleave_core::effect::Plan;
use byleave_core::id::CallId;
use byleave_core::outcome::Output;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::review::{InputSubject, Opinion, OutputSubject, ReviewError};

/// The subject that is sent.
#[derive(Serialize)]
#[serde(tag = "stage", rename_all = "lowercase")]
pub(super) enum WireSubject<'a> {
    Input { call: CallId, tool: &'a str, arguments: &'a Value, plan: &'a Plan },
    Output { call: CallId, tool: &'a str, arguments: &'a Value, output: &'a Output },
}

impl<'a> From<InputSubject<'a>> for WireSubject<'a> {
    fn from(subject: InputSubject<'a>) -> Self {
        let InputSubject { call, tool, arguments, plan } = subject;
        Self::Input { call, tool, arguments, plan }
    }
}

impl<'a> From<OutputSubject<'a>> for WireSubject<'a> {
    fn from(subject: OutputSubject<'a>) -> Self {
        let OutputSubject { call, tool, arguments, output } = subject;
        Self::Output { call, tool, arguments, output }
    }
}

impl WireSubject<'_> {
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, ReviewError> {
        serde_json::to_vec(self)
            .map_err(|error| ReviewError::Failed(format!("cannot encode the subject: {error}")))
    }
}

/// The opinion that is received.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum WireOpinion<T> {
    Verdict(bool),
    Full(FullOpinion<T>),
}

// `Pass {}` and not `Pass`: only a variant with braces rejects unknown fields, such as the value of a misspelt change.
#[derive(Deserialize)]
#[serde(tag = "opinion", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum FullOpinion<T> {
    Pass {},
    Change { value: T, reason: Option<String> },
    Hold { reason: Option<String> },
    Deny { reason: Option<String> },
}

impl<T> From<WireOpinion<T>> for Opinion<T> {
    fn from(wire: WireOpinion<T>) -> Self {
        match wire {
            WireOpinion::Verdict(approved) => approved.into(),
            WireOpinion::Full(FullOpinion::Pass {}) => Self::Pass,
            WireOpinion::Full(FullOpinion::Change { value, reason: why }) => {
                Self::Change { value, reason: why }
            }
            WireOpinion::Full(FullOpinion::Hold { reason: why }) => Self::Hold { reason: why },
            WireOpinion::Full(FullOpinion::Deny { reason: why }) => Self::Deny { reason: why },
        }
    }
}

/// Parses an answer. Fails if it is invalid.
pub(super) fn parse_response<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, ReviewError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ReviewError::InvalidResponse(format!("the answer is not a valid opinion: {error}")))
}
