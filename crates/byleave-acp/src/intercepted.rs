//! The two requests of an agent that are stopped on the way, as far as they are looked at.
//!
//! Our own few fields instead of the protocol's crate: that has its `serde_json` keep the order of fields, which it then does in the
//! whole program, and everything that is passed on is passed on as it came.

use serde::Deserialize;

/// The agent asks leave for a tool call of its own.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionRequest {
    pub(crate) session_id: String,
    pub(crate) options: Vec<PermissionOption>,
}

impl PermissionRequest {
    pub(crate) const METHOD: &str = "session/request_permission";
}

/// One of the answers that an agent offers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionOption {
    pub(crate) option_id: String,
    pub(crate) kind: PermissionOptionKind,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PermissionOptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// One that this version does not know, and never chooses.
    #[serde(other)]
    Other,
}

/// The agent has the editor write a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriteFileRequest {
    pub(crate) session_id: String,
    pub(crate) path: String,
    pub(crate) content: String,
}

impl WriteFileRequest {
    pub(crate) const METHOD: &str = "fs/write_text_file";
}
