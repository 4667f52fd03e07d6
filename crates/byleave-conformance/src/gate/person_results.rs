//! Scenarios on results that a person gives in the place of a tool (R5, R6).

use std::fs;
use std::sync::Arc;

use byleave_core::entry::RecordEvent;
use byleave_core::outcome::Output;
use byleave_core::question::{Answer, ApproverIdentity, Assurance, QuestionKind};
use byleave_core::question_view::QuestionView;
use byleave_core::refusal::Code;
use byleave_core::render::Rendering;
use byleave_gate::approver::{Approver, ApproverError, Reply};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::builtin_reviewers::secret_redaction;
use byleave_gate::event::GateEvent;
use byleave_gate::gate::{AnswerError, SubmittedAnswer};
use byleave_gate::result::{CallOutcome, CallResult, ModifiedPart};
use byleave_gate::review::{Opinion, hold_reviewer, output_reviewer};
use serde_json::json;

use super::fixture::{ScenarioContext, answer, inbox, kinds, quick, record, refused, settled, waiting, yes};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};

/// The line that marks the result for the model.
const MARK: &str = "[byleave] a person (ada) answered in the place of the tool; the tool did not run";

/// An approver that always gives this result.
struct AnsweringApprover {
    assurance: Assurance,
    text: &'static str,
}

impl Approver for AnsweringApprover {
    fn name(&self) -> &str {
        "ada"
    }

    fn assurance(&self) -> Assurance {
        self.assurance
    }

    fn ask<'a>(
        &'a self,
        _: &'a QuestionView,
        _: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        Box::pin(std::future::ready(Ok(result(self.text))))
    }
}

fn result(text: &str) -> Reply {
    Reply::Result { text: text.into() }
}

/// Returns the text of a call that a person answered.
fn answered(result: &CallResult) -> Result<&Output, ConformanceError> {
    match &result.outcome {
        CallOutcome::Answered(output) => Ok(output),
        other => Err(ConformanceError::new(format!("expected an answered call, got {other:?}"))),
    }
}

// req: R5, R6
pub(super) async fn a_person_answers_in_the_place_of_the_tool(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.settings(inbox()).build()?;
    let mut events = gate.subscribe();
    let call = stage.write("f", "1")?;
    let question = waiting(gate.advance(call.clone()).await)?;
    for blank in ["", " \n\t"] {
        let taken = answer(&gate, &question, result(blank)).await;
        ensure!(matches!(taken, Err(AnswerError::InvalidAnswer(_))), "an empty result: {taken:?}");
    }
    answer(&gate, &question, result("f was written yesterday")).await?;
    let told = settled(gate.resume(call.id).await)?;
    same("the text", &answered(&told)?.text.as_str(), &"f was written yesterday")?;
    same("for the model", &told.to_text(), &format!("{MARK}\nf was written yesterday"))?;
    ensure!(told.is_success() && told.error().is_none(), "{told:?}");
    let denial = told.denial_reason().unwrap_or_default();
    same(
        "for a hook",
        &denial,
        &"A person answered in the place of the tool: f was written yesterday".into(),
    )?;
    let changes: Vec<_> = told.modifications.iter().map(|change| (change.part, &*change.author)).collect();
    same("the changes", &changes, &vec![(ModifiedPart::Execution, "ada")])?;
    stage.run_log.nothing("a person answered")?;
    same("the file", &stage.temp_dir.read("f")?, &"old f".to_owned())?;

    let record = record(&*ledger, call.id).await?;
    let tail = kinds(&record).split_off(kinds(&record).len().saturating_sub(4));
    same("the end of the record", &tail, &vec!["asked", "answered", "output_reviewed", "settled"])?;
    let by = record.entries().iter().find_map(|entry| match &entry.event {
        RecordEvent::Answered(given) => Some((given.approver.name.clone(), given.answer.clone())),
        _ => None,
    });
    ensure!(matches!(&by, Some((name, Answer::Result { .. })) if name == "ada"), "{by:?}");
    same("the attempts", &record.attempts(), &0)?;
    let mut approvals = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let GateEvent::ToolApproval { tool, approved, .. } = event {
            approvals.push((tool, approved));
        }
    }
    same("the approvals", &approvals, &vec![("write".to_owned(), false)])?;

    // The answer is for this call only, and the same call under its id has it already.
    same("the same call again", &gate.settle(call.clone()).await, &told)?;
    let twice = answer(&gate, &question, yes()).await;
    ensure!(matches!(twice, Err(AnswerError::QuestionClosed)), "answered twice: {twice:?}");
    waiting(gate.advance(stage.write("f", "1")?).await)?;
    stage.run_log.nothing("the same call again")
}

