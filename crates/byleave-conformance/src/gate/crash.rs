//! Scenarios on crashes at every append: a call has one outcome, and nothing runs twice unnoticed.

use std::sync::Arc;

use byleave_core::call::{Call, Mode};
use byleave_core::challenge::{Challenge, ChallengeVerdict};
use byleave_core::entry::RecordEvent;
use byleave_core::outcome::Output;
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::refusal::Code;
use serde_json::json;

use super::faulty_ledger::{AppendFailure, FaultyLedger};
use super::fixture::{ScenarioContext, answer, how_often, inbox, record, yes};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::{Reply, callback};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::challenge::{ChallengeError, ChallengeSubject, Challenger};
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger;
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_gate::review::{hold_reviewer, input_reviewer};

/// The kinds of calls that take different paths through the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    AllowedRead,
    AllowedWrite,
    Repeatable,
    Asked,
    AskedLater,
    EditedByPerson,
    EditedByReviewer,
    HeldOutput,
    EditedOutput,
    Checkpoint,
    Challenged,
    Failing,
    Declined,
    AnsweredByPerson,
    Denied,
    DryRun,
    Rehearsed,
    Spared,
}

impl CallKind {
    fn call(self, stage: &ScenarioContext<'_>) -> Result<Call, ConformanceError> {
        let mut call = match self {
            Self::AllowedRead => stage.read("f")?,
            Self::AllowedWrite | Self::EditedByReviewer | Self::HeldOutput | Self::EditedOutput => {
                stage.write("open/x", "1")?
            }
            Self::Repeatable => stage.call("free-again", json!({}))?,
            Self::Asked
            | Self::AskedLater
            | Self::EditedByPerson
            | Self::Declined
            | Self::AnsweredByPerson => stage.write("f", "1")?,
            Self::Checkpoint => stage.call("free-final", json!({}))?,
            Self::Challenged => stage.call("free-doubted", json!({}))?,
            Self::Failing => stage.call("free-fails", json!({}))?,
            Self::Denied => stage.write("closed/x", "1")?,
            Self::DryRun => stage.write("f", "1")?,
            Self::Rehearsed => stage.call("copyist", json!({"files": {&*stage.temp_dir.text("f")?: "1"}}))?,
            Self::Spared => stage.call("copyist", json!({}))?,
        };
        call.dry_run = self == Self::DryRun;
        if self == Self::Checkpoint {
            call.mode = Mode::Yolo;
        }
        Ok(call)
    }

    fn gate(self, stage: &ScenarioContext<'_>, ledger: Arc<dyn Ledger>) -> Result<Gate, ConformanceError> {
        let did = |name: &str| stage.probe(name, |_, _| async { Output::text("did it") });
        let mut builder = stage
            .gate_on(ledger)?
            .settings(inbox())
            .tool(did("free-again").with(|manifest| manifest.idempotent = true))
            .tool(did("free-final").with(|manifest| manifest.requires_checkpoint = true))
            .tool(did("free-doubted").with(|manifest| manifest.requires_reverse_thinking = true))
            .tool(stage.probe("free-fails", |_, _| async { Output::failure("no") }))
            .tool(stage.copyist())
            .checkpoint(Arc::new(callback("guard", |_| true)))
            .challenger(Arc::new(ProceedingChallenger));
        match self {
            Self::Asked => builder = builder.approver(Arc::new(callback("ada", |_| true))),
            Self::EditedByReviewer => {
                let change =
                    |_: byleave_gate::review::InputSubject<'_>| json!({"path": "open/x", "text": "2"});
                builder = builder.review_input("write", input_reviewer("changes", change));
            }
            Self::HeldOutput | Self::EditedOutput => {
                builder = builder.review_output("write", hold_reviewer("someone should look"));
            }
            _ => {}
        }
        Ok(builder.build()?)
    }

    fn reply(self, kind: QuestionKind) -> Reply {
        match (self, kind) {
            (Self::EditedByPerson, _) => {
                Reply::Edit { value: json!({"path": "f", "text": "2"}), note: Some("shorter".into()) }
            }
            (Self::EditedOutput, QuestionKind::Release) => {
                Reply::Edit { value: json!({"text": "edited"}), note: None }
            }
            (Self::Declined, _) => Reply::No { feedback: Some("not now".into()) },
            (Self::AnsweredByPerson, _) => Reply::Result { text: "known".into() },
            _ => yes(),
        }
    }

