//! Collects the statistics of an audit log record by record.

use std::pin::pin;

use futures::StreamExt as _;

use super::{Stats, StatsAccumulator, StatsFilter};
use crate::audit_log::export::{self, IncludeContents};
use crate::audit_log::{AuditLog, CallFilter};
use crate::ledger::LedgerError;

/// Returns the statistics of an audit log. `read` is called after each record with the number of records read.
///
/// Lists only find candidates. Each record is read, verified and matched against the filter itself.
pub async fn collect(
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
        // Lists have display names of agents, which cannot be filtered exactly.
        ..CallFilter::default()
    };
    let mut tally = StatsAccumulator::new(wanted);
    let mut records = pin!(export::export_records(book, filter, IncludeContents::Omitted));
    let mut done = 0;
    while let Some(found) = records.next().await {
        tally.add(&found?.stored.record);
        done += 1;
        read(done);
    }
    Ok(tally.finish())
}
