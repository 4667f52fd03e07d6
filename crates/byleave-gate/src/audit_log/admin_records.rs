//! Encodes admin actions as entries of their own, and decodes them.

use byleave_core::admin_action::AdminAction;
use byleave_core::digest::Digest;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{AdminActionId, CallId};

use crate::audit_log::batch_encoding::{EncodedBatch, decode};
use crate::ledger::LedgerError;

/// Encodes an admin action as its entry.
pub fn to_chained_entry(act: &AdminAction) -> Result<ChainedEntry, LedgerError> {
    let body = serde_json::to_string(act)
        .map_err(|error| LedgerError::new("cannot encode an admin action", error))?;
    let link = compute_link(act.id, &body);
    Ok(ChainedEntry::from_stored(0, body, link))
}

/// Reads the admin action in the row at this position. Fails if the row was altered.
pub fn read_action(place: CallId, row: EncodedBatch<'_>) -> Result<AdminAction, String> {
    let mut lines = Vec::new();
    decode(row, &mut lines);
    let [line] = lines.as_slice() else { return Err("an admin action must have exactly one entry".into()) };
    let id = AdminActionId::new(place.uuid());
    if row.seq != 0 || compute_link(id, line.body()) != line.link() {
        return Err("the entry does not match its hash link".into());
    }
    let act: AdminAction = serde_json::from_str(line.body()).map_err(|error| error.to_string())?;
    if act.id == id { Ok(act) } else { Err("the entry has the id of another admin action".into()) }
}

/// Returns the position of an admin action among the entries. Its id serves as the id of a record of its own.
pub const fn record_id(act: AdminActionId) -> CallId {
    CallId::new(act.uuid())
}

fn compute_link(id: AdminActionId, body: &str) -> Digest {
    Digest::compute_parts("byleave.act", &[id.as_bytes(), body.as_bytes()])
}
