//! Executes a claimed attempt once, with a timeout and cancellation. It never returns an error (E2, E3, T3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_core::decision::PolicyDecision;
use byleave_core::entry::RecordEvent;
use byleave_core::grant::{Grant, GrantedBy};
use byleave_core::id::AttemptId;
use byleave_core::manifest::PermissionClass;
use byleave_core::outcome::{ExecutionEnd, ExecutionStatus, Output};
use byleave_core::rehearsal::RehearsalSummary;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::catalog::CatalogEntry;
use crate::gate::inner::GateInner;
use crate::gate::observe::{self, ObservedRun};
use crate::gate::rehearse::{self, GrantedRehearsal};
use crate::gate::run_context::{RunParts, run_parts};
use crate::gate::supervise::{ToolExit, run_tool};
use crate::gate::task_outcome::{TaskOutcome, content_refusal, resolve_pinned};
use crate::gate::truncate;
use crate::gate::working_record::WorkingRecord;
use crate::ledger::{Interruption, LedgerError};
use crate::plugin_guard::{CatchPanic, PanicPayload, panic_message, panic_payload};
use crate::tool::{RunContext, Tool};

/// Runs the attempt if this drive claimed it. Otherwise finds out what became of it.
pub(crate) async fn execute(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    attempt: AttemptId,
    grant: &Grant,
) -> TaskOutcome {
    if desk.claimed_attempt.take() != Some(attempt) {
        return match parts.ledger.interrupt(desk.call(), attempt, parts.now()).await {
            Ok(Interruption::Recorded | Interruption::NotOpen) => TaskOutcome::Retry,
            Ok(Interruption::OwnerAlive) => TaskOutcome::RunningElsewhere,
            Err(fault) => {
                tracing::error!(call = %desk.call(), %fault, "cannot find out how an attempt ended");
                TaskOutcome::RunningElsewhere
            }
        };
    }
    // A recorded attempt is marked as started where it runs. An attempt that may be repeated needs no mark.
    if desk.is_durable()
        && let Err(fault) = parts.ledger.mark_started(desk.call(), attempt).await
    {
        return TaskOutcome::Event(start_failed_event(desk, attempt, &fault));
    }
    desk.has_unrecorded_run = true;
    let started = Instant::now();
    let RunEnd { status, mut output, observed, reached } = match run(parts, desk, grant).await {
        Ok(end) => end,
        Err(run) => return TaskOutcome::Event(RecordEvent::Observed { attempt, run: *run }),
    };
    output.execution_time_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    truncate::truncate_stored(&mut output, desk.stored_output_limit());
    let end = ExecutionEnd {
        status,
        duration_ms: output.execution_time_ms,
        truncated: output.truncated,
        undoable: output.undo.is_some(),
        output: desk.store_content(&output),
        read_foreign: reached || plan_reads_foreign(parts, desk).await,
        observed: observed.map(Box::new),
    };
    TaskOutcome::Event(RecordEvent::Ended { attempt, end })
}

/// Builds the end of an attempt whose start could not be marked. It failed before anything ran.
fn start_failed_event(desk: &mut WorkingRecord, attempt: AttemptId, fault: &LedgerError) -> RecordEvent {
    let output = Output::failure(format!("the call was not started: {fault}"));
    let (status, output) = (ExecutionStatus::Failed, desk.store_content(&output));
    RecordEvent::Ended {
        attempt,
        end: ExecutionEnd {
            status,
            output,
            duration_ms: 0,
            truncated: false,
            undoable: false,
            read_foreign: false,
            observed: None,
        },
    }
}

/// Checks whether the result may hold text of strangers, by the plan. What is not known is taken to hold some.
async fn plan_reads_foreign(parts: &GateInner, desk: &mut WorkingRecord) -> bool {
    let Ok(entry) = resolve_pinned(parts, desk) else { return true };
    // A background job has no observed run, and may reach every host that a rule allows.
    let is_unobserved = entry.manifest().permission_class == PermissionClass::Bash
        && match (entry.tool().as_rehearsable(), desk.arguments(&*parts.ledger).await) {
            (Some(tool), Ok(arguments)) => !tool.runs_on_copy(&arguments),
            _ => true,
        };
    let plan = desk.plan(&*parts.ledger).await;
    is_unobserved
        || entry.tool().returns_foreign_text()
        || plan.map_or(true, |plan| plan.reads_foreign(entry.manifest()))
}

/// The end of a run.
struct RunEnd {
    status: ExecutionStatus,
    output: Output,
    /// The decision on what it changed.
    observed: Option<PolicyDecision>,
    /// Whether it reached a host.
    reached: bool,
}

impl RunEnd {
    fn new((status, output): (ExecutionStatus, Output)) -> Self {
        Self { status, output, observed: None, reached: false }
    }
}

