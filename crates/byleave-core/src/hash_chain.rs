//! The chain of a record: each line carries a digest of itself and of everything before it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::CallId;

/// One entry as it is stored: its bytes and its link.
///
/// It cannot be changed, only replaced: so one that was linked here need not be hashed again to be believed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChainedEntry {
    seq: u32,
    body: String,
    link: Digest,
    /// What its link was made from, where it was made in this process.
    #[serde(skip)]
    linked: Option<(CallId, Digest)>,
}

impl ChainedEntry {
    /// A line as it was found somewhere. Nothing about it is believed.
    pub const fn found(seq: u32, body: String, link: Digest) -> Self {
        Self { seq, body, link, linked: None }
    }

    /// A new line behind everything that the link before it stands for.
    pub fn linked(call: CallId, before: Digest, seq: u32, body: String) -> Self {
        let link = link(call, &before, seq, &body);
        Self { seq, body, link, linked: Some((call, before)) }
    }

    /// Its place in the record, from 0.
    pub const fn seq(&self) -> u32 {
        self.seq
    }

    /// The entry, as JSON.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The entry, as JSON.
    pub fn into_body(self) -> String {
        self.body
    }

    /// The digest of this line and all before it.
    pub const fn link(&self) -> Digest {
        self.link
    }

    /// Whether its link is that of these very bytes behind the link before it, in this record.
    pub fn follows(&self, call: CallId, before: &Digest) -> bool {
        self.linked == Some((call, *before)) || link(call, before, self.seq, &self.body) == self.link
    }
}

impl PartialEq for ChainedEntry {
    fn eq(&self, other: &Self) -> bool {
        (self.seq, &self.body, self.link) == (other.seq, &other.body, other.link)
    }
}

impl Eq for ChainedEntry {}

/// The link of a line, given the link before it.
pub fn link(call: CallId, before: &Digest, seq: u32, body: &str) -> Digest {
    let parts: [&[u8]; 4] = [call.as_bytes(), before.as_bytes(), &seq.to_le_bytes(), body.as_bytes()];
    Digest::of_parts("byleave.line", &parts)
}

/// What stands before the first line.
pub const GENESIS: Digest = Digest::from_bytes([0; 32]);

/// Where a stored record stops being what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainDamage {
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

impl ChainDamage {
    /// The first bad line.
    pub const fn seq(&self) -> u32 {
        match self {
            Self::Order { seq, .. } | Self::Link { seq } => *seq,
            Self::Unreadable { seq, .. } | Self::Misplaced { seq, .. } => *seq,
        }
    }
}
