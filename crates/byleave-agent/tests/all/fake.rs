//! A fake provider: a real HTTP server on loopback that replies from a script, in each provider's format, and stores the
//! requests. It is a fake because real providers cost money, need a key and the public network, and do not fail on demand.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Response;
use axum::serve::ListenerExt;
use byleave_agent::model::{
    ChatMessage, Model, ModelError, ModelResponse, StreamEvent, ToolSpec, TurnRequest,
};
use byleave_agent::provider::{ApiKey, ProviderKind, ProviderModel, ProviderSettings, RetryPolicy};
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::sync::Notify;

pub(crate) const KINDS: [ProviderKind; 4] =
    [ProviderKind::OpenAi, ProviderKind::Anthropic, ProviderKind::Gemini, ProviderKind::Ollama];
pub(crate) const KEY: &str = "sk-very-secret-0123456789";

/// One scripted response.
pub(crate) enum FakeResponse {
    /// A complete stream.
    Stream(String),
    /// A stream whose connection breaks after this text, once the client has received some of it.
    Dropped(String),
    /// A stream that stalls after this text.
    Hanging(String),
    /// No response at all, not even its headers.
    Mute,
    /// An error response.
    Status(u16, &'static [(&'static str, &'static str)], String),
}

/// Chooses the response to a request.
type ResponseScript = dyn Fn(&Value) -> FakeResponse + Send + Sync;

/// A request that the fake received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

#[derive(Clone)]
pub(crate) struct FakeProvider {
    pub(crate) url: String,
    got: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// Notified when the client has received something.
    heard: Arc<Notify>,
    /// Notified when the client has disconnected.
    pub(crate) gone: Arc<Notify>,
}

impl FakeProvider {
    /// Responds from the script and repeats the last response.
    pub(crate) async fn new(script: Vec<FakeResponse>) -> Self {
        let script = Mutex::new(VecDeque::from(script));
        Self::deciding(move |_| {
            let mut script = script.lock().unwrap();
            let next =
                if script.len() > 1 { script.pop_front() } else { script.front().map(FakeResponse::again) };
            next.unwrap()
        })
        .await
    }

    /// Responds according to the request.
    pub(crate) async fn deciding(decide: impl Fn(&Value) -> FakeResponse + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            got: Arc::default(),
            heard: Arc::default(),
            gone: Arc::default(),
        };
        let decide: Arc<ResponseScript> = Arc::new(decide);
        let own = fake.clone();
        let router = Router::new().fallback(move |request: Request| {
            let (fake, decide) = (own.clone(), Arc::clone(&decide));
            async move { fake.answer(request, &*decide).await }
        });
        // Without this, every chunk waits until the previous one is acknowledged.
        let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    /// Reports that the client has received something, so that a `Dropped` stream breaks now.
    pub(crate) fn was_heard(&self) {
        self.heard.notify_one();
    }

    pub(crate) fn got(&self) -> Vec<ReceivedRequest> {
        self.got.lock().unwrap().clone()
    }

    pub(crate) fn settings(&self, kind: ProviderKind) -> ProviderSettings {
        let base_url = match kind {
            ProviderKind::Ollama => self.url.clone(),
            _ => format!("{}/v1", self.url),
        };
        let patience = RetryPolicy { tries_max: 3, wait_ms: 1, wait_ms_max: 2_000, silence_ms_max: 20_000 };
        ProviderSettings { base_url: Some(base_url), patience, ..ProviderSettings::new(kind, "some-model") }
    }

    pub(crate) fn provider(&self, kind: ProviderKind) -> ProviderModel {
        ProviderModel::new(self.settings(kind), ApiKey::new(KEY)).unwrap()
    }

    /// Runs one turn and returns everything that was streamed.
    pub(crate) async fn turn(
        &self,
        model: &impl Model,
        turn: TurnRequest<'_>,
    ) -> (Result<ModelResponse, ModelError>, String) {
        let mut log = String::new();
        let mut listen = |heard: StreamEvent<'_>| {
            if matches!(heard, StreamEvent::Text(_)) {
                self.was_heard();
            }
            note(&mut log, heard);
        };
        let said = model.take_turn(turn, &mut listen).await;
        (said, log)
    }

