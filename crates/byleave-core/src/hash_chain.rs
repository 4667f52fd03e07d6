//! The hash chain of a record: each line carries a digest of itself and of everything before it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::CallId;

/// One entry as it is stored: its bytes and its link.
///
/// It is immutable. An entry that was linked in this process is therefore trusted without hashing it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChainedEntry {
    seq: u32,
    body: String,
    link: Digest,
    /// The input of its link, if the link was made in this process.
    #[serde(skip)]
    link_input: Option<(CallId, Digest)>,
}

impl ChainedEntry {
    /// Wraps a line that was read from a store. Nothing about it is trusted.
    pub const fn from_stored(seq: u32, body: String, link: Digest) -> Self {
        Self { seq, body, link, link_input: None }
    }

    /// Creates a new line that follows the given link.
    pub fn new(call: CallId, before: Digest, seq: u32, body: String) -> Self {
        let link = compute_link(call, &before, seq, &body);
        Self { seq, body, link, link_input: Some((call, before)) }
    }

    /// Returns the position in the record, from 0.
    pub const fn seq(&self) -> u32 {
        self.seq
    }

    /// Returns the entry as JSON.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Returns the entry as JSON, by value.
    pub fn into_body(self) -> String {
        self.body
    }

    /// Returns the digest of this line and all before it.
    pub const fn link(&self) -> Digest {
        self.link
    }

    /// Checks whether the link is the digest of exactly these bytes after the link before it, in this record.
    pub fn has_valid_link(&self, call: CallId, before: &Digest) -> bool {
        self.link_input == Some((call, *before))
            || compute_link(call, before, self.seq, &self.body) == self.link
    }
}

impl PartialEq for ChainedEntry {
    fn eq(&self, other: &Self) -> bool {
        (self.seq, &self.body, self.link) == (other.seq, &other.body, other.link)
    }
}

impl Eq for ChainedEntry {}

/// Returns the link of a line, given the link before it.
pub fn compute_link(call: CallId, before: &Digest, seq: u32, body: &str) -> Digest {
    let parts: [&[u8]; 4] = [call.as_bytes(), before.as_bytes(), &seq.to_le_bytes(), body.as_bytes()];
    Digest::compute_parts("byleave.entry", &parts)
}

/// The link before the first line.
pub const GENESIS: Digest = Digest::from_bytes([0; 32]);

/// The place where a stored record no longer matches what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainDamageError {
    /// A line is missing, duplicated or out of place.
    #[error("entry {seq} is out of order (found entry {actual_seq})")]
    Order {
        /// The expected position.
        seq: u32,
        /// The position that was found.
        actual_seq: u32,
    },
    /// The bytes or the link of a line were changed.
    #[error("entry {seq} does not match its hash link")]
    Link {
        /// The position.
        seq: u32,
    },
    /// A line is not an entry.
    #[error("entry {seq} cannot be read: {why}")]
    Unreadable {
        /// The position.
        seq: u32,
        /// The reason.
        why: String,
    },
    /// A line that could not have been written at this position.
    #[error("entry {seq} is not valid at its position: {why}")]
    InvalidTransition {
        /// The position.
        seq: u32,
        /// The reason.
        why: String,
    },
}

impl ChainDamageError {
    /// Returns the position of the first bad line.
    pub const fn seq(&self) -> u32 {
        match self {
            Self::Order { seq, .. } | Self::Link { seq } => *seq,
            Self::Unreadable { seq, .. } | Self::InvalidTransition { seq, .. } => *seq,
        }
    }
}
