//! Scenarios on the complete path of a call, and on the result that a caller always gets.

use std::sync::Arc;

use byleave_core::challenge::{Challenge, ChallengeVerdict};
use byleave_core::entry::Limits;
use byleave_core::outcome::Output;
use byleave_core::refusal::Code;
use serde_json::json;

use super::fixture::{ScenarioContext, completed, failed, fall_over, kinds, quick, record, refused};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::callback;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::challenge::{ChallengeError, ChallengeSubject, Challenger};
use byleave_gate::result::CallOutcome;
use byleave_gate::review::{ReviewScope, input_reviewer, output_reviewer};
use byleave_gate::settings::GateSettings;

// req: E1
pub(super) async fn a_call_goes_the_whole_way(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let careful =
        stage.probe("careful", |arguments, _| async move { Output::text(format!("did {arguments}")) });
    let gate = stage
        .gate_on(ledger.clone())?
        .tool(careful.with(|manifest| manifest.requires_reverse_thinking = true))
        .review_input(ReviewScope::All, input_reviewer("looks", |_| true))
        .review_output(ReviewScope::All, output_reviewer("looks after", |_| true))
        .challenger(Arc::new(ProceedingChallenger))
        .approver(Arc::new(callback("ada", |_| true)))
        .build()?;
    let call = stage.call("careful", json!({"n": 1}))?;
    let result = gate.settle(call.clone()).await;
    same("the output", &completed(&result)?.text.as_str(), &r#"did {"n":1}"#)?;
    same("the tool", &result.tool.as_str(), &"careful")?;
    same("the arguments", &result.arguments, &json!({"n": 1}))?;
    ensure!(result.is_success() && result.error().is_none() && result.modifications.is_empty(), "{result:?}");
    same("runs", &stage.run_log.count(), &1)?;
    let record = record(&*ledger, call.id).await?;
    let way = [
        "received",
        "resolved",
        "validated",
        "planned",
        "policy_evaluated",
        "reviewed",
        "challenged",
        "asked",
        "answered",
        "started",
        "ended",
        "output_reviewed",
        "settled",
    ];
    same("the way", &kinds(&record), &way.to_vec())?;
    let receipt = result.receipt.map(|receipt| (receipt.entries, receipt.head));
    same("the receipt", &receipt, &Some((record.len(), record.head())))
}

struct ProceedingChallenger;

impl Challenger for ProceedingChallenger {
    fn challenge<'a>(&'a self, _: ChallengeSubject<'a>) -> BoxFuture<'a, Result<Challenge, ChallengeError>> {
        let said = |text: &str| vec![text.to_owned()];
        Box::pin(async move {
            Ok(Challenge {
                assumptions: said("it is there"),
                failure_scenarios: said("it is not"),
                verdict: ChallengeVerdict::Proceed,
                reason: "it was looked at".into(),
            })
        })
    }
}

// req: L3, E1
pub(super) async fn an_error_is_a_result_and_the_next_call_works(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let fails = stage.probe("free-fail", |_, _| async { Output::failure("the disk is full") });
    let gate = stage.gate().await?.tool(fails).build()?;
    let check = [
        (stage.call("reed", json!({}))?, Code::ToolUnknown, "`read`"),
        (stage.call("read", json!({"path": 7}))?, Code::ArgumentsInvalid, "path"),
        (stage.call("read", json!({}))?, Code::ArgumentsInvalid, "path"),
        (stage.read("closed/x")?, Code::Denied, "`closed`"),
        (stage.call("ask", json!({}))?, Code::NoApprover, "byleave inbox"),
    ];
    for (call, code, word) in check {
        let result = gate.settle(call).await;
        refused(&result, code)?;
        let error = result.error().unwrap_or_default();
        ensure!(error.contains(word) && error.contains(code.as_str()), "the model does not see it: {error}");
        ensure!(!result.is_success(), "{code} is a success");
        stage.run_log.nothing(code)?;
        let next = gate.settle(stage.read("f")?).await;
        same("the next call", &completed(&next)?.text.as_str(), &"old f")?;
        stage.run_log.clear();
    }
    let result = gate.settle(stage.call("free-fail", json!({}))?).await;
    failed(&result)?;
    same("the error", &result.error(), &Some("the disk is full".into()))?;
    let next = gate.settle(stage.read("f")?).await;
    completed(&next).map(|_| ())
}

// req: T3
pub(super) async fn a_panicking_tool_is_a_failed_result(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage
        .gate()
        .await?
        .tool(stage.probe("free-at-once", |_, _| -> std::future::Ready<Output> { fall_over() }))
        .tool(stage.probe("free-later", |_, _| async {
            tokio::task::yield_now().await;
            fall_over()
        }))
        .tool(stage.probe("free-in-place", |_, _| -> std::future::Ready<Output> { fall_over() }).prompt())
        .build()?;
    for tool in ["free-at-once", "free-later", "free-in-place"] {
        let result = gate.settle(stage.call(tool, json!({}))?).await;
        failed(&result)?;
        let error = result.error().unwrap_or_default();
        ensure!(error.contains("panicked") && error.contains("fell over"), "{tool}: {error}");
        let next = gate.settle(stage.call("free", json!({}))?).await;
        completed(&next)?;
    }
    Ok(())
}

// req: E3
pub(super) async fn output_is_cut_and_marked(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let limits = Limits { max_output_bytes: 10, ..Limits::default() };
    let gate = stage.gate().await?.settings(GateSettings { limits, ..quick() }).build()?;
    std::fs::write(stage.temp_dir.path("long"), "0123456789abcdef")?;
    let result = gate.settle(stage.read("long")?).await;
    let output = completed(&result)?;
    ensure!(output.truncated, "not marked: {output:?}");
    let ends = output.text.starts_with("01234\n") && output.text.ends_with("\nbcdef");
    ensure!(ends && !output.text.contains("56789a"), "not cut: {output:?}");
    let report = result.to_report();
    ensure!(report.truncated && report.success, "not reported: {report:?}");
    std::fs::write(stage.temp_dir.path("short"), "0123456789")?;
    let whole = gate.settle(stage.read("short")?).await;
    ensure!(!completed(&whole)?.truncated && completed(&whole)?.text == "0123456789", "cut: {whole:?}");
    Ok(())
}

// req: E5, E1
pub(super) async fn a_dry_run_changes_nothing(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.build()?;
    for path in ["f", "open/new"] {
        let mut call = stage.write(path, "x")?;
        call.dry_run = true;
        let result = gate.settle(call).await;
        ensure!(matches!(result.outcome, CallOutcome::DryRun(_)) && result.is_success(), "{result:?}");
        let text = result.to_text();
        let effect = format!("write {}", stage.temp_dir.text(path)?);
        for word in ["[DRY-RUN]", "write", &format!("{path:?}"), &effect] {
            ensure!(text.contains(word), "`{word}` is not in: {text}");
        }
    }
    let mut denied = stage.write("closed/x", "x")?;
    denied.dry_run = true;
    refused(&gate.settle(denied).await, Code::Denied)?;
    stage.run_log.nothing("a dry run")?;
    same("the file", &stage.temp_dir.read("f")?.as_str(), &"old f")?;
    ensure!(!stage.temp_dir.path("open/new").exists(), "the file was made");
    Ok(())
}

// req: E8
pub(super) async fn a_call_can_be_settled_from_anywhere(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage
        .gate()
        .await?
        .tool(stage.probe("free-program", |_, _| async {
            match tokio::process::Command::new("true").status().await {
                Ok(status) => Output::text(status.to_string()),
                Err(error) => Output::failure(error.to_string()),
            }
        }))
        .build()?;
    // From within a runtime, as a careless caller would.
    completed(&gate.settle_blocking(stage.read("f")?))?;
    let (outside, call) = (gate.clone(), stage.call("free-program", json!({}))?);
    let thread = std::thread::spawn(move || outside.settle_blocking(call));
    let result = tokio::task::spawn_blocking(move || thread.join()).await?;
    let result = result.map_err(|_| ConformanceError::new("settling panicked"))?;
    completed(&result).map(|_| ())
}
