//! One turn with each provider: stream events, the response, and error handling.

use byleave_agent::model::{Model, ModelError, ModelResponse, StopReason, TokenUsage, TurnRequest};
use byleave_agent::provider::{ProviderKind, ProviderModel, ProviderSettings, RetryPolicy};
use serde_json::json;

use crate::fake::{FakeProvider, FakeResponse, KINDS, ReplyPart, reply, spoken, tool, user};

pub(crate) async fn turn(
    kind: ProviderKind,
    script: Vec<FakeResponse>,
) -> (Result<ModelResponse, ModelError>, String, usize) {
    let fake = FakeProvider::new(script).await;
    let (messages, tools) = ([user("Hi")], [tool()]);
    let turn = TurnRequest { system: "Be brief.", messages: &messages, tools: &tools };
    let (said, heard) = fake.turn(&fake.provider(kind), turn).await;
    (said, heard, fake.got().len())
}

const TALK: [ReplyPart; 2] = [ReplyPart::Text("Grüße"), ReplyPart::Text(", you.")];

#[tokio::test]
async fn text_thoughts_and_several_calls_are_heard_and_said() {
    for kind in KINDS {
        let parts = [
            ReplyPart::Thought("Hm, well."),
            ReplyPart::Text("Let me "),
            ReplyPart::Text("lööök."),
            ReplyPart::Call("read", &["{\"pa", "th\": \"a", ".rs\"}"]),
            ReplyPart::Call("read", &["{\"path\": \"b.rs\"}"]),
            ReplyPart::Call("list", &["{}"]),
        ];
        let (said, heard, _) = turn(kind, vec![FakeResponse::Stream(reply(kind, &parts))]).await;
        let said = said.unwrap();
        assert_eq!(
            heard, "thought: Hm, well.\ntext: Let me lööök.\ncall: read\ncall: read\ncall: list",
            "{kind:?}"
        );
        assert_eq!(said.text, "Let me lööök.", "{kind:?}");
        assert_eq!(
            said.reasoning.iter().map(|thought| thought.text.as_str()).collect::<String>(),
            "Hm, well.",
            "{kind:?}"
        );
        let calls: Vec<_> = said.calls.iter().map(|call| (call.name.as_str(), json!(call.args))).collect();
        let expected =
            [("read", json!({"path": "a.rs"})), ("read", json!({"path": "b.rs"})), ("list", json!({}))];
        assert_eq!(calls, expected, "{kind:?}");
        let ids: std::collections::HashSet<_> = said.calls.iter().map(|call| &call.id).collect();
        assert_eq!(ids.len(), 3, "{kind:?}: {ids:?}");
        assert_eq!(said.invalid_calls, [], "{kind:?}");
        assert_eq!(said.stop_reason, StopReason::Calls, "{kind:?}");
        let usage = TokenUsage { input_tokens: Some(11), cached_tokens: None, output_tokens: Some(7) };
        assert_eq!(said.usage, usage, "{kind:?}");
        let kept = serde_json::to_string(&said).unwrap();
        assert_eq!(serde_json::from_str::<ModelResponse>(&kept).unwrap(), said, "{kind:?}");
    }
}

#[tokio::test]
async fn what_is_not_exactly_a_call_is_a_flaw_beside_those_that_are() {
    for kind in KINDS {
        let parts = [
            ReplyPart::Call("read", &["{\"path\": ", "\"a.rs\"}"]),
            ReplyPart::Call("write", &["{\"path\": \"b"]),
        ];
        let (said, _, _) = turn(kind, vec![FakeResponse::Stream(reply(kind, &parts))]).await;
        let said = said.unwrap();
        assert_eq!(
            said.calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(),
            ["read"],
            "{kind:?}"
        );
        let flaws: Vec<_> = said.invalid_calls.iter().map(|flaw| flaw.message.as_str()).collect();
        let expected = match kind {
            ProviderKind::OpenAi | ProviderKind::Anthropic => {
                "the call of `write` was not run: its arguments, line 1, column 11: they end within a string, expected `\"`; near: {\"path\": \"b"
            }
            ProviderKind::Gemini | ProviderKind::Ollama => {
                "the call of `write` was not run: its arguments are not a JSON object"
            }
        };
        assert_eq!(flaws, [expected], "{kind:?}");
    }
}

