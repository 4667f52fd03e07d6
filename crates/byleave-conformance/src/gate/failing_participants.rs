//! Scenarios on failing participants: an error, a panic, a hang or an invalid answer has the effect of a "no" (R3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use byleave_core::challenge::{Challenge, ChallengeVerdict};
use byleave_core::decision::Verdict;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::StandingApprovalId;
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::question::Assurance;
use byleave_core::question_view::QuestionView;
use byleave_core::refusal::{Code, FailureCause};
use byleave_core::render::Rendering;
use byleave_core::standing_approval::StandingApproval;
use serde_json::{Value, json};

use super::fixture::{ScenarioContext, ended, fall_over, inbox, quick, rule};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::{Approver, ApproverError, Reply, callback_async};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::challenge::{ChallengeError, ChallengeSubject, Challenger};
use byleave_gate::clock::fresh_id;
use byleave_gate::gate::GateBuilder;
use byleave_gate::review::{
    Opinion, OutputReviewer, OutputSubject, ReviewError, ReviewScope, input_reviewer_async,
};
use byleave_gate::settings::{GateSettings, UnattendedAction};
use byleave_gate::tool::ToolError;

/// A participant in the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FailingParticipant {
    InputReviewer,
    OutputReviewer,
    Challenger,
    Approver,
    Checkpoint,
    Predicate,
    Planner,
}

/// The way in which it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FailureMode {
    Errs,
    Panics,
    PanicsLater,
    Hangs,
    Nonsense,
    /// It panics when it is asked for its name.
    PanicsWhenNamed,
}

impl FailureMode {
    const fn cause(self) -> FailureCause {
        match self {
            Errs => FailureCause::Error,
            Panics | PanicsLater | PanicsWhenNamed => FailureCause::Panic,
            Hangs => FailureCause::Timeout,
            Nonsense => FailureCause::InvalidResponse,
        }
    }
}

use FailureMode::{Errs, Hangs, Nonsense, Panics, PanicsLater, PanicsWhenNamed};

#[rustfmt::skip]
const TABLE: &[(FailingParticipant, FailureMode, Code)] = &[
    (FailingParticipant::InputReviewer, Errs, Code::ReviewFailed),
    (FailingParticipant::InputReviewer, Panics, Code::ReviewFailed),
    (FailingParticipant::InputReviewer, PanicsLater, Code::ReviewFailed),
    (FailingParticipant::InputReviewer, Hangs, Code::ReviewFailed),
    (FailingParticipant::InputReviewer, Nonsense, Code::ReviewFailed),
    (FailingParticipant::OutputReviewer, Errs, Code::OutputReviewFailed),
    (FailingParticipant::OutputReviewer, Panics, Code::OutputReviewFailed),
    (FailingParticipant::OutputReviewer, PanicsLater, Code::OutputReviewFailed),
    (FailingParticipant::OutputReviewer, Hangs, Code::OutputReviewFailed),
    (FailingParticipant::OutputReviewer, Nonsense, Code::OutputReviewFailed),
    (FailingParticipant::Challenger, Errs, Code::ChallengeFailed),
    (FailingParticipant::Challenger, Panics, Code::ChallengeFailed),
    (FailingParticipant::Challenger, PanicsLater, Code::ChallengeFailed),
    (FailingParticipant::Challenger, Hangs, Code::ChallengeFailed),
    (FailingParticipant::Challenger, Nonsense, Code::ChallengeFailed),
    (FailingParticipant::Approver, Errs, Code::ApproverFailed),
    (FailingParticipant::Approver, Panics, Code::ApproverFailed),
    (FailingParticipant::Approver, PanicsLater, Code::ApproverFailed),
    (FailingParticipant::Approver, Hangs, Code::ApproverFailed),
    (FailingParticipant::Approver, Nonsense, Code::ApproverFailed),
    (FailingParticipant::Approver, PanicsWhenNamed, Code::ApproverFailed),
    (FailingParticipant::Checkpoint, Errs, Code::CheckpointFailed),
    (FailingParticipant::Checkpoint, Panics, Code::CheckpointFailed),
    (FailingParticipant::Checkpoint, PanicsLater, Code::CheckpointFailed),
    (FailingParticipant::Checkpoint, Hangs, Code::CheckpointFailed),
    (FailingParticipant::Checkpoint, Nonsense, Code::CheckpointFailed),
    (FailingParticipant::Checkpoint, PanicsWhenNamed, Code::CheckpointFailed),
    (FailingParticipant::Predicate, Errs, Code::PredicateFailed),
    (FailingParticipant::Predicate, Panics, Code::PredicateFailed),
    (FailingParticipant::Predicate, PanicsLater, Code::PredicateFailed),
    (FailingParticipant::Predicate, Hangs, Code::PredicateFailed),
    (FailingParticipant::Planner, Errs, Code::PlanFailed),
    (FailingParticipant::Planner, Panics, Code::PlanFailed),
    (FailingParticipant::Planner, PanicsLater, Code::PlanFailed),
    (FailingParticipant::Planner, Hangs, Code::PlanFailed),
    (FailingParticipant::Planner, Nonsense, Code::Denied),
];

