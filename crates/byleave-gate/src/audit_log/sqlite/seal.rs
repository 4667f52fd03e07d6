//! Seals everything written since the last segment into a new one, which is chained to the last, signed and anchored.
//!
//! The sealer must never seal an audit log that is older than its anchor, because that would hide the rollback.

use std::fs::{File, TryLockError};
use std::path::PathBuf;

use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::owner_locks::open_lock;
use super::read_pool::ReadConnectionPool;
use super::row::{to_i64, to_u64};
use super::write_op::{SignedSegment, WriteOp};
use super::writer::SqliteWriter;
use crate::audit_log::Anchor;
use crate::audit_log::anchor_file::AnchorFile;
use crate::audit_log::segment::{MAX_ROWS, OLDER_THAN_ANCHOR, SealedRow, SegmentBody, hex, segment_digest};
use crate::ledger::{AppendError, LedgerError};

/// The sealer, limited to one process at a time.
pub(super) struct Sealer {
    key: SigningKey,
    lock: PathBuf,
    anchor: AnchorFile,
}

impl Sealer {
    pub(super) const fn new(key: SigningKey, lock: PathBuf, anchor: AnchorFile) -> Self {
        Self { key, lock, anchor }
    }

    pub(super) fn public_key(&self) -> VerifyingKey {
        self.key.verifying_key()
    }

    /// Reads the anchor as it was last written.
    pub(super) fn anchor(&self) -> Result<Option<Anchor>, LedgerError> {
        self.anchor.read()
    }

    /// Seals everything unsealed. Waits while another process is sealing.
    pub(super) fn seal(
        &self,
        readers: &ReadConnectionPool,
        writer: &SqliteWriter,
    ) -> Result<u64, LedgerError> {
        let lease = self.open_lease()?;
        lease.lock().map_err(|error| LedgerError::new("cannot take the sealer's lock", error))?;
        self.seal_locked(&lease, readers, writer)
    }

    /// Seals like [`Self::seal`], but returns if another process is sealing.
    pub(super) fn seal_if_free(
        &self,
        readers: &ReadConnectionPool,
        writer: &SqliteWriter,
    ) -> Result<u64, LedgerError> {
        let lease = self.open_lease()?;
        match lease.try_lock() {
            Ok(()) => self.seal_locked(&lease, readers, writer),
            Err(TryLockError::WouldBlock) => Ok(0),
            Err(TryLockError::Error(error)) => Err(LedgerError::new("cannot take the sealer's lock", error)),
        }
    }

    fn open_lease(&self) -> Result<File, LedgerError> {
        open_lock(&self.lock).map_err(|error| LedgerError::new("cannot open the sealer's lock", error))
    }

    fn seal_locked(
        &self,
        _lease: &File,
        readers: &ReadConnectionPool,
        writer: &SqliteWriter,
    ) -> Result<u64, LedgerError> {
        let cannot = |error| LedgerError::new("cannot read the unsealed entries", error);
        let newest = readers.with_connection(newest_segment)?.map_err(cannot)?;
        self.check_anchor(readers)?;
        let (mut number, mut before, mut first) = match newest {
            None => (1, Digest::from_bytes([0; 32]), 1),
            Some(segment) => {
                let seal = SegmentBody::parse(&segment.body).ok_or_else(|| {
                    LedgerError::new("cannot seal the audit log", "the newest segment is damaged")
                })?;
                (segment.number.saturating_add(1), segment_digest(&segment.body), seal.end_pos())
            }
        };
        let mut sealed = 0;
        loop {
            let rows = readers.with_connection(|connection| rows_from(connection, first))?.map_err(cannot)?;
            if rows.is_empty() {
                return Ok(sealed);
            }
            let full = rows.len() >= usize::try_from(MAX_ROWS).unwrap_or(usize::MAX);
            let seal = SegmentBody { number, prev_digest: before, first_pos: first, rows };
            let body = seal.to_bytes();
            let digest = segment_digest(&body);
            let signature = self.key.sign(digest.as_bytes()).to_bytes().to_vec();
            match writer.submit_blocking(WriteOp::Segment(SignedSegment { number, body, signature })) {
                Ok(()) => {}
                Err(AppendError::Ledger(fault)) => return Err(fault),
                Err(other) => return Err(LedgerError::new("cannot write a segment", other)),
            }
            self.write_anchor(number, digest)?;
            (number, before, first) = (number.saturating_add(1), digest, seal.end_pos());
            sealed += 1;
            if !full {
                return Ok(sealed);
            }
        }
    }

