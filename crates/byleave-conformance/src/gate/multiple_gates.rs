//! Scenarios on several gates with one ledger: they do not interfere, and they finish calls of dead gates.

use std::sync::Arc;

use byleave_core::entry::RecordEvent;
use byleave_core::id::CallId;
use byleave_core::outcome::Output;
use byleave_core::refusal::Code;
use serde_json::json;
use tokio::sync::mpsc;

use super::faulty_ledger::FaultyLedger;
use super::fixture::{
    ProbeTool, ScenarioContext, answer, completed, ended, how_often, inbox, record, refused, settled, waiting,
};
use super::ordering::ConcurrencyGauge;
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::Reply;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger;
use byleave_gate::result::CallStatus;

// req: E4
pub(super) async fn two_gates_never_run_two_alone_at_once(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    const EACH: usize = 15;
    let stage = ScenarioContext::new(bench)?;
    let crowd = ConcurrencyGauge::default();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let crowd = crowd.clone();
        let probe = stage.probe("free-alone", move |_, _| {
            let crowd = crowd.clone();
            async move {
                let _inside = crowd.enter();
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                Output::text("")
            }
        });
        let gate = stage.gate().await?.tool(probe).build()?;
        for number in 0..EACH {
            let (gate, call) = (gate.clone(), stage.call("free-alone", json!({ "n": number }))?);
            tasks.push(tokio::spawn(async move { gate.settle(call).await }));
        }
    }
    for task in tasks {
        completed(&task.await?)?;
    }
    same("runs", &stage.run_log.count(), &(2 * EACH))?;
    same("at once", &crowd.most(), &1)
}

