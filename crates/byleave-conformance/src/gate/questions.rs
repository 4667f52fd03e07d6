//! Scenarios on questions (R5 to R7, R10): the approver, valid answers, and gates without an approver.

use std::sync::Arc;

use byleave_core::call::Mode;
use byleave_core::question_view::QuestionView;
use byleave_core::refusal::Code;
use byleave_gate::approver::{Approver, Reply, callback};
use byleave_gate::event::GateEvent;
use byleave_gate::result::ModifiedPart;
use byleave_gate::settings::{GateSettings, UnattendedAction};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::fixture::{ScenarioContext, completed, quick, refused};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};

/// The question views that a person was shown.
#[derive(Clone, Default)]
struct ShownQuestions(Arc<Mutex<Vec<QuestionView>>>);

impl ShownQuestions {
    fn take(&self) -> Vec<QuestionView> {
        std::mem::take(&mut self.0.lock())
    }

    /// Creates an approver that gives these answers in order and then says no.
    fn person(&self, replies: impl IntoIterator<Item = Reply>) -> Arc<dyn Approver> {
        let replies = Mutex::new(replies.into_iter().collect::<std::collections::VecDeque<_>>());
        let shown = self.clone();
        Arc::new(callback("ada", move |sheet| {
            shown.0.lock().push(sheet.clone());
            let reply = replies.lock().pop_front();
            reply.unwrap_or(Reply::No { feedback: None })
        }))
    }
}

fn edit(value: Value) -> Reply {
    Reply::Edit { value, note: None }
}

// req: R5
pub(super) async fn a_person_sees_the_call_and_answers(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let shown = ShownQuestions::default();
    let yes = Reply::Yes { note: Some("but be quick".into()) };
    let no = Reply::No { feedback: Some("write to open/ instead".into()) };
    let gate = stage.gate().await?.approver(shown.person([yes, no])).build()?;
    let call = stage.write("f", "1")?;
    let result = gate.settle(call.clone()).await;
    completed(&result)?;
    ensure!(result.to_text().contains("but be quick"), "the note is lost: {}", result.to_text());
    same(
        "the changes",
        &result.modifications.iter().map(|c| c.part).collect::<Vec<_>>(),
        &vec![ModifiedPart::NoteOnly],
    )?;
    let sheets = shown.take();
    let [sheet] = sheets.as_slice() else {
        return Err(ConformanceError::new(format!("asked {} times", sheets.len())));
    };
    same("the call", &sheet.call, &call.id)?;
    same("the tool", &sheet.resolved_tool.tool.as_str(), &"write")?;
    same("the arguments", &sheet.arguments, &call.arguments)?;
    same("the model's reason", &sheet.reason, &call.reason)?;
    let effects: Vec<String> = sheet.plan.effects.iter().map(ToString::to_string).collect();
    same("the predicted effects", &effects, &vec![format!("write {}", stage.temp_dir.text("f")?)])?;

    let declined = gate.settle(stage.write("f", "2")?).await;
    refused(&declined, Code::Declined)?;
    let error = declined.error().unwrap_or_default();
    ensure!(
        error.contains("write to open/ instead") && error.contains("ada"),
        "the model does not see it: {error}"
    );
    same("runs", &stage.run_log.count(), &1)
}

// req: R5, R2
pub(super) async fn an_edit_is_checked_anew_and_asks_again_where_it_widens(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    // The edit, the number of questions, and the refusal code.
    let cases: [(Value, usize, Option<Code>); 6] = [
        // The effects are the same and only the text differs. The person's own edit is consent.
        (json!({"path": "f", "text": "2"}), 1, None),
        // Allowed by a rule.
        (json!({"path": "open/x", "text": "2"}), 1, None),
        // The person has not seen this effect, so the gate asks again and the person allows it.
        (json!({"path": "g", "text": "2"}), 2, None),
        (json!({"path": "closed/x", "text": "2"}), 1, Some(Code::Denied)),
        (json!({"path": "f", "text": 2}), 1, Some(Code::ArgumentsInvalid)),
        (json!("f"), 1, Some(Code::ApproverFailed)),
    ];
    for (value, asked, code) in cases {
        let stage = ScenarioContext::new(bench)?;
        let shown = ShownQuestions::default();
        let replies = [edit(value.clone()), Reply::Yes { note: None }];
        let gate = stage.gate().await?.approver(shown.person(replies)).build()?;
        let result = gate.settle(stage.write("f", "1")?).await;
        let sheets = shown.take();
        same(&format!("asked about {value}"), &sheets.len(), &asked)?;
        match code {
            Some(code) => {
                refused(&result, code)
                    .map_err(|flaw| ConformanceError::new(format!("{value}: {}", flaw.message())))?;
                stage.run_log.nothing(&value)?;
            }
            None => {
                completed(&result)?;
                same("the executed calls", &stage.run_log.all(), &vec![("write".into(), value.clone())])?;
                same("the arguments", &result.arguments, &value)?;
                ensure!(
                    result.to_text().contains("ada changed the arguments"),
                    "not reported: {}",
                    result.to_text()
                );
            }
        }
        if let [_, again] = sheets.as_slice() {
            same("the draft", &again.draft, &2)?;
            same("shown again", &again.arguments, &value)?;
            same("the model's arguments", &again.first_arguments, &Some(json!({"path": "f", "text": "1"})))?;
        }
    }
    Ok(())
}

