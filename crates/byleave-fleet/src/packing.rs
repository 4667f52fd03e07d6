//! How a record lies in the engine's state: small. An open question should cost less than a kilobyte of it.
//!
//! Lines are kept without their links, which follow from them; the last link is kept, and everything is held against it
//! when it is read. Nothing that cannot be read back whole is ever taken for a shorter record.

use std::cell::RefCell;
use std::io;

use byleave_core::digest::Digest;
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::CallId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zstd::bulk::{Compressor, Decompressor};

/// What zstd may refer back to. To change it is to make everything that was packed unreadable: add a new version beside it.
const DICTIONARY: &[u8] = include_bytes!("packing/dictionary-1.txt");
/// The version of the layout, and of the dictionary.
const VERSION: u8 = 1;
const LEVEL: i32 = 9;
/// No packed text is larger than that; what says it is was not written by us.
const PLAIN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The name under which the record of a call lies in its state.
pub(crate) const RECORD: &str = "r";
/// What the names begin with under which sealed contents lie in the state, beside the record.
pub(crate) const CONTENTS: char = 'c';

/// The name of the contents that came with the lines from this place on.
pub(crate) fn contents_name(seq: u32) -> String {
    format!("{CONTENTS}{seq}")
}

/// Why something packed cannot be read, or something cannot be packed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackingFault {
    #[error("it is not laid out as it was written")]
    Layout,
    #[error("it was packed by a newer version ({0})")]
    Version(u8),
    #[error("zstd: {0}")]
    Zstd(#[from] io::Error),
}

/// What is kept of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The last request that added to it.
    pub(crate) token: Uuid,
    /// The wrapped key; absent where the contents were forgotten.
    pub(crate) key: Option<Vec<u8>>,
    /// The link of the last line.
    pub(crate) head: Digest,
    /// The lines.
    pub(crate) bodies: Vec<String>,
    /// What the book must still be told; absent where there is no book.
    pub(crate) projected: Option<Projected>,
}

/// How far a record has come into the book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Projected {
    /// So many lines are in the book. Never more than it has acknowledged.
    pub(crate) acknowledged: u32,
    /// How many lines each append brought: the book takes a record only as it was cut at first.
    pub(crate) cuts: Vec<u32>,
    /// What a list shows of the call.
    pub(crate) noted: Noted,
}

/// What a list shows of a call and its record does not say. In the clear here as it is in every book: secrets are taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// The agent, where it is not named as the record names it.
    pub(crate) agent: Option<String>,
    /// The tool's own name.
    pub(crate) tool: String,
    /// The word for it in the book.
    pub(crate) operation: String,
    /// What it would do, in a line.
    pub(crate) summary: String,
}

/// What is left of a call once the book has all of it: enough to know the last request again, and to be no new call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// The last request that added to it.
    pub(crate) token: Uuid,
}

impl Tombstone {
    pub(crate) fn pack(self) -> Vec<u8> {
        self.token.as_bytes().to_vec()
    }

    pub(crate) fn unpack(packed: &[u8]) -> Result<Self, PackingFault> {
        Uuid::from_slice(packed).map(|token| Self { token }).map_err(|_| PackingFault::Layout)
    }
}

impl Kept {
    /// Adds the lines of one append that came from elsewhere.
    pub(crate) fn push(&mut self, line: ChainedEntry) {
        self.head = line.link();
        self.bodies.push(line.into_body());
        if let Some(projected) = &mut self.projected {
            projected.cuts.push(1);
        }
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.bodies.len()).unwrap_or(u32::MAX)
    }

    /// The lines as they were written; where they do not lead to the last link, the last one says so.
    pub(crate) fn lines(&self, call: CallId) -> Vec<ChainedEntry> {
        lines(call, &self.bodies, self.head)
    }

    pub(crate) fn pack(&self) -> Result<Vec<u8>, PackingFault> {
        let key = self.key.as_deref().unwrap_or_default();
        let mut packed = vec![VERSION, u8::try_from(key.len()).map_err(|_| PackingFault::Layout)?];
        packed.extend_from_slice(key);
        packed.extend_from_slice(self.token.as_bytes());
        packed.extend_from_slice(self.head.as_bytes());
        // An entry is one line of JSON, and so is what is noted: a line break cannot stand inside.
        let mut text = self.bodies.join("\n");
        match &self.projected {
            None => put_number(&mut packed, 0),
            Some(Projected { acknowledged, cuts, noted: Noted { agent, tool, operation, summary } }) => {
                put_number(&mut packed, u32::try_from(cuts.len()).map_err(|_| PackingFault::Layout)?);
                cuts.iter().chain([acknowledged]).for_each(|number| put_number(&mut packed, *number));
                let noted = serde_json::to_string(&(agent, tool, operation, summary));
                text = format!("{text}\n{}", noted.map_err(|_| PackingFault::Layout)?);
            }
        }
        packed.extend_from_slice(&squeeze(&fold(&text))?);
        Ok(packed)
    }

    pub(crate) fn unpack(packed: &[u8]) -> Result<Self, PackingFault> {
        let ([version, key_len], rest) = packed.split_first_chunk::<2>().ok_or(PackingFault::Layout)?;
        if *version != VERSION {
            return Err(PackingFault::Version(*version));
        }
        let (key, rest) = rest.split_at_checked(usize::from(*key_len)).ok_or(PackingFault::Layout)?;
        let (token, rest) = rest.split_first_chunk::<16>().ok_or(PackingFault::Layout)?;
        let (head, mut rest) = rest.split_first_chunk::<32>().ok_or(PackingFault::Layout)?;
        let appends = take_number(&mut rest)?;
        let cuts = (0..appends).map(|_| take_number(&mut rest)).collect::<Result<Vec<u32>, _>>()?;
        let acknowledged = if appends > 0 { take_number(&mut rest)? } else { 0 };
        let text = unfold(&unsqueeze(rest)?)?;
        let mut bodies: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let mut projected = None;
        if appends > 0 {
            let noted = bodies.pop().and_then(|noted| serde_json::from_str(&noted).ok());
            let (agent, tool, operation, summary) = noted.ok_or(PackingFault::Layout)?;
            projected =
                Some(Projected { acknowledged, cuts, noted: Noted { agent, tool, operation, summary } });
        }
        Ok(Self {
            token: Uuid::from_bytes(*token),
            key: (!key.is_empty()).then(|| key.to_vec()),
            head: Digest::from_bytes(*head),
            bodies,
            projected,
        })
    }
}

