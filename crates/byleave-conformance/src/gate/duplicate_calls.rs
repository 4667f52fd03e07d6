//! Scenarios on duplicate calls: one execution and one result. Another call under the same id is refused.

use std::sync::Arc;

use byleave_core::call::Mode;
use byleave_core::outcome::Output;
use byleave_core::refusal::Code;
use serde_json::json;
use tokio::sync::{Barrier, Notify};

use super::faulty_ledger::FaultyLedger;
use super::fixture::{ScenarioContext, completed, inbox, refused, settled, waiting};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};

// req: E1
pub(super) async fn the_same_call_at_once_runs_once(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let started = Arc::new(Notify::new());
    let start = started.clone();
    let gate = stage
        .gate()
        .await?
        .tool(stage.probe("free-slow", move |_, _| {
            let start = start.clone();
            async move {
                start.notify_one();
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                Output::text("once")
            }
        }))
        .build()?;
    let call = stage.call("free-slow", json!({}))?;
    let late = async {
        started.notified().await;
        gate.settle(call.clone()).await
    };
    let (one, two, three) = tokio::join!(gate.settle(call.clone()), gate.settle(call.clone()), late);
    completed(&one)?;
    same("the second", &two, &one)?;
    same("the later call", &three, &one)?;
    same("after the end", &gate.settle(call.clone()).await, &one)?;
    same("advanced after the end", &settled(gate.advance(call).await)?, &one)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: E1
pub(super) async fn the_same_call_in_two_gates_runs_once(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    // Both gates find no record before either writes.
    let meeting = Arc::new(Barrier::new(2));
    let here = stage.gate_on(FaultyLedger::meeting(stage.ledger().await?, meeting.clone()))?.build()?;
    let there = stage.gate_on(FaultyLedger::meeting(stage.ledger().await?, meeting))?.build()?;
    for round in 1..=10 {
        let call = stage.call("free", json!({ "n": round }))?;
        let tasks = [&here, &there].map(|gate| {
            let (gate, call) = (gate.clone(), call.clone());
            tokio::spawn(async move { gate.settle(call).await })
        });
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await?);
        }
        let [one, two] = results.as_slice() else { return Err(ConformanceError::new("two were asked")) };
        completed(one)?;
        same("the other", two, one)?;
        same("runs", &stage.run_log.count(), &round)?;
    }
    Ok(())
}

// req: E1
pub(super) async fn another_call_under_its_id_is_refused(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let call = stage.call("free", json!({"n": 1}))?;
    let first = gate.settle(call.clone()).await;
    completed(&first)?;
    let mut others = vec![call.clone(); 7];
    if let [tool, arguments, reason, session, agent, mode, dry_run] = others.as_mut_slice() {
        tool.tool = "ask".into();
        arguments.arguments = json!({"n": 2});
        reason.reason = None;
        session.session = "another".parse()?;
        agent.agent = "another".parse()?;
        mode.mode = Mode::Yolo;
        dry_run.dry_run = true;
    }
    for other in others {
        refused(&gate.settle(other).await, Code::CallReused)?;
    }
    same("runs", &stage.run_log.count(), &1)?;
    same("the first", &gate.settle(call).await, &first)?;

    // Also while the first call still waits.
    let call = stage.call("ask", json!({"n": 1}))?;
    waiting(gate.advance(call.clone()).await)?;
    let mut other = call;
    other.arguments = json!({"n": 2});
    refused(&settled(gate.advance(other).await)?, Code::CallReused)
}

// req: E1
pub(super) async fn two_calls_race_for_one_id(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let meeting = Arc::new(Barrier::new(2));
    let gates = [
        stage.gate_on(FaultyLedger::meeting(stage.ledger().await?, meeting.clone()))?.build()?,
        stage.gate_on(FaultyLedger::meeting(stage.ledger().await?, meeting))?.build()?,
    ];
    for round in 1..=10 {
        let mut calls = vec![stage.call("free", json!({ "n": round }))?; 2];
        if let [_, other] = calls.as_mut_slice() {
            other.arguments = json!({"n": -round});
        }
        let mut tasks = Vec::new();
        for (gate, call) in gates.iter().zip(calls) {
            let gate = gate.clone();
            tasks.push(tokio::spawn(async move { gate.settle(call).await }));
        }
        let (mut done, mut reused) = (0, 0);
        for task in tasks {
            let result = task.await?;
            if result.is_success() {
                done += 1;
            } else {
                refused(&result, Code::CallReused)?;
                reused += 1;
            }
        }
        ensure!((done, reused) == (1, 1), "{done} done, {reused} refused");
    }
    same("runs", &stage.run_log.count(), &10)
}