// req: R6
pub(super) async fn approvals_are_told_to_whoever_listens(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let shown = ShownQuestions::default();
    let replies = [Reply::Yes { note: None }, Reply::No { feedback: None }, Reply::Abort];
    let gate = stage.gate().await?.approver(shown.person(replies)).build()?;
    let mut events = gate.subscribe();
    // Each call differs, because the same call would not be asked about again after a no.
    for text in ["1", "2", "3"] {
        gate.settle(stage.write("f", text)?).await;
    }
    gate.settle(stage.read("f")?).await;
    let (mut told, mut texts) = (Vec::new(), ["1", "2", "3"].into_iter());
    while let Ok(event) = events.try_recv() {
        if let GateEvent::ToolApproval { tool, parameters, approved, .. } = event {
            same("the tool", &tool.as_str(), &"write")?;
            same("the parameters", &*parameters, &json!({"path": "f", "text": texts.next()}))?;
            told.push(approved);
        }
    }
    same("approvals", &told, &vec![true, false, false])
}

// req: R7, P4
pub(super) async fn nobody_there_refuses_unless_said_otherwise(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.build()?;
    let result = gate.settle(stage.write("f", "1")?).await;
    refused(&result, Code::NoApprover)?;
    let error = result.error().unwrap_or_default();
    for way_out in ["another approver", "--mode yolo", "--dry-run", "byleave inbox"] {
        ensure!(error.contains(way_out), "`{way_out}` is not in: {error}");
    }
    stage.run_log.nothing("nobody there")?;

    let settings = GateSettings { unattended: UnattendedAction::AllowWithWarning, ..quick() };
    let final_one = stage.probe("final", |_, _| async { byleave_core::outcome::Output::text("") });
    let gate = stage
        .gate()
        .await?
        .tool(final_one.with(|manifest| manifest.requires_checkpoint = true))
        .settings(settings)
        .build()?;
    let result = gate.settle(stage.write("f", "1")?).await;
    completed(&result)?;
    ensure!(result.to_text().contains("there was no approver"), "there is no warning: {}", result.to_text());
    refused(&gate.settle(stage.write("closed/x", "1")?).await, Code::Denied)?;
    // Only a person may let a tool leave the workspace (P4).
    refused(&gate.settle(stage.write("../beside", "1")?).await, Code::NoApprover)?;
    let mut call = stage.call("final", json!({}))?;
    refused(&gate.settle(call.clone()).await, Code::NoCheckpoint)?;
    call = stage.call("final", json!({}))?;
    call.mode = Mode::Yolo;
    refused(&gate.settle(call).await, Code::NoCheckpoint)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: R10
pub(super) async fn permitted_reads_never_ask(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.build()?;
    completed(&gate.settle(stage.read("f")?).await)?;
    // In confirm-all mode everything asks. A blocked path is blocked in every mode.
    let mut call = stage.read("f")?;
    call.mode = Mode::ConfirmAll;
    refused(&gate.settle(call).await, Code::NoApprover)?;
    for mode in Mode::ALL {
        let mut call = stage.read("closed/x")?;
        call.mode = mode;
        refused(&gate.settle(call).await, Code::Denied)?;
    }
    // No rule permits reads outside the workspace.
    refused(&gate.settle(stage.read("/etc/hostname")?).await, Code::NoApprover)?;
    same("runs", &stage.run_log.count(), &1)
}
