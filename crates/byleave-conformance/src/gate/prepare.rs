//! Scenarios on calls that one process prepares and another begins. After preparation everything is recorded and nothing has run.

use byleave_core::decision::Verdict;
use byleave_core::pattern::Pattern;
use byleave_core::refusal::Code;
use serde_json::json;

use super::fixture::{
    ScenarioContext, answer, completed, inbox, kinds, record, refused, rule, settled, waiting, yes,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::Reply;
use byleave_gate::result::CallStatus;

fn ready(standing: &CallStatus) -> Result<(), ConformanceError> {
    ensure!(matches!(standing, CallStatus::Ready { .. }), "the call is not ready: {standing:?}");
    Ok(())
}

// req: E1
pub(super) async fn what_is_prepared_is_begun_by_another_gate(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.settings(inbox()).build()?;
    let call = stage.write("f", "1")?;
    let id = call.id;
    let question = waiting(gate.prepare(call.clone()).await)?;
    same("the same question", &waiting(gate.prepare_existing(id).await)?, &question)?;
    answer(&gate, &question, yes()).await?;
    ready(&gate.prepare_existing(id).await)?;
    // A repeated preparation has no effect, and neither has the same call again.
    ready(&gate.prepare_existing(id).await)?;
    ready(&gate.prepare(call).await)?;
    stage.run_log.nothing("the call is prepared")?;
    let written = kinds(&record(&*ledger, id).await?);
    ensure!(!written.contains(&"started") && written.contains(&"answered"), "on the record: {written:?}");

    // The process that prepared the call is gone.
    drop(gate);
    bench.kill(ledger).await?;
    bench.restart().await?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    ready(&gate.prepare_existing(id).await)?;
    completed(&settled(gate.resume(id).await)?)?;
    completed(&settled(gate.prepare_existing(id).await)?)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: E1
pub(super) async fn what_needs_no_question_is_ready_at_once_and_a_no_settles(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let call = stage.read("f")?;
    let id = call.id;
    ready(&gate.prepare(call).await)?;
    stage.run_log.nothing("the call is prepared")?;
    completed(&settled(gate.resume(id).await)?)?;

    let call = stage.write("f", "1")?;
    let id = call.id;
    let question = waiting(gate.prepare(call).await)?;
    answer(&gate, &question, Reply::No { feedback: None }).await?;
    refused(&settled(gate.prepare_existing(id).await)?, Code::Declined)?;

    let call = stage.read("f")?;
    let id = call.id;
    ready(&gate.prepare(call).await)?;
    gate.cancel(id, "ada").await?;
    refused(&settled(gate.prepare_existing(id).await)?, Code::Cancelled)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: E5
pub(super) async fn a_rehearsal_is_prepared_here_and_committed_elsewhere(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.tool(stage.copyist()).settings(inbox()).build()?;
    let path = stage.temp_dir.text("f")?;
    let call = stage.call("copyist", json!({"files": {&*path: "new f"}}))?;
    let id = call.id;
    let question = waiting(gate.prepare(call).await)?;
    answer(&gate, &question, yes()).await?;
    ready(&gate.prepare_existing(id).await)?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(1, 0, 0))?;
    let other = stage.gate().await?.tool(stage.copyist()).settings(inbox()).build()?;
    completed(&settled(other.resume(id).await)?)?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(1, 1, 0))
}

// req: R3
pub(super) async fn what_is_ready_gets_the_last_look_all_the_same(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let call = stage.read("f")?;
    let id = call.id;
    ready(&gate.prepare(call).await)?;
    let closed = rule("closed-now", Verdict::Deny, vec![Pattern::Read(stage.temp_dir.text("**")?)]);
    gate.set_policy(stage.policy([closed])?);
    refused(&settled(gate.resume(id).await)?, Code::PolicyStricter)?;
    stage.run_log.nothing("the policy is stricter")
}