/// Writes a number in as few bytes as it needs: seven bits each, the last one marked.
fn put_number(packed: &mut Vec<u8>, mut number: u32) {
    loop {
        let bits = number.to_le_bytes().first().map_or(0, |low| low & 0x7F);
        number >>= 7;
        if number == 0 {
            packed.push(bits | 0x80);
            return;
        }
        packed.push(bits);
    }
}

/// Reads [`put_number`] back.
fn take_number(rest: &mut &[u8]) -> Result<u32, PackingFault> {
    let mut number: u64 = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (byte, after) = rest.split_first().ok_or(PackingFault::Layout)?;
        *rest = after;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 != 0 {
            return u32::try_from(number).map_err(|_| PackingFault::Layout);
        }
    }
    Err(PackingFault::Layout)
}

/// Lines from their bodies. Where they do not lead to `head`, the last line is given it, and so does not fit its link.
pub(crate) fn lines(call: CallId, bodies: &[String], head: Digest) -> Vec<ChainedEntry> {
    let mut lines = continue_lines(call, 0, GENESIS, bodies);
    if let Some(last) = lines.last_mut()
        && last.link() != head
    {
        *last = ChainedEntry::from_stored(last.seq(), last.body().to_owned(), head);
    }
    lines
}

/// Lines that stand behind others.
pub(crate) fn continue_lines(
    call: CallId,
    at_len: u32,
    before: Digest,
    bodies: &[String],
) -> Vec<ChainedEntry> {
    let mut before = before;
    let line = |(seq, body): (u32, &String)| {
        let line = ChainedEntry::new(call, before, seq, body.clone());
        before = line.link();
        line
    };
    (at_len..).zip(bodies).map(line).collect()
}

/// Stands before the 32 bytes of a digest, and before the 16 of a UUID: neither byte is ever part of text.
const DIGEST: u8 = 0xFF;
const ID: u8 = 0xFE;

/// Writes digests and ids as the bytes that they are: nothing else makes them smaller.
fn fold(text: &str) -> Vec<u8> {
    let mut folded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if let Some((digits, after)) = rest.split_first_chunk::<64>()
            && let Some(bytes) = unhex::<32>(digits)
        {
            folded.push(DIGEST);
            folded.extend_from_slice(&bytes);
            rest = after;
        } else if let Some((digits, after)) = rest.split_first_chunk::<36>()
            && let Some(id) = unhyphen(digits)
        {
            folded.push(ID);
            folded.extend_from_slice(id.as_bytes());
            rest = after;
        } else {
            folded.push(*first);
            rest = after;
        }
    }
    folded
}

/// Reads [`fold`] back.
fn unfold(folded: &[u8]) -> Result<String, PackingFault> {
    let mut text = Vec::with_capacity(folded.len() * 2);
    let mut rest = folded;
    while let Some((first, after)) = rest.split_first() {
        rest = match *first {
            DIGEST => {
                let (digest, after) = after.split_first_chunk::<32>().ok_or(PackingFault::Layout)?;
                text.extend_from_slice(Digest::from_bytes(*digest).to_string().as_bytes());
                after
            }
            ID => {
                let (id, after) = after.split_first_chunk::<16>().ok_or(PackingFault::Layout)?;
                text.extend_from_slice(Uuid::from_bytes(*id).to_string().as_bytes());
                after
            }
            byte => {
                text.push(byte);
                after
            }
        };
    }
    String::from_utf8(text).map_err(|_| PackingFault::Layout)
}

fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