/// Fails in this way.
async fn break_down<T, E>(how: FailureMode, error: E, nonsense: Result<T, E>) -> Result<T, E> {
    match how {
        Errs => Err(error),
        Panics | PanicsWhenNamed => fall_over(),
        PanicsLater => {
            tokio::task::yield_now().await;
            fall_over()
        }
        Hangs => std::future::pending().await,
        Nonsense => nonsense,
    }
}

/// An approver without a usable name. It would approve.
struct UnnamedApprover;

impl Approver for UnnamedApprover {
    fn name(&self) -> &str {
        fall_over()
    }

    fn assurance(&self) -> Assurance {
        Assurance::Program
    }

    fn ask<'a>(
        &'a self,
        _: &'a QuestionView,
        _: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        Box::pin(std::future::ready(Ok(Reply::Yes { note: None })))
    }
}

struct FailingChallenger(FailureMode);

impl Challenger for FailingChallenger {
    fn challenge<'a>(&'a self, _: ChallengeSubject<'a>) -> BoxFuture<'a, Result<Challenge, ChallengeError>> {
        let says_nothing = Challenge {
            assumptions: vec![" ".into()],
            failure_scenarios: Vec::new(),
            verdict: ChallengeVerdict::Proceed,
            reason: String::new(),
        };
        Box::pin(break_down(self.0, ChallengeError("no".into()), Ok(says_nothing)))
    }
}

struct FailingReviewer(FailureMode);

impl OutputReviewer for FailingReviewer {
    fn name(&self) -> &str {
        "bad"
    }

    fn review<'a>(&'a self, _: OutputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        let nonsense = Err(ReviewError::InvalidResponse("no".into()));
        Box::pin(break_down(self.0, ReviewError::Failed("no".into()), nonsense))
    }
}

/// Builds a gate in which one participant fails.
fn broken(
    stage: &ScenarioContext<'_>,
    builder: GateBuilder,
    who: FailingParticipant,
    how: FailureMode,
) -> GateBuilder {
    let probe = stage.probe("tool", |_, _| async { Output::text("did it") });
    let failed = || ReviewError::Failed("no".into());
    let builder = match who {
        FailingParticipant::InputReviewer => {
            let nonsense: Opinion<Value> = Opinion::Change { value: json!(7), reason: None };
            let review = move |_| break_down(how, failed(), Ok(nonsense.clone()));
            builder.review_input(ReviewScope::All, input_reviewer_async("bad", review))
        }
        FailingParticipant::OutputReviewer => builder.review_output(ReviewScope::All, FailingReviewer(how)),
        FailingParticipant::Challenger => builder.challenger(Arc::new(FailingChallenger(how))),
        FailingParticipant::Approver if how == PanicsWhenNamed => builder.approver(UnnamedApprover),
        FailingParticipant::Checkpoint if how == PanicsWhenNamed => builder.checkpoint(UnnamedApprover),
        FailingParticipant::Approver => {
            let edit = Reply::Edit { value: json!(7), note: None };
            let ask = move |_| break_down(how, ApproverError::Failed("no".into()), Ok(edit.clone()));
            builder.approver(Arc::new(callback_async("bad", ask)))
        }
        FailingParticipant::Checkpoint => {
            let id = StandingApprovalId::new(fresh_id());
            let leave = StandingApproval {
                id,
                tool: "tool".into(),
                scope: Vec::new(),
                session: None,
                expires_at: None,
                max_uses: None,
            };
            let ask = move |_| {
                break_down(
                    how,
                    ApproverError::Failed("no".into()),
                    Ok(Reply::StandingApproval(leave.clone())),
                )
            };
            builder.checkpoint(Arc::new(callback_async("bad", ask)))
        }
        FailingParticipant::Predicate | FailingParticipant::Planner => builder,
    };
    let fault = || ToolError("no".into());
    builder.tool(match who {
        FailingParticipant::Challenger => probe.with(|manifest| manifest.requires_reverse_thinking = true),
        FailingParticipant::Checkpoint => probe.with(|manifest| manifest.requires_checkpoint = true),
        FailingParticipant::Predicate => probe.asking(move |_| break_down(how, fault(), Ok(false))),
        FailingParticipant::Planner => probe.planning(move |_, _| {
            // A second spelling of a path would bypass every rule for the first spelling.
            let effects = vec![Effect::Read { path: "open/../closed".into() }];
            break_down(how, fault(), Ok(Plan { effects, read_only: true, ..Plan::default() }))
        }),
        FailingParticipant::InputReviewer
        | FailingParticipant::OutputReviewer
        | FailingParticipant::Approver => probe,
    })
}

