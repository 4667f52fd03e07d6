//! Sealing: what was written since the last segment goes into a new one, chained to the last, signed and anchored.
//!
//! A segment names every row in its place, with the link it ends in. So a row that is changed, moved, removed or cut off
//! after it was sealed shows. The sealer must never seal a book that is older than its anchor: that would hide it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::owners::open_lock;
use super::reader::Readers;
use super::row::{signed, unsigned};
use super::work::{Segment, Work};
use super::writer::Writer;
use crate::book::Anchor;
use crate::ledger::{AppendFault, LedgerFault};

/// At most so many rows in one segment.
const ROWS_MAX: i64 = 16_384;
const LAYOUT: u8 = 1;
const ROW_BYTES: usize = 16 + 4 + 4 + 32;

/// What the body of a segment says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) number: u64,
    /// The digest of the segment before.
    pub(super) before: Digest,
    /// The place of the first row.
    pub(super) first: i64,
    pub(super) rows: Vec<SealedRow>,
}

/// One row, as it was when it was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SealedRow {
    pub(super) call: CallId,
    pub(super) seq: u32,
    pub(super) count: u32,
    pub(super) head: Digest,
}

impl SealedRow {
    /// From `call, seq, count, head`.
    pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            call: CallId::new(Uuid::from_bytes(row.get(0)?)),
            seq: row.get(1)?,
            count: row.get(2)?,
            head: Digest::from_bytes(row.get(3)?),
        })
    }
}

impl Seal {
    /// The place after the last row.
    pub(super) fn end(&self) -> i64 {
        self.first.saturating_add(i64::try_from(self.rows.len()).unwrap_or(i64::MAX))
    }

    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(49 + self.rows.len() * ROW_BYTES);
        body.push(LAYOUT);
        body.extend_from_slice(&self.number.to_le_bytes());
        body.extend_from_slice(self.before.as_bytes());
        body.extend_from_slice(&self.first.to_le_bytes());
        for row in &self.rows {
            body.extend_from_slice(row.call.as_bytes());
            body.extend_from_slice(&row.seq.to_le_bytes());
            body.extend_from_slice(&row.count.to_le_bytes());
            body.extend_from_slice(row.head.as_bytes());
        }
        body
    }

    /// Reads a body back, if it is laid out as one.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let rest = body.strip_prefix(&[LAYOUT])?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (before, rest) = rest.split_first_chunk::<32>()?;
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let (rows, over) = rest.as_chunks::<ROW_BYTES>();
        if !over.is_empty() {
            return None;
        }
        Some(Self {
            number: u64::from_le_bytes(*number),
            before: Digest::from_bytes(*before),
            first: i64::from_le_bytes(*first),
            rows: rows.iter().map(|row| sealed_row(row)).collect::<Option<_>>()?,
        })
    }
}

