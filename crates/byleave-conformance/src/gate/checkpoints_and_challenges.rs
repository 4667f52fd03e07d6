//! Scenarios on checkpoints and challenges (R8, R9).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use byleave_core::call::{Call, Mode};
use byleave_core::challenge::{Challenge, ChallengeTiming, ChallengeVerdict};
use byleave_core::decision::Verdict;
use byleave_core::entry::RecordEvent;
use byleave_core::id::StandingApprovalId;
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::policy::{Layer, Policy, Rule};
use byleave_core::question::{ApproverIdentity, Assurance, QuestionKind};
use byleave_core::refusal::Code;
use byleave_core::standing_approval::StandingApproval;
use serde_json::json;

use super::fixture::{
    ProbeTool, ScenarioContext, answer, completed, inbox, kinds, quick, record, refused, settled, until,
    waiting, yes,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::{Reply, callback, callback_async};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::challenge::{ChallengeError, ChallengeSubject, Challenger};
use byleave_gate::clock::fresh_id;
use byleave_gate::gate::{AnswerError, SubmittedAnswer};
use byleave_gate::settings::GateSettings;

/// A challenger with a fixed verdict that counts its calls.
struct CountingChallenger {
    verdict: ChallengeVerdict,
    asked: Arc<AtomicUsize>,
}

impl CountingChallenger {
    fn that(verdict: ChallengeVerdict) -> (Arc<dyn Challenger>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        (Arc::new(Self { verdict, asked: asked.clone() }), asked)
    }
}

impl Challenger for CountingChallenger {
    fn challenge<'a>(
        &'a self,
        subject: ChallengeSubject<'a>,
    ) -> BoxFuture<'a, Result<Challenge, ChallengeError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let case = Challenge {
            assumptions: vec![format!("`{}` is the right tool", subject.tool)],
            failure_scenarios: vec![format!("{} is wrong", subject.arguments)],
            verdict: self.verdict,
            reason: subject.reason.unwrap_or("no reason was given").to_owned(),
        };
        Box::pin(async move { Ok(case) })
    }
}

fn tool(stage: &ScenarioContext<'_>, name: &str) -> ProbeTool {
    stage.probe(name, |_, _| async { Output::text("did it") })
}

fn final_tool(stage: &ScenarioContext<'_>, name: &str) -> ProbeTool {
    tool(stage, name).with(|manifest| manifest.requires_checkpoint = true)
}

fn doubted(probe: ProbeTool) -> ProbeTool {
    probe.with(|manifest| manifest.requires_reverse_thinking = true)
}

// req: R8
pub(super) async fn a_checkpoint_holds_in_every_mode(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    for mode in Mode::ALL {
        let stage = ScenarioContext::new(bench)?;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let handler = callback("guard", move |sheet| {
            count.fetch_add(1, Ordering::SeqCst);
            sheet.question.kind == QuestionKind::Checkpoint && sheet.arguments == json!({"sure": true})
        });
        // An approver that says yes to everything cannot release a checkpoint.
        let builder = stage.gate().await?.tool(final_tool(&stage, "free-final"));
        let gate =
            builder.checkpoint(Arc::new(handler)).approver(Arc::new(callback("ada", |_| true))).build()?;
        for (arguments, released) in [(json!({"sure": true}), true), (json!({"sure": false}), false)] {
            let mut call = stage.call("free-final", arguments)?;
            call.mode = mode;
            let result = gate.settle(call).await;
            match released {
                true => completed(&result).map(|_| ())?,
                false => refused(&result, Code::CheckpointRefused)?,
            }
        }
        same("asked", &asked.load(Ordering::SeqCst), &2)?;
        same("runs", &stage.run_log.count(), &1)?;

        let alone = stage.gate().await?.tool(final_tool(&stage, "free-final"));
        let alone = alone.approver(Arc::new(callback("ada", |_| true))).build()?;
        let mut call = stage.call("free-final", json!({"sure": true}))?;
        call.mode = mode;
        refused(&alone.settle(call).await, Code::NoCheckpoint)?;
        same("runs without a handler", &stage.run_log.count(), &1)?;
    }
    Ok(())
}

