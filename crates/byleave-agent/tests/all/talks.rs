//! The agent loop, with fake providers over HTTP and a real gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byleave_agent::agent_loop::{AgentEvent, OnQuestion, RunOutcome};
use byleave_agent::conversation::TurnResult;
use byleave_agent::limits::{LimitReachedError, TokenPrices};
use byleave_agent::model::StreamEvent;
use byleave_agent::provider::ProviderKind;
use byleave_gate::approver::{Approver, Reply, callback};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::call::Mode;
use byleave_gate::core::outcome::Output;
use byleave_gate::core::question::{ApproverIdentity as By, Assurance};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::gate::SubmittedAnswer;
use byleave_gate::review::{Opinion, OutputReviewer, OutputSubject, ReviewError, ReviewScope};
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent_fixture::{AgentFixture, DONE, WRITES, yes};
use crate::fake::{FakeResponse, KINDS, ReplyPart, reply, spoken};

// req: L2, E4
#[tokio::test]
async fn calls_of_a_turn_are_made_and_their_results_go_back() {
    for kind in KINDS {
        let both: &[ReplyPart] = &[
            ReplyPart::Text("I look."),
            ReplyPart::Call("read", &["{\"path\":", " \"one\"}"]),
            ReplyPart::Call("read", &["{\"path\": \"two\"}"]),
        ];
        let stage = AgentFixture::says(kind, &[both, WRITES, DONE]).await;
        assert_eq!(stage.task(yes()).await, RunOutcome::Done, "{kind:?}");
        assert_eq!(stage.reads.load(Ordering::Relaxed), 2, "{kind:?}");
        assert_eq!(stage.wrote(), ["a"], "{kind:?}");
        let told = stage.told(1);
        assert!(told.contains("there is one") && told.contains("there is two"), "{kind:?}: {told}");
        assert!(stage.told(2).contains("written"), "{kind:?}");
        let conversation = stage.agent(stage.builder()).conversation().await.unwrap();
        let texts: Vec<_> = conversation
            .turns
            .iter()
            .map(|taken| match &taken.result {
                Some(TurnResult::Response(said)) => said.text.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, ["I look.", "I write.", "Done."], "{kind:?}");
        assert_eq!(conversation.turns[0].arguments.user.as_deref(), Some("Do it."));
    }
}

// req: L1, L3
#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_and_nothing_runs() {
    for kind in KINDS {
        let malformed: &[ReplyPart] = &[ReplyPart::Call("write", &["{\"path\": \"a\""])];
        let unknown: &[ReplyPart] = &[ReplyPart::Call("wrote", &["{\"path\": \"a\"}"])];
        let unfit: &[ReplyPart] = &[ReplyPart::Call("write", &["{\"file\": \"a\"}"])];
        let stage = AgentFixture::says(kind, &[malformed, unknown, unfit, DONE]).await;
        assert_eq!(stage.task(yes()).await, RunOutcome::Done, "{kind:?}");
        assert!(stage.wrote().is_empty(), "{kind:?}");
        assert!(stage.told(1).contains("was not run: its arguments"), "{kind:?}: {}", stage.told(1));
        assert!(stage.told(2).contains("did you mean `write`"), "{kind:?}: {}", stage.told(2));
        assert!(stage.told(3).contains("refused:"), "{kind:?}: {}", stage.told(3));
        assert!(!stage.told(1).contains("refused:"), "{kind:?}: {}", stage.told(1));
    }
}

// req: L3, R2
#[tokio::test]
async fn a_no_and_an_edit_are_told_and_it_goes_on() {
    for kind in KINDS {
        let stage = AgentFixture::says(kind, &[WRITES, DONE]).await;
        let no = callback("ann", |_: &QuestionView| Reply::No { feedback: Some("not that one".into()) });
        assert_eq!(stage.task(Some(Arc::new(no))).await, RunOutcome::Done, "{kind:?}");
        assert!(stage.wrote().is_empty() && stage.told(1).contains("not that one"), "{kind:?}");

        let stage = AgentFixture::says(kind, &[WRITES, DONE]).await;
        let edit = callback("ann", |sheet: &QuestionView| {
            if sheet.arguments["path"] == "b" {
                return Reply::Yes { note: None };
            }
            Reply::Edit { value: json!({"path": "b"}), note: Some("the other one".into()) }
        });
        assert_eq!(stage.task(Some(Arc::new(edit))).await, RunOutcome::Done, "{kind:?}");
        assert_eq!(stage.wrote(), ["b"], "{kind:?}");
        let told = stage.told(1);
        assert!(told.contains("ann changed the arguments: the other one"), "{kind:?}: {told}");
    }
}

