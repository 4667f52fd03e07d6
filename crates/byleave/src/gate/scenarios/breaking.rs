//! Breaking is objecting: whoever has a say and errs, panics, hangs or talks nonsense has said no (R3).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use byleave_core::challenge::{Challenge, ChallengeVerdict};
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::LeaveId;
use byleave_core::leave::Leave;
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::refusal::Code;
use byleave_core::ruling::Verdict;
use serde_json::{Value, json};

use super::stage::{Stage, ended, fall_over, inbox, quick, rule};
use crate::approve::{ApproverFault, Reply, callback_async};
use crate::challenge::{ChallengeFault, ChallengeSubject, Challenger};
use crate::clock::fresh_id;
use crate::gate::GateBuilder;
use crate::ledger::conformance::{Bench, Flaw, ensure, same};
use crate::pending::Pending;
use crate::review::{Covers, Opinion, OutputReviewer, OutputSubject, ReviewFault, input_async};
use crate::settings::{Settings, Unattended};
use crate::tool::ToolFault;

/// Who has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    InputReviewer,
    OutputReviewer,
    Challenger,
    Approver,
    Checkpoint,
    Predicate,
    Planner,
}

/// How it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    Errs,
    Panics,
    PanicsLater,
    Hangs,
    Nonsense,
}

use How::{Errs, Hangs, Nonsense, Panics, PanicsLater};

#[rustfmt::skip]
const TABLE: &[(Who, How, Code)] = &[
    (Who::InputReviewer, Errs, Code::ReviewFailed),
    (Who::InputReviewer, Panics, Code::ReviewPanicked),
    (Who::InputReviewer, PanicsLater, Code::ReviewPanicked),
    (Who::InputReviewer, Hangs, Code::ReviewTimedOut),
    (Who::InputReviewer, Nonsense, Code::ReviewInvalid),
    (Who::OutputReviewer, Errs, Code::OutputReviewFailed),
    (Who::OutputReviewer, Panics, Code::OutputReviewPanicked),
    (Who::OutputReviewer, PanicsLater, Code::OutputReviewPanicked),
    (Who::OutputReviewer, Hangs, Code::OutputReviewTimedOut),
    (Who::OutputReviewer, Nonsense, Code::OutputReviewInvalid),
    (Who::Challenger, Errs, Code::ChallengeFailed),
    (Who::Challenger, Panics, Code::ChallengePanicked),
    (Who::Challenger, PanicsLater, Code::ChallengePanicked),
    (Who::Challenger, Hangs, Code::ChallengeTimedOut),
    (Who::Challenger, Nonsense, Code::ChallengeInvalid),
    (Who::Approver, Errs, Code::ApproverFailed),
    (Who::Approver, Panics, Code::ApproverPanicked),
    (Who::Approver, PanicsLater, Code::ApproverPanicked),
    (Who::Approver, Hangs, Code::ApproverTimedOut),
    (Who::Approver, Nonsense, Code::ApproverInvalid),
    (Who::Checkpoint, Errs, Code::CheckpointFailed),
    (Who::Checkpoint, Panics, Code::CheckpointPanicked),
    (Who::Checkpoint, PanicsLater, Code::CheckpointPanicked),
    (Who::Checkpoint, Hangs, Code::CheckpointTimedOut),
    (Who::Checkpoint, Nonsense, Code::CheckpointInvalid),
    (Who::Predicate, Errs, Code::PredicateFailed),
    (Who::Predicate, Panics, Code::PredicatePanicked),
    (Who::Predicate, PanicsLater, Code::PredicatePanicked),
    (Who::Predicate, Hangs, Code::PredicateTimedOut),
    (Who::Planner, Errs, Code::PlanFailed),
    (Who::Planner, Panics, Code::PlanPanicked),
    (Who::Planner, PanicsLater, Code::PlanPanicked),
    (Who::Planner, Hangs, Code::PlanTimedOut),
    (Who::Planner, Nonsense, Code::Denied),
];

/// Breaks, one way or another.
async fn break_down<T, E>(how: How, error: E, nonsense: Result<T, E>) -> Result<T, E> {
    match how {
        Errs => Err(error),
        Panics => fall_over(),
        PanicsLater => {
            tokio::task::yield_now().await;
            fall_over()
        }
        Hangs => std::future::pending().await,
        Nonsense => nonsense,
    }
}

struct BadChallenger(How);

impl Challenger for BadChallenger {
    fn challenge<'a>(&'a self, _: ChallengeSubject<'a>) -> Pending<'a, Result<Challenge, ChallengeFault>> {
        let says_nothing = Challenge {
            assumptions: vec![" ".into()],
            failure_scenarios: Vec::new(),
            verdict: ChallengeVerdict::Proceed,
            why: String::new(),
        };
        Box::pin(break_down(self.0, ChallengeFault("no".into()), Ok(says_nothing)))
    }
}

struct BadReviewer(How);

impl OutputReviewer for BadReviewer {
    fn name(&self) -> &str {
        "bad"
    }