#[tokio::test]
async fn a_key_that_stands_twice_is_not_chosen_between() {
    for kind in KINDS {
        for args in ["{\"path\": \"a\", \"path\": \"b\"}", "{\"x\": [{\"path\": 1, \"path\": 1}]}"] {
            // The fake writes arguments as JSON itself, with each key once.
            let parts = [ReplyPart::Call("read", &["\"HERE\""])];
            let here = match kind {
                ProviderKind::OpenAi | ProviderKind::Anthropic => json!(args).to_string(),
                ProviderKind::Gemini | ProviderKind::Ollama => args.to_owned(),
            };
            let stream = reply(kind, &parts).replace("\"\\\"HERE\\\"\"", &here).replace("\"HERE\"", &here);
            let (said, _, _) = turn(kind, vec![FakeResponse::Stream(stream)]).await;
            let said = said.unwrap();
            assert_eq!(said.calls, [], "{kind:?}");
            assert!(
                said.invalid_calls[0].message.contains("the key `path` occurs twice"),
                "{kind:?}: {:?}",
                said.invalid_calls
            );
        }
    }
}

#[tokio::test]
async fn a_tool_that_takes_nothing_is_called_with_nothing() {
    for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
        let (said, _, _) =
            turn(kind, vec![FakeResponse::Stream(reply(kind, &[ReplyPart::Call("list", &[])]))]).await;
        assert_eq!(json!(said.unwrap().calls[0].args), json!({}), "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_announced_and_does_not_come_is_a_flaw() {
    // Without its index, the chunks cannot be assigned to the call.
    let call = json!({"choices": [{"delta": {"tool_calls": [{"id": "x", "function": {"name": "read", "arguments": "{}"}}]}}]});
    let last = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    let stream = format!("data: {call}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    let (said, _, _) = turn(ProviderKind::OpenAi, vec![FakeResponse::Stream(stream)]).await;
    assert_eq!(said.unwrap().invalid_calls.len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_is_heard_anew_and_leaves_nothing() {
    for kind in KINDS {
        let begun = spoken(kind, &[ReplyPart::Text("Forget "), ReplyPart::Call("write", &["{}"])]);
        for broken in [FakeResponse::Dropped(begun.clone()), FakeResponse::Stream(begun.clone())] {
            let (said, heard, requests) =
                turn(kind, vec![broken, FakeResponse::Stream(reply(kind, &TALK))]).await;
            let said = said.unwrap();
            assert_eq!(said.text, "Grüße, you.", "{kind:?}");
            assert_eq!((said.calls.len(), said.invalid_calls.len()), (0, 0), "{kind:?}");
            assert!(heard.starts_with("text: Forget "), "{kind:?}: {heard}");
            assert!(heard.ends_with("anew: \ntext: Grüße, you."), "{kind:?}: {heard}");
            assert_eq!(requests, 2, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_always_breaks_is_a_fault_after_the_last_try() {
    for kind in KINDS {
        let (said, _, requests) = turn(kind, vec![FakeResponse::Stream(spoken(kind, &TALK))]).await;
        assert_eq!((said, requests), (Err(ModelError::CutOff), 3), "{kind:?}");
    }
}

#[tokio::test]
async fn too_many_requests_are_waited_for_as_long_as_the_provider_says() {
    let begun = std::time::Instant::now();
    let many = || FakeResponse::Status(429, &[("retry-after", "1")], "{}".into());
    let (said, heard, requests) =
        turn(ProviderKind::OpenAi, vec![many(), FakeResponse::Stream(reply(ProviderKind::OpenAi, &TALK))])
            .await;
    assert_eq!((said.unwrap().text.as_str(), requests), ("Grüße, you.", 2));
    assert_eq!(heard, "anew: \ntext: Grüße, you.");
    assert!(begun.elapsed().as_millis() >= 1000);
}

#[tokio::test]
async fn too_many_requests_for_ever_are_a_fault_that_says_how_long() {
    for kind in KINDS {
        let (said, _, requests) =
            turn(kind, vec![FakeResponse::Status(429, &[("retry-after-ms", "2")], "{}".into())]).await;
        assert_eq!((said, requests), (Err(ModelError::RateLimited { wait_ms: Some(2) }), 3), "{kind:?}");
        // Longer than the maximum wait: reported at once.
        let (said, _, requests) =
            turn(kind, vec![FakeResponse::Status(429, &[("retry-after", "3600")], "{}".into())]).await;
        assert_eq!(
            (said, requests),
            (Err(ModelError::RateLimited { wait_ms: Some(3_600_000) }), 1),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn how_long_to_wait_may_be_said_by_a_date() {
    // In the past: retried at once.
    let past = FakeResponse::Status(429, &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], "{}".into());
    let (said, _, requests) = turn(ProviderKind::OpenAi, vec![past]).await;
    assert_eq!((said, requests), (Err(ModelError::RateLimited { wait_ms: Some(0) }), 3));
    // Too far in the future to wait.
    let far = FakeResponse::Status(429, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")], "{}".into());
    let (said, _, requests) = turn(ProviderKind::OpenAi, vec![far]).await;
    let Err(ModelError::RateLimited { wait_ms: Some(wait_ms) }) = said else { panic!("{said:?}") };
    assert!(wait_ms > 1_000_000_000_000 && requests == 1, "{wait_ms}, {requests}");
    // Not a date: treated as if the header were missing.
    let none = FakeResponse::Status(429, &[("retry-after", "later")], "{}".into());
    let (said, _, requests) = turn(ProviderKind::OpenAi, vec![none]).await;
    assert_eq!((said, requests), (Err(ModelError::RateLimited { wait_ms: None }), 3));
}

#[tokio::test]
async fn silence_is_not_waited_for() {
    let mut prepared = Vec::new();
    for kind in KINDS {
        for answer in [
            FakeResponse::Mute,
            FakeResponse::Hanging(String::new()),
            FakeResponse::Hanging(spoken(kind, &TALK)),
        ] {
            let fake = FakeProvider::new(vec![answer]).await;
            let settings = fake.settings(kind);
            // Long enough for a request to arrive on a busy machine.
            let patience = RetryPolicy { tries_max: 2, silence_ms_max: 3_000, ..settings.patience };
            let provider = ProviderModel::new(ProviderSettings { patience, ..settings }, None).unwrap();
            prepared.push((kind, fake, provider));
        }
    }
    // All at once, because each waits twice. Nothing else is done meanwhile.
    let turns = prepared.iter().map(|(kind, fake, provider)| async move {
        let messages = [user("Hi")];
        let (said, _) =
            fake.turn(provider, TurnRequest { system: "", messages: &messages, tools: &[] }).await;
        let fault = ModelError::Unreached { reason: "no data arrived for too long".into() };
        assert_eq!((said, fake.got().len()), (Err(fault), 2), "{kind:?}");
    });
    futures::future::join_all(turns).await;
}

#[tokio::test]
async fn a_provider_that_fails_is_tried_again() {
    for kind in KINDS {
        let failed =
            || FakeResponse::Status(503, &[], json!({"error": {"message": "overloaded"}}).to_string());
        let (said, _, requests) = turn(kind, vec![failed(), FakeResponse::Stream(reply(kind, &TALK))]).await;
        assert_eq!((said.unwrap().text.as_str(), requests), ("Grüße, you.", 2), "{kind:?}");
        let (said, _, requests) = turn(kind, vec![failed()]).await;
        assert_eq!(
            (said, requests),
            (Err(ModelError::Failed { status: 503, body: "overloaded".into() }), 3),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn an_error_within_the_stream_is_tried_again_where_it_may_pass() {
    let passing = [
        (ProviderKind::OpenAi, json!({"error": {"type": "server_error", "message": "Overloaded"}})),
        (
            ProviderKind::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ),
        (
            ProviderKind::Gemini,
            json!({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}),
        ),
        (ProviderKind::Ollama, json!({"error": "Overloaded"})),
    ];
    for (kind, error) in passing {
        let error =
            if kind == ProviderKind::Ollama { format!("{error}\n") } else { format!("data: {error}\n\n") };
        let stream = spoken(kind, &TALK) + &error;
        let script = vec![FakeResponse::Stream(stream.clone()), FakeResponse::Stream(reply(kind, &TALK))];
        assert_eq!(turn(kind, script).await.2, 2, "{kind:?}");
        let (said, _, _) = turn(kind, vec![FakeResponse::Stream(stream)]).await;
        let Err(ModelError::Failed { body: said, .. }) = said else { panic!("{kind:?}: {said:?}") };
        assert_eq!(said, "Overloaded", "{kind:?}");
    }
    let wrong = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "No."}});
    let (said, _, requests) =
        turn(ProviderKind::Anthropic, vec![FakeResponse::Stream(format!("event: error\ndata: {wrong}\n\n"))])
            .await;
    assert_eq!((said, requests), (Err(ModelError::Refused { status: 400, body: "No.".into() }), 1));
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_as_such() {
    let said = [
        (ProviderKind::OpenAi, json!({"error": {"message": "…", "code": "context_length_exceeded"}})),
        (
            ProviderKind::Anthropic,
            json!({"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        ),
        (
            ProviderKind::Gemini,
            json!({"error": {"code": 400, "message": "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."}}),
        ),
    ];
    for (kind, body) in said {
        let (said, _, requests) = turn(kind, vec![FakeResponse::Status(400, &[], body.to_string())]).await;
        assert_eq!((said, requests), (Err(ModelError::TooLong), 1), "{kind:?}");
    }
}

#[tokio::test]
async fn nobody_there_is_told_without_an_address() {
    let settings = ProviderSettings {
        base_url: Some("http://127.0.0.1:1/v1?secret=address".into()),
        ..ProviderSettings::new(ProviderKind::OpenAi, "m")
    };
    let settings =
        ProviderSettings { patience: RetryPolicy { tries_max: 1, ..settings.patience }, ..settings };
    let provider = ProviderModel::new(settings, None).unwrap();
    let messages = [user("Hi")];
    let fault = provider
        .take_turn(TurnRequest { system: "", messages: &messages, tools: &[] }, &mut |_| {})
        .await
        .unwrap_err();
    assert!(matches!(fault, ModelError::Unreached { .. }), "{fault:?}");
    assert!(!format!("{fault:?}{fault}").contains("secret"), "{fault}");
}

#[tokio::test]
async fn dropping_the_future_ends_the_request() {
    for kind in KINDS {
        let fake = FakeProvider::new(vec![FakeResponse::Hanging(spoken(kind, &TALK))]).await;
        let provider = fake.provider(kind);
        let messages = [user("Hi")];
        let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let mut listen = move |_: byleave_agent::model::StreamEvent<'_>| heard.send(()).unwrap();
        tokio::select! {
            said = provider.take_turn(TurnRequest { system: "", messages: &messages, tools: &[] }, &mut listen) => panic!("{said:?}"),
            _ = hears.recv() => {}
        }
        fake.gone.notified().await;
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_kept_for_ever() {
    let part = json!({"choices": [{"delta": {"content": "x".repeat(1 << 20)}}]});
    let stream = format!("data: {part}\n\n").repeat(17);
    let (said, _, requests) = turn(ProviderKind::OpenAi, vec![FakeResponse::Stream(stream)]).await;
    assert_eq!((said, requests), (Err(ModelError::Unreadable { reason: "it is too long".into() }), 1));
}
