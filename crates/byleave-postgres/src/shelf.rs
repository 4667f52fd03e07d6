//! The book as readers see it: lists, records, forgetting.

use byleave::book::marks::listing_of;
use byleave::book::{
    Anchor, Book, CallFilter, CallItem, Cursor, Forgetting, Kept, LeaveItem, Page, QuestionFilter,
    QuestionItem, Verification, Written,
};
use byleave::ledger::{Content, LedgerFault};
use byleave::pending::Pending;
use byleave_core::act::{Act, Deed};
use byleave_core::call::Millis;
use byleave_core::id::{ActId, CallId, TenantId};
use byleave_core::record::Record;
use sqlx_core::Error;
use sqlx_postgres::PgConnection;
use uuid::Uuid;

use crate::book::PgBook;
use crate::rows::{LINE_COLUMNS, LINES_ALONE, lines_of};
use crate::sealed::{key_of, record_rows};
use crate::taking::TakeFault;
use crate::{leaves, queries, rebuild, verify};

impl Book for PgBook {
    fn calls(&self, filter: CallFilter, page: Page) -> Pending<'_, Result<Vec<CallItem>, LedgerFault>> {
        Box::pin(async move {
            let listed = queries::calls(&self.sealed.readers, filter, page).await;
            listed.map_err(|error| LedgerFault::new("cannot list the calls", error))
        })
    }

    fn written(&self, after: Option<Cursor>, limit: usize) -> Pending<'_, Result<Written, LedgerFault>> {
        Box::pin(async move {
            let written = queries::written(&self.sealed.readers, after, limit).await;
            written.map_err(|error| LedgerFault::new("cannot see what is new", error))
        })
    }

    fn questions(
        &self,
        filter: QuestionFilter,
        page: Page,
    ) -> Pending<'_, Result<Vec<QuestionItem>, LedgerFault>> {
        Box::pin(async move {
            let listed = queries::questions(&self.sealed.readers, filter, page).await;
            listed.map_err(|error| LedgerFault::new("cannot list the questions", error))
        })
    }

    fn record(&self, call: CallId) -> Pending<'_, Result<Option<Kept>, LedgerFault>> {
        Box::pin(self.kept(call))
    }

    fn contents(&self, call: CallId) -> Pending<'_, Result<Vec<Content>, LedgerFault>> {
        Box::pin(self.contents_of(call))
    }

    fn leaves_given(
        &self,
        tenant: &TenantId,
        now: Millis,
    ) -> Pending<'_, Result<Vec<LeaveItem>, LedgerFault>> {
        let tenant = tenant.clone();
        Box::pin(async move { leaves::all(&mut *self.sealed.reader().await?, &tenant, now).await })
    }

    fn acts(&self) -> Pending<'_, Result<Vec<Act>, LedgerFault>> {
        Box::pin(async move { leaves::acts(&mut *self.sealed.reader().await?, None).await })
    }

    fn verify(&self) -> Pending<'_, Result<Verification, LedgerFault>> {
        Box::pin(async move {
            // Read before the book: what is sealed meanwhile must not look like an anchor that is ahead.
            let anchor = self.sealer.anchor().await?;
            let mut reader = self.sealed.reader().await?;
            let (unsealer, key) = (&*self.unsealer, self.sealer.public_key());
            let verified = verify::verify(&mut reader, unsealer, &key, anchor).await;
            verified.map_err(|error| LedgerFault::new("cannot verify the book", error))
        })
    }

    fn forget(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> Pending<'_, Result<Option<Forgetting>, LedgerFault>> {
        Box::pin(self.forget_call(call, by, at))
    }

    fn rebuild(&self) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(async move {
            let rebuilt = rebuild::rebuild(&mut *self.sealed.reader().await?, &*self.unsealer).await;
            rebuilt.map_err(|error| LedgerFault::new("cannot rebuild the projections", error))
        })
    }

    fn seal(&self) -> Pending<'_, Result<u64, LedgerFault>> {
        Box::pin(self.sealer.seal())
    }

    fn anchor(&self) -> Pending<'_, Result<Option<Anchor>, LedgerFault>> {
        Box::pin(self.sealer.anchor())
    }
}

impl PgBook {
    async fn kept(&self, call: CallId) -> Result<Option<Kept>, LedgerFault> {
        let mut reader = self.sealed.reader().await?;
        let read = async |connection: &mut PgConnection| -> Result<_, Error> {
            let rows = record_rows(connection, call, LINES_ALONE).await?;
            Ok((rows, key_of(connection, call).await?, queries::listing(connection, call).await?))
        };
        let (rows, key, listed) =
            read(&mut reader).await.map_err(|error| LedgerFault::new("cannot read a record", error))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let lines = lines_of(&rows);
        let record = Record::read(call, &lines);
        let listing = listed.or_else(|| listing_of(&record, None));
        Ok(Some(Kept { record, lines, listing, forgotten: key.is_some_and(|(_, forgotten)| forgotten) }))
    }

    async fn contents_of(&self, call: CallId) -> Result<Vec<Content>, LedgerFault> {
        let mut reader = self.sealed.reader().await?;
        let cannot = |error: Error| LedgerFault::new("cannot read contents", error);
        let wrapped = key_of(&mut reader, call).await.map_err(cannot)?.and_then(|(key, _)| key);
        let Some(key) = wrapped.and_then(|wrapped| self.unsealer.key(call, &wrapped)) else {
            return Ok(Vec::new());
        };
        let rows = record_rows(&mut reader, call, LINE_COLUMNS).await.map_err(cannot)?;
        let mut contents = Vec::new();
        for row in rows.iter().filter(|row| !row.contents.is_empty()) {
            let unpacked = self
                .unsealer
                .contents(&key, call, row.seq, &row.contents)
                .map_err(|fault| LedgerFault::new("cannot read contents", fault))?;
            contents.extend(unpacked.contents);
        }
        Ok(contents)
    }

    async fn forget_call(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> Result<Option<Forgetting>, LedgerFault> {
        let Some(kept) = self.kept(call).await? else { return Ok(None) };
        let tenant = match (kept.record.heading(), kept.listing) {
            (Some(heading), _) => heading.tenant.clone(),
            (None, Some(listing)) => listing.tenant,
            (None, None) => {
                return Err(LedgerFault::new("cannot forget a call", "nobody can say whose it is"));
            }
        };
        let act = Act { id: ActId::new(Uuid::now_v7()), at, tenant, by, deed: Deed::Forget { call } };
        // The ledger first: it could bring what the book has forgotten once more.
        if let Some(ledger) = &self.ledger {
            ledger.act(act.clone()).await?;
        }
        match self.sealed.take_act(act.clone()).await {
            Ok(()) => {}
            Err(TakeFault::Fault(fault)) => return Err(fault),
            Err(other) => return Err(LedgerFault::new("cannot forget a call", other)),
        }
        // Old versions of a row stay in the files until they are vacuumed, and in the log and in backups for longer. The
        // wrapped key is of no use without the master key, but it would be wrong to say that it is nowhere.
        Ok(Some(Forgetting { act, scrubbed: false }))
    }
}
