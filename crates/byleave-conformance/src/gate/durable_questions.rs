//! Scenarios on durability: questions and held results outlive the process that asked.

use std::sync::Arc;

use byleave_core::entry::Limits;
use byleave_core::question::QuestionKind;
use byleave_core::refusal::Code;
use serde_json::json;

use super::fixture::{
    NOW, ScenarioContext, answer, completed, ended, inbox, refused, settled, until, waiting, yes,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::Reply;
use byleave_gate::gate::{AnswerError, Gate};
use byleave_gate::ledger::Ledger;
use byleave_gate::result::ModifiedPart;
use byleave_gate::review::hold_reviewer;

/// Drops the gate, kills its owner and restarts every process.
async fn everything_stops(
    stage: &ScenarioContext<'_>,
    gate: Gate,
    ledger: Arc<dyn Ledger>,
) -> Result<(), ConformanceError> {
    drop(gate);
    stage.bench.kill(ledger).await?;
    Ok(stage.bench.restart().await?)
}

// req: R5
pub(super) async fn a_question_outlives_its_gate(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.settings(inbox()).build()?;
    let mut asked = Vec::new();
    for number in 0..5 {
        let mut call = stage.write("f", &number.to_string())?;
        call.session = format!("s{number}").parse()?;
        asked.push((call.id, waiting(gate.advance(call).await)?));
    }
    everything_stops(&stage, gate, ledger).await?;

    let gate = stage.gate().await?.settings(inbox()).build()?;
    ensure!(gate.resume_all().await?.is_empty(), "something that waits was driven");
    let Some((id, question)) = asked.get(2) else { return Err(ConformanceError::new("there are five")) };
    let sheet = gate.question_view(question.id).await?;
    same("the call in the question view", &sheet.call, id)?;
    same("the arguments in the question view", &sheet.arguments, &json!({"path": "f", "text": "2"}))?;
    answer(&gate, question, yes()).await?;
    ensure!(
        matches!(gate.question_view(question.id).await, Err(AnswerError::QuestionClosed)),
        "an answered question is shown"
    );
    let standings = gate.resume_all().await?;
    let [standing] = standings.as_slice() else {
        return Err(ConformanceError::new(format!("more than the answered call was driven: {standings:?}")));
    };
    same("the driven call", &standing.call(), id)?;
    completed(&settled(standing.clone())?)?;
    same(
        "the executed calls",
        &stage.run_log.all(),
        &vec![("write".into(), json!({"path": "f", "text": "2"}))],
    )?;
    for (other, question) in asked.iter().filter(|(other, _)| other != id) {
        same("the others still wait", &waiting(gate.resume(*other).await)?, question)?;
    }
    same("runs", &stage.run_log.count(), &1)
}

// req: R5
pub(super) async fn a_call_is_resumed_by_its_answer_in_another_gate(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let other = stage.gate().await?.settings(inbox()).build()?;
    let mut events = gate.subscribe();
    let call = stage.write("f", "1")?;
    let id = call.id;
    let task = tokio::spawn({
        let gate = gate.clone();
        async move { gate.settle(call).await }
    });
    until(&mut events, |fact| fact.kind() == "asked").await?;
    let question = waiting(other.resume(id).await)?;
    answer(&other, &question, yes()).await?;
    completed(&task.await?)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: R5
pub(super) async fn a_question_expires(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let call = stage.write("f", "1")?;
    let question = waiting(gate.advance(call.clone()).await)?;
    same("when", &question.expires_at, &(NOW + Limits::default().question_timeout_ms))?;
    stage.clock.advance(Limits::default().question_timeout_ms - 1);
    waiting(gate.resume(call.id).await)?;
    stage.clock.advance(1);
    refused(&gate.settle(call).await, Code::Unanswered)?;
    stage.run_log.nothing("nobody answered")
}

// req: R2, R5
pub(super) async fn a_held_result_waits_for_a_person(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let build = |ledger| -> Result<Gate, ConformanceError> {
        let builder = stage.gate_on(ledger)?.settings(inbox());
        Ok(builder.review_output("read", hold_reviewer("it may be private")).build()?)
    };
    let gate = build(ledger.clone())?;
    let replies = [
        ("release", yes()),
        ("edit", Reply::Edit { value: json!({"text": "edited f"}), note: Some("names taken out".into()) }),
        ("withhold", Reply::No { feedback: Some("too private".into()) }),
        ("expiry", yes()),
    ];
    let mut asked = Vec::new();
    for (what, reply) in replies {
        let call = stage.read("f")?;
        let question = waiting(gate.advance(call.clone()).await)?;
        same("the kind", &question.kind, &QuestionKind::Release)?;
        let sheet = gate.question_view(question.id).await?;
        same("the held result", &sheet.output.map(|output| output.text), &Some("old f".into()))?;
        asked.push((what, reply, call, question));
    }
    same("runs", &stage.run_log.count(), &4)?;
    everything_stops(&stage, gate, ledger).await?;

    // Restart once more after every answer. The answers must be on the records.
    for (what, reply, call, question) in asked {
        let ledger = stage.ledger().await?;
        let gate = build(ledger.clone())?;
        if what == "expiry" {
            stage.clock.advance(Limits::default().question_timeout_ms);
        } else {
            answer(&gate, &question, reply).await?;
        }
        let result = settled(gate.resume(call.id).await)?;
        match what {
            "release" => same(what, &completed(&result)?.text.as_str(), &"old f")?,
            "edit" => {
                same(what, &completed(&result)?.text.as_str(), &"edited f")?;
                let changes: Vec<_> = result.modifications.iter().map(|change| change.part).collect();
                same("changes", &changes, &vec![ModifiedPart::Output])?;
                ensure!(result.to_text().contains("names taken out"), "not reported: {}", result.to_text());
            }
            "withhold" => {
                ended(&result, "withheld", Code::OutputDeclined)?;
                ensure!(result.error().is_some_and(|error| error.contains("too private")), "{result:?}");
            }
            _ => ended(&result, "withheld", Code::OutputUnanswered)?,
        }
        ensure!(what == "release" || !result.to_text().contains("old f"), "{what}: it shows");
        everything_stops(&stage, gate, ledger).await?;
        let again = stage.gate().await?.settings(inbox()).build()?;
        same("after another restart", &again.settle(call).await, &result)?;
    }
    same("runs", &stage.run_log.count(), &4)
}

// req: R2
pub(super) async fn a_held_result_holds_nobody_up(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let builder = stage.gate().await?.settings(inbox());
    let gate = builder.review_output("write", hold_reviewer("someone should look")).build()?;
    let call = stage.write("open/x", "1")?;
    let id = call.id;
    let question = waiting(gate.advance(call).await)?;
    same("the file", &stage.temp_dir.read("open/x")?.as_str(), &"+1")?;
    let next = gate.settle(stage.read("open/x")?).await;
    same("a later call", &completed(&next)?.text.as_str(), &"+1")?;
    gate.cancel(id, "ada").await?;
    ended(&settled(gate.resume(id).await)?, "withheld", Code::Cancelled)?;
    let late = answer(&gate, &question, yes()).await;
    ensure!(matches!(late, Err(AnswerError::QuestionClosed)), "released after all: {late:?}");
    Ok(())
}
