//! One incoming append, and the checks that need no lookup.

use byleave_core::admin_action::AdminAction;
use byleave_core::digest::{Digest, RecordKey};
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::CallId;
use byleave_gate::audit_log::admin_records;
use byleave_gate::audit_log::batch_encoding::encode;
use byleave_gate::audit_log::encryption::{self, KeyVault};
use byleave_gate::audit_log::index_fields::ListNote;
use byleave_gate::ledger::{Batch, CallSummary, LedgerError};

/// The maximum size of one append. The limit of Postgres is higher.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// One incoming append. Confidential data in it is encrypted.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// The call that the record belongs to.
    pub call: CallId,
    /// The chain digest of the entry before the first one.
    pub prev_link: Digest,
    /// The entries, each with its position.
    pub chained_entries: Vec<ChainedEntry>,
    /// The wrapped key, present with the first entries of a record.
    pub key: Option<Vec<u8>>,
    /// The sealed contents of these entries; empty if there are none.
    pub contents: Vec<u8>,
    /// The list data of the call.
    pub call_summary: CallSummary,
}

/// The reason why an append was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The append contradicts the stored entries or does not continue them. A retry does not help; a person must investigate.
    #[error("record {call}, entry {seq}: {reason}")]
    Conflict {
        /// The call that the record belongs to.
        call: CallId,
        /// The position of the first entry.
        seq: u32,
        /// The reason.
        reason: String,
    },
    /// The audit log failed. The append may have been accepted, so try again.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Ingest {
    /// Seals a batch under the key of its record. Without a key, its contents are dropped.
    pub fn seal_batch(batch: &Batch, vault: &KeyVault, key: Option<&RecordKey>) -> Result<Self, LedgerError> {
        let cannot = |fault: encryption::VaultError| {
            LedgerError::new("cannot encrypt a batch for the audit log", fault)
        };
        let note = ListNote::to_text(&batch.call_summary);
        let packed =
            key.map(|key| encryption::pack(key, batch.call, batch.expected_len, &note, &batch.contents));
        let wrapped = key.filter(|_| batch.expected_len == 0).map(|key| vault.wrap(batch.call, key));
        Ok(Self {
            call: batch.call,
            prev_link: batch.prev_link,
            chained_entries: batch.chained_entries.clone(),
            key: wrapped.transpose().map_err(cannot)?,
            contents: packed.transpose().map_err(cannot)?.unwrap_or_default(),
            call_summary: batch.call_summary.clone(),
        })
    }
}

/// An append whose entries parse and are chained to each other.
#[derive(Clone, Debug)]
pub(crate) struct ValidatedIngest {
    pub(crate) call: CallId,
    pub(crate) seq: u32,
    /// The position after the last entry.
    pub(crate) end_seq: u32,
    pub(crate) prev_link: Digest,
    pub(crate) head: Digest,
    pub(crate) chained_entries: Vec<ChainedEntry>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) body: Vec<u8>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) contents: Vec<u8>,
    pub(crate) call_summary: CallSummary,
}

impl ValidatedIngest {
    pub(crate) fn new(taking: Ingest) -> Result<Self, IngestError> {
        let Ingest { call, prev_link: before, chained_entries: lines, key, contents, call_summary: listing } =
            taking;
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
            return Err(IngestError::Conflict { call, seq: 0, reason: "there are no entries".into() });
        };
        let (seq, head) = (first.seq(), last.link());
        let wrong = |why: &str| IngestError::Conflict { call, seq, reason: why.into() };
        let mut link = before;
        for (place, line) in (u64::from(seq)..).zip(&lines) {
            if u64::from(line.seq()) != place || !line.has_valid_link(call, &link) {
                return Err(wrong("the entries are not a valid chain"));
            }
            link = line.link();
        }
        let end =
            seq.checked_add(u32::try_from(lines.len()).map_err(|_| wrong("there are too many entries"))?);
        // Postgres integers are signed.
        let end = end
            .filter(|end| i32::try_from(*end).is_ok())
            .ok_or_else(|| wrong("the sequence number is too large"))?;
        let entries = lines.iter().map(|line| serde_json::from_str(line.body())).collect::<Result<_, _>>();
        let entries: Vec<Entry> =
            entries.map_err(|error| wrong(&format!("an entry cannot be parsed: {error}")))?;
        check_opening(&entries, seq, before, &listing).map_err(wrong)?;
        if seq > 0 && key.is_some() {
            return Err(wrong("only the first entries may have a key"));
        }
        let body = encode(&lines).ok_or_else(|| wrong("an entry is too long"))?;
        if body.len().saturating_add(contents.len()) > BYTES_MAX {
            return Err(wrong("the batch is too large"));
        }
        let listing = replace_nul_in_summary(listing);
        Ok(Self {
            call,
            seq,
            end_seq: end,
            prev_link: before,
            head,
            chained_entries: lines,
            entries,
            body,
            key,
            contents,
            call_summary: listing,
        })
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.body.len().saturating_add(self.contents.len())
    }

    pub(crate) fn conflict_error(&self, why: impl Into<String>) -> IngestError {
        IngestError::Conflict { call: self.call, seq: self.seq, reason: why.into() }
    }
}

/// Checks that a record begins with exactly one received call, of the tenant and session that it is listed under.
fn check_opening(
    entries: &[Entry],
    seq: u32,
    before: Digest,
    listing: &CallSummary,
) -> Result<(), &'static str> {
    if (seq == 0) != (before == GENESIS) {
        return Err("only the first entry must have no predecessor");
    }
    for (place, entry) in (u64::from(seq)..).zip(entries) {
        match (&entry.event, place) {
            (RecordEvent::Received(heading), 0)
                if heading.tenant != listing.tenant || heading.session != listing.session =>
            {
                return Err("the tenant or session of the listing differs from the received call");
            }
            (RecordEvent::Received(_), 0) => {}
            (RecordEvent::Received(_), _) => return Err("a record has only one `received` entry"),
            (_, 0) => return Err("a record must begin with `received`"),
            _ => {}
        }
    }
    Ok(())
}

/// Replaces NUL characters, which Postgres text cannot contain, by the visible symbol.
pub(crate) fn replace_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{2400}") } else { text }
}

/// Applies [`replace_nul`] to all list data of a call.
pub(crate) fn replace_nul_in_summary(listing: CallSummary) -> CallSummary {
    CallSummary {
        agent: replace_nul(listing.agent),
        tool: replace_nul(listing.tool),
        operation: replace_nul(listing.operation),
        summary: replace_nul(listing.summary),
        ..listing
    }
}

/// An admin action, ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct AdminActionRow {
    pub(crate) action: AdminAction,
    pub(crate) record_id: CallId,
    pub(crate) head: Digest,
    pub(crate) body: Vec<u8>,
}

impl AdminActionRow {
    pub(crate) fn new(act: AdminAction) -> Result<Self, IngestError> {
        let line = admin_records::to_chained_entry(&act)?;
        let body = encode(std::slice::from_ref(&line)).ok_or_else(|| {
            LedgerError::new("cannot write an admin action", "the admin action is too long")
        })?;
        Ok(Self { record_id: admin_records::record_id(act.id), head: line.link(), body, action: act })
    }
}
