//! One turn with each provider: what is heard, what is said, and what is done when it does not go well.

use byleave_agent::model::{Fault, Model, Said, Stop, Turn, Usage};
use byleave_agent::provider::{Kind, Patience, Provider, Settings};
use serde_json::json;

use crate::fake::{Answer, Fake, KINDS, Part, reply, spoken, tool, user};

pub(crate) async fn turn(kind: Kind, script: Vec<Answer>) -> (Result<Said, Fault>, String, usize) {
    let fake = Fake::new(script).await;
    let (messages, tools) = ([user("Hi")], [tool()]);
    let turn = Turn { system: "Be brief.", messages: &messages, tools: &tools };
    let (said, heard) = fake.turn(&fake.provider(kind), turn).await;
    (said, heard, fake.got().len())
}

const TALK: [Part; 2] = [Part::Text("Grüße"), Part::Text(", you.")];

#[tokio::test]
async fn text_thoughts_and_several_calls_are_heard_and_said() {
    for kind in KINDS {
        let parts = [
            Part::Thought("Hm, well."),
            Part::Text("Let me "),
            Part::Text("lööök."),
            Part::Call("read", &["{\"pa", "th\": \"a", ".rs\"}"]),
            Part::Call("read", &["{\"path\": \"b.rs\"}"]),
            Part::Call("list", &["{}"]),
        ];
        let (said, heard, _) = turn(kind, vec![Answer::Stream(reply(kind, &parts))]).await;
        let said = said.unwrap();
        assert_eq!(
            heard, "thought: Hm, well.\ntext: Let me lööök.\ncall: read\ncall: read\ncall: list",
            "{kind:?}"
        );
        assert_eq!(said.text, "Let me lööök.", "{kind:?}");
        assert_eq!(
            said.thoughts.iter().map(|thought| thought.text.as_str()).collect::<String>(),
            "Hm, well.",
            "{kind:?}"
        );
        let calls: Vec<_> = said.calls.iter().map(|call| (call.name.as_str(), json!(call.args))).collect();
        let expected =
            [("read", json!({"path": "a.rs"})), ("read", json!({"path": "b.rs"})), ("list", json!({}))];
        assert_eq!(calls, expected, "{kind:?}");
        let ids: std::collections::HashSet<_> = said.calls.iter().map(|call| &call.id).collect();
        assert_eq!(ids.len(), 3, "{kind:?}: {ids:?}");
        assert_eq!(said.flaws, [], "{kind:?}");
        assert_eq!(said.stop, Stop::Calls, "{kind:?}");
        let usage = Usage { input_tokens: Some(11), cached_tokens: None, output_tokens: Some(7) };
        assert_eq!(said.usage, usage, "{kind:?}");
        let kept = serde_json::to_string(&said).unwrap();
        assert_eq!(serde_json::from_str::<Said>(&kept).unwrap(), said, "{kind:?}");
    }
}

#[tokio::test]
async fn what_is_not_exactly_a_call_is_a_flaw_beside_those_that_are() {
    for kind in KINDS {
        let parts =
            [Part::Call("read", &["{\"path\": ", "\"a.rs\"}"]), Part::Call("write", &["{\"path\": \"b"])];
        let (said, _, _) = turn(kind, vec![Answer::Stream(reply(kind, &parts))]).await;
        let said = said.unwrap();
        assert_eq!(
            said.calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(),
            ["read"],
            "{kind:?}"
        );
        let flaws: Vec<_> = said.flaws.iter().map(|flaw| flaw.what.as_str()).collect();
        let expected = match kind {
            Kind::OpenAi | Kind::Anthropic => {
                "the call of `write` was not run: its arguments, line 1, column 11: they end within a string, expected `\"`; near: {\"path\": \"b"
            }
            Kind::Gemini | Kind::Ollama => {
                "the call of `write` was not run: its arguments are no JSON object"
            }
        };
        assert_eq!(flaws, [expected], "{kind:?}");
    }
}

#[tokio::test]
async fn a_key_that_stands_twice_is_not_chosen_between() {
    for kind in KINDS {
        for args in ["{\"path\": \"a\", \"path\": \"b\"}", "{\"x\": [{\"path\": 1, \"path\": 1}]}"] {
            // The fake writes arguments that are JSON itself, with each key once.
            let parts = [Part::Call("read", &["\"HERE\""])];
            let here = match kind {
                Kind::OpenAi | Kind::Anthropic => json!(args).to_string(),
                Kind::Gemini | Kind::Ollama => args.to_owned(),
            };
            let stream = reply(kind, &parts).replace("\"\\\"HERE\\\"\"", &here).replace("\"HERE\"", &here);
            let (said, _, _) = turn(kind, vec![Answer::Stream(stream)]).await;
            let said = said.unwrap();
            assert_eq!(said.calls, [], "{kind:?}");
            assert!(
                said.flaws[0].what.contains("the key `path` stands here a second time"),
                "{kind:?}: {:?}",
                said.flaws
            );
        }
    }
}

