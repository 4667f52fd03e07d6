//! Stream parsing: only complete parts are accepted, and nothing that could be a call is skipped.

use byleave_agent::model::{ChatMessage, ModelError, ModelResponse, StopReason, TurnRequest};
use byleave_agent::provider::{ProviderKind, ProviderModel, ProviderSettings, RetryPolicy};
use serde_json::{Value, json};

use crate::fake::{FakeProvider, FakeResponse, KINDS, ReplyPart, reply, spoken, user};
use crate::turns::turn;

const ALL: [ReplyPart; 4] = [
    ReplyPart::Thought("Hm."),
    ReplyPart::Text("I lööök."),
    ReplyPart::Call("read", &["{\"path\": ", "\"a.rs\"}"]),
    ReplyPart::Call("list", &["{}"]),
];

/// Parses a provider's reply from these events.
async fn said(kind: ProviderKind, events: &[Value]) -> Result<ModelResponse, ModelError> {
    let event = |event: &Value| match kind {
        ProviderKind::Ollama => format!("{event}\n"),
        _ => format!("data: {event}\n\n"),
    };
    let mut stream: String = events.iter().map(event).collect();
    if kind == ProviderKind::OpenAi {
        stream += "data: [DONE]\n\n";
    }
    turn(kind, vec![FakeResponse::Stream(stream)]).await.0
}