/// An output reviewer that objects to tool output or changes the model's reply.
struct ScriptedReviewer(fn(&Output) -> Opinion<Output>);

impl OutputReviewer for ScriptedReviewer {
    fn name(&self) -> &str {
        "reader"
    }

    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        let opinion = (self.0)(subject.output);
        Box::pin(async move { Ok(opinion) })
    }
}

// req: R3
#[tokio::test]
async fn what_is_held_back_is_not_shown_to_the_model() {
    for kind in KINDS {
        let reads: &[ReplyPart] = &[ReplyPart::Call("read", &["{\"path\": \"secret\"}"])];
        let stage = AgentFixture::says(kind, &[reads, DONE]).await;
        let held = ScriptedReviewer(|output| match output.text.contains("there is secret") {
            true => Opinion::Deny { reason: Some("it is secret".into()) },
            false => Opinion::Pass,
        });
        let agent =
            stage.agent(stage.builder().review_output(ReviewScope::All, held).approver(yes().unwrap()));
        agent.add_user_message("Read it.").await.unwrap();
        assert_eq!(agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap(), RunOutcome::Done);
        let told = stage.told(1);
        assert!(told.contains("withheld") && !told.contains("there is secret"), "{kind:?}: {told}");
    }
}

#[tokio::test]
async fn what_somebody_changed_in_a_turn_is_not_what_the_model_asked_for() {
    let stage = AgentFixture::says(ProviderKind::OpenAi, &[WRITES, DONE]).await;
    let changes = ScriptedReviewer(|output| match output.text == "I write." {
        true => Opinion::Change { value: Output { text: "I …".into(), ..output.clone() }, reason: None },
        false => Opinion::Pass,
    });
    let approver: Arc<dyn Approver> = Arc::new(callback("ann", |_: &QuestionView| true));
    let agent = stage.agent(stage.builder().review_output(ReviewScope::All, changes).approver(approver));
    agent.add_user_message("Do it.").await.unwrap();
    assert_eq!(agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap(), RunOutcome::Done);
    assert!(stage.wrote().is_empty());
    assert!(stage.told(1).contains("modified the response"), "{}", stage.told(1));
}

#[tokio::test]
async fn a_stream_that_breaks_off_and_a_busy_provider_are_tried_again() {
    for kind in KINDS {
        let script = vec![
            FakeResponse::Dropped(spoken(kind, WRITES)),
            FakeResponse::Status(429, &[("retry-after", "0")], "{}".into()),
            FakeResponse::Stream(reply(kind, WRITES)),
            FakeResponse::Stream(reply(kind, DONE)),
        ];
        let stage = AgentFixture::new(kind, script).await;
        assert_eq!(stage.task(yes()).await, RunOutcome::Done, "{kind:?}");
        assert_eq!((stage.wrote(), stage.fake.got().len()), (vec!["a".to_owned()], 4), "{kind:?}");
    }
}

#[tokio::test]
async fn a_provider_that_stays_away_is_told_and_it_can_go_on_later() {
    let script = vec![
        FakeResponse::Status(401, &[], "{}".into()),
        FakeResponse::Stream(reply(ProviderKind::OpenAi, DONE)),
    ];
    let stage = AgentFixture::new(ProviderKind::OpenAi, script).await;
    let went = stage.task(None).await;
    assert!(matches!(&went, RunOutcome::Failed(why) if why.contains("rejects the key")), "{went:?}");
    let agent = stage.agent(stage.builder());
    assert_eq!(agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap(), RunOutcome::Done);
    assert!(stage.told(1).contains("Do it."), "the person's word is not lost");
}

