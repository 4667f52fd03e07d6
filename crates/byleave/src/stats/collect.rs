//! Reads a book record by record and counts it.

use std::pin::pin;

use futures::StreamExt as _;

use super::{Stats, StatsAccumulator, StatsFilter};
use crate::audit_log::export::{self, IncludeContents};
use crate::audit_log::{AuditLog, CallFilter};
use crate::ledger::LedgerError;

/// The numbers of a book; `read` is told how many records were read, after each.
///
/// The lists say where to look, and no more: each record is read, checked, and held against what is wanted by itself.
pub async fn of(
    book: &dyn AuditLog,
    wanted: StatsFilter,
    mut read: impl FnMut(u64),
) -> Result<Stats, LedgerError> {
    let filter = CallFilter {
        tenant: wanted.tenant.clone(),
        session: wanted.session.clone(),
        tool: wanted.tool.clone(),
        since: wanted.since,
        until: wanted.until,
        // A list has agents in words that are for people.
        ..CallFilter::default()
    };
    let mut tally = StatsAccumulator::new(wanted);
    let mut records = pin!(export::records(book, filter, IncludeContents::LeftOut));
    let mut done = 0;
    while let Some(found) = records.next().await {
        tally.add(&found?.kept.record);
        done += 1;
        read(done);
    }
    Ok(tally.finish())
}
