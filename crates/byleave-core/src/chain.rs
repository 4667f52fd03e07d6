//! The chain of a record: each line carries a digest of itself and of everything before it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::CallId;

/// One entry as it is stored: its bytes and its link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its place in the record, from 0.
    pub seq: u32,
    /// The entry, as JSON.
    pub body: String,
    /// The digest of this line and all before it.
    pub link: Digest,
}

/// The link of a line, given the link before it.
pub fn link(call: CallId, before: &Digest, seq: u32, body: &str) -> Digest {
    let parts: [&[u8]; 4] = [call.as_bytes(), before.as_bytes(), &seq.to_le_bytes(), body.as_bytes()];
    Digest::of_parts("byleave.line", &parts)
}

/// What stands before the first line.
pub const GENESIS: Digest = Digest::from_bytes([0; 32]);

/// Where a stored record stops being what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A line is missing, doubled or out of place.
    #[error("line {seq} is not where it belongs (found {found})")]
    Order {
        /// Where.
        seq: u32,
        /// What stands there.
        found: u32,
    },
    /// A line's bytes or link are not what was written.
    #[error("line {seq} does not fit its link")]
    Link {
        /// Where.
        seq: u32,
    },
    /// A line is not an entry.
    #[error("line {seq} cannot be read: {why}")]
    Unreadable {
        /// Where.
        seq: u32,
        /// Why.
        why: String,
    },
    /// A line could not have been written there.
    #[error("line {seq} could not have been written there: {why}")]
    Misplaced {
        /// Where.
        seq: u32,
        /// Why.
        why: String,
    },
}

impl Damage {
    /// The first bad line.
    pub const fn seq(&self) -> u32 {
        match self {
            Self::Order { seq, .. } | Self::Link { seq } => *seq,
            Self::Unreadable { seq, .. } | Self::Misplaced { seq, .. } => *seq,
        }
    }
}