/// Runs the attempt to its end. Returns an error if it ran on a copy and its changes are not all allowed.
async fn run(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    grant: &Grant,
) -> Result<RunEnd, Box<RehearsalSummary>> {
    let unable = |why: String| Ok(RunEnd::new((ExecutionStatus::Failed, Output::failure(why))));
    // All of this was read when the attempt was claimed, so it is cached.
    let entry = match resolve_pinned(parts, desk) {
        Ok(entry) => entry,
        Err(refusal) => return unable(refusal.to_string()),
    };
    let arguments = match desk.arguments(&*parts.ledger).await {
        Ok(arguments) => arguments,
        Err(fault) => return unable(content_refusal(fault).to_string()),
    };
    let granted = match rehearse::granted_rehearsal(parts, desk).await {
        Ok(granted) => granted,
        Err(refusal) => return unable(refusal.to_string()),
    };
    let mut given = match run_parts(parts, desk, granted.as_ref().map(|granted| &*granted.rehearsal)).await {
        Ok(given) => given,
        Err(refusal) => return unable(refusal.to_string()),
    };
    given.spared_by_rehearsal = grant.granted_by() == GrantedBy::Rehearsal;
    let tool = entry.tool().clone();
    if let Some(granted) = granted.filter(|granted| granted.rehearsal.is_committable()) {
        let again = desk.record.attempts() > 1;
        let reached = !granted.rehearsal.reached_hosts.is_empty();
        let ended = commit(tool, granted, given.into_run_context(CancellationToken::new())).await;
        let end = RunEnd::new(if again { adjust_repeated_commit(ended) } else { ended });
        return Ok(RunEnd { reached, ..end });
    }
    if tool.as_rehearsable().is_some_and(|tool| tool.runs_on_copy(&arguments)) {
        return run_and_commit(parts, desk, &entry, arguments, given, grant).await;
    }
    let timeout = Duration::from_millis(desk.resolved_tool().map_or(0, |terms| terms.limits.timeout_ms));
    let ended = run_tool(parts, desk.call(), timeout, tool.is_nonblocking(), move |stop| async move {
        tool.execute((*arguments).clone(), given.into_run_context(stop)).await
    });
    Ok(RunEnd::new(match ended.await {
        ToolExit::Completed(ended) => to_end_status(ended),
        ToolExit::Stopped { status, reason: why, result: said } => {
            let silent = || Output::text("[byleave] the tool does not stop; it may still be running");
            let said = said.map_or_else(silent, Result::unwrap_or_default);
            let status = if said.outcome_unknown { ExecutionStatus::Unknown } else { status };
            (status, Output { is_error: true, error: Some(why), ..said })
        }
    }))
}

/// Runs a granted call on a copy, and commits its changes if the policy allows all of them.
async fn run_and_commit(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    entry: &CatalogEntry,
    arguments: Arc<Value>,
    given: RunParts,
    grant: &Grant,
) -> Result<RunEnd, Box<RehearsalSummary>> {
    let context = given.clone().into_run_context(CancellationToken::new());
    let tool = entry.tool().clone();
    match observe::run_on_copy(parts, desk, entry, arguments, given, grant).await {
        ObservedRun::Ended { status, output, reached } => {
            if let Some(rehearser) = tool.as_rehearsable() {
                rehearser.discard(desk.call()).await;
            }
            Ok(RunEnd { reached, ..RunEnd::new((status, output)) })
        }
        ObservedRun::NotAllowed(run) => Err(Box::new(run)),
        ObservedRun::Allowed(rehearsal, observed) => {
            let reached = !rehearsal.reached_hosts.is_empty();
            let granted = GrantedRehearsal { rehearsal: Arc::new(*rehearsal), paths: None };
            let (status, output) = commit(tool, granted, context).await;
            Ok(RunEnd { status, output, observed, reached })
        }
    }
}

/// Commits a rehearsal. It has no timeout and cannot be cancelled, because it is atomic and short.
async fn commit(
    tool: Arc<dyn Tool>,
    granted: GrantedRehearsal,
    run: RunContext,
) -> (ExecutionStatus, Output) {
    let work = async move {
        match tool.as_rehearsable() {
            Some(rehearser) => rehearser.commit((*granted.rehearsal).clone(), granted.paths, run).await,
            None => Output::failure("the tool can no longer commit its rehearsal"),
        }
    };
    to_end_status(
        tokio::spawn(CatchPanic::new(work).in_current_span())
            .await
            .unwrap_or_else(|error| Err(panic_payload(error))),
    )
}

/// Converts the end of a commit that an earlier attempt had begun.
///
/// If this attempt failed, the progress of the earlier one is unknown here, because its copy may be on another disk.
fn adjust_repeated_commit((status, output): (ExecutionStatus, Output)) -> (ExecutionStatus, Output) {
    if status == ExecutionStatus::Succeeded {
        return (status, output);
    }
    let why = output.error.as_deref().unwrap_or("the commit failed");
    let why = format!("an earlier attempt was interrupted, and its progress is not known here: {why}");
    (ExecutionStatus::Unknown, Output { outcome_unknown: true, error: Some(why), ..output })
}

fn to_end_status(ended: Result<Output, PanicPayload>) -> (ExecutionStatus, Output) {
    match ended {
        Ok(output) if output.outcome_unknown => (ExecutionStatus::Unknown, output),
        Ok(output) if output.is_error => {
            let error =
                output.error.clone().or_else(|| Some("the tool failed without an error message".into()));
            (ExecutionStatus::Failed, Output { error, ..output })
        }
        Ok(output) => (ExecutionStatus::Succeeded, output),
        Err(broken) => (
            ExecutionStatus::Panicked,
            Output::failure(format!("the tool panicked: {}", panic_message(broken))),
        ),
    }
}