// req: R5
pub(super) async fn only_a_person_answers_in_the_place_of_the_tool(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let call = stage.write("f", "1")?;
    let question = waiting(gate.advance(call.clone()).await)?;
    for assurance in [Assurance::Program, Assurance::ClientAttested] {
        let approver = ApproverIdentity { name: "script".into(), assurance };
        let (question, digest) = (question.id, question.digest());
        let given = SubmittedAnswer { question, digest, reply: result("all is well"), approver };
        let taken = gate.answer(given).await;
        ensure!(matches!(taken, Err(AnswerError::NotPerson { .. })), "{assurance:?}: {taken:?}");
    }
    waiting(gate.resume(call.id).await)?;

    // A registered approver is held to the same.
    for (assurance, may) in [
        (Assurance::Terminal, true),
        (Assurance::Web, true),
        (Assurance::ClientAttested, false),
        (Assurance::Program, false),
    ] {
        let approver = AnsweringApprover { assurance, text: "known" };
        let gate = stage.gate().await?.approver(Arc::new(approver)).settings(quick()).build()?;
        let told = gate.settle(stage.write("g", "1")?).await;
        match may {
            true => same("the text", &answered(&told)?.text.as_str(), &"known")?,
            false => refused(&told, Code::ApproverFailed)?,
        }
    }
    stage.run_log.nothing("answers in the place of the tool")
}

// req: R5, R8
pub(super) async fn a_checkpoint_is_never_answered_in_the_place_of_the_tool(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let tool = || {
        let tool = stage.probe("final", |_, _| async { Output::text("did it") });
        tool.with(|manifest| manifest.requires_checkpoint = true)
    };
    let gate = stage.gate().await?.tool(tool()).settings(inbox()).build()?;
    let call = stage.call("final", json!({}))?;
    let question = waiting(gate.advance(call.clone()).await)?;
    same("the kind", &question.kind, &QuestionKind::Checkpoint)?;
    let taken = answer(&gate, &question, result("done")).await;
    ensure!(
        matches!(&taken, Err(AnswerError::InvalidAnswer(why)) if why.contains("checkpoint")),
        "a checkpoint was answered: {taken:?}"
    );
    waiting(gate.resume(call.id).await)?;
    answer(&gate, &question, Reply::No { feedback: None }).await?;
    refused(&settled(gate.resume(call.id).await)?, Code::CheckpointRefused)?;
    let handler = Arc::new(AnsweringApprover { assurance: Assurance::Terminal, text: "done" });
    let gate = stage.gate().await?.tool(tool()).checkpoint(handler).build()?;
    refused(&gate.settle(stage.call("final", json!({}))?).await, Code::CheckpointFailed)?;
    stage.run_log.nothing("a checkpoint")
}

// req: R5, R2
pub(super) async fn reviewers_read_the_result_of_a_person(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let settle = async |gate: byleave_gate::gate::Gate, text: &str| -> Result<_, ConformanceError> {
        let call = stage.write("f", "1")?;
        let question = waiting(gate.advance(call.clone()).await)?;
        answer(&gate, &question, result(text)).await?;
        Ok(gate.resume(call.id).await)
    };
    let gate = stage.gate().await?.settings(inbox()).review_output("write", secret_redaction());
    let told = settled(settle(gate.build()?, "the login has token=abc12345").await?)?;
    same("the text", &answered(&told)?.text.as_str(), &"the login has token=[redacted: secret]")?;
    ensure!(told.to_text().contains(MARK), "{}", told.to_text());

    let denies = output_reviewer("r", |_| Opinion::<Output>::deny("too private"));
    let gate = stage.gate().await?.settings(inbox()).review_output("write", denies).build()?;
    let told = settled(settle(gate, "a private thing").await?)?;
    refused(&told, Code::OutputDenied)?;
    ensure!(!told.to_text().contains("a private thing"), "{}", told.to_text());

    let gate = stage.gate().await?.settings(inbox()).review_output("write", hold_reviewer("look")).build()?;
    let held = waiting(settle(gate.clone(), "please look").await?)?;
    same("the kind", &held.kind, &QuestionKind::Release)?;
    let view = gate.question_view(held.id).await?;
    same("the held text", &view.output.map(|output| output.text), &Some("please look".into()))?;
    let call = view.call;
    answer(&gate, &held, yes()).await?;
    same("released", &answered(&settled(gate.resume(call).await)?)?.text.as_str(), &"please look")?;
    stage.run_log.nothing("reviewed results of a person")
}

// req: R5, E3, E5
pub(super) async fn a_result_of_a_person_is_cut_and_drops_the_copy(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let mut settings = inbox();
    settings.limits.max_output_bytes = 40;
    let gate = stage.gate().await?.tool(stage.copyist()).settings(settings).build()?;
    let path = stage.temp_dir.text("f")?;
    let call = stage.call("copyist", json!({"files": {&*path: "new f"}}))?;
    let question = waiting(gate.advance(call.clone()).await)?;
    answer(&gate, &question, result(&"long ".repeat(100))).await?;
    let told = settled(gate.resume(call.id).await)?;
    let output = answered(&told)?;
    ensure!(output.truncated && output.text.contains("[byleave] cut:"), "{output:?}");
    ensure!(told.to_text().starts_with(MARK), "the mark was cut: {}", told.to_text());
    same("the file", &fs::read_to_string(&path)?, &"old f".to_owned())?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(1, 0, 0))?;
    same("copies kept", &stage.copies.count(), &0)
}
