//! A dry run of a whole conversation (L10): the loop goes on, and no tool runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byleave_agent::agent_loop::{AgentError, OnQuestion, RunOutcome};
use byleave_gate::approver::{Reply, callback};
use byleave_gate::core::call::Mode;
use byleave_gate::core::question::{ApproverIdentity, Assurance};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::gate::SubmittedAnswer;
use byleave_gate::result::CallOutcome;
use byleave_gate::settings::GateSettings;
use tokio_util::sync::CancellationToken;

use crate::agent_fixture::{AgentFixture, DONE, WRITES};
use crate::fake::{KINDS, ReplyPart};

const READS: &[ReplyPart] = &[ReplyPart::Text("I read."), ReplyPart::Call("read", &["{\"path\": \"b\"}"])];

// req: L10, E5, P2
#[tokio::test]
async fn the_loop_goes_on_and_every_call_is_a_dry_run() {
    for kind in KINDS {
        let mut stage = AgentFixture::says(kind, &[WRITES, READS, DONE]).await;
        stage.dry_run = true;
        let asked = Arc::new(AtomicBool::new(false));
        let asks = Arc::clone(&asked);
        let ann = callback("ann", move |_: &QuestionView| {
            asks.store(true, Ordering::Relaxed);
            true
        });
        assert_eq!(stage.task(Some(Arc::new(ann))).await, RunOutcome::Done, "{kind:?}");
        assert!(!asked.load(Ordering::Relaxed), "{kind:?}");
        assert!(stage.wrote().is_empty() && stage.reads.load(Ordering::Relaxed) == 0, "{kind:?}");
        let told = stage.told(1);
        assert!(told.contains("[DRY-RUN] write") && told.contains("[DRY-RUN] would"), "{kind:?}: {told}");
        assert!(!told.contains("refused:"), "{kind:?}: {told}");
        assert!(stage.told(2).contains("[DRY-RUN] read"), "{kind:?}: {}", stage.told(2));
        let conversation = stage.agent(stage.builder()).conversation().await.unwrap();
        assert_eq!(conversation.is_dry_run(), Some(true));
        for call in conversation.turns.iter().flat_map(|turn| &turn.calls) {
            let result = call.result.as_ref().unwrap();
            assert!(matches!(result.outcome, CallOutcome::DryRun(_)) && result.is_success(), "{result:?}");
        }
    }
}

// req: L10, P2
#[tokio::test]
async fn the_mode_makes_no_difference_to_a_dry_run() {
    for mode in [Mode::ConfirmAll, Mode::ConfirmSensitive, Mode::ConfirmDangerous, Mode::Yolo] {
        let mut stage = AgentFixture::says(KINDS[0], &[WRITES, DONE]).await;
        (stage.dry_run, stage.mode) = (true, mode);
        assert_eq!(stage.task(None).await, RunOutcome::Done, "{mode:?}");
        assert!(stage.wrote().is_empty() && stage.told(1).contains("[DRY-RUN] write"), "{mode:?}");
    }
}

// req: L10
#[tokio::test]
async fn a_dry_run_does_not_drive_the_open_call_of_a_real_conversation() {
    let mut stage = AgentFixture::says(KINDS[0], &[WRITES, DONE]).await;
    let inbox = || GateSettings { inbox: true, ..GateSettings::default() };
    let never = CancellationToken::new();
    let agent = stage.agent(stage.builder().settings(inbox()));
    agent.add_user_message("Do it.").await.unwrap();
    let RunOutcome::Waiting(questions) = agent.run(OnQuestion::Exit, &never).await.unwrap() else {
        panic!("it does not ask")
    };
    let gate = stage.builder().settings(inbox()).build().unwrap();
    let by = ApproverIdentity { name: "ann".into(), assurance: Assurance::Terminal };
    let (question, digest) = (questions[0].id, questions[0].digest());
    let given = SubmittedAnswer { question, digest, reply: Reply::Yes { note: None }, approver: by };
    gate.answer(given).await.unwrap();

    stage.dry_run = true;
    let dry = stage.agent(stage.builder().settings(inbox()));
    assert!(matches!(dry.run(OnQuestion::Exit, &never).await, Err(AgentError::IsNotDryRun)));
    assert!(matches!(dry.add_user_message("Go on.").await, Err(AgentError::IsNotDryRun)));
    assert!(stage.wrote().is_empty());
    stage.dry_run = false;
    let real = stage.agent(stage.builder().settings(inbox()));
    assert_eq!(real.run(OnQuestion::Exit, &never).await.unwrap(), RunOutcome::Done);
    assert_eq!(stage.wrote(), ["a"]);
}

// req: L10
#[tokio::test]
async fn a_dry_run_stays_one() {
    let mut stage = AgentFixture::says(KINDS[0], &[WRITES, DONE]).await;
    stage.dry_run = true;
    assert_eq!(stage.task(None).await, RunOutcome::Done);
    stage.dry_run = false;
    let real = stage.agent(stage.builder());
    assert!(matches!(real.add_user_message("Now really.").await, Err(AgentError::IsDryRun)));
    assert_eq!(stage.fake.got().len(), 2, "the model is not asked again");
}