    /// Returns whether the call commits a rehearsal. A commit is always finished.
    fn commits(self) -> bool {
        matches!(self, Self::Rehearsed | Self::Spared)
    }

    /// Returns whether a second run does no harm.
    fn may_repeat(self) -> bool {
        matches!(self, Self::AllowedRead | Self::Repeatable)
    }
}

struct ProceedingChallenger;

impl Challenger for ProceedingChallenger {
    fn challenge<'a>(&'a self, _: ChallengeSubject<'a>) -> BoxFuture<'a, Result<Challenge, ChallengeError>> {
        Box::pin(async move {
            Ok(Challenge {
                assumptions: vec!["it is there".into()],
                failure_scenarios: vec!["it is not".into()],
                verdict: ChallengeVerdict::Proceed,
                reason: "it was looked at".into(),
            })
        })
    }
}

/// The result of a played call, if there is one, and the number of accepted answers.
struct PlayedCall {
    result: Option<CallResult>,
    accepted: usize,
}

async fn play(gate: &Gate, kind: CallKind, call: &Call) -> PlayedCall {
    let mut accepted = 0;
    for _ in 0..4 {
        match gate.advance(call.clone()).await {
            CallStatus::Settled(result) => return PlayedCall { result: Some(result), accepted },
            CallStatus::Waiting { question, .. } => {
                if answer(gate, &question, kind.reply(question.kind)).await.is_err() {
                    return PlayedCall { result: None, accepted };
                }
                accepted += 1;
            }
            CallStatus::Blocked { .. } | CallStatus::RunningElsewhere { .. } | CallStatus::Ready { .. } => {
                break;
            }
        }
    }
    PlayedCall { result: None, accepted }
}

/// Returns the comparable parts of an outcome, without its duration.
fn gist(ending: &CallOutcome) -> (&'static str, Option<Code>, String) {
    let text = match ending {
        CallOutcome::Completed(output) | CallOutcome::Failed(output) | CallOutcome::Answered(output) => {
            output.text.clone()
        }
        CallOutcome::DryRun(plan) => format!("{:?}", plan.effects.len()),
        CallOutcome::Withheld(_) | CallOutcome::Refused(_) | CallOutcome::Unknown(_) => String::new(),
    };
    (ending.as_str(), ending.refusal().map(|refusal| refusal.code), text)
}

// Four scenarios of one property, so that they can run in parallel: a crash at any append leaves exactly one outcome.

// req: E1, A1
pub(super) async fn a_crash_of_an_allowed_call_leaves_one_outcome(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let kinds = [
        CallKind::AllowedRead,
        CallKind::AllowedWrite,
        CallKind::Repeatable,
        CallKind::Failing,
        CallKind::Denied,
        CallKind::DryRun,
    ];
    crash_everywhere(bench, &kinds, 32).await
}

// req: E1, A1
pub(super) async fn a_crash_of_a_call_that_is_asked_about_leaves_one_outcome(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let kinds = [
        CallKind::Asked,
        CallKind::AskedLater,
        CallKind::EditedByPerson,
        CallKind::Declined,
        CallKind::AnsweredByPerson,
    ];
    crash_everywhere(bench, &kinds, 32).await
}

// req: E1, A1
pub(super) async fn a_crash_of_a_reviewed_call_leaves_one_outcome(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let kinds = [CallKind::EditedByReviewer, CallKind::HeldOutput, CallKind::EditedOutput];
    crash_everywhere(bench, &kinds, 32).await
}

// req: E1, A1
pub(super) async fn a_crash_of_a_checked_or_rehearsed_call_leaves_one_outcome(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let kinds = [CallKind::Checkpoint, CallKind::Challenged, CallKind::Rehearsed, CallKind::Spared];
    crash_everywhere(bench, &kinds, 32).await
}