/// A rule of the policy is enough: the tool itself declares nothing.
// req: R8
pub(super) async fn a_rule_makes_a_checkpoint_that_a_person_releases(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    for mode in Mode::ALL {
        let stage = ScenarioContext::new(bench)?;
        let policy = || {
            let deploys = vec![Pattern::Invoke("free-deploy".into())];
            let rule = Rule { checkpoint: true, ..Rule::new("deploys", Layer::User, Verdict::Ask, deploys) };
            Policy::new(vec![rule]).map_err(|error| ConformanceError::new(error.to_string()))
        };
        let free = tool(&stage, "free-deploy");
        let gate = stage.gate().await?.tool(free).policy(policy()?).settings(inbox()).build()?;
        let call = |sure: bool| -> Result<Call, ConformanceError> {
            let call = stage.call("free-deploy", json!({ "sure": sure }))?;
            Ok(Call { mode, ..call })
        };
        let first = call(true)?;
        let question = waiting(gate.advance(first.clone()).await)?;
        same("kind", &question.kind, &QuestionKind::Checkpoint)?;
        stage.run_log.nothing("a checkpoint of a rule")?;
        // A program, and a client that says that a person answered, release nothing. They can say no.
        for assurance in [Assurance::Program, Assurance::ClientAttested] {
            let approver = ApproverIdentity { name: "script".into(), assurance };
            let digest = question.digest();
            let given =
                SubmittedAnswer { question: question.id, digest, reply: Reply::Yes { note: None }, approver };
            let taken = gate.answer(given).await;
            ensure!(matches!(taken, Err(AnswerError::NotPerson { .. })), "{assurance:?}: {taken:?}");
        }
        stage.run_log.nothing("a release by a program")?;
        answer(&gate, &question, Reply::Yes { note: None }).await?;
        completed(&settled(gate.resume(first.id).await)?)?;
        same("runs", &stage.run_log.count(), &1)?;

        // A person at a terminal releases it as well, and without a person it is refused.
        let alone = stage.gate().await?.tool(tool(&stage, "free-deploy")).policy(policy()?).settings(quick());
        let alone = alone.approver(Arc::new(callback("script", |_| true))).build()?;
        refused(&alone.settle(call(false)?).await, Code::NoCheckpoint)?;
        same("runs without a person", &stage.run_log.count(), &1)?;
    }
    Ok(())
}

/// A rule requires the case against a call. The challenger makes it, and otherwise the person who answers.
// req: R9
pub(super) async fn a_rule_requires_a_challenge(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let policy = || {
        let choices = vec![Pattern::Invoke("free-choice".into())];
        let rule = Rule { challenge: true, ..Rule::new("choices", Layer::User, Verdict::Allow, choices) };
        Policy::new(vec![rule]).map_err(|error| ConformanceError::new(error.to_string()))
    };
    let call = || -> Result<Call, ConformanceError> {
        Ok(Call { mode: Mode::Yolo, ..stage.call("free-choice", json!({}))? })
    };
    let (challenger, asked) = CountingChallenger::that(ChallengeVerdict::Proceed);
    let gate = stage.gate().await?.tool(tool(&stage, "free-choice")).policy(policy()?);
    let gate = gate.challenger(challenger).settings(inbox()).build()?;
    completed(&gate.settle(call()?).await)?;
    same("challenges", &asked.load(Ordering::SeqCst), &1)?;

    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.tool(tool(&stage, "free-choice")).policy(policy()?);
    let gate = gate.settings(inbox()).build()?;
    let first = call()?;
    let question = waiting(gate.advance(first.clone()).await)?;
    same("kind", &question.kind, &QuestionKind::Approval)?;
    let plain = answer(&gate, &question, Reply::Yes { note: None }).await;
    ensure!(matches!(plain, Err(AnswerError::InvalidAnswer(_))), "a yes without the case: {plain:?}");
    let case = |reason: &str| Challenge {
        assumptions: vec!["it is free".into()],
        failure_scenarios: vec!["it is not".into()],
        verdict: ChallengeVerdict::Stop,
        reason: reason.into(),
    };
    let empty = Reply::YesWithChallenge { challenge: case(" "), note: None };
    let empty = answer(&gate, &question, empty).await;
    ensure!(matches!(empty, Err(AnswerError::InvalidAnswer(_))), "an incomplete case: {empty:?}");
    same("runs before the case", &stage.run_log.count(), &1)?;
    let made = Reply::YesWithChallenge { challenge: case("small"), note: None };
    answer(&gate, &question, made).await?;
    completed(&settled(gate.resume(first.id).await)?)?;
    same("runs", &stage.run_log.count(), &2)?;
    let record = record(&*ledger, first.id).await?;
    ensure!(kinds(&record).contains(&"challenged"), "the case is not on the record: {:?}", kinds(&record));

    let alone = stage.gate().await?.tool(tool(&stage, "free-choice")).policy(policy()?).settings(quick());
    refused(&alone.build()?.settle(call()?).await, Code::NoChallenger)?;
    same("runs without anybody", &stage.run_log.count(), &2)
}

