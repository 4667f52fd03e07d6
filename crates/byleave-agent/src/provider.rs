//! Models over HTTP: OpenAI and compatible providers, Anthropic, Gemini and Ollama.
//!
//! Each API has one module with the request of a turn and the parser of the response. A failed attempt leaves nothing behind. It is retried
//! a limited number of times, and the listener is notified. The key is only in its header. It must never be in an error, a log, an address
//! or a redirect.
//!
//! - `openai`, `anthropic`, `gemini`, `ollama`: One API each.
//! - `messages`, `response_builder`: The order of messages; a reply assembled from events.
//! - `transport`, `event_stream`, `retry`: A request and its stream; events from bytes; errors and waiting times.
//! - `settings`, `api_key`: Settings; the API key.

mod anthropic;
mod api_key;
mod event_stream;
mod gemini;
mod messages;
mod ollama;
mod openai;
mod response_builder;
mod retry;
mod settings;
mod transport;

use std::net::IpAddr;
use std::time::Duration;

pub use api_key::ApiKey;
use async_trait::async_trait;
pub(crate) use messages::count_calls;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;
pub use settings::{ProviderKind, ProviderSettings, ReasoningEffort, RetryPolicy, UnknownProviderError};

use self::event_stream::EventFraming;
use self::response_builder::ResponseBuilder;
use self::retry::AttemptFailure;
use self::transport::EventParser;
use crate::model::{Model, ModelError, ModelResponse, StreamEvent, StreamEventSink, TurnRequest};

/// A model of a provider.
#[derive(Debug)]
pub struct ProviderModel {
    settings: ProviderSettings,
    base_url: Url,
    key: Option<ApiKey>,
    client: Client,
}

impl ProviderModel {
    /// Creates a model with the key from the environment. A custom endpoint without such a key is called without one.
    pub fn from_env(settings: ProviderSettings) -> Result<Self, ModelError> {
        let key = match ApiKey::from_env(settings.kind) {
            Err(ModelError::NoKey { variable }) if settings.base_url.is_some() && !is_set(&variable) => None,
            found => found?,
        };
        Self::new(settings, key)
    }

    /// Creates a model with this key.
    pub fn new(settings: ProviderSettings, key: Option<ApiKey>) -> Result<Self, ModelError> {
        if settings.base_url.is_none()
            && key.is_none()
            && let Some(variable) = settings.kind.variable()
        {
            return Err(ModelError::NoKey { variable: variable.to_owned() });
        }
        let base_url = address(&settings, key.is_some())?;
        let client = client(is_loopback(&base_url))?;
        Ok(Self { settings, base_url, key, client })
    }

    /// Returns the endpoint without path: scheme, host and port.
    pub fn endpoint(&self) -> String {
        self.base_url.origin().ascii_serialization()
    }

