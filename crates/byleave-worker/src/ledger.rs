//! The ledger of a worker: everything is asked of the office, but for what only the worker's own disk can say.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use byleave::ledger::floor;
use byleave::ledger::owners::{self, OwnerLock};
use byleave::ledger::starts::Starts;
use byleave::ledger::{
    AppendFault, Arrival, Batch, Comer, ContentFault, Hindrance, Interruption, Ledger, LedgerFault, Loaded,
};
use byleave::pending::Pending;
use byleave_core::act::Act;
use byleave_core::call::Millis;
use byleave_core::chain::Line;
use byleave_core::digest::{Digest, Held};
use byleave_core::effect::Plan;
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, TenantId};
use byleave_core::leave::Leave;
use byleave_core::session::Opening;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::crew::Skills;
use crate::link::{Answered, Dial, Hire, Link};
use crate::wire::{Arrived, Ask, Blob, Interrupted, Read, Trouble};
use crate::work::Offers;

/// Where a worker lives.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on this machine, for its lock and the marks of what it starts. It must outlive the worker.
    pub dir: PathBuf,
    /// How long an office that does not answer is waited for.
    pub patience: Duration,
}

/// A ledger over a wire. Each is an owner of its own.
pub struct RemoteLedger {
    link: Link,
    owner: OwnerId,
    starts: Starts,
    _lock: OwnerLock,
}

impl RemoteLedger {
    /// Becomes an owner, and begins to dial. Wants a runtime.
    pub fn open(options: &Options, dial: impl Dial) -> Result<Self, LedgerFault> {
        Self::with(options, dial, None)
    }

    /// The same for a worker that wants calls: they come as offers.
    pub fn open_to_work(
        options: &Options,
        skills: Skills,
        dial: impl Dial,
    ) -> Result<(Self, Offers), LedgerFault> {
        let (hire, offers) = Offers::new(skills);
        Ok((Self::with(options, dial, Some(hire))?, offers))
    }

    fn with(options: &Options, dial: impl Dial, hire: Option<Hire>) -> Result<Self, LedgerFault> {
        let dir = &options.dir;
        let cannot = |error| LedgerFault::new(format!("cannot use `{}`", dir.display()), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot)?;
        let owner = OwnerId::new(Uuid::now_v7());
        let lock = owners::take(dir, owner)
            .map_err(cannot)?
            .ok_or_else(|| LedgerFault::new("cannot become an owner", "the id is taken"))?;
        let starts = Starts::open(dir, owner).map_err(cannot)?;
        Ok(Self { link: Link::open(dial, owner, options.patience, hire), owner, starts, _lock: lock })
    }

    /// Asks what only a broken ledger does not answer.
    async fn asked<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, LedgerFault> {
        let Answered { told, .. } = self.link.ask(ask).await?;
        read(told.map_err(Trouble::into_fault)?)
    }

    async fn append_batch(&self, batch: Batch) -> Result<(), AppendFault> {
        floor::moves(&batch, self.owner)?;
        let (call, at_len) = (batch.call, batch.at_len);
        let last = batch.lines.last().map(Line::link);
        let Answered { told, again } = self.link.ask(Ask::Append(Box::new(batch.into()))).await?;
        match told {
            Ok(_) => Ok(()),
            // Said twice to an office that was started anew meanwhile, it is the second time that is stale.
            Err(Trouble::Stale) if again && self.is_taken(call, at_len, last).await? => Ok(()),
            Err(Trouble::Stale) => Err(AppendFault::Stale),
            Err(Trouble::Halted { why }) => Err(Hindrance::Halted { why }.into()),
            Err(Trouble::LeaveSpent) => Err(Hindrance::LeaveSpent.into()),
            Err(Trouble::SessionBusy { call, attempt }) => {
                Err(Hindrance::SessionBusy { call, attempt }.into())
            }
            Err(other) => Err(other.into_fault().into()),
        }
    }