// req: R8
pub(super) async fn no_leave_answers_a_checkpoint(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let never = callback_async("guard", |_| std::future::pending::<bool>());
    let gate = stage.gate().await?.tool(final_tool(&stage, "final")).checkpoint(Arc::new(never)).build()?;
    let mut events = gate.subscribe();
    let call = stage.call("final", json!({}))?;
    let id = call.id;
    let task = tokio::spawn({
        let gate = gate.clone();
        async move { gate.settle(call).await }
    });
    until(&mut events, |fact| matches!(fact, RecordEvent::Asked(Ok(_)))).await?;
    let other = stage.gate().await?.tool(final_tool(&stage, "final")).settings(inbox()).build()?;
    let question = waiting(other.resume(id).await)?;
    let scope = vec![Pattern::Invoke("*".into())];
    let leave = StandingApproval {
        id: StandingApprovalId::new(fresh_id()),
        tool: "final".into(),
        scope,
        session: None,
        expires_at: None,
        max_uses: None,
    };
    let taken = answer(&other, &question, Reply::StandingApproval(leave)).await;
    ensure!(
        matches!(taken, Err(AnswerError::InvalidAnswer(_))),
        "a standing approval was accepted: {taken:?}"
    );
    // A person elsewhere is faster than the handler. The first answer on the record is used.
    answer(&other, &question, Reply::No { feedback: None }).await?;
    refused(&task.await?, Code::CheckpointRefused)?;
    stage.run_log.nothing("a checkpoint that was not released")
}