    /// Returns the host and port that a turn reaches, to be evaluated. It is `None` if a person configured an address of this machine or of a
    /// private network. Rules deny those addresses to agents, but the model did not choose this one.
    pub fn host(&self) -> Option<(String, u16)> {
        let host = self.base_url.host_str()?;
        let is_private = match number(host) {
            Some(IpAddr::V4(address)) => address.is_private(),
            Some(IpAddr::V6(address)) => address.is_unique_local(),
            None => false,
        };
        (!is_private && !is_loopback(&self.base_url))
            .then(|| (host.to_owned(), self.base_url.port_or_known_default().unwrap_or(443)))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ProviderSettings {
        &self.settings
    }

    /// Makes one attempt.
    async fn attempt(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, AttemptFailure> {
        let by = format!("{}/{}", self.settings.kind.name(), self.settings.model);
        let key = self.key.as_ref().map_or("", ApiKey::expose);
        let trouble = |broken| AttemptFailure::from_transport(broken, key, !turn.tools.is_empty());
        let request = self.request(self.settings.body(&by, turn).to_string())?;
        let silence = Duration::from_millis(self.settings.patience.silence_ms_max);
        let (parted, mut reader) = self.settings.kind.reader();
        let mut speech = ResponseBuilder::new(heard);
        transport::stream_response(request, silence, parted, &mut *reader, &mut speech)
            .await
            .map_err(trouble)?;
        Ok(speech.finish(by, count_calls(turn.messages)))
    }

    fn request(&self, body: String) -> Result<RequestBuilder, AttemptFailure> {
        let kind = self.settings.kind;
        let (path, query) = kind.path(&self.settings.model);
        let mut url = self.base_url.clone();
        url.set_path(&format!("{}{path}", self.base_url.path()));
        if query.is_some() {
            url.set_query(query);
        }
        let mut request = self.client.post(url).header(CONTENT_TYPE, "application/json").body(body);
        if kind == ProviderKind::Anthropic {
            request = request.header("anthropic-version", "2023-06-01");
        }
        if let (Some(key), Some((name, before))) = (&self.key, kind.header()) {
            let unfit =
                || ModelError::Unfit { reason: "the key has characters that cannot be sent".to_owned() };
            request =
                request.header(name, key.header(before).ok_or_else(|| AttemptFailure::permanent(unfit()))?);
        }
        Ok(request)
    }
}

#[async_trait]
impl Model for ProviderModel {
    async fn take_turn(
        &self,
        turn: TurnRequest<'_>,
        heard: StreamEventSink<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let patience = self.settings.patience;
        let mut wait_ms = patience.wait_ms;
        let mut tries = 1;
        loop {
            let trouble = match self.attempt(turn, heard).await {
                Ok(said) => return Ok(said),
                Err(trouble) => trouble,
            };
            let asked_ms = trouble.wait_ms.unwrap_or(wait_ms);
            if !trouble.is_retryable || tries >= patience.tries_max || asked_ms > patience.wait_ms_max {
                return Err(trouble.error);
            }
            tokio::time::sleep(Duration::from_millis(asked_ms)).await;
            heard(StreamEvent::Restarted);
            tries += 1;
            wait_ms = wait_ms.saturating_mul(2).min(patience.wait_ms_max);
        }
    }
}

impl ProviderKind {
    /// Returns the path behind the base URL, and the query.
    fn path(self, model: &str) -> (String, Option<&'static str>) {
        match self {
            Self::OpenAi => ("chat/completions".to_owned(), None),
            Self::Anthropic => ("messages".to_owned(), None),
            Self::Gemini => (format!("models/{model}:streamGenerateContent"), Some("alt=sse")),
            Self::Ollama => ("api/chat".to_owned(), None),
        }
    }

    /// Returns the header of the key, and the prefix before the key.
    const fn header(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::OpenAi => Some(("authorization", "Bearer ")),
            Self::Anthropic => Some(("x-api-key", "")),
            Self::Gemini => Some(("x-goog-api-key", "")),
            Self::Ollama => None,
        }
    }

    /// Returns the framing and the parser of the response.
    fn reader(self) -> (EventFraming, Box<dyn EventParser>) {
        match self {
            Self::OpenAi => (EventFraming::Sse, Box::new(openai::OpenAiParser::default())),
            Self::Anthropic => (EventFraming::Sse, Box::new(anthropic::AnthropicParser::default())),
            Self::Gemini => (EventFraming::Sse, Box::new(gemini::GeminiParser)),
            Self::Ollama => (EventFraming::Lines, Box::new(ollama::OllamaParser)),
        }
    }
}

impl ProviderSettings {
    fn body(&self, by: &str, turn: TurnRequest<'_>) -> Value {
        match self.kind {
            ProviderKind::OpenAi => openai::build_body(self, by, turn),
            ProviderKind::Anthropic => anthropic::build_body(self, by, turn),
            ProviderKind::Gemini => gemini::build_body(self, by, turn),
            ProviderKind::Ollama => ollama::build_body(self, turn),
        }
    }
}

/// Returns the base URL. A key goes without TLS to this machine only.
fn address(settings: &ProviderSettings, has_key: bool) -> Result<Url, ModelError> {
    let unfit = |why: &str| ModelError::Unfit { reason: why.to_owned() };
    let text = settings.base_url.as_deref().unwrap_or(settings.kind.base_url());
    let mut url = Url::parse(text).map_err(|_| unfit("the base URL is not a valid URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unfit("the base URL contains a user name or a password, expected a key"));
    }
    if settings.kind != ProviderKind::OpenAi && url.query().is_some() {
        return Err(unfit("the base URL has a query, which this dialect does not support"));
    }
    match url.scheme() {
        "https" => {}
        "http" if !has_key || is_loopback(&url) => {}
        "http" => return Err(unfit("the base URL would send the key unencrypted, expected https")),
        _ => return Err(unfit("the base URL is neither http nor https")),
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || number(host).is_some_and(|address| address.is_loopback())
}

/// Returns the IP address, if the host is one.
fn number(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn client(is_near: bool) -> Result<Client, ModelError> {
    // If another thread was first to install one, it is the same provider.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    // A redirect would send the key to another host.
    let builder = Client::builder().redirect(reqwest::redirect::Policy::none()).tcp_nodelay(true);
    let builder = if is_near { builder.no_proxy() } else { builder };
    let unfit = |why: String| ModelError::Unfit { reason: why };
    builder.build().map_err(|error| unfit(error.to_string()))
}

/// Checks whether an environment variable has a value. A key that is set but cannot be sent is not ignored.
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.to_string_lossy().trim().is_empty())
}
