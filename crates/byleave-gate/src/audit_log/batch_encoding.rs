//! Encodes the entries of one append in a row, and decodes them.
//!
//! Decoding must never hide damage. Bytes with an invalid layout become an entry that does not match its link, so that
//! the record is broken at that exact position.

use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;

/// The entries of one append, as stored in a row.
#[derive(Clone, Copy, Debug)]
pub struct EncodedBatch<'a> {
    /// The number of the first entry.
    pub seq: u32,
    /// How many entries there are.
    pub count: u32,
    /// The link of the last entry.
    pub head: Digest,
    /// The bytes that [`encode`] made.
    pub body: &'a [u8],
}

/// Encodes the entries of one append: each body follows its length, and each link but the last follows its body.
///
/// The link of the last entry is the head of the row, which has a column of its own.
pub fn encode(lines: &[ChainedEntry]) -> Option<Vec<u8>> {
    let size = lines.iter().map(|line| line.body().len() + 36).sum();
    let mut body = Vec::with_capacity(size);
    let last = lines.len().checked_sub(1)?;
    for (place, line) in lines.iter().enumerate() {
        body.extend_from_slice(&u32::try_from(line.body().len()).ok()?.to_le_bytes());
        body.extend_from_slice(line.body().as_bytes());
        if place < last {
            body.extend_from_slice(line.link().as_bytes());
        }
    }
    Some(body)
}

/// Decodes the entries of one row into `lines`. Unreadable bytes become an entry that matches no link.
pub fn decode(row: EncodedBatch<'_>, lines: &mut Vec<ChainedEntry>) {
    let mut rest = row.body;
    for place in 0..row.count {
        let seq = row.seq.saturating_add(place);
        let is_last = place + 1 == row.count;
        let line = decode_entry(&mut rest, seq, is_last.then_some(row.head));
        // Bytes after the last entry mean that the row was altered.
        let line = line.filter(|_| !is_last || rest.is_empty());
        let Some(line) = line else {
            lines.push(unreadable_entry(seq));
            return;
        };
        lines.push(line);
    }
    if row.count == 0 {
        lines.push(unreadable_entry(row.seq));
    }
}

fn decode_entry(rest: &mut &[u8], seq: u32, head: Option<Digest>) -> Option<ChainedEntry> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (body, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let (link, after) = match head {
        Some(head) => (head, after),
        None => {
            let (link, after) = after.split_first_chunk::<32>()?;
            (Digest::from_bytes(*link), after)
        }
    };
    *rest = after;
    Some(ChainedEntry::from_stored(seq, std::str::from_utf8(body).ok()?.to_owned(), link))
}

/// Returns an entry whose link matches nothing.
fn unreadable_entry(seq: u32) -> ChainedEntry {
    ChainedEntry::from_stored(seq, String::new(), Digest::from_bytes([0; 32]))
}