#[tokio::test]
async fn each_limit_holds() {
    let kind = ProviderKind::Anthropic;
    let reads = |path: &'static [&'static str]| [ReplyPart::Call("read", path)];
    let (one, two, three) =
        (reads(&["{\"path\": \"1\"}"]), reads(&["{\"path\": \"2\"}"]), reads(&["{\"path\": \"3\"}"]));
    let turns: [&[ReplyPart]; 4] = [&one, &two, &three, DONE];

    let mut stage = AgentFixture::says(kind, &turns).await;
    stage.limits.turns = 2;
    assert_eq!(stage.task(yes()).await, RunOutcome::LimitReached(LimitReachedError::Turns(2)));
    assert_eq!((stage.reads.load(Ordering::Relaxed), stage.fake.got().len()), (2, 2));

    // The fake reports 18 tokens per turn.
    let mut stage = AgentFixture::says(kind, &turns).await;
    stage.limits.max_tokens = Some(30);
    assert_eq!(stage.task(yes()).await, RunOutcome::LimitReached(LimitReachedError::Tokens(36)));

    let mut stage = AgentFixture::says(kind, &turns).await;
    stage.limits.prices = Some(TokenPrices { input: 1e6, output: 0.0 });
    stage.limits.cost = Some(11.0);
    assert_eq!(stage.task(yes()).await, RunOutcome::LimitReached(LimitReachedError::Cost(11.0)));

    let mut stage =
        AgentFixture::new(kind, vec![FakeResponse::Hanging(spoken(kind, &[ReplyPart::Text("Well")]))]).await;
    stage.limits.max_time = Some(Duration::from_millis(300));
    assert_eq!(stage.task(yes()).await, RunOutcome::LimitReached(LimitReachedError::Time(0)));
    stage.fake.gone.notified().await;
}

#[tokio::test]
async fn who_runs_against_the_same_wall_is_stopped() {
    let kind = ProviderKind::Gemini;
    let again: &[ReplyPart] = &[ReplyPart::Call("read", &["{\"path\": \"1\"}"])];
    let stage = AgentFixture::says(kind, &[again]).await;
    assert_eq!(stage.task(yes()).await, RunOutcome::LimitReached(LimitReachedError::Repeats("read".into())));
    assert_eq!(stage.reads.load(Ordering::Relaxed), 3);
    // A later run gives the same outcome, until there is a new message.
    let agent = stage.agent(stage.builder());
    let went = agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap();
    assert_eq!(went, RunOutcome::LimitReached(LimitReachedError::Repeats("read".into())));
    agent.add_user_message("Stop that.").await.unwrap();
    agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap();
    let told = stage.told(4);
    assert!(told.contains("the call was not run") && told.contains("Stop that."), "{told}");

    const PATHS: [&[&str]; 5] = [
        &["{\"path\": \"1\"}"],
        &["{\"path\": \"2\"}"],
        &["{\"path\": \"3\"}"],
        &["{\"path\": \"4\"}"],
        &["{\"path\": \"5\"}"],
    ];
    let turns = PATHS.map(|path| [ReplyPart::Call("write", path)]);
    let turns = turns.each_ref().map(|turn| turn.as_slice());
    let stage = AgentFixture::says(kind, &turns).await;
    let no: Arc<dyn Approver> = Arc::new(callback("ann", |_: &QuestionView| false));
    assert_eq!(stage.task(Some(no)).await, RunOutcome::LimitReached(LimitReachedError::Refusals(5)));
}

#[tokio::test]
async fn it_can_be_called_off_at_any_time() {
    // While the model streams.
    let kind = ProviderKind::OpenAi;
    let script = vec![
        FakeResponse::Hanging(spoken(kind, &[ReplyPart::Text("Well")])),
        FakeResponse::Stream(reply(kind, DONE)),
    ];
    let stage = AgentFixture::new(kind, script).await;
    let stop = CancellationToken::new();
    let stops = stop.clone();
    let agent = stage.watched(stage.builder(), move |happening| {
        if matches!(happening, AgentEvent::Stream(StreamEvent::Text(_))) {
            stops.cancel();
        }
    });
    agent.add_user_message("Do it.").await.unwrap();
    assert_eq!(agent.run(OnQuestion::Wait, &stop).await.unwrap(), RunOutcome::Cancelled);
    stage.fake.gone.notified().await;
    let conversation = agent.conversation().await.unwrap();
    let came = conversation.turns[0].result.clone();
    assert!(
        matches!(&came, Some(TurnResult::NoResponse { partial_text: heard, .. }) if heard == "Well"),
        "{came:?}"
    );

    // While a tool runs.
    let slow: &[ReplyPart] = &[ReplyPart::Call("write", &["{\"path\": \"slow\"}"])];
    let stage = AgentFixture::says(kind, &[slow, DONE]).await;
    let stop = CancellationToken::new();
    let agent = stage.agent(stage.builder().approver(yes().unwrap()));
    agent.add_user_message("Do it.").await.unwrap();
    let calls_off = async {
        stage.began.notified().await;
        stop.cancel();
    };
    let (went, ()) = tokio::join!(agent.run(OnQuestion::Wait, &stop), calls_off);
    assert_eq!(went.unwrap(), RunOutcome::Cancelled);
    assert_eq!(stage.fake.got().len(), 1, "nobody is asked after that");
    // After it is continued, the model gets the outcome.
    assert_eq!(agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap(), RunOutcome::Done);
    assert!(stage.told(1).contains("cancelled while it ran"), "{}", stage.told(1));
}