/// A UUID in the one spelling that it is written back in.
fn unhyphen(text: &[u8; 36]) -> Option<Uuid> {
    let id = Uuid::try_parse_ascii(text).ok()?;
    let mut buffer = Uuid::encode_buffer();
    (id.hyphenated().encode_lower(&mut buffer).as_bytes() == text).then_some(id)
}

thread_local! {
    // To take the dictionary in costs more than to pack a record with it.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn compressor() -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::with_dictionary(LEVEL, DICTIONARY)?;
    compressor.include_checksum(false)?;
    compressor.include_contentsize(false)?;
    compressor.include_dictid(false)?;
    Ok(compressor)
}

/// Packs a text by itself.
pub(crate) fn pack_text(text: &str) -> Result<Vec<u8>, PackingFault> {
    let mut packed = vec![VERSION];
    packed.extend_from_slice(&squeeze(&fold(text))?);
    Ok(packed)
}

/// Reads [`pack_text`] back.
pub(crate) fn unpack_text(packed: &[u8]) -> Result<String, PackingFault> {
    match packed.split_first().ok_or(PackingFault::Layout)? {
        (&VERSION, rest) => unfold(&unsqueeze(rest)?),
        (version, _) => Err(PackingFault::Version(*version)),
    }
}

/// Compresses, with the length in front.
pub(crate) fn squeeze(plain: &[u8]) -> Result<Vec<u8>, PackingFault> {
    let length = u32::try_from(plain.len()).map_err(|_| PackingFault::Layout)?;
    let mut packed = length.to_le_bytes().to_vec();
    let compressed = COMPRESSOR.with(|kept| {
        let mut kept = kept.borrow_mut();
        let compressor = match &mut *kept {
            Some(compressor) => compressor,
            None => kept.insert(compressor()?),
        };
        compressor.compress(plain)
    })?;
    packed.extend_from_slice(&compressed);
    Ok(packed)
}

/// Reads [`squeeze`] back.
pub(crate) fn unsqueeze(packed: &[u8]) -> Result<Vec<u8>, PackingFault> {
    let (length, rest) = packed.split_first_chunk::<4>().ok_or(PackingFault::Layout)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| PackingFault::Layout)?;
    if length > PLAIN_BYTES_MAX {
        return Err(PackingFault::Layout);
    }
    let plain = DECOMPRESSOR.with(|kept| {
        let mut kept = kept.borrow_mut();
        let decompressor = match &mut *kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::with_dictionary(DICTIONARY)?),
        };
        decompressor.decompress(rest, length)
    })?;
    if plain.len() == length { Ok(plain) } else { Err(PackingFault::Layout) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_folded_is_unfolded() {
        let digest = Digest::compute(b"x").to_string();
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef).to_string();
        let texts = [
            String::new(),
            "é\u{10FFFF} plain".into(),
            digest.clone(),
            format!("{digest}{digest}"),
            format!("a{digest}"),
            format!("\"{id}\",\"{}\"", id.to_uppercase()),
            digest.to_uppercase(),
            format!("{{{id}}}{}", digest.get(..63).unwrap()),
            id.replace('-', ""),
        ];
        for text in texts {
            let folded = fold(&text);
            assert_eq!(unfold(&folded).unwrap(), text);
            assert_eq!(unpack_text(&pack_text(&text).unwrap()).unwrap(), text);
        }
        assert!(unpack_text(&[]).is_err() && unpack_text(&[VERSION + 1, 0, 0, 0, 0]).is_err());
        assert_eq!(fold(&digest).len(), 33);
        assert_eq!(fold(&id).len(), 17);
    }

    #[test]
    fn what_was_packed_is_read_back_and_damage_shows() {
        let call = CallId::new(Uuid::from_u128(1));
        let bodies: Vec<String> = (0..5).map(|n| format!("{{\"at\":{n},\"fact\":\"x\"}}")).collect();
        let head = continue_lines(call, 0, GENESIS, &bodies).last().unwrap().link();
        let noted =
            Noted { agent: None, tool: "t".into(), operation: "o".into(), summary: "a\nb \"c\"".into() };
        let projected = Projected { acknowledged: 300, cuts: vec![1, 0, 4, 127, 128, u32::MAX], noted };
        let kept = Kept { token: Uuid::from_u128(2), key: Some(vec![7; 72]), head, bodies, projected: None };
        let in_a_book = Kept { projected: Some(projected), ..kept.clone() };
        for kept in [&kept, &in_a_book] {
            let packed = kept.pack().unwrap();
            assert_eq!(&Kept::unpack(&packed).unwrap(), kept);
            for cut in 0..packed.len() {
                assert!(Kept::unpack(&packed[..cut]).is_err(), "cut at {cut}");
            }
        }
        assert_eq!(kept.lines(call).last().unwrap().link(), head);
        let other = Kept { head: Digest::compute(b"x"), ..kept.clone() };
        let record = byleave_core::record::Record::from_stored_entries(call, &other.lines(call));
        assert!(record.damage().is_some());
        let forgotten = Kept { key: None, ..kept };
        assert_eq!(Kept::unpack(&forgotten.pack().unwrap()).unwrap(), forgotten);
    }
}
