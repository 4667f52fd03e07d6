//! Builds the input of a tool from the record: plan, policy, place, and listeners for progress and output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use byleave_core::call::Mode;
use byleave_core::effect::{Effect, Plan};
use byleave_core::git_transport::GitTransport;
use byleave_core::id::CallId;
use byleave_core::policy::Policy;
use byleave_core::refusal::{Code, Refusal, StageResult};
use byleave_core::rehearsal::Rehearsal;
use tokio_util::sync::CancellationToken;

use crate::event::{EventBus, GateEvent};
use crate::gate::earlier_data::read_data;
use crate::gate::inner::{GateInner, tool_context};
use crate::gate::policy_check::has_read_foreign;
use crate::gate::task_outcome::content_refusal;
use crate::gate::working_record::WorkingRecord;
use crate::tool::{EarlierData, OutputChunk, Progress, RunContext, ToolContext};

/// The input of a tool, without its cancellation token.
#[derive(Clone)]
pub(crate) struct RunParts {
    call: CallId,
    context: ToolContext,
    plan: Arc<Plan>,
    policy: Arc<Policy>,
    mode: Mode,
    read_foreign: bool,
    default_timeout: Duration,
    guarantees: Vec<String>,
    data: Arc<BTreeMap<String, EarlierData>>,
    approved_git: Vec<GitTransport>,
    /// Whether neither a rule nor a person allowed the call.
    pub(crate) spared_by_rehearsal: bool,
    events: EventBus,
}

impl RunParts {
    /// Returns the context for a real run. Output chunks are sent to subscribers.
    pub(crate) fn into_run_context(self, stop: CancellationToken) -> RunContext {
        let (call, events) = (self.call, self.events.clone());
        let printed =
            Arc::new(move |printed: OutputChunk| events.emit([GateEvent::Output { call, chunk: printed }]));
        self.into_rehearsal_context(stop).with_output_listener(printed)
    }

    /// Returns the context for a run on a copy. Output chunks are dropped.
    pub(crate) fn into_rehearsal_context(self, stop: CancellationToken) -> RunContext {
        let Self {
            call,
            context: site,
            plan,
            policy: rules,
            mode,
            read_foreign,
            default_timeout,
            guarantees,
            data,
            approved_git,
            spared_by_rehearsal,
            events,
        } = self;
        let progress = Arc::new(move |progress: Progress| events.send_progress(call, progress));
        RunContext::new(call, site, plan, stop, progress)
            .with_policy(rules, mode)
            .with_read_foreign(read_foreign)
            .with_default_timeout(default_timeout)
            .with_guarantees(guarantees)
            .with_data(data)
            .with_approved_git(approved_git)
            .with_spared_by_rehearsal(spared_by_rehearsal)
    }
}

/// Builds the input of a tool. Hosts that a rehearsal wanted, and that were granted with it, become part of the plan.
pub(crate) async fn run_parts(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    seen: Option<&Rehearsal>,
) -> StageResult<RunParts> {
    let site = tool_context(&desk.record)
        .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record does not begin with a call"))?;
    let mut plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
    // A commit does not run the tool again, so it needs no data.
    let is_commit = seen.is_some_and(Rehearsal::is_committable);
    let data = if is_commit { Arc::default() } else { read_data(parts, desk, &plan).await? };
    let mut approved_git = Vec::new();
    if let Some(seen) = seen.filter(|seen| !seen.is_committable()) {
        approved_git.clone_from(&seen.git_transports);
        let sends = plan.sends_to_unknown_host();
        let effects = &mut Arc::make_mut(&mut plan).effects;
        for (host, port) in seen.known_blocked_hosts() {
            effects.push(Effect::Reach { host: host.to_owned(), port });
            // Now it is known where the call sends to.
            effects.extend(sends.then(|| Effect::Send { host: host.to_owned(), port }));
        }
    }
    let (call, events) = (desk.call(), parts.events.clone());
    let mode = desk.record.header().map(|heading| heading.mode).unwrap_or_default();
    let ruling = desk.record.draft().and_then(|draft| draft.decision()).and_then(|step| step.as_ref().ok());
    let guarantees = ruling.map(|ruling| ruling.guarantees.clone()).unwrap_or_default();
    let default_timeout = Duration::from_millis(parts.settings.limits.timeout_ms);
    let policy = parts.policy.load_full();
    let read_foreign = has_read_foreign(parts, desk).await?;
    Ok(RunParts {
        call,
        context: site,
        plan,
        policy,
        mode,
        read_foreign,
        default_timeout,
        guarantees,
        data,
        approved_git,
        spared_by_rehearsal: false,
        events,
    })
}