fn sealed_row(bytes: &[u8]) -> Option<SealedRow> {
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

/// The digest of a segment: what the next one is chained to, and what is signed.
pub(super) fn digest_of(body: &[u8]) -> Digest {
    Digest::of_parts("byleave.segment", &[body])
}

/// Whether a segment bears this key's signature.
pub(super) fn is_signed(key: &VerifyingKey, body: &[u8], signature: &[u8]) -> bool {
    Signature::from_slice(signature)
        .is_ok_and(|signature| key.verify_strict(digest_of(body).as_bytes(), &signature).is_ok())
}

/// Seals, one process at a time.
pub(super) struct Sealer {
    key: SigningKey,
    lock: PathBuf,
    anchor: PathBuf,
}

impl Sealer {
    pub(super) const fn new(key: SigningKey, lock: PathBuf, anchor: PathBuf) -> Self {
        Self { key, lock, anchor }
    }

    pub(super) fn public_key(&self) -> VerifyingKey {
        self.key.verifying_key()
    }

    /// The anchor as it was last written.
    pub(super) fn anchor(&self) -> Result<Option<Anchor>, LedgerFault> {
        let what = || format!("cannot read the anchor `{}`", self.anchor.display());
        match fs::read(&self.anchor) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|error| LedgerFault::new(what(), error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LedgerFault::new(what(), error)),
        }
    }

    /// Seals everything there is. Waits while another process is at it.
    pub(super) fn seal(&self, readers: &Readers, writer: &Writer) -> Result<u64, LedgerFault> {
        let lease = self.open_lease()?;
        lease.lock().map_err(|error| LedgerFault::new("cannot take the sealer's lock", error))?;
        self.seal_under(&lease, readers, writer)
    }

    /// The same, but leaves it to another process that is at it.
    pub(super) fn seal_if_free(&self, readers: &Readers, writer: &Writer) -> Result<u64, LedgerFault> {
        let lease = self.open_lease()?;
        match lease.try_lock() {
            Ok(()) => self.seal_under(&lease, readers, writer),
            Err(TryLockError::WouldBlock) => Ok(0),
            Err(TryLockError::Error(error)) => Err(LedgerFault::new("cannot take the sealer's lock", error)),
        }
    }

    fn open_lease(&self) -> Result<File, LedgerFault> {
        open_lock(&self.lock).map_err(|error| LedgerFault::new("cannot open the sealer's lock", error))
    }

    fn seal_under(&self, _lease: &File, readers: &Readers, writer: &Writer) -> Result<u64, LedgerFault> {
        let cannot = |error| LedgerFault::new("cannot read what is to be sealed", error);
        let newest = readers.with(newest)?.map_err(cannot)?;
        self.check_anchor(readers)?;
        let (mut number, mut before, mut first) = match newest {
            None => (1, Digest::from_bytes([0; 32]), 1),
            Some(segment) => {
                let seal = Seal::parse(&segment.body).ok_or_else(|| {
                    LedgerFault::new("cannot seal the book", "its newest segment is damaged")
                })?;
                (segment.number.saturating_add(1), digest_of(&segment.body), seal.end())
            }
        };
        let mut sealed = 0;
        loop {
            let rows = readers.with(|connection| rows_from(connection, first))?.map_err(cannot)?;
            if rows.is_empty() {
                return Ok(sealed);
            }
            let full = rows.len() >= usize::try_from(ROWS_MAX).unwrap_or(usize::MAX);
            let seal = Seal { number, before, first, rows };
            let body = seal.bytes();
            let digest = digest_of(&body);
            let signature = self.key.sign(digest.as_bytes()).to_bytes().to_vec();
            match writer.submit_blocking(Work::Segment(Segment { number, body, signature })) {
                Ok(()) => {}
                Err(AppendFault::Fault(fault)) => return Err(fault),
                Err(other) => return Err(LedgerFault::new("cannot write a segment", other)),
            }
            self.write_anchor(number, digest)?;
            (number, before, first) = (number.saturating_add(1), digest, seal.end());
            sealed += 1;
            if !full {
                return Ok(sealed);
            }
        }
    }

    /// Refuses to go on over a book that is not the one that was anchored.
    fn check_anchor(&self, readers: &Readers) -> Result<(), LedgerFault> {
        let Some(anchor) = self.anchor()? else { return Ok(()) };
        let found = readers
            .with(|connection| segment_at(connection, anchor.number))?
            .map_err(|error| LedgerFault::new("cannot read the anchored segment", error))?;
        match found {
            None => Err(LedgerFault::new("cannot seal the book", OLDER)),
            Some(segment) if digest_of(&segment.body) != anchor.digest => {
                Err(LedgerFault::new("cannot seal the book", "the anchored segment was changed"))
            }
            Some(_) => Ok(()),
        }
    }

    fn write_anchor(&self, number: u64, digest: Digest) -> Result<(), LedgerFault> {
        let key = hex(self.public_key().as_bytes());
        let text = serde_json::to_vec(&Anchor { number, digest, key })
            .map_err(|error| LedgerFault::new("cannot write the anchor", error))?;
        replace(&self.anchor, &text).map_err(|error| {
            LedgerFault::new(format!("cannot write the anchor `{}`", self.anchor.display()), error)
        })
    }
}

/// What an old copy put back is called.
pub(super) const OLDER: &str =
    "the book is older than its anchor: an old copy was put back, or its end was cut off";

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8; 32]) -> String {
    Digest::from_bytes(*bytes).to_string()
}

/// Puts a file in the place of another at once: whoever reads sees the old one or the new one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => File::open(dir)?.sync_all(),
        _ => Ok(()),
    }
}

fn newest(connection: &Connection) -> Result<Option<Segment>, rusqlite::Error> {
    let sql = "SELECT number, body, signature FROM segment ORDER BY number DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([], read_segment).optional()
}

/// The segment of a number.
pub(super) fn segment_at(connection: &Connection, number: u64) -> Result<Option<Segment>, rusqlite::Error> {
    let sql = "SELECT number, body, signature FROM segment WHERE number = ?1";
    connection.prepare_cached(sql)?.query_row([signed(number)], read_segment).optional()
}

/// A segment from its row.
pub(super) fn read_segment(row: &rusqlite::Row<'_>) -> Result<Segment, rusqlite::Error> {
    Ok(Segment { number: unsigned(row.get(0)?), body: row.get(1)?, signature: row.get(2)? })
}

/// Whether anything is not yet sealed.
pub(super) fn is_behind(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let end = newest(connection)?.and_then(|segment| Seal::parse(&segment.body)).map_or(1, |seal| seal.end());
    connection.prepare_cached("SELECT 1 FROM line WHERE pos >= ?1 LIMIT 1")?.exists([end])
}

fn rows_from(connection: &Connection, first: i64) -> Result<Vec<SealedRow>, rusqlite::Error> {
    let sql = "SELECT call, seq, count, head, pos FROM line WHERE pos >= ?1 ORDER BY pos LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([first, ROWS_MAX])?;
    let mut sealed = Vec::new();
    let mut expected = first;
    while let Some(row) = rows.next()? {
        // Over a hole nothing is sealed: `verify` must go on finding it.
        if row.get::<_, i64>(4)? != expected {
            break;
        }
        expected = expected.saturating_add(1);
        sealed.push(SealedRow::read(row)?);
    }
    Ok(sealed)
}