// req: E4
pub(super) async fn what_is_left_to_others_is_answered_here_and_never_begun(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let builder = || async {
        let probe = stage.probe("asks", |_, _| async { Output::text("") });
        Ok::<_, ConformanceError>(stage.gate().await?.settings(inbox()).tool(probe))
    };
    let here = builder().await?.skip_calls(Arc::new(|heading| heading.tool == "asks")).build()?;
    let there = builder().await?.build()?;
    let call = stage.call("asks", json!({}))?;
    let elsewhere = CallStatus::RunningElsewhere { call: call.id };
    ensure!(here.accept(&call).await.is_ok(), "the call was not accepted");
    same("taken in", &here.resume(call.id).await, &elsewhere)?;
    let question = waiting(there.resume(call.id).await)?;
    same("asked about", &here.resume(call.id).await, &elsewhere)?;
    answer(&here, &question, Reply::Yes { note: None }).await?;
    same("answered", &here.resume(call.id).await, &elsewhere)?;
    same("prepared", &here.prepare_existing(call.id).await, &elsewhere)?;
    same("runs", &stage.run_log.count(), &0)?;
    completed(&settled(there.resume(call.id).await)?)?;
    completed(&settled(here.resume(call.id).await)?)?;
    // This gate records that a call is over.
    let other = stage.call("asks", json!({ "n": 2 }))?;
    ensure!(here.accept(&other).await.is_ok(), "the call was not accepted");
    here.cancel(other.id, "ada").await?;
    refused(&settled(here.resume(other.id).await)?, Code::Cancelled)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: E4
pub(super) async fn a_no_that_was_given_elsewhere_counts_where_the_call_ends(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = || async {
        let probe = stage.probe("asks", |_, _| async { Output::text("") });
        Ok::<Gate, ConformanceError>(stage.gate().await?.settings(inbox()).tool(probe).build()?)
    };
    let (here, there) = (gate().await?, gate().await?);
    let question = waiting(here.advance(stage.call("asks", json!({ "n": 1 }))?).await)?;
    let call = answer(&there, &question, Reply::No { feedback: Some("not now".into()) }).await?;
    refused(&settled(here.resume(call).await)?, Code::Declined)?;
    let again = settled(here.advance(stage.call("asks", json!({ "n": 1 }))?).await)?;
    refused(&again, Code::Declined)?;
    let error = again.error().unwrap_or_default();
    ensure!(error.contains("not now") && error.contains("not asked about again"), "{error}");
    // A different call is asked about.
    waiting(here.advance(stage.call("asks", json!({ "n": 2 }))?).await)?;
    same("runs", &stage.run_log.count(), &0)
}

/// Creates a tool that signals its start and never ends the first time.
fn stuck(stage: &ScenarioContext<'_>, name: &str, starts: mpsc::UnboundedSender<()>) -> ProbeTool {
    let runs = stage.run_log.clone();
    stage.probe(name, move |_, _| {
        let (first, starts) = (runs.count() == 1, starts.clone());
        async move {
            starts.send(()).ok();
            if first {
                std::future::pending::<()>().await;
            }
            Output::text("the second time")
        }
    })
}

struct AbandonedCall {
    call: byleave_core::call::Call,
    gate: Gate,
    ledger: Arc<dyn Ledger>,
}

/// Creates a call whose owner died while it ran, and another gate on the store.
async fn died_at_work(
    stage: &ScenarioContext<'_>,
    tool: &str,
    repeatable: bool,
) -> Result<AbandonedCall, ConformanceError> {
    let (starts, mut started) = mpsc::unbounded_channel();
    let dying = stage.ledger().await?;
    let probe = || stuck(stage, tool, starts.clone()).with(|manifest| manifest.idempotent = repeatable);
    let gate = stage.gate_on(dying.clone())?.tool(probe()).build()?;
    let call = stage.call(tool, json!({}))?;
    let task = tokio::spawn({
        let (gate, call) = (gate.clone(), call.clone());
        async move { gate.settle(call).await }
    });
    started.recv().await.ok_or_else(|| ConformanceError::new("the call never started"))?;

    let ledger = stage.ledger().await?;
    let other = stage.gate_on(ledger.clone())?.tool(probe()).build()?;
    let standing = other.resume(call.id).await;
    ensure!(matches!(standing, CallStatus::RunningElsewhere { .. }), "its owner lives: {standing:?}");
    task.abort();
    ensure!(task.await.is_err(), "the call is still being driven");
    drop(gate);
    stage.bench.kill(dying).await?;
    Ok(AbandonedCall { call, gate: other, ledger })
}

// req: E1
pub(super) async fn what_a_dead_owner_ran_is_unknown_and_never_run_again(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    // Found by `resume_all`, by the same call again, and by another call that it blocks.
    for found_by in ["resuming all", "the same call", "another call"] {
        let stage = ScenarioContext::new(bench)?;
        let AbandonedCall { call, gate, ledger } = died_at_work(&stage, "free-stuck", false).await?;
        match found_by {
            "resuming all" => drop(gate.resume_all().await?),
            "another call" => drop(completed(&gate.settle(stage.call("free", json!({}))?).await)?),
            _ => {}
        }
        let result = gate.settle(call.clone()).await;
        ended(&result, "unknown", Code::Interrupted)?;
        let error = result.error().unwrap_or_default();
        ensure!(error.contains("do not repeat it without asking"), "the model does not see it: {error}");
        same("runs", &stage.run_log.of("free-stuck"), &1)?;
        same("attempts", &record(&*ledger, call.id).await?.attempts(), &1)?;
        ensure!(gate.resume_all().await?.is_empty(), "something is left to do");
    }
    Ok(())
}

// req: E1, T5
pub(super) async fn what_may_be_repeated_is_run_again(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let AbandonedCall { call, gate, ledger } = died_at_work(&stage, "free-stuck", true).await?;
    let result = gate.settle(call.clone()).await;
    same("the output", &completed(&result)?.text.as_str(), &"the second time")?;
    same("runs", &stage.run_log.count(), &2)?;
    let record = record(&*ledger, call.id).await?;
    same("attempts", &record.attempts(), &2)?;
    same("interruptions", &how_often(&record, |fact| matches!(fact, RecordEvent::Interrupted { .. })), &1)
}

// req: E1
pub(super) async fn everything_unfinished_can_be_resumed(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let AbandonedCall { call, gate, .. } = died_at_work(&stage, "free-stuck", false).await?;
    let standings = gate.resume_all().await?;
    let calls: Vec<CallId> = standings.iter().map(CallStatus::call).collect();
    same("the resumed calls", &calls, &vec![call.id])?;
    for standing in standings {
        ended(&settled(standing)?, "unknown", Code::Interrupted)?;
    }
    Ok(())
}

// req: E1
pub(super) async fn what_cannot_be_marked_does_not_run(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let between = FaultyLedger::failing(stage.ledger().await?, None);
    let gate = stage.gate_on(between.clone())?.build()?;
    between.forget_starts();
    let result = gate.settle(stage.call("free", json!({}))?).await;
    same("how it ended", &result.outcome.as_str(), &"failed")?;
    let error = result.error().unwrap_or_default();
    ensure!(error.contains("the call was not started"), "the model does not see it: {error}");
    same("runs", &stage.run_log.count(), &0)?;
    // A repeatable attempt is not marked at all.
    completed(&gate.settle(stage.read("f")?).await)?;
    Ok(())
}
