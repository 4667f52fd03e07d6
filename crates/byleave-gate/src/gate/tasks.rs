//! Performs each task of the pipeline. It never fails: an error in a stage becomes an event that says so.

use std::sync::Arc;

use byleave_core::call::Millis;
use byleave_core::challenge::{ChallengeBy, ChallengeSummary};
use byleave_core::decision::{PolicyDecision, Verdict};
use byleave_core::effect::Plan;
use byleave_core::entry::{ChallengeTerms, Limits, RecordEvent, ResolvedTool, ValidDraft};
use byleave_core::id::CallId;
use byleave_core::manifest::{ApprovalRequirement, PermissionClass};
use byleave_core::pipeline::{NextStep, Task, next_step};
use byleave_core::refusal::{Code, FailureCause, Refusal, StageResult};
use byleave_core::rehearsal::RehearsalSettings;
use byleave_core::review::Review;
use serde_json::Value;

use crate::catalog::CatalogEntry;
use crate::challenge::{ChallengeError, ChallengeSubject};
use crate::gate::earlier_data::choose_data;
use crate::gate::inner::{GateInner, tool_context};
use crate::gate::policy_check::{evaluate_policy, needs_approval, predicted_stage};
use crate::gate::task_outcome::{TaskOutcome, content_refusal, fresh_session_context, resolve_pinned};
use crate::gate::working_record::WorkingRecord;
use crate::gate::{execute, preflight, questions, rehearse};
use crate::ledger::LedgerError;
use crate::plan;
use crate::plan_bindings;
use crate::plugin_guard::{PluginFailure, guard};
use crate::review::{OwnedInput, OwnedOutput};
use crate::schema;
use crate::tool::{ToolContext, ToolError};

/// Performs one task and returns its outcome.
pub(crate) async fn perform(parts: &GateInner, desk: &mut WorkingRecord, task: Task) -> TaskOutcome {
    let fact = match task {
        Task::Resolve => RecordEvent::Resolved(resolve(parts, desk).await),
        Task::Validate => RecordEvent::Validated(validate(parts, desk).await),
        Task::Plan => match make_plan(parts, desk).await {
            Ok(plan) => {
                if let Some(performed) = check_blocked(parts, desk, &plan).await {
                    return performed;
                }
                RecordEvent::Planned(desk.store_plan(&plan))
            }
            Err(refusal) => RecordEvent::Planned(Err(refusal)),
        },
        Task::EvaluatePolicy => RecordEvent::PolicyEvaluated(decide(parts, desk).await),
        Task::ReviewInput => RecordEvent::Reviewed(review_input(parts, desk).await),
        Task::Challenge => RecordEvent::Challenged(challenge(parts, desk).await),
        Task::StartRehearsal(binding) => RecordEvent::RehearsalStarted { binding },
        Task::Rehearse => return rehearse::rehearse(parts, desk).await,
        Task::Ask(asking) => RecordEvent::Asked(questions::open_question(parts, desk, asking).await),
        Task::Start(grant) => match preflight::start_attempt(parts, desk, &grant).await {
            Ok(fact) => fact,
            Err(refusal) => RecordEvent::Started(Err(refusal)),
        },
        Task::Execute { attempt, grant } => return execute::execute(parts, desk, attempt, &grant).await,
        Task::ReviewOutput => RecordEvent::OutputReviewed(review_output(parts, desk).await),
    };
    TaskOutcome::Event(fact)
}