#[tokio::test]
async fn whoever_takes_it_up_again_does_what_would_have_come_next_and_nothing_twice_openai() {
    taken_up_again(ProviderKind::OpenAi).await;
}

#[tokio::test]
async fn whoever_takes_it_up_again_does_what_would_have_come_next_and_nothing_twice_anthropic() {
    taken_up_again(ProviderKind::Anthropic).await;
}

#[tokio::test]
async fn whoever_takes_it_up_again_does_what_would_have_come_next_and_nothing_twice_gemini() {
    taken_up_again(ProviderKind::Gemini).await;
}

#[tokio::test]
async fn whoever_takes_it_up_again_does_what_would_have_come_next_and_nothing_twice_ollama() {
    taken_up_again(ProviderKind::Ollama).await;
}

/// An agent is killed at each observable moment, and another agent continues the conversation.
async fn taken_up_again(kind: ProviderKind) {
    for dies_at in 0..10 {
        let look: &[ReplyPart] = &[ReplyPart::Call("read", &["{\"path\": \"one\"}"])];
        let stage = AgentFixture::steady(kind, &[look, WRITES, DONE]).await;
        let count = Arc::new(AtomicUsize::new(0));
        // Dies at one observable moment: its future is not polled any more.
        let death = CancellationToken::new();
        let dies = death.clone();
        let first = stage.watched(stage.builder().approver(yes().unwrap()), move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == dies_at {
                dies.cancel();
            }
        });
        first.add_user_message("Do it.").await.unwrap();
        let never = CancellationToken::new();
        tokio::select! {
            biased;
            () = death.cancelled() => {}
            went = first.run(OnQuestion::Wait, &never) => assert_eq!(went.unwrap(), RunOutcome::Done),
        }
        drop(first);
        let second = stage.agent(stage.builder().approver(yes().unwrap()));
        let went = second.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap();
        assert_eq!(went, RunOutcome::Done, "{kind:?} {dies_at}");
        assert_eq!(stage.wrote(), ["a"], "{kind:?} {dies_at}");
    }
}

// req: R5
#[tokio::test]
async fn a_question_that_is_answered_tomorrow_goes_on_then() {
    let kind = ProviderKind::Anthropic;
    let stage = AgentFixture::says(kind, &[WRITES, DONE]).await;
    let inbox = || stage.builder().settings(GateSettings { inbox: true, ..GateSettings::default() });
    let question = {
        let agent = stage.agent(inbox());
        agent.add_user_message("Do it.").await.unwrap();
        let went = agent.run(OnQuestion::Exit, &CancellationToken::new()).await.unwrap();
        let RunOutcome::Waiting(questions) = went else { panic!("{went:?}") };
        questions[0].clone()
    };
    // The question is still open: nobody is asked again, and nothing runs.
    let agent = stage.agent(inbox());
    let went = agent.run(OnQuestion::Exit, &CancellationToken::new()).await.unwrap();
    assert!(matches!(went, RunOutcome::Waiting(_)), "{went:?}");
    assert_eq!((stage.fake.got().len(), stage.wrote().len()), (1, 0));

    let gate = inbox().build().unwrap();
    let by = By { name: "ann".into(), assurance: Assurance::Terminal };
    let (question, digest) = (question.id, question.digest());
    let given = SubmittedAnswer { question, digest, reply: Reply::Yes { note: None }, approver: by };
    gate.answer(given).await.unwrap();
    let went = agent.run(OnQuestion::Exit, &CancellationToken::new()).await.unwrap();
    assert_eq!((went, stage.wrote()), (RunOutcome::Done, vec!["a".to_owned()]));
}

#[tokio::test]
async fn a_model_takes_no_turn_of_its_own_and_no_tool_that_is_not_its() {
    let kind = ProviderKind::OpenAi;
    const TURN: &str = "{\"turn\": 0, \"model\": \"m\", \"persona\": \"p\", \"prompt\": \"x\"}";
    let asks: [ReplyPart; 1] = [ReplyPart::Call("model_turn", &[TURN])];
    let mut stage = AgentFixture::says(kind, &[&asks, WRITES, DONE]).await;
    stage.persona = "reviewer";
    assert_eq!(stage.task(yes()).await, RunOutcome::Done);
    assert!(stage.wrote().is_empty());
    let body: Value = stage.fake.got()[0].body.clone();
    assert!(!body["tools"].to_string().contains("model_turn"), "{body}");
    assert!(stage.told(1).contains("only the conversation"), "{}", stage.told(1));
    assert!(stage.told(2).contains("there is no tool `write`"), "{}", stage.told(2));
}