    async fn answer(&self, request: Request, decide: &ResponseScript) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let header = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let answer = decide(&body);
        let headers = parts.headers.iter().map(header).collect();
        self.got.lock().unwrap().push(ReceivedRequest { path: parts.uri.to_string(), headers, body });
        match answer {
            FakeResponse::Mute => std::future::pending().await,
            FakeResponse::Stream(text) => streamed(pieces(&text)),
            FakeResponse::Dropped(text) => {
                let heard = Arc::clone(&self.heard);
                let broken = stream::once(async move {
                    heard.notified().await;
                    Err(io::Error::other("dropped"))
                });
                streamed(pieces(&text).chain(broken))
            }
            FakeResponse::Hanging(text) => {
                let leaving = NotifyOnDrop(Arc::clone(&self.gone));
                let hanging = stream::once(async move {
                    let _leaving = leaving;
                    std::future::pending().await
                });
                streamed(pieces(&text).chain(hanging))
            }
            FakeResponse::Status(status, headers, body) => {
                let response = Response::builder().status(status);
                let response =
                    headers.iter().fold(response, |response, (name, value)| response.header(*name, *value));
                response.body(Body::from(body)).unwrap()
            }
        }
    }
}

impl FakeResponse {
    fn again(&self) -> Self {
        match self {
            Self::Stream(text) => Self::Stream(text.clone()),
            Self::Dropped(text) => Self::Dropped(text.clone()),
            Self::Hanging(text) => Self::Hanging(text.clone()),
            Self::Mute => Self::Mute,
            Self::Status(status, headers, body) => Self::Status(*status, headers, body.clone()),
        }
    }
}

/// Notifies when it is dropped.
struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn streamed(pieces: impl stream::Stream<Item = io::Result<Bytes>> + Send + 'static) -> Response<Body> {
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(pieces)).unwrap()
}

/// Splits the text at arbitrary bytes, also within characters.
fn pieces(text: &str) -> impl stream::Stream<Item = io::Result<Bytes>> + Send + use<> {
    let pieces: Vec<_> = text
        .as_bytes()
        .chunks(if text.len() < 1 << 16 { 11 } else { 1 << 16 })
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    stream::iter(pieces)
}

/// Logs a stream event. Adjacent events of one kind are merged.
fn note(log: &mut String, heard: StreamEvent<'_>) {
    let (mark, text) = match heard {
        StreamEvent::Restarted => ("anew", ""),
        StreamEvent::Text(text) => ("text", text),
        StreamEvent::Reasoning(text) => ("thought", text),
        StreamEvent::Call(name) => ("call", name),
    };
    let goes_on = matches!(heard, StreamEvent::Text(_) | StreamEvent::Reasoning(_))
        && log.lines().last().is_some_and(|line| line.starts_with(&format!("{mark}: ")));
    if !goes_on {
        if !log.is_empty() {
            log.push('\n');
        }
        log.push_str(mark);
        log.push_str(": ");
    }
    log.push_str(text);
}