async fn resolve(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<ResolvedTool> {
    let name = desk.record.header().map(|heading| heading.tool.as_str()).unwrap_or_default();
    let entry =
        parts.catalog.get(name).map_err(|unknown| Refusal::new(Code::ToolUnknown, unknown.to_string()))?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    Ok(resolved_tool(parts, &entry, &arguments))
}

fn resolved_tool(parts: &GateInner, entry: &CatalogEntry, arguments: &Value) -> ResolvedTool {
    let settings = &parts.settings;
    let manifest = entry.manifest();
    let is_job = entry.tool().job_duration(arguments).is_some();
    let timeout_ms = manifest.timeout_ms.unwrap_or(settings.limits.timeout_ms).min(settings.max_timeout_ms);
    ResolvedTool {
        tool: manifest.name.clone(),
        manifest: entry.digest(),
        operation: manifest.operation().to_owned(),
        read_only: manifest.read_only,
        destructive: manifest.destructive,
        // A job lasts for hours, and the calls that use it come meanwhile.
        concurrency_safe: is_job || manifest.concurrency_safe && settings.max_concurrent > 1,
        idempotent: manifest.idempotent,
        checkpoint: manifest.requires_checkpoint,
        challenge: ChallengeTerms {
            required: manifest.requires_reverse_thinking,
            when: settings.challenge_when,
            replaces_checkpoint: settings.challenge_replaces_checkpoint.contains(&manifest.name),
        },
        rehearsal: (settings.rehearse && entry.tool().as_rehearsable().is_some())
            .then_some(RehearsalSettings { may_skip_question: settings.rehearsal_may_skip_question }),
        limits: Limits { timeout_ms, ..settings.limits },
    }
}

fn require_context(desk: &WorkingRecord) -> StageResult<ToolContext> {
    tool_context(&desk.record)
        .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record does not begin with a call"))
}

async fn validate(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<ValidDraft> {
    let entry = resolve_pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    let max_bytes = parts.settings.max_argument_bytes;
    let (validator, limits) =
        (entry.validator(), schema::JsonLimits { max_bytes, ..schema::JsonLimits::ARGUMENTS });
    if entry.manifest().server.is_some() {
        // Models write null for omitted arguments, and tools of external servers cannot be required to accept that (M1).
        validator.check(&validator.without_nulls((*arguments).clone(), &limits), &limits)?;
    } else {
        validator.check(&arguments, &limits)?;
    }
    check_still_job(desk, &entry, &arguments)?;
    Ok(ValidDraft {})
}

/// Refuses a draft that is no longer the job, or the ordinary call, that the first draft was: that decides which calls may run beside it.
fn check_still_job(desk: &WorkingRecord, entry: &CatalogEntry, arguments: &Value) -> StageResult<()> {
    let is_first = desk.record.draft().is_none_or(|draft| draft.number <= 1);
    let ran_beside_others = desk.resolved_tool().is_some_and(|terms| terms.concurrency_safe);
    let was_job = ran_beside_others && !entry.manifest().concurrency_safe;
    if is_first || was_job == entry.tool().job_duration(arguments).is_some() {
        return Ok(());
    }
    let why = "a change of the arguments cannot turn an ordinary call into a background job, or the other way round; make another call";
    Err(Refusal::new(Code::ArgumentsInvalid, why))
}

async fn make_plan(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<Plan> {
    let entry = resolve_pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    let site = require_context(desk)?;
    let tool = entry.tool().clone();
    let manifest = entry.clone();
    let limit = parts.settings.plugin_timeout;
    let policy = parts.policy.load_full();
    let answer = guard(limit, move || async move {
        let mut plan = match tool.plan(&arguments, &site) {
            Some(own) => own.await?,
            None => plan::plan_by_class(manifest.manifest(), &arguments, &site)?,
        };
        plan::name_stored_content(&mut plan, &policy);
        plan_bindings::add_directory_binding(&mut plan, &site)?;
        if manifest.manifest().permission_class == PermissionClass::Bash {
            plan_bindings::add_listener_bindings(&mut plan)?;
        }
        Ok::<_, ToolError>(plan)
    });
    let mut plan = answer.await.map_err(|broken| {
        Refusal::new(Code::PlanFailed, format!("the effects could not be predicted: {broken}"))
            .with_cause(broken.cause())
    })?;
    // Whatever the tool's own planner wrote there, it gets only data that its manifest asks for.
    plan.data = choose_data(parts, desk, &entry.manifest().wants_data).await?;
    Ok(plan)
}

/// Steps back behind a call of the session that waits for a person and conflicts with this plan. A call that only reads never does.
async fn check_blocked(parts: &GateInner, desk: &WorkingRecord, plan: &Plan) -> Option<TaskOutcome> {
    let heading = desk.record.header()?;
    // A person who was asked about this call has seen it in its place, so it never goes back behind others.
    if heading.dry_run || desk.record.draft()?.number > 1 || plan.only_reads() {
        return None;
    }
    if fresh_session_context(parts, desk).is_some_and(|seen| !seen.has_pending_calls) {
        return None;
    }
    let (tenant, session) = (&heading.tenant, &heading.session);
    let mut passed_over = Vec::new();
    loop {
        let found = parts.ledger.blocking_call(tenant, session, desk.call(), plan, &passed_over).await;
        let blocked = match found {
            Ok(None) => return None,
            Ok(Some(other)) if passed_over.contains(&other) => Ok(other),
            Ok(Some(other)) => match is_passed_over(parts, other).await {
                Ok(true) => {
                    passed_over.push(other);
                    continue;
                }
                Ok(false) => Ok(other),
                Err(fault) => Err(fault),
            },
            Err(fault) => Err(fault),
        };
        return Some(match blocked {
            Ok(other) => TaskOutcome::Blocked(other),
            Err(fault) => {
                let refusal = Refusal::new(Code::NotRecorded, fault.to_string());
                TaskOutcome::Event(RecordEvent::Planned(Err(refusal)))
            }
        });
    }
}

/// How long a call that was answered keeps its place before others if no process attends it, by the times on its record.
const ANSWERED_HOLD_MS: Millis = 60_000;

/// Returns whether a waiting call holds up nothing, because no process attends it. Nothing is written, and the call can still be
/// continued: its claim checks that everything that was approved is still so.
async fn is_passed_over(parts: &GateInner, call: CallId) -> Result<bool, LedgerError> {
    let Some(is_unattended) = &parts.unattended_calls else { return Ok(false) };
    let Some(loaded) = parts.ledger.load(call).await? else { return Ok(false) };
    let is_due = match next_step(&loaded.record) {
        NextStep::Wait(_) => true,
        // An attempt that is open has a living owner, or is settled by the next process.
        _ if loaded.record.attempts() > 0 => false,
        NextStep::Do(_) => {
            let last = loaded.record.entries().last().map_or(Millis::MAX, |entry| entry.at);
            last.saturating_add(ANSWERED_HOLD_MS) <= parts.now()
        }
        NextStep::Settle(_) => false,
    };
    // A call that is driven here is attended, whatever the program knows.
    let is_driven =
        || parts.in_flight.find(call).is_some_and(|driving| driving.drive_lock.try_lock().is_err());
    Ok(is_due && !is_driven() && is_unattended(call))
}

async fn decide(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<PolicyDecision> {
    let entry = resolve_pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
    let stage = predicted_stage(&entry, &arguments);
    let tool_asks = match entry.manifest().needs_approval {
        ApprovalRequirement::Never => false,
        ApprovalRequirement::Always => true,
        ApprovalRequirement::Depends => needs_approval(parts, entry.tool().clone(), arguments).await?,
    };
    let mut decision = evaluate_policy(parts, desk, &entry, &plan, stage, tool_asks).await?;
    decision.challenge = choose_challenger(parts, desk, &decision).await?;
    Ok(decision)
}

/// Returns who makes the case against the call, if the tool or a rule requires it.
///
/// A registered challenger makes it. If there is none for this call, the person who answers does.
async fn choose_challenger(
    parts: &GateInner,
    desk: &WorkingRecord,
    decision: &PolicyDecision,
) -> StageResult<Option<ChallengeBy>> {
    let is_required = desk.resolved_tool().is_some_and(|terms| terms.challenge.required);
    if decision.verdict == Verdict::Deny || !is_required && decision.challenge.is_none() {
        return Ok(None);
    }
    let call = desk.call();
    let is_available = match parts.challenger() {
        None => false,
        Some(challenger) => {
            let ask = move || async move { Ok::<_, ChallengeError>(challenger.is_available(call)) };
            guard(parts.settings.plugin_timeout, ask).await.map_err(|broken| challenge_refusal(&broken))?
        }
    };
    Ok(Some(if is_available || !parts.has_person { ChallengeBy::Challenger } else { ChallengeBy::Person }))
}

fn challenge_refusal(broken: &PluginFailure<ChallengeError>) -> Refusal {
    Refusal::new(Code::ChallengeFailed, format!("cannot get a challenge: {broken}"))
        .with_cause(broken.cause())
}

async fn review_input(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<Review> {
    if parts.reviewers.has_no_input_reviewers() {
        return Ok(Review::default());
    }
    let entry = resolve_pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
    let input = OwnedInput { call: desk.call(), tool: Arc::from(entry.name()), arguments, plan };
    let reviewed = parts.reviewers.review_input(input, entry.digest()).await?;
    let change = reviewed.replacement.map(|value| desk.store_json(&value));
    Ok(Review { notes: reviewed.notes, replacement: change })
}

async fn review_output(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<Review> {
    if parts.reviewers.has_no_output_reviewers() {
        return Ok(Review::default());
    }
    let tool = desk.resolved_tool().map(|terms| terms.tool.clone()).unwrap_or_default();
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    let output = desk.output(&*parts.ledger).await.map_err(content_refusal)?;
    let subject = OwnedOutput { call: desk.call(), tool: Arc::from(tool), arguments, output };
    let reviewed = parts.reviewers.review_output(subject).await?;
    let change = reviewed.replacement.map(|output| desk.store_content(&output));
    Ok(Review { notes: reviewed.notes, replacement: change })
}

async fn challenge(parts: &GateInner, desk: &mut WorkingRecord) -> StageResult<ChallengeSummary> {
    let Some(challenger) = parts.challenger() else {
        return Err(Refusal::new(
            Code::NoChallenger,
            "somebody must first make the case against this call, but nobody is here who could: answer at a terminal, or keep the question open with `--ask inbox`",
        ));
    };
    let tool = desk.resolved_tool().map(|terms| terms.tool.clone()).unwrap_or_default();
    let arguments = desk.arguments(&*parts.ledger).await.map_err(content_refusal)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
    let reason = questions::model_reason(parts, desk).await.map_err(content_refusal)?;
    let call = desk.call();
    let answer = guard(parts.settings.challenger_timeout, move || async move {
        let subject = ChallengeSubject {
            call,
            tool: &tool,
            arguments: &arguments,
            reason: reason.as_deref(),
            plan: &plan,
        };
        challenger.challenge(subject).await
    });
    let case = answer.await.map_err(|broken| challenge_refusal(&broken))?;
    if !case.is_complete() {
        return Err(Refusal::new(
            Code::ChallengeFailed,
            "the challenge lacks an assumption, a failure scenario or a reason",
        )
        .with_cause(FailureCause::InvalidResponse));
    }
    Ok(ChallengeSummary { verdict: case.verdict, challenge: desk.store_content(&case) })
}