// req: R3, T8
pub(super) async fn breaking_is_objecting(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let mut participants: BTreeMap<Code, BTreeSet<FailingParticipant>> = BTreeMap::new();
    for (who, how, code) in TABLE {
        let stage = ScenarioContext::new(bench)?;
        // On a busy machine, participants that do not hang are slow too.
        let limit = Duration::from_millis(if *how == Hangs { 500 } else { 30_000 });
        let settings = GateSettings {
            plugin_timeout: limit,
            challenger_timeout: limit,
            approver_timeout: limit,
            ..quick()
        };
        let gate = broken(&stage, stage.gate().await?.settings(settings), *who, *how).build()?;
        // Nothing else may block participants that are not asked in every case.
        if !matches!(who, FailingParticipant::Approver) {
            let allow = rule("tool", Verdict::Allow, vec![Pattern::Invoke("tool".into())]);
            gate.set_policy(stage.policy([allow])?);
        }
        let call = stage.call("tool", json!({}))?;
        let result = gate.settle(call.clone()).await;
        let (word, runs) =
            if *who == FailingParticipant::OutputReviewer { ("withheld", 1) } else { ("refused", 0) };
        let what = format!("{who:?} {how:?}");
        ended(&result, word, *code)
            .map_err(|flaw| ConformanceError::new(format!("{what}: {}", flaw.message())))?;
        let cause = (*code != Code::Denied).then(|| how.cause());
        same(&what, &result.outcome.refusal().and_then(|refusal| refusal.cause), &cause)?;
        same(&what, &stage.run_log.count(), &runs)?;
        ensure!(!result.to_text().contains("did it"), "{what}: the output is released");
        same("again", &gate.settle(call).await, &result)?;
        same(&what, &stage.run_log.count(), &runs)?;
        participants.entry(*code).or_default().insert(*who);
    }
    for (code, who) in participants {
        ensure!(who.len() == 1, "{code} is the code of {who:?}");
    }
    Ok(())
}

// req: R3
pub(super) async fn an_approver_that_breaks_is_not_made_up_for(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    // Neither an inbox nor a setting for unattended gates lets a call pass a registered approver that fails.
    for how in [Errs, Panics, Hangs, Nonsense] {
        let stage = ScenarioContext::new(bench)?;
        let unattended = UnattendedAction::AllowWithWarning;
        let settings = GateSettings { approver_timeout: Duration::from_millis(30), unattended, ..inbox() };
        let gate = broken(&stage, stage.gate().await?.settings(settings), FailingParticipant::Approver, how)
            .build()?;
        let result = gate.settle(stage.call("tool", json!({}))?).await;
        ensure!(result.outcome.as_str() == "refused", "{how:?}: {:?}", result.outcome);
        stage.run_log.nothing(format!("{how:?}"))?;
    }
    Ok(())
}