/// Crashes calls of these kinds at every append, in every way. Requires at least this many crashes.
async fn crash_everywhere(
    bench: &dyn LedgerHarness,
    kinds: &[CallKind],
    crashes_min: usize,
) -> Result<(), ConformanceError> {
    let mut crashes = 0;
    for kind in kinds.iter().copied() {
        let stage = ScenarioContext::new(bench)?;
        let between = FaultyLedger::failing(stage.ledger().await?, None);
        let unharmed = play(&kind.gate(&stage, between.clone())?, kind, &kind.call(&stage)?).await;
        let Some(unharmed) = unharmed.result else {
            return Err(ConformanceError::new(format!("{kind:?} has no end")));
        };
        let runs = stage.run_log.count();
        for at in 1..=between.appends() {
            for trouble in AppendFailure::ALL {
                let what = format!("{kind:?}, append {at} {trouble:?}");
                let crashed = crash(bench, kind, at, trouble, (&unharmed, runs)).await;
                crashed.map_err(|flaw| ConformanceError::new(format!("{what}: {}", flaw.message())))?;
                crashes += 1;
            }
        }
    }
    ensure!(crashes >= crashes_min, "only {crashes} crashes were tried");
    Ok(())
}

async fn crash(
    bench: &dyn LedgerHarness,
    kind: CallKind,
    at: usize,
    trouble: AppendFailure,
    (unharmed, runs): (&CallResult, usize),
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let call = kind.call(&stage)?;
    let ledger = stage.ledger().await?;
    let between = FaultyLedger::failing(ledger.clone(), Some((at, trouble)));
    let gate = kind.gate(&stage, between.clone())?;
    let first = play(&gate, kind, &call).await;
    let ran_before = stage.run_log.count();
    drop((gate, between));
    bench.kill(ledger).await?;

    let ledger = stage.ledger().await?;
    let gate = kind.gate(&stage, ledger.clone())?;
    gate.resume(call.id).await;
    let second = play(&gate, kind, &call).await;
    let Some(result) = &second.result else {
        return Err(ConformanceError::new("the call has no outcome after the restart"));
    };

    let (wanted, seen) = (gist(&unharmed.outcome), gist(&result.outcome));
    let unknown = seen.0 == "unknown" && seen.1 == Some(Code::Interrupted);
    ensure!(
        seen == wanted || (unknown && !kind.may_repeat() && !kind.commits()),
        "expected {wanted:?}, got {seen:?}"
    );
    ensure!(!unknown || runs > 0, "unknown, though it never runs");
    let ran = stage.run_log.count();
    ensure!(ran <= runs || kind.may_repeat(), "the call ran {ran} times (before the restart {ran_before})");
    ensure!(unknown || ran >= runs, "the call has an outcome but never ran");
    if let Some(result) = &first.result {
        let code = result.outcome.refusal().map(|refusal| refusal.code);
        let excused = matches!(code, Some(Code::NotRecorded | Code::EndNotRecorded));
        ensure!(excused || gist(&result.outcome) == seen, "reported {:?}, then {seen:?}", result.outcome);
        let refused = matches!(result.outcome, CallOutcome::Refused(_)) && excused;
        ensure!(!refused || ran_before == 0, "reported as not run, but the call had run");
        let unknown = matches!(result.outcome, CallOutcome::Unknown(_));
        ensure!(!unknown || ran_before > 0, "reported as possibly run, but the call had not run");
    }
    if trouble == AppendFailure::Unacknowledged {
        let result = first.result.as_ref().map(|result| gist(&result.outcome));
        ensure!(
            result.as_ref() == Some(&wanted),
            "every write was accepted, but the call ended as {result:?}"
        );
    }

    let record = record(&*ledger, call.id).await?;
    same("outcomes", &how_often(&record, |fact| matches!(fact, RecordEvent::Settled(_))), &1)?;
    let answers = how_often(&record, |fact| match fact {
        RecordEvent::Answered(answered) => !matches!(answered.answer, Answer::Abort),
        _ => false,
    });
    ensure!(answers >= first.accepted + second.accepted, "an accepted answer was lost");
    let again = gate.settle(call).await;
    same("the same call again", &again, result)?;
    same("runs after that", &stage.run_log.count(), &ran)
}
