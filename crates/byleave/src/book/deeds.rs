//! Acts of administrators as lines of their own: how one is written, and how it is read back.

use byleave_core::act::Act;
use byleave_core::chain::Line;
use byleave_core::digest::Digest;
use byleave_core::id::{ActId, CallId};

use crate::book::framing::{Framed, unframe};
use crate::ledger::LedgerFault;

/// An act as its line.
pub fn line_of(act: &Act) -> Result<Line, LedgerFault> {
    let body = serde_json::to_string(act).map_err(|error| LedgerFault::new("cannot write an act", error))?;
    let link = link(act.id, &body);
    Ok(Line::found(0, body, link))
}

/// The act that lies in the row of this place, if it is as it was written.
pub fn read(place: CallId, row: Framed<'_>) -> Result<Act, String> {
    let mut lines = Vec::new();
    unframe(row, &mut lines);
    let [line] = lines.as_slice() else { return Err("an act has one line".into()) };
    let id = ActId::new(place.uuid());
    if row.seq != 0 || link(id, line.body()) != line.link() {
        return Err("its line does not fit its link".into());
    }
    let act: Act = serde_json::from_str(line.body()).map_err(|error| error.to_string())?;
    if act.id == id { Ok(act) } else { Err("it has another's id".into()) }
}

/// The place of an act among the lines: its id is that of a record of its own.
pub const fn place_of(act: ActId) -> CallId {
    CallId::new(act.uuid())
}

fn link(id: ActId, body: &str) -> Digest {
    Digest::of_parts("byleave.act", &[id.as_bytes(), body.as_bytes()])
}