#[tokio::test]
async fn a_tool_that_takes_nothing_is_called_with_nothing() {
    for kind in [Kind::OpenAi, Kind::Anthropic] {
        let (said, _, _) = turn(kind, vec![Answer::Stream(reply(kind, &[Part::Call("list", &[])]))]).await;
        assert_eq!(json!(said.unwrap().calls[0].args), json!({}), "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_announced_and_does_not_come_is_a_flaw() {
    // Without its index nobody knows which pieces belong to it.
    let call = json!({"choices": [{"delta": {"tool_calls": [{"id": "x", "function": {"name": "read", "arguments": "{}"}}]}}]});
    let last = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    let stream = format!("data: {call}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    let (said, _, _) = turn(Kind::OpenAi, vec![Answer::Stream(stream)]).await;
    assert_eq!(said.unwrap().flaws.len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_is_heard_anew_and_leaves_nothing() {
    for kind in KINDS {
        let begun = spoken(kind, &[Part::Text("Forget "), Part::Call("write", &["{}"])]);
        for broken in [Answer::Dropped(begun.clone()), Answer::Stream(begun.clone())] {
            let (said, heard, requests) = turn(kind, vec![broken, Answer::Stream(reply(kind, &TALK))]).await;
            let said = said.unwrap();
            assert_eq!(said.text, "Grüße, you.", "{kind:?}");
            assert_eq!((said.calls.len(), said.flaws.len()), (0, 0), "{kind:?}");
            assert!(heard.starts_with("text: Forget "), "{kind:?}: {heard}");
            assert!(heard.ends_with("anew: \ntext: Grüße, you."), "{kind:?}: {heard}");
            assert_eq!(requests, 2, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_always_breaks_is_a_fault_after_the_last_try() {
    for kind in KINDS {
        let (said, _, requests) = turn(kind, vec![Answer::Stream(spoken(kind, &TALK))]).await;
        assert_eq!((said, requests), (Err(Fault::CutOff), 3), "{kind:?}");
    }
}

#[tokio::test]
async fn too_many_requests_are_waited_for_as_long_as_the_provider_says() {
    let begun = std::time::Instant::now();
    let many = || Answer::Status(429, &[("retry-after", "1")], "{}".into());
    let (said, heard, requests) =
        turn(Kind::OpenAi, vec![many(), Answer::Stream(reply(Kind::OpenAi, &TALK))]).await;
    assert_eq!((said.unwrap().text.as_str(), requests), ("Grüße, you.", 2));
    assert_eq!(heard, "anew: \ntext: Grüße, you.");
    assert!(begun.elapsed().as_millis() >= 1000);
}

#[tokio::test]
async fn too_many_requests_for_ever_are_a_fault_that_says_how_long() {
    for kind in KINDS {
        let (said, _, requests) =
            turn(kind, vec![Answer::Status(429, &[("retry-after-ms", "2")], "{}".into())]).await;
        assert_eq!((said, requests), (Err(Fault::TooMany { wait_ms: Some(2) }), 3), "{kind:?}");
        // Longer than we wait at all: told at once.
        let (said, _, requests) =
            turn(kind, vec![Answer::Status(429, &[("retry-after", "3600")], "{}".into())]).await;
        assert_eq!((said, requests), (Err(Fault::TooMany { wait_ms: Some(3_600_000) }), 1), "{kind:?}");
    }
}

#[tokio::test]
async fn how_long_to_wait_may_be_said_by_a_date() {
    // Long past: at once.
    let past = Answer::Status(429, &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], "{}".into());
    let (said, _, requests) = turn(Kind::OpenAi, vec![past]).await;
    assert_eq!((said, requests), (Err(Fault::TooMany { wait_ms: Some(0) }), 3));
    // Too far to be waited for.
    let far = Answer::Status(429, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")], "{}".into());
    let (said, _, requests) = turn(Kind::OpenAi, vec![far]).await;
    let Err(Fault::TooMany { wait_ms: Some(wait_ms) }) = said else { panic!("{said:?}") };
    assert!(wait_ms > 1_000_000_000_000 && requests == 1, "{wait_ms}, {requests}");
    // No date: as if nothing were said.
    let none = Answer::Status(429, &[("retry-after", "later")], "{}".into());
    let (said, _, requests) = turn(Kind::OpenAi, vec![none]).await;
    assert_eq!((said, requests), (Err(Fault::TooMany { wait_ms: None }), 3));
}

#[tokio::test]
async fn silence_is_not_waited_for() {
    for kind in KINDS {
        for answer in [Answer::Mute, Answer::Hanging(String::new()), Answer::Hanging(spoken(kind, &TALK))] {
            let fake = Fake::new(vec![answer]).await;
            let settings = fake.settings(kind);
            let patience = Patience { tries_max: 2, silence_ms_max: 50, ..settings.patience };
            let provider = Provider::new(Settings { patience, ..settings }, None).unwrap();
            let messages = [user("Hi")];
            let (said, _) = fake.turn(&provider, Turn { system: "", messages: &messages, tools: &[] }).await;
            let fault = Fault::Unreached { why: "nothing came for too long".into() };
            assert_eq!((said, fake.got().len()), (Err(fault), 2), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_fails_is_tried_again() {
    for kind in KINDS {
        let failed = || Answer::Status(503, &[], json!({"error": {"message": "overloaded"}}).to_string());
        let (said, _, requests) = turn(kind, vec![failed(), Answer::Stream(reply(kind, &TALK))]).await;
        assert_eq!((said.unwrap().text.as_str(), requests), ("Grüße, you.", 2), "{kind:?}");
        let (said, _, requests) = turn(kind, vec![failed()]).await;
        assert_eq!(
            (said, requests),
            (Err(Fault::Failed { status: 503, said: "overloaded".into() }), 3),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn an_error_within_the_stream_is_tried_again_where_it_may_pass() {
    let passing = [
        (Kind::OpenAi, json!({"error": {"type": "server_error", "message": "Overloaded"}})),
        (
            Kind::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ),
        (Kind::Gemini, json!({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}})),
        (Kind::Ollama, json!({"error": "Overloaded"})),
    ];
    for (kind, error) in passing {
        let error = if kind == Kind::Ollama { format!("{error}\n") } else { format!("data: {error}\n\n") };
        let stream = spoken(kind, &TALK) + &error;
        let script = vec![Answer::Stream(stream.clone()), Answer::Stream(reply(kind, &TALK))];
        assert_eq!(turn(kind, script).await.2, 2, "{kind:?}");
        let (said, _, _) = turn(kind, vec![Answer::Stream(stream)]).await;
        let Err(Fault::Failed { said, .. }) = said else { panic!("{kind:?}: {said:?}") };
        assert_eq!(said, "Overloaded", "{kind:?}");
    }
    let wrong = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "No."}});
    let (said, _, requests) =
        turn(Kind::Anthropic, vec![Answer::Stream(format!("event: error\ndata: {wrong}\n\n"))]).await;
    assert_eq!((said, requests), (Err(Fault::Refused { status: 400, said: "No.".into() }), 1));
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_as_such() {
    let said = [
        (Kind::OpenAi, json!({"error": {"message": "…", "code": "context_length_exceeded"}})),
        (
            Kind::Anthropic,
            json!({"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        ),
        (
            Kind::Gemini,
            json!({"error": {"code": 400, "message": "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."}}),
        ),
    ];
    for (kind, body) in said {
        let (said, _, requests) = turn(kind, vec![Answer::Status(400, &[], body.to_string())]).await;
        assert_eq!((said, requests), (Err(Fault::TooLong), 1), "{kind:?}");
    }
}

#[tokio::test]
async fn nobody_there_is_told_without_an_address() {
    let settings = Settings {
        base_url: Some("http://127.0.0.1:1/v1?secret=address".into()),
        ..Settings::new(Kind::OpenAi, "m")
    };
    let settings = Settings { patience: Patience { tries_max: 1, ..settings.patience }, ..settings };
    let provider = Provider::new(settings, None).unwrap();
    let messages = [user("Hi")];
    let fault =
        provider.turn(Turn { system: "", messages: &messages, tools: &[] }, &mut |_| {}).await.unwrap_err();
    assert!(matches!(fault, Fault::Unreached { .. }), "{fault:?}");
    assert!(!format!("{fault:?}{fault}").contains("secret"), "{fault}");
}

#[tokio::test]
async fn dropping_the_future_ends_the_request() {
    for kind in KINDS {
        let fake = Fake::new(vec![Answer::Hanging(spoken(kind, &TALK))]).await;
        let provider = fake.provider(kind);
        let messages = [user("Hi")];
        let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let mut listen = move |_: byleave_agent::model::Heard<'_>| heard.send(()).unwrap();
        tokio::select! {
            said = provider.turn(Turn { system: "", messages: &messages, tools: &[] }, &mut listen) => panic!("{said:?}"),
            _ = hears.recv() => {}
        }
        fake.gone.notified().await;
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_kept_for_ever() {
    let part = json!({"choices": [{"delta": {"content": "x".repeat(1 << 20)}}]});
    let stream = format!("data: {part}\n\n").repeat(17);
    let (said, _, requests) = turn(Kind::OpenAi, vec![Answer::Stream(stream)]).await;
    assert_eq!((said, requests), (Err(Fault::Unreadable { why: "it is too long".into() }), 1));
}