// req: R9
pub(super) async fn challenges_are_made_only_where_they_are_asked_for(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let (challenger, asked) = CountingChallenger::that(ChallengeVerdict::Proceed);
    let gate = stage
        .gate_on(ledger.clone())?
        .tool(doubted(tool(&stage, "free-doubted")))
        .challenger(challenger)
        .build()?;
    completed(&gate.settle(stage.call("free", json!({}))?).await)?;
    same("asked by default", &asked.load(Ordering::SeqCst), &0)?;
    let call = stage.call("free-doubted", json!({"n": 1}))?;
    completed(&gate.settle(call.clone()).await)?;
    same("asked", &asked.load(Ordering::SeqCst), &1)?;

    // The challenge is stored with the call and can be read again.
    let record = record(&*ledger, call.id).await?;
    let head = record.entries().iter().find_map(|entry| match &entry.event {
        RecordEvent::Challenged(Ok(head)) => Some(head.clone()),
        _ => None,
    });
    let head = head.ok_or_else(|| ConformanceError::new("the challenge is not on the record"))?;
    let stored: Challenge = serde_json::from_slice(&ledger.content(call.id, head.challenge).await?)?;
    same("the assumption", &stored.assumptions, &vec!["`free-doubted` is the right tool".to_owned()])?;
    same("the scenario", &stored.failure_scenarios, &vec![r#"{"n":1} is wrong"#.to_owned()])?;
    same("why", &Some(stored.reason), &call.reason)?;

    let (against, _) = CountingChallenger::that(ChallengeVerdict::Stop);
    let stopping =
        stage.gate().await?.tool(doubted(tool(&stage, "free-doubted"))).challenger(against).build()?;
    refused(&stopping.settle(stage.call("free-doubted", json!({}))?).await, Code::ChallengeStopped)?;
    let nobody = stage.gate().await?.tool(doubted(tool(&stage, "free-doubted"))).build()?;
    refused(&nobody.settle(stage.call("free-doubted", json!({}))?).await, Code::NoChallenger)?;
    same("runs", &stage.run_log.of("free-doubted"), &1)
}

// req: R9
pub(super) async fn a_challenge_comes_before_or_after_the_answer(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    for (when, order) in [
        (ChallengeTiming::BeforeQuestion, ["challenged", "asked", "answered"]),
        (ChallengeTiming::AfterAnswer, ["asked", "answered", "challenged"]),
    ] {
        let stage = ScenarioContext::new(bench)?;
        let ledger = stage.ledger().await?;
        let (challenger, _) = CountingChallenger::that(ChallengeVerdict::Proceed);
        let gate = stage
            .gate_on(ledger.clone())?
            .tool(doubted(final_tool(&stage, "free-final")))
            .challenger(challenger)
            .checkpoint(Arc::new(callback("guard", move |sheet| {
                sheet.challenge.is_some() == (when == ChallengeTiming::BeforeQuestion)
            })))
            .settings(GateSettings { challenge_when: when, ..quick() })
            .build()?;
        let call = stage.call("free-final", json!({}))?;
        completed(&gate.settle(call.clone()).await)?;
        let seen = kinds(&record(&*ledger, call.id).await?);
        let seen: Vec<_> = seen.into_iter().filter(|kind| order.contains(kind)).collect();
        same(&format!("{when:?}"), &seen, &order.to_vec())?;
    }
    Ok(())
}

// req: R9
pub(super) async fn a_challenge_stands_in_only_where_the_operator_says_so(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (challenger, _) = CountingChallenger::that(ChallengeVerdict::Proceed);
    let named = "free-named".to_owned();
    let gate = stage
        .gate()
        .await?
        .tool(doubted(final_tool(&stage, "free-named")))
        .tool(doubted(final_tool(&stage, "free-unnamed")))
        .tool(final_tool(&stage, "free-plain"))
        .challenger(challenger)
        .settings(GateSettings {
            challenge_replaces_checkpoint: [named, "free-plain".into()].into(),
            ..quick()
        })
        .build()?;
    completed(&gate.settle(stage.call("free-named", json!({}))?).await)?;
    // Neither a tool that is not listed, nor a listed tool that makes no challenge.
    refused(&gate.settle(stage.call("free-unnamed", json!({}))?).await, Code::NoCheckpoint)?;
    refused(&gate.settle(stage.call("free-plain", json!({}))?).await, Code::NoCheckpoint)?;
    same("runs", &stage.run_log.count(), &1)?;
    let (against, _) = CountingChallenger::that(ChallengeVerdict::Stop);
    let stopping = stage
        .gate()
        .await?
        .tool(doubted(final_tool(&stage, "free-named")))
        .challenger(against)
        .settings(GateSettings { challenge_replaces_checkpoint: ["free-named".to_owned()].into(), ..quick() })
        .build()?;
    refused(&stopping.settle(stage.call("free-named", json!({}))?).await, Code::ChallengeStopped)
}

// req: R8
pub(super) async fn a_checkpoint_can_wait_for_another_process(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let never = callback_async("guard", |_| std::future::pending::<bool>());
    let gate = stage
        .gate_on(ledger.clone())?
        .tool(final_tool(&stage, "final"))
        .checkpoint(Arc::new(never))
        .build()?;
    let mut events = gate.subscribe();
    let call = stage.call("final", json!({}))?;
    let id = call.id;
    let task = tokio::spawn({
        let gate = gate.clone();
        async move { gate.settle(call).await }
    });
    until(&mut events, |fact| matches!(fact, RecordEvent::Asked(Ok(_)))).await?;
    task.abort();
    ensure!(task.await.is_err(), "the call is still being driven");
    drop((gate, events));
    stage.bench.kill(ledger).await?;
    let gate = stage.gate().await?.tool(final_tool(&stage, "final")).settings(inbox()).build()?;
    let question = waiting(gate.resume(id).await)?;
    same("the kind", &question.kind, &QuestionKind::Checkpoint)?;
    answer(&gate, &question, yes()).await?;
    completed(&settled(gate.resume(id).await)?)?;
    same("runs", &stage.run_log.count(), &1)
}
