//! Defines how a run of sealed rows is laid out, chained and signed. Every audit log that seals uses this format.
//!
//! A segment names every row in its position, with the last link of the row. A row that is changed, moved, removed or cut
//! off after sealing is therefore detected.

use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use ed25519_dalek::{Signature, VerifyingKey};
use uuid::Uuid;

/// The maximum number of rows in one segment.
pub const MAX_ROWS: i64 = 16_384;
const LAYOUT_VERSION: u8 = 1;
const ROW_BYTES: usize = 16 + 4 + 4 + 32;

/// The decoded body of a segment.
#[derive(Debug, PartialEq, Eq)]
pub struct SegmentBody {
    /// The number of the segment, from 1.
    pub number: u64,
    /// The digest of the previous segment.
    pub prev_digest: Digest,
    /// The position of the first row.
    pub first_pos: i64,
    /// The rows, at consecutive positions.
    pub rows: Vec<SealedRow>,
}

/// One row, as it was when it was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedRow {
    /// The call of the record, or the id of the admin action.
    pub call: CallId,
    /// The number of its first entry.
    pub seq: u32,
    /// How many entries it has.
    pub count: u32,
    /// The link of its last entry.
    pub head: Digest,
}

impl SegmentBody {
    /// Returns the position after the last row.
    pub fn end_pos(&self) -> i64 {
        self.first_pos.saturating_add(i64::try_from(self.rows.len()).unwrap_or(i64::MAX))
    }

    /// Encodes the body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(49 + self.rows.len() * ROW_BYTES);
        body.push(LAYOUT_VERSION);
        body.extend_from_slice(&self.number.to_le_bytes());
        body.extend_from_slice(self.prev_digest.as_bytes());
        body.extend_from_slice(&self.first_pos.to_le_bytes());
        for row in &self.rows {
            body.extend_from_slice(row.call.as_bytes());
            body.extend_from_slice(&row.seq.to_le_bytes());
            body.extend_from_slice(&row.count.to_le_bytes());
            body.extend_from_slice(row.head.as_bytes());
        }
        body
    }

    /// Decodes a body. Returns `None` if its layout is not valid.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let rest = body.strip_prefix(&[LAYOUT_VERSION])?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (before, rest) = rest.split_first_chunk::<32>()?;
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let (rows, over) = rest.as_chunks::<ROW_BYTES>();
        if !over.is_empty() {
            return None;
        }
        Some(Self {
            number: u64::from_le_bytes(*number),
            prev_digest: Digest::from_bytes(*before),
            first_pos: i64::from_le_bytes(*first),
            rows: rows.iter().map(|row| parse_row(row)).collect::<Option<_>>()?,
        })
    }
}

fn parse_row(bytes: &[u8]) -> Option<SealedRow> {
    let (call, rest) = bytes.split_first_chunk::<16>()?;
    let (seq, rest) = rest.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (head, _) = rest.split_first_chunk::<32>()?;
    Some(SealedRow {
        call: CallId::new(Uuid::from_bytes(*call)),
        seq: u32::from_le_bytes(*seq),
        count: u32::from_le_bytes(*count),
        head: Digest::from_bytes(*head),
    })
}

/// Returns the digest of a segment. The next segment is chained to it, and the signature covers it.
pub fn segment_digest(body: &[u8]) -> Digest {
    Digest::compute_parts("byleave.segment", &[body])
}

/// Checks whether a segment has a valid signature of this key.
pub fn has_valid_signature(key: &VerifyingKey, body: &[u8], signature: &[u8]) -> bool {
    Signature::from_slice(signature)
        .is_ok_and(|signature| key.verify_strict(segment_digest(body).as_bytes(), &signature).is_ok())
}

/// The error for a restored old copy.
pub const OLDER_THAN_ANCHOR: &str =
    "the audit log is older than its anchor: an old copy was restored, or its end was cut off";

/// Encodes bytes in hexadecimal.
pub fn hex(bytes: &[u8; 32]) -> String {
    Digest::from_bytes(*bytes).to_string()
}
