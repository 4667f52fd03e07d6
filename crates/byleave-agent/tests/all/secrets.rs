//! The API key appears in its header and nowhere else.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use byleave_agent::model::{ModelError, TurnRequest};
use byleave_agent::provider::{ApiKey, ProviderKind, ProviderModel, ProviderSettings};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::fake::{FakeProvider, FakeResponse, KEY, KINDS, ReplyPart, reply, tool, user};

#[tokio::test]
async fn the_key_is_sent_in_its_header_alone() {
    for (kind, header, value) in [
        (ProviderKind::OpenAi, "authorization", format!("Bearer {KEY}")),
        (ProviderKind::Anthropic, "x-api-key", KEY.to_owned()),
        (ProviderKind::Gemini, "x-goog-api-key", KEY.to_owned()),
    ] {
        let fake = FakeProvider::new(vec![FakeResponse::Stream(reply(kind, &[ReplyPart::Text("Hi")]))]).await;
        let (messages, tools) = ([user("Hi")], [tool()]);
        let turn = TurnRequest { system: "s", messages: &messages, tools: &tools };
        fake.turn(&fake.provider(kind), turn).await.0.unwrap();
        let mut got = fake.got().remove(0);
        let place = got.headers.iter().position(|(name, _)| name == header).unwrap();
        assert_eq!(got.headers.remove(place).1, value, "{kind:?}");
        assert!(!format!("{got:?}").contains(KEY), "{kind:?}: {got:?}");
    }
}

#[test]
fn no_fault_and_no_log_holds_the_key_though_the_provider_says_it() {
    let log = CapturedLog::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut faults = String::new();
    // Everything runs on this thread, including the connections.
    tracing::subscriber::with_default(log.clone(), || {
        tracing::info!("begun");
        runtime.block_on(async {
            for kind in KINDS {
                for status in [400, 401, 403, 404, 429, 500] {
                    let body =
                        json!({"error": {"message": format!("Incorrect API key: {KEY}"), "type": "x"}});
                    let fake = FakeProvider::new(vec![FakeResponse::Status(
                        status,
                        &[("x-echo", KEY)],
                        body.to_string(),
                    )])
                    .await;
                    let provider = fake.provider(kind);
                    let messages = [user("Hi")];
                    let turn = TurnRequest { system: "", messages: &messages, tools: &[] };
                    let fault = fake.turn(&provider, turn).await.0.unwrap_err();
                    match status {
                        401 | 403 => assert_eq!(fault, ModelError::KeyRefused { status }, "{kind:?}"),
                        _ => {}
                    }
                    faults += &format!(
                        "{fault:?} {fault} {} {provider:?}\n",
                        serde_json::to_string(&fault).unwrap()
                    );
                }
            }
        });
    });
    assert!(!faults.contains("very-secret"), "{faults}");
    let log = log.0.lock().unwrap().clone();
    assert!(log.contains("begun"));
    assert!(!log.contains("very-secret"), "{log}");
}

#[tokio::test]
async fn a_refused_key_is_not_tried_again() {
    for kind in KINDS {
        let fake = FakeProvider::new(vec![FakeResponse::Status(401, &[], "{}".into())]).await;
        let messages = [user("Hi")];
        let turn = TurnRequest { system: "", messages: &messages, tools: &[] };
        let (said, _) = fake.turn(&fake.provider(kind), turn).await;
        assert_eq!((said, fake.got().len()), (Err(ModelError::KeyRefused { status: 401 }), 1), "{kind:?}");
    }
    // The error format of Gemini.
    let body = json!({"error": {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}});
    let fake = FakeProvider::new(vec![FakeResponse::Status(400, &[], body.to_string())]).await;
    let messages = [user("Hi")];
    let turn = TurnRequest { system: "", messages: &messages, tools: &[] };
    let (said, _) = fake.turn(&fake.provider(ProviderKind::Gemini), turn).await;
    assert_eq!(said, Err(ModelError::KeyRefused { status: 400 }));
}