/// A part of a model's reply.
pub(crate) enum ReplyPart {
    Thought(&'static str),
    Text(&'static str),
    /// A tool name, and the arguments in chunks.
    Call(&'static str, &'static [&'static str]),
}

/// A model's reply in the format of its provider.
pub(crate) fn reply(kind: ProviderKind, parts: &[ReplyPart]) -> String {
    spoken(kind, parts) + &end(kind, parts)
}

pub(crate) fn spoken(kind: ProviderKind, parts: &[ReplyPart]) -> String {
    let event = |value: Value| format!("data: {value}\n\n");
    let named = |value: Value| {
        format!("event: {}\ndata: {value}\n\n", value.get("type").and_then(Value::as_str).unwrap())
    };
    let mut out = String::new();
    if kind == ProviderKind::Anthropic {
        out += &named(
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 11, "output_tokens": 1}}}),
        );
    }
    let mut calls = 0;
    for (i, part) in parts.iter().enumerate() {
        match kind {
            ProviderKind::OpenAi => {
                let delta = |delta: Value| event(json!({"choices": [{"index": 0, "delta": delta}]}));
                match part {
                    ReplyPart::Thought(text) => out += &delta(json!({"reasoning_content": text})),
                    ReplyPart::Text(text) => out += &delta(json!({"content": text})),
                    ReplyPart::Call(name, args) => {
                        let call = |call: Value| delta(json!({"tool_calls": [call]}));
                        let function = json!({"name": name, "arguments": ""});
                        let id = format!("id-{calls}");
                        out += &call(
                            json!({"index": calls, "id": id, "type": "function", "function": function}),
                        );
                        for piece in *args {
                            out += &call(json!({"index": calls, "function": {"arguments": piece}}));
                        }
                        calls += 1;
                    }
                }
            }
            ProviderKind::Anthropic => {
                let delta =
                    |delta: Value| named(json!({"type": "content_block_delta", "index": i, "delta": delta}));
                let start = |block: Value| {
                    named(json!({"type": "content_block_start", "index": i, "content_block": block}))
                };
                match part {
                    ReplyPart::Thought(text) => {
                        out += &start(json!({"type": "thinking", "thinking": "", "signature": ""}));
                        out += &delta(json!({"type": "thinking_delta", "thinking": text}));
                        out += &delta(json!({"type": "signature_delta", "signature": "c2lnbmVk"}));
                    }
                    ReplyPart::Text(text) => {
                        out += &start(json!({"type": "text", "text": ""}));
                        out += &delta(json!({"type": "text_delta", "text": text}));
                    }
                    ReplyPart::Call(name, args) => {
                        out += &start(
                            json!({"type": "tool_use", "id": format!("id-{calls}"), "name": name, "input": {}}),
                        );
                        for piece in *args {
                            out += &delta(json!({"type": "input_json_delta", "partial_json": piece}));
                        }
                        calls += 1;
                    }
                }
                out += &named(json!({"type": "content_block_stop", "index": i}));
            }
            ProviderKind::Gemini => {
                let part = match part {
                    ReplyPart::Thought(text) => json!({"text": text, "thought": true}),
                    ReplyPart::Text(text) => json!({"text": text}),
                    ReplyPart::Call(name, args) => {
                        json!({"functionCall": {"name": name, "args": object(args)}})
                    }
                };
                out += &event(json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]}));
            }
            ProviderKind::Ollama => {
                let message = match part {
                    ReplyPart::Thought(text) => json!({"role": "assistant", "content": "", "thinking": text}),
                    ReplyPart::Text(text) => json!({"role": "assistant", "content": text}),
                    ReplyPart::Call(name, args) => {
                        let call = json!({"function": {"name": name, "arguments": object(args)}});
                        json!({"role": "assistant", "content": "", "tool_calls": [call]})
                    }
                };
                out += &format!("{}\n", json!({"message": message, "done": false}));
            }
        }
    }
    out
}

fn end(kind: ProviderKind, parts: &[ReplyPart]) -> String {
    let calls = parts.iter().any(|part| matches!(part, ReplyPart::Call(..)));
    match kind {
        ProviderKind::OpenAi => {
            let reason = if calls { "tool_calls" } else { "stop" };
            let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
            let usage = json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}});
            format!("data: {last}\n\ndata: {usage}\n\ndata: [DONE]\n\n")
        }
        ProviderKind::Anthropic => {
            let reason = if calls { "tool_use" } else { "end_turn" };
            let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}});
            format!(
                "event: message_delta\ndata: {delta}\n\nevent: message_stop\ndata: {{\"type\": \"message_stop\"}}\n\n"
            )
        }
        ProviderKind::Gemini => {
            let usage = json!({"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18});
            let last = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage});
            format!("data: {last}\n\n")
        }
        ProviderKind::Ollama => {
            let message = json!({"role": "assistant", "content": ""});
            let last = json!({"message": message, "done": true, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7});
            format!("{last}\n")
        }
    }
}

/// Arguments for a format that has them as JSON. Invalid JSON is sent as text.
fn object(args: &[&str]) -> Value {
    let text = args.concat();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

pub(crate) fn tool() -> ToolSpec {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    ToolSpec { name: "read".into(), description: "Reads a file.".into(), schema }
}

pub(crate) fn user(text: &str) -> ChatMessage {
    ChatMessage::User(text.to_owned())
}
