//! The book's side of the store: lists, verification, forgetting.

use byleave_core::act::{Act, Deed};
use byleave_core::call::Millis;
use byleave_core::id::{ActId, CallId, TenantId};
use byleave_core::record::Record;
use uuid::Uuid;

use super::row::{lines_of, rows_of};
use super::work::Work;
use super::{SqliteBook, Store, acts, queries, schema, verify};
use crate::book::marks::listing_of;
use crate::book::vault;
use crate::book::{
    Anchor, Book, CallFilter, CallItem, Cursor, Forgetting, Kept, LeaveItem, Page, QuestionFilter,
    QuestionItem, Verification, Written,
};
use crate::ledger::{AppendFault, Content, LedgerFault};
use crate::pending::Pending;

impl Book for SqliteBook {
    fn calls(&self, filter: CallFilter, page: Page) -> Pending<'_, Result<Vec<CallItem>, LedgerFault>> {
        Box::pin(async move {
            self.store
                .readers
                .read("cannot list the calls", |connection| queries::calls(connection, &filter, page))
        })
    }

    fn written(&self, after: Option<Cursor>, limit: usize) -> Pending<'_, Result<Written, LedgerFault>> {
        Box::pin(async move {
            self.store
                .readers
                .read("cannot see what is new", |connection| queries::written(connection, after, limit))
        })
    }

    fn questions(
        &self,
        filter: QuestionFilter,
        page: Page,
    ) -> Pending<'_, Result<Vec<QuestionItem>, LedgerFault>> {
        Box::pin(async move {
            self.store
                .readers
                .read("cannot list the questions", |connection| queries::questions(connection, &filter, page))
        })
    }

    fn record(&self, call: CallId) -> Pending<'_, Result<Option<Kept>, LedgerFault>> {
        Box::pin(async move { self.store.kept(call) })
    }

    fn contents(&self, call: CallId) -> Pending<'_, Result<Vec<Content>, LedgerFault>> {
        Box::pin(async move { self.store.contents(call) })
    }

    fn leaves_given(
        &self,
        tenant: &TenantId,
        now: Millis,
    ) -> Pending<'_, Result<Vec<LeaveItem>, LedgerFault>> {
        let tenant = tenant.clone();
        Box::pin(async move {
            self.store.readers.with(|connection| {
                let bench = &self.store.bench;
                let force = bench.acts.refresh(connection)?;
                let listed = bench.leaves.all(connection, &force, &tenant, now);
                listed.map_err(|error| LedgerFault::new("cannot list the leaves", error))
            })?
        })
    }

    fn acts(&self) -> Pending<'_, Result<Vec<Act>, LedgerFault>> {
        Box::pin(async move {
            let rows = self.store.readers.read("cannot read the acts", acts::all)?;
            let read = |row| acts::read(row).map_err(|why| LedgerFault::new("an act is damaged", why));
            rows.iter().map(read).collect()
        })
    }

    fn verify(&self) -> Pending<'_, Result<Verification, LedgerFault>> {
        Box::pin(async move { self.store.verify() })
    }

    fn forget(
        &self,
        call: CallId,
        by: String,
        at: Millis,
    ) -> Pending<'_, Result<Option<Forgetting>, LedgerFault>> {
        Box::pin(async move {
            let Some(kept) = self.store.kept(call)? else { return Ok(None) };
            let tenant = match (kept.record.heading(), kept.listing) {
                (Some(heading), _) => heading.tenant.clone(),
                (None, Some(listing)) => listing.tenant,
                (None, None) => {
                    return Err(LedgerFault::new("cannot forget a call", "nobody can say whose it is"));
                }
            };
            let act = Act { id: ActId::new(Uuid::now_v7()), at, tenant, by, deed: Deed::Forget { call } };
            let scrubbed = self.store.act(&act).await?;
            Ok(Some(Forgetting { act, scrubbed }))
        })
    }

    fn rebuild(&self) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(async move {
            match self.store.writer.submit(Work::Rebuild).await {
                Ok(()) => Ok(()),
                Err(AppendFault::Fault(fault)) => Err(fault),
                Err(other) => Err(LedgerFault::new("cannot rebuild the projections", other)),
            }
        })
    }

    fn seal(&self) -> Pending<'_, Result<u64, LedgerFault>> {
        Box::pin(async move { self.store.sealer.seal(&self.store.readers, &self.store.writer) })
    }

    fn anchor(&self) -> Pending<'_, Result<Option<Anchor>, LedgerFault>> {
        Box::pin(async move { self.store.sealer.anchor() })
    }
}

impl Store {
    fn kept(&self, call: CallId) -> Result<Option<Kept>, LedgerFault> {
        let rows = self.readers.read("cannot read a record", |connection| rows_of(connection, call))?;
        let Some(first) = rows.first() else { return Ok(None) };
        let lines = lines_of(&rows);
        let record = Record::read(call, &lines);
        let forgotten = first.key.as_deref().is_some_and(vault::is_destroyed);
        let listed =
            self.readers.read("cannot look a call up", |connection| queries::listing(connection, call))?;
        let listing = listed.or_else(|| listing_of(&record, None));
        Ok(Some(Kept { record, lines, listing, forgotten }))
    }

    fn contents(&self, call: CallId) -> Result<Vec<Content>, LedgerFault> {
        let key =
            self.wrapped_key(call)?.flatten().and_then(|wrapped| self.bench.vault.unwrap(call, &wrapped));
        let Some(key) = key else { return Ok(Vec::new()) };
        let batches = self
            .readers
            .read("cannot read contents", |connection| queries::packed_contents(connection, call))?;
        let mut contents = Vec::new();
        for (seq, packed) in batches.iter().filter(|(_, packed)| !packed.is_empty()) {
            let unpacked = vault::unpack(&key, call, *seq, packed)
                .map_err(|fault| LedgerFault::new("cannot read contents", fault))?;
            contents.extend(unpacked.contents);
        }
        Ok(contents)
    }

    /// Reads with a connection of its own: nothing that this process remembers has a say.
    fn verify(&self) -> Result<Verification, LedgerFault> {
        let cannot = |error| LedgerFault::new("cannot verify the book", error);
        let connection = schema::connect_reader(&self.path, self.busy).map_err(cannot)?;
        let key = self.sealer.public_key();
        // Read before the book: what is sealed meanwhile must not look like an anchor that is ahead.
        let anchor = self.sealer.anchor()?;
        verify::verify(&connection, &self.bench.vault, &key, anchor).map_err(cannot)
    }
}
