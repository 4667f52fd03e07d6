//! Reads a book record by record and counts it.

use std::pin::pin;

use futures::StreamExt as _;

use super::{Stats, Tally, Wanted};
use crate::book::export::{self, Contents};
use crate::book::{Book, CallFilter};
use crate::ledger::LedgerFault;

/// The numbers of a book; `read` is told how many records were read, after each.
///
/// The lists say where to look, and no more: each record is read, checked, and held against what is wanted by itself.
pub async fn of(book: &dyn Book, wanted: Wanted, mut read: impl FnMut(u64)) -> Result<Stats, LedgerFault> {
    let filter = CallFilter {
        tenant: wanted.tenant.clone(),
        session: wanted.session.clone(),
        tool: wanted.tool.clone(),
        since: wanted.since,
        until: wanted.until,
        // A list has agents in words that are for people.
        ..CallFilter::default()
    };
    let mut tally = Tally::new(wanted);
    let mut records = pin!(export::records(book, filter, Contents::LeftOut));
    let mut done = 0;
    while let Some(found) = records.next().await {
        tally.add(&found?.kept.record);
        done += 1;
        read(done);
    }
    Ok(tally.finish())
}
