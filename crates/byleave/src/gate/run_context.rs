//! Builds the input of a tool from the record: plan, policy, place, and listeners for progress and output.

use std::sync::Arc;

use byleave_core::call::Mode;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::CallId;
use byleave_core::policy::Policy;
use byleave_core::refusal::{Code, Refusal, StageResult};
use byleave_core::rehearsal::Rehearsal;
use tokio_util::sync::CancellationToken;

use crate::event::{EventBus, GateEvent};
use crate::gate::inner::{GateInner, site};
use crate::gate::task_outcome::unreadable;
use crate::gate::working_record::WorkingRecord;
use crate::tool::{OutputChunk, Progress, RunContext, ToolContext};

/// The input of a tool, without its cancellation token.
pub(crate) struct RunParts {
    call: CallId,
    site: ToolContext,
    plan: Arc<Plan>,
    rules: Arc<Policy>,
    mode: Mode,
    guarantees: Vec<String>,
    events: EventBus,
}

impl RunParts {
    /// Returns the context for a real run. Output chunks are sent to subscribers.
    pub(crate) fn run(self, stop: CancellationToken) -> RunContext {
        let (call, events) = (self.call, self.events.clone());
        let printed =
            Arc::new(move |printed: OutputChunk| events.emit([GateEvent::Printed { call, printed }]));
        self.unheard(stop).with_printed(printed)
    }

    /// Returns the context for a run on a copy. Output chunks are dropped.
    pub(crate) fn unheard(self, stop: CancellationToken) -> RunContext {
        let Self { call, site, plan, rules, mode, guarantees, events } = self;
        let progress = Arc::new(move |progress: Progress| events.progress(call, progress));
        RunContext::new(call, site, plan, stop, progress).under(rules, mode).requiring(guarantees)
    }
}

/// Builds the input of a tool. Hosts that a rehearsal wanted, and that were granted with it, become part of the plan.
pub(crate) async fn given(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    seen: Option<&Rehearsal>,
) -> StageResult<RunParts> {
    let site = site(&desk.record)
        .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record does not begin with a call"))?;
    let mut plan = desk.plan(&*parts.ledger).await.map_err(unreadable)?;
    if let Some(seen) = seen.filter(|seen| !seen.stands()) {
        let reach = |(host, port): (&str, u16)| Effect::Reach { host: host.to_owned(), port };
        Arc::make_mut(&mut plan).effects.extend(seen.wants().map(reach));
    }
    let (call, events) = (desk.call(), parts.events.clone());
    let mode = desk.record.heading().map(|heading| heading.mode).unwrap_or_default();
    let ruling = desk.record.draft().and_then(|draft| draft.permitted()).and_then(|step| step.as_ref().ok());
    let guarantees = ruling.map(|ruling| ruling.guarantees.clone()).unwrap_or_default();
    Ok(RunParts { call, site, plan, rules: parts.policy.load_full(), mode, guarantees, events })
}