    fn review<'a>(&'a self, _: OutputSubject<'a>) -> Pending<'a, Result<Opinion<Output>, ReviewFault>> {
        let nonsense = Err(ReviewFault::Nonsense("no".into()));
        Box::pin(break_down(self.0, ReviewFault::Failed("no".into()), nonsense))
    }
}

/// A gate in which one of those who have a say breaks.
fn broken(stage: &Stage<'_>, builder: GateBuilder, who: Who, how: How) -> GateBuilder {
    let probe = stage.probe("tool", |_, _| async { Output::text("did it") });
    let failed = || ReviewFault::Failed("no".into());
    let builder = match who {
        Who::InputReviewer => {
            let nonsense: Opinion<Value> = Opinion::Change { value: json!(7), why: None };
            let review = move |_| break_down(how, failed(), Ok(nonsense.clone()));
            builder.review_input(Covers::All, input_async("bad", review))
        }
        Who::OutputReviewer => builder.review_output(Covers::All, BadReviewer(how)),
        Who::Challenger => builder.challenger(Arc::new(BadChallenger(how))),
        Who::Approver => {
            let edit = Reply::Edit { value: json!(7), note: None };
            let ask = move |_| break_down(how, ApproverFault::Failed("no".into()), Ok(edit.clone()));
            builder.approver(Arc::new(callback_async("bad", ask)))
        }
        Who::Checkpoint => {
            let id = LeaveId::new(fresh_id());
            let leave = Leave {
                id,
                tool: "tool".into(),
                scope: Vec::new(),
                session: None,
                until: None,
                uses_max: None,
            };
            let ask =
                move |_| break_down(how, ApproverFault::Failed("no".into()), Ok(Reply::Leave(leave.clone())));
            builder.checkpoint(Arc::new(callback_async("bad", ask)))
        }
        Who::Predicate | Who::Planner => builder,
    };
    let fault = || ToolFault("no".into());
    builder.tool(match who {
        Who::Challenger => probe.with(|manifest| manifest.requires_reverse_thinking = true),
        Who::Checkpoint => probe.with(|manifest| manifest.requires_checkpoint = true),
        Who::Predicate => probe.asking(move |_| break_down(how, fault(), Ok(false))),
        Who::Planner => probe.planning(move |_, _| {
            // A second spelling of a path would be a way around every rule on the first.
            let effects = vec![Effect::Read { path: "open/../closed".into() }];
            break_down(how, fault(), Ok(Plan { effects, reads_only: true, ..Plan::default() }))
        }),
        Who::InputReviewer | Who::OutputReviewer | Who::Approver => probe,
    })
}

// req: R3, T8
pub(super) async fn breaking_is_objecting(bench: &dyn Bench) -> Result<(), Flaw> {
    let mut codes: BTreeMap<Code, Vec<(Who, How)>> = BTreeMap::new();
    for (who, how, code) in TABLE {
        let stage = Stage::new(bench)?;
        // On a busy machine those who do not hang take their time, too.
        let limit = Duration::from_millis(if *how == Hangs { 500 } else { 30_000 });
        let settings = Settings { stranger_timeout: limit, approver_timeout: limit, ..quick() };
        let gate = broken(&stage, stage.gate().await?.settings(settings), *who, *how).build()?;
        // Nothing else stands in the way of those who are not asked in every case.
        if !matches!(who, Who::Approver) {
            let allow = rule("tool", Verdict::Allow, vec![Pattern::Invoke("tool".into())]);
            gate.set_policy(stage.policy([allow])?);
        }
        let call = stage.call("tool", json!({}))?;
        let result = gate.settle(call.clone()).await;
        let (word, runs) = if *who == Who::OutputReviewer { ("withheld", 1) } else { ("refused", 0) };
        let what = format!("{who:?} {how:?}");
        ended(&result, word, *code).map_err(|flaw| Flaw::new(format!("{what}: {}", flaw.what())))?;
        same(&what, &stage.runs.count(), &runs)?;
        ensure!(!result.text().contains("did it"), "{what}: the output is released");
        same("again", &gate.settle(call).await, &result)?;
        same(&what, &stage.runs.count(), &runs)?;
        let how = if *how == PanicsLater { Panics } else { *how };
        codes.entry(*code).or_default().push((*who, how));
    }
    for (code, mut broke) in codes {
        broke.dedup();
        ensure!(broke.len() == 1, "{code} stands for {broke:?}");
    }
    Ok(())
}

// req: R3
pub(super) async fn an_approver_that_breaks_is_not_made_up_for(bench: &dyn Bench) -> Result<(), Flaw> {
    // Neither an inbox nor a setting for when nobody is there lets a call pass someone who is there and breaks.
    for how in [Errs, Panics, Hangs, Nonsense] {
        let stage = Stage::new(bench)?;
        let unattended = Unattended::AllowWithWarning;
        let settings = Settings { approver_timeout: Duration::from_millis(30), unattended, ..inbox() };
        let gate = broken(&stage, stage.gate().await?.settings(settings), Who::Approver, how).build()?;
        let result = gate.settle(stage.call("tool", json!({}))?).await;
        ensure!(result.ending.word() == "refused", "{how:?}: {:?}", result.ending);
        stage.runs.nothing(format!("{how:?}"))?;
    }
    Ok(())
}
