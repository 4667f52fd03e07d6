//! The two requests of an agent that the proxy stops, with only the fields that it reads.
//!
//! These types are defined here because the protocol's crate makes `serde_json` preserve the order of fields in the whole program. The
//! proxy passes on all messages unchanged.

use serde::Deserialize;

/// A permission request of the agent for one of its own tool calls.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionRequest {
    pub(crate) session_id: String,
    pub(crate) options: Vec<PermissionOption>,
}

impl PermissionRequest {
    pub(crate) const METHOD: &str = "session/request_permission";
}

/// One answer that an agent offers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionOption {
    pub(crate) option_id: String,
    pub(crate) kind: PermissionOptionKind,
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PermissionOptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// A kind that this version does not know and never chooses.
    #[serde(other)]
    Other,
}

/// A request of the agent that the editor write a file.
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
