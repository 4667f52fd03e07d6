//! Scenarios on standing approvals: they cover calls within their scope and nothing else.

use std::sync::Arc;

use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::RecordEvent;
use byleave_core::grant::GrantedBy;
use byleave_core::id::StandingApprovalId;
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::refusal::Code;
use byleave_core::standing_approval::{ANY_TOOL, StandingApproval};
use serde_json::json;

use super::fixture::{
    NOW, ScenarioContext, answer, completed, inbox, record, refused, settled, tenant, waiting, yes,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::{Reply, callback};
use byleave_gate::clock::fresh_id;
use byleave_gate::gate::{AnswerError, Gate};
use byleave_gate::review::hold_reviewer;

fn leave(tool: &str, scope: Vec<Pattern>) -> StandingApproval {
    StandingApproval {
        id: StandingApprovalId::new(fresh_id()),
        tool: tool.into(),
        scope,
        session: None,
        expires_at: None,
        max_uses: None,
    }
}

/// Gives a standing approval in answer to a call of its tool, and runs that call.
async fn give(
    stage: &ScenarioContext<'_>,
    gate: &Gate,
    leave: &StandingApproval,
) -> Result<(), ConformanceError> {
    let call = if leave.tool == "write" || leave.is_for_any_tool() {
        stage.write("f", "given")?
    } else {
        stage.call(&leave.tool, json!({}))?
    };
    let id = call.id;
    let question = waiting(gate.advance(call).await)?;
    answer(gate, &question, Reply::StandingApproval(leave.clone())).await?;
    completed(&settled(gate.resume(id).await)?)?;
    stage.run_log.clear();
    Ok(())
}

fn writes(stage: &ScenarioContext<'_>, glob: &str) -> Result<Vec<Pattern>, ConformanceError> {
    Ok(vec![Pattern::Write(stage.temp_dir.text(glob)?)])
}

// req: R5
pub(super) async fn a_leave_covers_the_next_call(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.settings(inbox()).build()?;
    let given = leave("write", writes(&stage, "f")?);
    give(&stage, &gate, &given).await?;
    let call = stage.write("f", "2")?;
    completed(&settled(gate.advance(call.clone()).await)?)?;
    let record = record(&*ledger, call.id).await?;
    let by = record.entries().iter().find_map(|entry| match &entry.event {
        RecordEvent::Started(Ok(claim)) => Some(claim.granted_by),
        _ => None,
    });
    same("the basis of the grant", &by, &Some(GrantedBy::StandingApproval(given.id)))?;
    // It also holds in another process. It does not cover another file, another tool, or a call that is not understood.
    let other = stage.gate().await?.settings(inbox()).build()?;
    completed(&settled(other.advance(stage.write("f", "3")?).await)?)?;
    waiting(other.advance(stage.write("g", "1")?).await)?;
    waiting(other.advance(stage.call("edit", json!({"path": "f", "text": "1"}))?).await)?;
    same("runs", &stage.run_log.count(), &2)
}

// req: R5
pub(super) async fn an_approval_of_effects_covers_every_tool(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let given = StandingApproval { max_uses: Some(4), ..leave(ANY_TOOL, writes(&stage, "f")?) };
    give(&stage, &gate, &given).await?;
    let edit = |path: &str| stage.call("edit", json!({"path": path, "text": "1"}));
    // In another process, too.
    let other = stage.gate().await?.settings(inbox()).build()?;
    completed(&settled(gate.advance(edit("f")?).await)?)?;
    completed(&settled(other.advance(stage.write("f", "2")?).await)?)?;
    waiting(other.advance(edit("g")?).await)?;
    // A tool that asks by itself is asked about, whatever its effects are.
    waiting(gate.advance(stage.call("ask", json!({}))?).await)?;
    // The uses of all tools are counted together.
    completed(&settled(gate.advance(edit("f")?).await)?)?;
    completed(&settled(gate.advance(stage.write("f", "3")?).await)?)?;
    waiting(other.advance(edit("f")?).await)?;
    Ok(())
}

// req: R5
pub(super) async fn a_leave_runs_out(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    type LimitSetter = fn(&mut StandingApproval);
    const LIMITS: &[(&str, LimitSetter)] = &[
        ("uses", |leave| leave.max_uses = Some(2)),
        ("time", |leave| leave.expires_at = Some(NOW + 1_000)),
        ("session", |leave| leave.session = "s".parse().ok()),
        ("revocation", |_| {}),
    ];
    for (what, limit) in LIMITS {
        let stage = ScenarioContext::new(bench)?;
        let gate = stage.gate().await?.settings(inbox()).build()?;
        let mut given = leave("write", writes(&stage, "f")?);
        limit(&mut given);
        give(&stage, &gate, &given).await?;
        for _ in 0..2 {
            completed(&settled(gate.advance(stage.write("f", "in scope")?).await)?)?;
        }
        let mut call = stage.write("f", "out of scope")?;
        match *what {
            "time" => stage.clock.advance(1_000),
            "session" => call.session = "another".parse()?,
            "revocation" => gate.revoke(&tenant()?, "ada", given.id).await?,
            _ => {}
        }
        let standing = gate.advance(call).await;
        waiting(standing).map_err(|flaw| ConformanceError::new(format!("{what}: {}", flaw.message())))?;
        same(&format!("runs, {what}"), &stage.run_log.count(), &2)?;
    }
    Ok(())
}

// req: R5
pub(super) async fn a_use_is_counted_once_for_many_at_once(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gates =
        [stage.gate().await?.settings(inbox()).build()?, stage.gate().await?.settings(inbox()).build()?];
    let [first, _] = &gates;
    let given = StandingApproval { max_uses: Some(3), ..leave("write", writes(&stage, "f")?) };
    give(&stage, first, &given).await?;
    let mut tasks = Vec::new();
    for gate in gates.iter().cycle().take(8) {
        let (gate, call) = (gate.clone(), stage.write("f", "x")?);
        tasks.push(tokio::spawn(async move { gate.advance(call).await }));
    }
    let mut done = 0;
    for task in tasks {
        if let Ok(result) = settled(task.await?) {
            if result.is_success() {
                done += 1;
            } else {
                refused(&result, Code::ApprovalUsedUp)?;
            }
        }
    }
    same("runs", &stage.run_log.count(), &3)?;
    same("done", &done, &3)
}

// req: R5, R8
pub(super) async fn no_leave_answers_what_a_person_must_see(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let unknown = || {
        let effects = vec![
            Effect::Invoke { tool: "murky".into() },
            Effect::Unknown { reason: "nobody can say".into() },
        ];
        std::future::ready(Ok(Plan { effects, ..Plan::default() }))
    };
    let final_one = stage.probe("final", |_, _| async { Output::text("") });
    let gate = stage
        .gate()
        .await?
        .settings(inbox())
        .tool(stage.probe("murky", |_, _| async { Output::text("") }).planning(move |_, _| unknown()))
        .tool(stage.probe("watched", |_, _| async { Output::text("") }))
        .tool(final_one.with(|manifest| manifest.requires_checkpoint = true))
        .review_input("watched", hold_reviewer("someone should look"))
        .checkpoint(Arc::new(callback("guard", |_| true)))
        .build()?;
    for tool in ["murky", "watched"] {
        give(&stage, &gate, &leave(tool, vec![Pattern::Invoke("*".into())])).await?;
        let call = stage.call(tool, json!({}))?;
        let id = call.id;
        let standing = gate.advance(call).await;
        waiting(standing).map_err(|flaw| ConformanceError::new(format!("{tool}: {}", flaw.message())))?;
        stage.run_log.nothing(tool)?;
        gate.cancel(id, "ada").await?;
    }
    // Only its handler releases a checkpoint.
    completed(&settled(gate.advance(stage.call("final", json!({}))?).await)?).map(|_| ())
}

// req: R8
pub(super) async fn a_leave_beside_another_ceremony_is_not_used(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let given = StandingApproval { max_uses: Some(1), ..leave("ask", vec![Pattern::Invoke("ask".into())]) };
    let plain = stage.gate().await?.settings(inbox()).build()?;
    give(&stage, &plain, &given).await?;
    // The same tool with a reviewer that asks for a person to look. The standing approval covers the rule and not the reviewer.
    let watched = stage
        .gate()
        .await?
        .settings(inbox())
        .review_input("ask", hold_reviewer("someone should look"))
        .build()?;
    let call = stage.call("ask", json!({}))?;
    let id = call.id;
    let question = waiting(watched.advance(call).await)?;
    answer(&watched, &question, yes()).await?;
    completed(&settled(watched.resume(id).await)?)?;
    // The single use is still available.
    completed(&settled(plain.advance(stage.call("ask", json!({}))?).await)?)?;
    waiting(plain.advance(stage.call("ask", json!({}))?).await).map(|_| ())
}

// req: R5
pub(super) async fn a_leave_that_makes_no_sense_is_not_taken(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let question = waiting(gate.advance(stage.write("f", "1")?).await)?;
    let bad = [
        ("for another tool", leave("read", writes(&stage, "f")?)),
        ("for nothing", leave("write", Vec::new())),
        ("with a bad glob", leave("write", vec![Pattern::Write("[".into())])),
    ];
    for (what, leave) in bad {
        let taken = answer(&gate, &question, Reply::StandingApproval(leave)).await;
        ensure!(matches!(taken, Err(AnswerError::InvalidAnswer(_))), "{what}: {taken:?}");
    }
    stage.run_log.nothing("invalid standing approvals")
}