#[tokio::test]
async fn a_question_is_the_same_for_who_comes_back_in_another_mode() {
    let mut stage = AgentFixture::says(ProviderKind::OpenAi, &[WRITES, DONE]).await;
    let settings = GateSettings { inbox: true, ..GateSettings::default() };
    let agent = stage.agent(stage.builder().settings(settings.clone()));
    agent.add_user_message("Do it.").await.unwrap();
    let never = CancellationToken::new();
    let RunOutcome::Waiting(first) = agent.run(OnQuestion::Exit, &never).await.unwrap() else {
        panic!("it does not ask")
    };
    stage.mode = Mode::ConfirmAll;
    let agent = stage.agent(stage.builder().settings(settings));
    let RunOutcome::Waiting(second) = agent.run(OnQuestion::Exit, &never).await.unwrap() else {
        panic!("it goes on")
    };
    assert_eq!((first[0].id, stage.fake.got().len()), (second[0].id, 1));
}

#[tokio::test]
async fn who_aborts_ends_it() {
    let both: &[ReplyPart] =
        &[ReplyPart::Call("write", &["{\"path\": \"a\"}"]), ReplyPart::Call("write", &["{\"path\": \"b\"}"])];
    let stage = AgentFixture::says(ProviderKind::Gemini, &[both, DONE]).await;
    let went = stage.task(Some(Arc::new(callback("ann", |_: &QuestionView| Reply::Abort)))).await;
    assert_eq!((went, stage.fake.got().len(), stage.wrote().len()), (RunOutcome::Cancelled, 1, 0));
}

#[tokio::test]
async fn a_word_that_was_cut_off_or_is_none_is_not_the_end_of_a_task() {
    let said = |reason: &str, text: &str| {
        let delta = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        FakeResponse::Stream(format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
    };
    for (reason, text, why) in [
        ("length", "I beg", "out of tokens"),
        ("content_filter", "I beg", "filtered the response"),
        ("stop", "", "said nothing"),
    ] {
        let stage = AgentFixture::new(ProviderKind::OpenAi, vec![said(reason, text)]).await;
        let went = stage.task(None).await;
        assert!(matches!(&went, RunOutcome::Failed(said) if said.contains(why)), "{reason}: {went:?}");
    }
}

#[tokio::test]
async fn a_turn_that_waits_for_a_person_can_be_called_off() {
    let stage = AgentFixture::says(ProviderKind::OpenAi, &[DONE]).await;
    let holds = ScriptedReviewer(|_| Opinion::Hold { reason: Some("read it first".into()) });
    let settings = GateSettings { inbox: true, ..GateSettings::default() };
    let agent = stage.agent(stage.builder().settings(settings).review_output(ReviewScope::All, holds));
    agent.add_user_message("Do it.").await.unwrap();
    let waiting = agent.run(OnQuestion::Exit, &CancellationToken::new()).await.unwrap();
    assert!(matches!(&waiting, RunOutcome::Waiting(questions) if questions.len() == 1), "{waiting:?}");
    let stop = CancellationToken::new();
    let stops = stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(400)).await;
        stops.cancel();
    });
    let went = tokio::time::timeout(Duration::from_secs(120), agent.run(OnQuestion::Wait, &stop)).await;
    assert_eq!(went.unwrap().unwrap(), RunOutcome::Cancelled);
}

#[tokio::test]
async fn a_limit_that_cannot_be_counted_stops() {
    let end = json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "read", "arguments": "{\"path\": \"1\"}"}}]}, "finish_reason": "tool_calls"}]});
    let said = || FakeResponse::Stream(format!("data: {end}\n\ndata: [DONE]\n\n"));
    let mut stage = AgentFixture::new(ProviderKind::OpenAi, vec![said()]).await;
    stage.limits.max_tokens = Some(1_000_000);
    assert_eq!(stage.task(yes()).await, RunOutcome::LimitReached(LimitReachedError::UsageUnknown));
}

#[tokio::test]
async fn the_same_call_many_times_in_one_turn_is_too_often() {
    const ONE: ReplyPart = ReplyPart::Call("read", &["{\"path\": \"1\"}"]);
    let stage = AgentFixture::says(ProviderKind::Anthropic, &[&[ONE, ONE, ONE, ONE], DONE]).await;
    assert_eq!(stage.task(yes()).await, RunOutcome::LimitReached(LimitReachedError::Repeats("read".into())));
    assert_eq!(stage.reads.load(Ordering::Relaxed), 0);
}