    /// Fails if the audit log does not match its anchor.
    fn check_anchor(&self, readers: &ReadConnectionPool) -> Result<(), LedgerError> {
        let Some(anchor) = self.anchor()? else { return Ok(()) };
        let found = readers
            .with_connection(|connection| segment_at(connection, anchor.number))?
            .map_err(|error| LedgerError::new("cannot read the anchored segment", error))?;
        match found {
            None => Err(LedgerError::new("cannot seal the audit log", OLDER_THAN_ANCHOR)),
            Some(segment) if segment_digest(&segment.body) != anchor.digest => {
                Err(LedgerError::new("cannot seal the audit log", "the anchored segment was changed"))
            }
            Some(_) => Ok(()),
        }
    }

    fn write_anchor(&self, number: u64, digest: Digest) -> Result<(), LedgerError> {
        self.anchor.write(&Anchor { number, digest, public_key: hex(self.public_key().as_bytes()) })
    }
}

fn newest_segment(connection: &Connection) -> Result<Option<SignedSegment>, rusqlite::Error> {
    let sql = "SELECT number, body, signature FROM segment ORDER BY number DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([], read_segment).optional()
}

/// Reads the segment with this number.
pub(super) fn segment_at(
    connection: &Connection,
    number: u64,
) -> Result<Option<SignedSegment>, rusqlite::Error> {
    let sql = "SELECT number, body, signature FROM segment WHERE number = ?1";
    connection.prepare_cached(sql)?.query_row([to_i64(number)], read_segment).optional()
}

/// Reads a segment from its row.
pub(super) fn read_segment(row: &rusqlite::Row<'_>) -> Result<SignedSegment, rusqlite::Error> {
    Ok(SignedSegment { number: to_u64(row.get(0)?), body: row.get(1)?, signature: row.get(2)? })
}

/// Checks whether anything is not yet sealed.
pub(super) fn has_unsealed(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let end = newest_segment(connection)?
        .and_then(|segment| SegmentBody::parse(&segment.body))
        .map_or(1, |seal| seal.end_pos());
    connection.prepare_cached("SELECT 1 FROM batch WHERE pos >= ?1 LIMIT 1")?.exists([end])
}

fn rows_from(connection: &Connection, first: i64) -> Result<Vec<SealedRow>, rusqlite::Error> {
    let sql = "SELECT call, seq, count, head, pos FROM batch WHERE pos >= ?1 ORDER BY pos LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([first, MAX_ROWS])?;
    let mut sealed = Vec::new();
    let mut expected = first;
    while let Some(row) = rows.next()? {
        // Rows after a gap are not sealed, so that `verify` keeps finding it.
        if row.get::<_, i64>(4)? != expected {
            break;
        }
        expected = expected.saturating_add(1);
        sealed.push(sealed_row_from(row)?);
    }
    Ok(sealed)
}

/// Reads a row in the form to be sealed, from `call, seq, count, head`.
pub(super) fn sealed_row_from(row: &rusqlite::Row<'_>) -> Result<SealedRow, rusqlite::Error> {
    Ok(SealedRow {
        call: CallId::new(Uuid::from_bytes(row.get(0)?)),
        seq: row.get(1)?,
        count: row.get(2)?,
        head: Digest::from_bytes(row.get(3)?),
    })
}
