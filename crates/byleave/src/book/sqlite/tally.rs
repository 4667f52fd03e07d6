//! The tally of leaves: what was given and what was used, by the lines alone.
//!
//! The ledger finds uses through a projection, and who can write the file can take rows out of it, use a leave once more
//! and put them back. The lines of that use stay: so here a leave that was used too often shows, for ever.

use std::collections::HashMap;

use byleave_core::entry::Fact;
use byleave_core::grant::GrantedBy;
use byleave_core::id::{AttemptId, LeaveId, TenantId};
use byleave_core::leave::Leave;
use byleave_core::question::Answer;
use byleave_core::record::Record;

use super::row::LineRow;
use crate::book::Place;

/// What a line of a record did with a leave.
pub(super) enum Move<'a> {
    Given(&'a Leave),
    Used(LeaveId, AttemptId),
}

/// What a record did with leaves, each with the number of its line.
pub(super) fn moves(record: &Record) -> impl Iterator<Item = (u32, Move<'_>)> {
    (0_u32..).zip(record.entries()).filter_map(|(seq, entry)| match &entry.fact {
        Fact::Answered(answered) => match &answered.answer {
            Answer::Leave(leave) => Some((seq, Move::Given(leave))),
            _ => None,
        },
        Fact::Begun(Ok(claim)) => match claim.by {
            GrantedBy::Leave(leave) => Some((seq, Move::Used(leave, claim.attempt))),
            _ => None,
        },
        _ => None,
    })
}

/// All leaves of a book.
#[derive(Default)]
pub(super) struct Tally {
    accounts: HashMap<(TenantId, LeaveId), Account>,
}

/// One leave of one tenant.
#[derive(Default)]
struct Account {
    /// By tool: where it was first given, and for how many uses.
    given: HashMap<String, (i64, Option<u32>)>,
    uses: u64,
    newest_use: Option<(i64, Place)>,
}

impl Account {
    /// How often it may be used; given for several tools, the most generous one counts.
    fn uses_max(&self) -> Option<u64> {
        let limits = self.given.values().map(|(_, uses_max)| uses_max.map_or(u64::MAX, u64::from));
        Some(limits.max().unwrap_or(0)).filter(|max| *max < u64::MAX)
    }
}

impl Tally {
    /// Takes in what a record did.
    pub(super) fn take(&mut self, record: &Record, rows: &[LineRow]) {
        let Some(tenant) = record.heading().map(|heading| &heading.tenant) else { return };
        for (seq, moved) in moves(record) {
            let pos = rows.iter().rfind(|row| row.seq <= seq).map_or(i64::MAX, |row| row.pos);
            let id = match &moved {
                Move::Given(leave) => leave.id,
                Move::Used(leave, _) => *leave,
            };
            let account = self.accounts.entry((tenant.clone(), id)).or_default();
            match moved {
                Move::Given(leave) => {
                    let first = account.given.entry(leave.tool.clone()).or_insert((pos, leave.uses_max));
                    if pos < first.0 {
                        *first = (pos, leave.uses_max);
                    }
                }
                Move::Used(..) => {
                    account.uses += 1;
                    let place = Place::Line { call: record.call(), seq };
                    if account.newest_use.is_none_or(|(newest, _)| newest < pos) {
                        account.newest_use = Some((pos, place));
                    }
                }
            }
        }
    }

    /// The first leave that was used more often than it may be, by the newest use of it.
    pub(super) fn overdrawn(&self) -> Option<(Place, String)> {
        let overdrawn = self.accounts.iter().filter_map(|((_, leave), account)| {
            let max = account.uses_max().filter(|max| account.uses > *max)?;
            let (pos, place) = account.newest_use?;
            let why = format!("leave {leave} was used {} times, and may be used {max} times", account.uses);
            Some((pos, place, why))
        });
        overdrawn.min_by_key(|(pos, ..)| *pos).map(|(_, place, why)| (place, why))
    }
}