    /// Whether the record has these very lines: a link stands for a line and for everything before it.
    async fn is_taken(&self, call: CallId, at_len: u32, last: Option<Digest>) -> Result<bool, LedgerFault> {
        let read: Option<Read> = self.asked(Ask::Load { call }).await?;
        Ok(read.is_some_and(|read| read.links(call).skip(at_len as usize).any(|link| Some(link) == last)))
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, LedgerFault> {
    serde_json::from_value(value)
        .map_err(|error| LedgerFault::new("cannot make out what the office says", error))
}

impl Drop for RemoteLedger {
    fn drop(&mut self) {
        self.starts.tidy();
    }
}

impl Ledger for RemoteLedger {
    fn owner(&self) -> OwnerId {
        self.owner
    }

    fn load(&self, call: CallId) -> Pending<'_, Result<Option<Loaded>, LedgerFault>> {
        Box::pin(async move {
            let read: Option<Read> = self.asked(Ask::Load { call }).await?;
            read.map(|read| read.into_loaded(call)).transpose()
        })
    }

    fn arrive<'a>(&'a self, comer: Comer<'a>) -> Pending<'a, Result<Arrival, LedgerFault>> {
        Box::pin(async move {
            let Comer { call, tenant, session, tool, now } = comer;
            let (tenant, session, tool) = (tenant.clone(), session.clone(), tool.to_owned());
            let arrived: Arrived = self.asked(Ask::Arrive { call, tenant, session, tool, now }).await?;
            let loaded = arrived.loaded.map(|read| read.into_loaded(call)).transpose()?;
            Ok(Arrival { loaded, lineage: arrived.lineage, around: arrived.around.map(Into::into) })
        })
    }

    fn append(&self, batch: Batch) -> Pending<'_, Result<(), AppendFault>> {
        Box::pin(self.append_batch(batch))
    }

    fn content(&self, call: CallId, held: Held) -> Pending<'_, Result<Vec<u8>, ContentFault>> {
        Box::pin(async move {
            let Answered { told, .. } = self.link.ask(Ask::Content { call, held }).await?;
            let Blob(bytes) = read(told.map_err(Trouble::into_content_fault)?)?;
            Ok(bytes)
        })
    }

    fn interrupt(
        &self,
        call: CallId,
        attempt: AttemptId,
        at: Millis,
    ) -> Pending<'_, Result<Interruption, LedgerFault>> {
        Box::pin(async move {
            let interrupted: Interrupted = self.asked(Ask::Interrupt { call, attempt, at }).await?;
            Ok(interrupted.into())
        })
    }

    fn starting(&self, _call: CallId, attempt: AttemptId) -> Pending<'_, Result<(), LedgerFault>> {
        let starts = self.starts.clone();
        Box::pin(async move {
            starts.mark_aside(attempt).await?;
            // The last moment: whoever was held up until now may hold a claim no more.
            if self.link.may_be_given_up() {
                let why = "the office was not heard for longer than a lease, and may have given the call up";
                return Err(LedgerFault::new("cannot start an attempt", why));
            }
            Ok(())
        })
    }

    fn act(&self, act: Act) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(self.asked(Ask::Act(Box::new(act))))
    }

    fn halted(&self, tenant: &TenantId) -> Pending<'_, Result<Option<Act>, LedgerFault>> {
        Box::pin(self.asked(Ask::Halted { tenant: tenant.clone() }))
    }

    fn lineage(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Pending<'_, Result<Vec<Opening>, LedgerFault>> {
        Box::pin(self.asked(Ask::Lineage { tenant: tenant.clone(), session: session.clone() }))
    }

    fn leaves(
        &self,
        tenant: &TenantId,
        tool: &str,
        now: Millis,
    ) -> Pending<'_, Result<Vec<Arc<Leave>>, LedgerFault>> {
        let ask = Ask::Leaves { tenant: tenant.clone(), tool: tool.to_owned(), now };
        Box::pin(async move {
            let leaves: Vec<Leave> = self.asked(ask).await?;
            Ok(leaves.into_iter().map(Arc::new).collect())
        })
    }

    fn call_of(&self, question: QuestionId) -> Pending<'_, Result<Option<CallId>, LedgerFault>> {
        Box::pin(self.asked(Ask::CallOf { question }))
    }

    fn held_up_by(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        call: CallId,
        plan: &Plan,
    ) -> Pending<'_, Result<Option<CallId>, LedgerFault>> {
        let (tenant, session, effects) = (tenant.clone(), session.clone(), plan.effects.clone());
        Box::pin(async move {
            if effects.is_empty() {
                return Ok(None);
            }
            self.asked(Ask::HeldUpBy { tenant, session, call, effects }).await
        })
    }

    fn drivable(&self, now: Millis, limit: usize) -> Pending<'_, Result<Vec<CallId>, LedgerFault>> {
        Box::pin(self.asked(Ask::Drivable { now, limit }))
    }
}