fn flaws(said: &ModelResponse) -> Vec<&str> {
    said.invalid_calls.iter().map(|flaw| flaw.message.as_str()).collect()
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_before_its_end_is_cut_off() {
    for kind in KINDS {
        let whole = reply(kind, &ALL);
        let cuts: Vec<String> = (0..whole.len())
            .rev()
            .enumerate()
            // Cuts at each of the last bytes, and at some of the others.
            .filter(|(i, at)| (*i < 40 || i % 7 == 0) && whole.is_char_boundary(*at))
            .map(|(_, at)| whole.split_at(at).0.to_owned())
            .collect();
        let fake = FakeProvider::new(cuts.iter().cloned().map(FakeResponse::Stream).collect()).await;
        let settings = fake.settings(kind);
        let patience = RetryPolicy { tries_max: 1, ..settings.patience };
        let provider = ProviderModel::new(ProviderSettings { patience, ..settings }, None).unwrap();
        let messages = [user("Hi")];
        for cut in &cuts {
            let turn = TurnRequest { system: "", messages: &messages, tools: &[] };
            assert_eq!(fake.turn(&provider, turn).await.0, Err(ModelError::CutOff), "{kind:?}: {cut}");
        }
    }
}

#[tokio::test]
async fn an_end_without_a_reason_is_none() {
    let done = format!("{}data: [DONE]\n\n", spoken(ProviderKind::OpenAi, &ALL));
    assert_eq!(turn(ProviderKind::OpenAi, vec![FakeResponse::Stream(done)]).await.0, Err(ModelError::CutOff));
    let stop = format!("{}data: {{\"type\": \"message_stop\"}}\n\n", spoken(ProviderKind::Anthropic, &ALL));
    assert_eq!(
        turn(ProviderKind::Anthropic, vec![FakeResponse::Stream(stop)]).await.0,
        Err(ModelError::CutOff)
    );
    let failed = [
        json!({"choices": [{"delta": {"content": "I"}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "error"}]}),
    ];
    assert_eq!(said(ProviderKind::OpenAi, &failed).await, Err(ModelError::CutOff));
}

#[tokio::test]
async fn lines_may_end_in_three_ways_and_what_is_no_event_is_no_answer() {
    for kind in KINDS {
        let plain = reply(kind, &ALL);
        let expected = turn(kind, vec![FakeResponse::Stream(plain.clone())]).await.0.unwrap();
        assert_eq!(expected.calls.len(), 2, "{kind:?}");
        for end in ["\r\n", "\r"] {
            let stream = plain.replace('\n', end);
            let (said, _, _) = turn(kind, vec![FakeResponse::Stream(stream)]).await;
            assert_eq!(said.as_ref(), Ok(&expected), "{kind:?} {end:?}");
        }
    }
    let plain = reply(ProviderKind::OpenAi, &ALL);
    let expected = turn(ProviderKind::OpenAi, vec![FakeResponse::Stream(plain.clone())]).await.0;
    // Comments, irrelevant fields, and data on several lines.
    let stream =
        format!(": wait\n\nid: 1\nretry: 5\nevent: x\n{}", plain.replace("data: {", "data:{\ndata: "));
    assert_eq!(turn(ProviderKind::OpenAi, vec![FakeResponse::Stream(stream)]).await.0, expected);
    for (stream, why) in [
        (
            json!({"choices": [{"message": {"content": "Hi"}}]}).to_string() + "\n",
            "it is not an event stream",
        ),
        ("data: {]\n\n".to_owned(), "it is not JSON"),
        ("data: {\"choices\": 1}\n\n".to_owned(), "it does not have the format of this provider"),
        (
            "data: {\"choices\": [], \"choices\": []}\n\n".to_owned(),
            "it does not have the format of this provider",
        ),
    ] {
        let (said, _, requests) = turn(ProviderKind::OpenAi, vec![FakeResponse::Stream(stream)]).await;
        assert_eq!((said, requests), (Err(ModelError::Unreadable { reason: why.into() }), 1));
    }
}

#[tokio::test]
async fn what_is_too_large_is_not_kept() {
    for kind in KINDS {
        let endless = format!("data: {}", "x".repeat(5 << 20));
        let (said, _, requests) = turn(kind, vec![FakeResponse::Stream(endless)]).await;
        assert_eq!(
            (said, requests),
            (Err(ModelError::Unreadable { reason: "it is too long".into() }), 1),
            "{kind:?}"
        );
    }
    let lines = "data: x\n".repeat(3 << 20);
    let (said, _, _) = turn(ProviderKind::OpenAi, vec![FakeResponse::Stream(lines)]).await;
    assert_eq!(said, Err(ModelError::Unreadable { reason: "it is too long".into() }));
    let calls = json!({"message": {"tool_calls": vec![json!({"function": {}}); 70_000]}});
    assert_eq!(said_of_ollama(calls).await, Err(ModelError::Unreadable { reason: "it is too long".into() }));
    let args = json!({"path": "x".repeat(3 << 20)});
    let call = json!({"message": {"tool_calls": [{"function": {"name": "read", "arguments": args}}]}});
    assert_eq!(
        flaws(&said_of_ollama(call).await.unwrap()),
        ["the call of `read` was not run: its arguments are too long, expected at most 2097152 bytes"]
    );
}

async fn said_of_ollama(event: Value) -> Result<ModelResponse, ModelError> {
    said(ProviderKind::Ollama, &[event, json!({"done": true, "done_reason": "stop"})]).await
}

#[tokio::test]
async fn openai_is_not_misread() {
    let end = |reason: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let piece = |piece: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]});
    let call = |index: u32, id: &str, name: &str, args: &str| {
        let function = json!({"name": name, "arguments": args});
        piece(json!({"index": index, "id": id, "type": "function", "function": function}))
    };
    // Two calls with one index would be merged into the name of the first with the arguments of the second.
    let events = [call(0, "a", "read", ""), call(0, "b", "remove", "{\"path\": \"/\"}"), end("tool_calls")];
    let mixed = said(ProviderKind::OpenAi, &events).await.unwrap();
    assert_eq!(mixed.calls, []);
    assert_eq!(
        flaws(&mixed),
        ["the call of `read` was not run: several calls have the index 0, expected one"]
    );
    // Some providers repeat the name and the id with every chunk.
    let events = [call(0, "a", "read", "{\"path\""), call(0, "a", "read", ": \"a.rs\"}"), end("tool_calls")];
    assert_eq!(said(ProviderKind::OpenAi, &events).await.unwrap().calls.len(), 1);
    // Both calls have the same id.
    let events = [call(0, "a", "read", "{}"), call(1, "a", "list", "{}"), end("tool_calls")];
    let twice = said(ProviderKind::OpenAi, &events).await.unwrap();
    assert_eq!((twice.calls.len(), twice.invalid_calls.len()), (0, 2), "{twice:?}");
    // A call of another type, or in a legacy format.
    let custom =
        piece(json!({"index": 0, "id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}}));
    assert_eq!(
        flaws(&said(ProviderKind::OpenAi, &[custom, end("tool_calls")]).await.unwrap()),
        ["the call of `` was not run: it is of the kind `custom`, expected a function"]
    );
    let old = json!({"choices": [{"delta": {"function_call": {"name": "read", "arguments": "{}"}}}]});
    assert_eq!(
        flaws(&said(ProviderKind::OpenAi, &[old, end("function_call")]).await.unwrap()),
        ["a part of the kind `function_call` is not supported, and nothing of it was run"]
    );
    let other = json!({"choices": [{"index": 1, "delta": {"content": "Hi"}}]});
    assert!(matches!(
        said(ProviderKind::OpenAi, &[other, end("stop")]).await,
        Err(ModelError::Unreadable { .. })
    ));
    // The token limit was reached before the first argument.
    let events = [call(0, "a", "read", ""), end("length")];
    let short = said(ProviderKind::OpenAi, &events).await.unwrap();
    assert_eq!((short.calls.len(), short.invalid_calls.len(), short.stop_reason), (0, 1, StopReason::Length));
}

#[tokio::test]
async fn anthropic_is_not_misread() {
    let start = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let tool =
        |input: Value| start(0, json!({"type": "tool_use", "id": "a", "name": "read", "input": input}));
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let stop = || json!({"type": "content_block_stop", "index": 0});
    let end = |reason: &str| json!({"type": "message_delta", "delta": {"stop_reason": reason}});
    let last = || json!({"type": "message_stop"});
    let read = async |events: &[Value]| said(ProviderKind::Anthropic, events).await;

    let whole = [tool(json!({"path": "a.rs"})), stop(), end("tool_use"), last()];
    assert_eq!(json!(read(&whole).await.unwrap().calls[0].args), json!({"path": "a.rs"}));
    // The arguments come both whole and in chunks, so that it is ambiguous which are valid.
    let piece = json!({"type": "input_json_delta", "partial_json": "{\"path\": \"/\"}"});
    let both = [tool(json!({"path": "a.rs"})), delta(piece.clone()), stop(), end("tool_use"), last()];
    assert_eq!(read(&both).await.unwrap().invalid_calls.len(), 1);
    let open = [tool(json!({})), delta(piece), end("max_tokens"), last()];
    assert_eq!(flaws(&read(&open).await.unwrap()), ["the call of `read` was not run: it is incomplete"]);
    let strange = [tool(json!({})), delta(json!({"type": "input_patch"})), stop(), end("tool_use"), last()];
    assert_eq!(
        flaws(&read(&strange).await.unwrap()),
        ["the call of `read` was not run: a part of the kind `input_patch` in it is unknown"]
    );
    let theirs = [
        start(0, json!({"type": "server_tool_use", "id": "a", "name": "bash"})),
        stop(),
        end("end_turn"),
        last(),
    ];
    assert_eq!(
        flaws(&read(&theirs).await.unwrap()),
        ["a part of the kind `server_tool_use` is not supported, and nothing of it was run"]
    );
    for events in [
        vec![tool(json!({})), tool(json!({}))],
        vec![delta(json!({"type": "text_delta", "text": "Hi"}))],
        vec![stop()],
        vec![json!({"type": "content_block_replace", "index": 0, "content_block": {"type": "tool_use"}})],
    ] {
        assert!(matches!(read(&events).await, Err(ModelError::Unreadable { .. })), "{events:?}");
    }
    // Unknown events that are not part of the message are accepted.
    let usage = json!({"input_tokens": 2, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 4});
    let events = [
        json!({"type": "message_start", "message": {"usage": usage}}),
        json!({"type": "ping"}),
        json!({"type": "weather"}),
        end("refusal"),
        last(),
    ];
    let refused = read(&events).await.unwrap();
    assert_eq!((refused.stop_reason, refused.invalid_calls), (StopReason::Filtered, vec![]));
    assert_eq!((refused.usage.input_tokens, refused.usage.cached_tokens), (Some(36), Some(30)));
}

#[tokio::test]
async fn gemini_is_not_misread() {
    let event = |parts: Value, reason: Option<&str>| json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}]});
    let read = async |events: &[Value]| said(ProviderKind::Gemini, events).await;
    // Each chunk may have a stop reason, and more may follow.
    let events = [
        event(json!([{"text": "I "}]), Some("STOP")),
        event(json!([{"text": "look."}, {"functionCall": {"name": "read"}}]), Some("STOP")),
    ];
    let two = read(&events).await.unwrap();
    assert_eq!((two.text.as_str(), two.calls.len(), two.stop_reason), ("I look.", 1, StopReason::Calls));
    for (parts, reason, flaw) in [
        (
            json!([{"executableCode": {"code": "rm"}}]),
            "STOP",
            "a part of the kind `executableCode` is not supported, and nothing of it was run",
        ),
        (
            json!([{"functionCall": {"name": "read", "partialArgs": [], "willContinue": true}}]),
            "STOP",
            "the call of `read` was not run: it comes in pieces, expected the whole",
        ),
        (json!([]), "MALFORMED_FUNCTION_CALL", "a call was not run: MALFORMED_FUNCTION_CALL: "),
    ] {
        let flawed = read(&[event(parts, Some(reason))]).await.unwrap();
        assert_eq!((flaws(&flawed), flawed.calls.len()), (vec![flaw], 0));
    }
    let several = json!({"candidates": [{"index": 0}, {"index": 1}]});
    assert!(matches!(read(&[several]).await, Err(ModelError::Unreadable { .. })));
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    assert_eq!(read(&[blocked]).await.unwrap().stop_reason, StopReason::Filtered);
    // One part with two calls under the same key.
    let twice = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"functionCall\": {\"name\": \"a\"}, \"functionCall\": {\"name\": \"b\"}}]}}]}\n\n";
    let (said, _, _) = turn(ProviderKind::Gemini, vec![FakeResponse::Stream(twice.to_owned())]).await;
    assert!(matches!(said, Err(ModelError::Unreadable { .. })), "{said:?}");
}

#[tokio::test]
async fn calls_without_ids_are_numbered_through_the_conversation() {
    let parts = [
        ReplyPart::Call("write", &["\"none\""]),
        ReplyPart::Call("read", &["{}"]),
        ReplyPart::Call("read", &["{}"]),
    ];
    for kind in [ProviderKind::Gemini, ProviderKind::Ollama] {
        let fake = FakeProvider::new(vec![FakeResponse::Stream(reply(kind, &parts))]).await;
        let provider = fake.provider(kind);
        let mut messages = vec![user("Look.")];
        let mut ids = Vec::new();
        for _ in 0..2 {
            let turn = TurnRequest { system: "", messages: &messages, tools: &[] };
            let said = fake.turn(&provider, turn).await.0.unwrap();
            ids.extend(said.calls.iter().map(|call| call.id.clone()));
            messages.push(ChatMessage::Response(said));
        }
        assert_eq!(ids, ["call-1", "call-2", "call-3", "call-4"], "{kind:?}");
    }
}
