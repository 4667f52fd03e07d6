//! Projection: what calls and tenants owe the book, brought into it.
//!
//! It never says that something is taken which the book has not acknowledged, and it never fails: what did not work is said, and
//! tried again later. The same may be brought twice.

use std::time::Duration;

use byleave_core::admin_action::AdminAction;
use byleave_core::digest::Digest;
use byleave_core::id::CallId;
use byleave_gate::ledger::{CallSummary, LedgerError};
use byleave_postgres::{Ingest, IngestError, RecordCompleteness, SealedAuditLog};
use futures::future::join_all;
use serde::{Deserialize, Serialize};

use crate::books::Books;
use crate::packing::continue_lines;
use crate::wire::Owed;

/// How long the book may take; then it counts as away. Whatever it did by then may be brought once more.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Something to bring into the book.
pub(crate) enum Parcel {
    /// Lines of a call.
    Lines(CallId, Owed),
    /// An act.
    Act(AdminAction),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Came {
    /// It is in the book; if it was the last of a settled call, the book has given back the whole record.
    Taken,
    /// The book has it, and lacks what comes before it: everything must be sent once more.
    Gap,
    /// The book could not be reached, or broke. Try again.
    Away(String),
    /// It is not what is in the book. Trying again is of no use: someone must look.
    Refused(String),
}

/// Brings all of it into the book of a ledger at once. Says of each what came of it, in order.
pub(crate) async fn bring(books: Option<&Books>, ledger: &str, parcels: Vec<Parcel>) -> Vec<Came> {
    let count = parcels.len();
    let away = |why: String| vec![Came::Away(why); count];
    let Some(books) = books else { return away("the service was started without a book".into()) };
    let bringing = async {
        let book = match books.of(ledger).await {
            Ok(book) => book,
            Err(fault) => return away(fault.to_string()),
        };
        let wholes: Vec<Option<Whole>> = parcels.iter().map(whole).collect();
        let mut came = join_all(parcels.into_iter().map(|parcel| take(&book, parcel))).await;
        check_whole(&book, &wholes, &mut came).await;
        came
    };
    match tokio::time::timeout(WRITE_MAX, bringing).await {
        Ok(came) => came,
        Err(_) => away(format!("the book did not answer within {} s", WRITE_MAX.as_secs())),
    }
}

async fn take(book: &SealedAuditLog, parcel: Parcel) -> Came {
    let taken = match parcel {
        Parcel::Act(act) => book.ingest_action(act).await,
        Parcel::Lines(call, owed) => {
            // All at once: they are written in one transaction, in this order.
            let takings = takings(call, owed).into_iter().map(|taking| book.ingest(taking));
            join_all(takings).await.into_iter().collect()
        }
    };
    match taken {
        Ok(()) => Came::Taken,
        Err(IngestError::Ledger(fault)) => Came::Away(fault.to_string()),
        Err(IngestError::Conflict { call, seq, reason: why }) => {
            Came::Refused(format!("record {call}, line {seq}: {why}"))
        }
    }
}

/// A record that is complete with what is brought.
struct Whole {
    call: CallId,
    length: u32,
    head: Digest,
    /// The place of the first line that is brought.
    from: u32,
}

fn whole(parcel: &Parcel) -> Option<Whole> {
    match parcel {
        Parcel::Lines(call, owed) => {
            owed.settles.map(|(length, head)| Whole { call: *call, length, head, from: owed.from })
        }
        Parcel::Act(_) => None,
    }
}

/// Reads back what is to be cleared where it came from. A book that was put back from an old copy keeps the end of a record whose
/// beginning it has lost, and has acknowledged both.
async fn check_whole(book: &SealedAuditLog, wholes: &[Option<Whole>], came: &mut [Came]) {
    let taken = wholes.iter().zip(came).filter(|(_, came)| **came == Came::Taken);
    let (wanted, mut came): (Vec<&Whole>, Vec<&mut Came>) =
        taken.filter_map(|(whole, came)| Some((whole.as_ref()?, came))).unzip();
    let records: Vec<_> = wanted.iter().map(|whole| (whole.call, whole.length, whole.head)).collect();
    let held: Result<Vec<RecordCompleteness>, LedgerError> = book.check_completeness(&records).await;
    for (place, (whole, came)) in wanted.iter().zip(&mut came).enumerate() {
        **came = match &held {
            Ok(held) => match held.get(place) {
                Some(RecordCompleteness::Complete) => Came::Taken,
                Some(RecordCompleteness::Mismatch(length)) if *length < whole.from => Came::Gap,
                _ => Came::Refused(format!(
                    "record {}: the book does not give back what it has taken",
                    whole.call
                )),
            },
            Err(fault) => Came::Away(fault.to_string()),
        };
    }
}

/// What a call owes, cut as its appends were.
fn takings(call: CallId, owed: Owed) -> Vec<Ingest> {
    let Owed { from, before, key, appends, tenant, session, agent, noted, .. } = owed;
    let listing = CallSummary {
        tenant,
        session,
        agent,
        tool: noted.tool,
        operation: noted.operation,
        summary: noted.summary,
    };
    let (mut seq, mut before) = (from, before);
    let mut key = key.map(|key| key.0);
    let taking = |(bodies, contents): (Vec<String>, crate::wire::Blob)| {
        let lines = continue_lines(call, seq, before, &bodies);
        let taking = Ingest {
            call,
            prev_link: before,
            key: key.take(),
            contents: contents.0,
            call_summary: listing.clone(),
            chained_entries: lines,
        };
        seq = seq.saturating_add(u32::try_from(taking.chained_entries.len()).unwrap_or(u32::MAX));
        before = taking.chained_entries.last().map_or(before, |line| line.link());
        taking
    };
    appends.into_iter().map(taking).collect()
}