#[tokio::test]
async fn a_redirect_does_not_take_the_key_elsewhere() {
    for kind in KINDS {
        let other =
            FakeProvider::new(vec![FakeResponse::Stream(reply(kind, &[ReplyPart::Text("Hi")]))]).await;
        let to: &'static str = Box::leak(format!("{}/", other.url).into_boxed_str());
        let headers: &'static [(&str, &str)] = Box::leak(Box::new([("location", to)]));
        let fake = FakeProvider::new(vec![FakeResponse::Status(307, headers, String::new())]).await;
        let messages = [user("Hi")];
        let turn = TurnRequest { system: "", messages: &messages, tools: &[] };
        let (said, _) = fake.turn(&fake.provider(kind), turn).await;
        assert!(matches!(said, Err(ModelError::Refused { status: 307, .. })), "{kind:?}: {said:?}");
        assert_eq!(other.got().len(), 0, "{kind:?}");
    }
}

#[test]
fn a_key_is_there_and_goes_nowhere_in_the_clear() {
    for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic, ProviderKind::Gemini] {
        let none = ProviderModel::new(ProviderSettings::new(kind, "m"), None).unwrap_err();
        assert_eq!(none, ModelError::NoKey { variable: kind.variable().unwrap().to_owned() });
    }
    for (url, is_fit) in [
        ("https://models.example/v1", true),
        ("http://localhost:8000/v1", true),
        ("http://[::1]:8000", true),
        ("http://models.example/v1", false),
        ("http://localhost.example/v1", false),
        ("https://me:word@models.example/v1", false),
        ("ftp://models.example", false),
        ("models", false),
    ] {
        let settings = ProviderSettings {
            base_url: Some(url.to_owned()),
            ..ProviderSettings::new(ProviderKind::OpenAi, "m")
        };
        assert_eq!(ProviderModel::new(settings, ApiKey::new(KEY)).is_ok(), is_fit, "{url}");
    }
    let key = ApiKey::new(format!(" {KEY}\n")).unwrap();
    assert_eq!(format!("{key:?} {key}"), "Key(…) …");
    assert!(ApiKey::new(" \n").is_none() && ApiKey::new("a\nb").is_none());
}

/// Runs itself again with each environment, because the environment of a running program must not be changed.
#[test]
fn the_key_is_taken_from_the_environment() {
    const OURS: &str = "BYLEAVE_TEST_EXPECTED";
    let Ok(expected) = std::env::var(OURS) else {
        for (key, expected) in
            [(Some(KEY), "sent"), (None, "none"), (Some(" "), "none"), (Some("not one"), "unfit")]
        {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", "secrets::the_key_is_taken_from_the_environment"]).env(OURS, expected);
            again.env_remove("OPENAI_API_KEY").envs(key.map(|key| ("OPENAI_API_KEY", key)));
            let output = again.output().unwrap();
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && told.contains("1 passed"), "{expected}: {told}");
        }
        return;
    };
    let no_key = ModelError::NoKey { variable: "OPENAI_API_KEY".into() };
    let usual = ProviderModel::from_env(ProviderSettings::new(ProviderKind::OpenAi, "m")).map(drop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fake = FakeProvider::new(vec![FakeResponse::Stream(reply(
            ProviderKind::OpenAi,
            &[ReplyPart::Text("Hi")],
        ))])
        .await;
        let own = ProviderModel::from_env(fake.settings(ProviderKind::OpenAi));
        if expected == "unfit" {
            // The variable is set, so an unusable key is an error, and the request is not sent without one.
            assert_eq!((usual, own.unwrap_err()), (Err(no_key.clone()), no_key));
            return;
        }
        let messages = [user("Hi")];
        fake.turn(&own.unwrap(), TurnRequest { system: "", messages: &messages, tools: &[] })
            .await
            .0
            .unwrap();
        let got = fake.got().remove(0);
        let sent = got.headers.into_iter().find(|(name, _)| name == "authorization").map(|(_, value)| value);
        match expected.as_str() {
            "sent" => assert_eq!((usual, sent), (Ok(()), Some(format!("Bearer {KEY}")))),
            _ => assert_eq!((usual, sent), (Err(no_key), None)),
        }
    });
    assert!(ProviderModel::from_env(ProviderSettings::new(ProviderKind::Ollama, "m")).is_ok());
}

/// Stores every log message, at every level.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<String>>);

impl Visit for CapturedLog {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        *self.0.lock().unwrap() += &format!("{field}={value:?}\n");
    }
}

impl Subscriber for CapturedLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
