//! Models of providers, over HTTP: OpenAI and who speaks like it, Anthropic, Gemini, Ollama.
//!
//! All that knows of `genai` is here. A try that broke leaves nothing behind; it is made again a bounded number of times, and the
//! listener is told. The key goes into its header, and nowhere else: no fault, no log, no address, no redirect.

mod key;
mod request;
mod response;
mod trouble;

use std::time::Duration;

use async_trait::async_trait;
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ReasoningEffort};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
pub use key::Key;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use self::trouble::Trouble;
use crate::model::{Fault, Heard, Listener, Model, Said, Turn};

/// Whose dialect a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// OpenAI's chat completions, and those of everyone who is compatible.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's contents.
    Gemini,
    /// Ollama's own chat; without a key.
    Ollama,
}

/// Which model, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Whose dialect.
    pub kind: Kind,
    /// The model's name, as the provider has it.
    pub model: String,
    /// An endpoint of one's own, up to where the paths of the dialect begin: `http://localhost:8000/v1`.
    #[serde(default)]
    pub base_url: Option<String>,
    /// How long to think. The provider's own measure where nothing is said.
    #[serde(default)]
    pub effort: Option<Effort>,
    /// At most so many tokens are written in a turn.
    #[serde(default)]
    pub output_tokens_max: Option<u32>,
    /// How often a turn is tried in all, and how long is waited between.
    #[serde(default)]
    pub patience: Patience,
}

/// How long to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// How often a turn is tried, and how long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Patience {
    /// Tries in all, at least one.
    pub tries_max: u32,
    /// The first wait; each one after is twice as long. A provider that says how long is heeded.
    pub wait_ms: u64,
    /// No wait is longer. A provider that wants a longer one is not waited for.
    pub wait_ms_max: u64,
    /// For so long nothing may come: neither the beginning of an answer nor more of it.
    pub silence_ms_max: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries_max: 4, wait_ms: 500, wait_ms_max: 60_000, silence_ms_max: 300_000 }
    }
}

impl Settings {
    /// A model with everything else as usual.
    pub fn new(kind: Kind, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            kind,
            model,
            base_url: None,
            effort: None,
            output_tokens_max: None,
            patience: Patience::default(),
        }
    }
}

impl Kind {
    /// The variable of the environment where its key usually is.
    pub const fn variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }

    const fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    const fn adapter(self) -> AdapterKind {
        match self {
            Self::OpenAi => AdapterKind::OpenAI,
            Self::Anthropic => AdapterKind::Anthropic,
            Self::Gemini => AdapterKind::Gemini,
            Self::Ollama => AdapterKind::Ollama,
        }
    }
}

/// A model of a provider.
#[derive(Debug)]
pub struct Provider {
    settings: Settings,
    base_url: Url,
    key: Option<Key>,
    client: Client,
}

impl Provider {
    /// A model with the key that is in the environment. An endpoint of one's own is asked without one where there is none.
    pub fn from_env(settings: Settings) -> Result<Self, Fault> {
        let key = match Key::from_env(settings.kind) {
            Err(Fault::NoKey { .. }) if settings.base_url.is_some() => None,
            found => found?,
        };
        Self::new(settings, key)
    }

    /// A model with this key.
    pub fn new(settings: Settings, key: Option<Key>) -> Result<Self, Fault> {
        if settings.base_url.is_none()
            && key.is_none()
            && let Some(variable) = settings.kind.variable()
        {
            return Err(Fault::NoKey { variable: variable.to_owned() });
        }
        let base_url = address(&settings, key.is_some())?;
        let client = client(is_loopback(&base_url))?;
        Ok(Self { settings, base_url, key, client })
    }

    /// Which model it is.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One try.
    async fn attempt(&self, turn: Turn<'_>, heard: Listener<'_>) -> Result<Said, Trouble> {
        let by = format!("{}/{}", self.settings.kind.name(), self.settings.model);
        let request = request::of(self.settings.kind, &by, turn);
        let key = self.key.as_ref().map_or("", Key::expose);
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(self.base_url.as_str()),
            auth: AuthData::from_single(key),
            // Behind a namespace, `::` in a name is part of the name.
            model: ModelIden::new(self.settings.kind.adapter(), format!("byleave::{}", self.settings.model)),
        };
        let options = self.options();
        let opening = self.client.exec_chat_stream(target, request, Some(&options));
        // `genai` logs what is sent and said, and a provider may say the key.
        let said = match opening.with_subscriber(Dispatch::none()).await {
            Ok(response) => response::hear(self.settings.kind, response.stream, heard).await,
            Err(error) => Err(response::Broken::By(Box::new(error))),
        };
        match said {
            Ok(said) => Ok(Said { by, ..said }),
            Err(broken) => Err(Trouble::of(broken, key, !turn.tools.is_empty())),
        }
    }

    fn options(&self) -> ChatOptions {
        let silence = Duration::from_millis(self.settings.patience.silence_ms_max);
        let mut options = ChatOptions::default()
            .with_capture_usage(true)
            .with_capture_tool_calls(true)
            .with_capture_reasoning_content(true)
            .with_stream_header_timeout(silence)
            .with_stream_read_timeout(silence);
        if let Some(tokens) = self.settings.output_tokens_max {
            options = options.with_max_tokens(tokens);
        }
        let effort = match self.settings.effort {
            Some(Effort::Low) => Some(ReasoningEffort::Low),
            Some(Effort::Medium) => Some(ReasoningEffort::Medium),
            Some(Effort::High) => Some(ReasoningEffort::High),
            // Without any, the end of a model's name is taken for one (`qwen-max`). This one is not sent.
            None if self.settings.kind == Kind::OpenAi => Some(ReasoningEffort::Budget(0)),
            None => None,
        };
        match effort {
            Some(effort) => options.with_reasoning_effort(effort),
            None => options,
        }
    }
}

#[async_trait]
impl Model for Provider {
    async fn turn(&self, turn: Turn<'_>, heard: Listener<'_>) -> Result<Said, Fault> {
        let patience = self.settings.patience;
        let mut wait_ms = patience.wait_ms;
        let mut tries = 1;
        loop {
            let trouble = match self.attempt(turn, heard).await {
                Ok(said) => return Ok(said),
                Err(trouble) => trouble,
            };
            let asked_ms = trouble.wait_ms.unwrap_or(wait_ms);
            if !trouble.may_pass || tries >= patience.tries_max || asked_ms > patience.wait_ms_max {
                return Err(trouble.fault);
            }
            tokio::time::sleep(Duration::from_millis(asked_ms)).await;
            heard(Heard::Anew);
            tries += 1;
            wait_ms = wait_ms.saturating_mul(2).min(patience.wait_ms_max);
        }
    }
}

/// Where requests go. A key goes in the clear to this machine only.
fn address(settings: &Settings, has_key: bool) -> Result<Url, Fault> {
    let unfit = |why: &str| Fault::Unfit { why: why.to_owned() };
    let text = settings.base_url.as_deref().unwrap_or(settings.kind.base_url());
    let mut url = Url::parse(text).map_err(|_| unfit("the base URL is none"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unfit("the base URL has a name or a password in it, expected a key"));
    }
    if settings.kind != Kind::OpenAi && url.query().is_some() {
        return Err(unfit("the base URL has a query, which this dialect has no place for"));
    }
    match url.scheme() {
        "https" => {}
        "http" if !has_key || is_loopback(&url) => {}
        "http" => return Err(unfit("the base URL would send the key in the clear, expected https")),
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
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn client(is_near: bool) -> Result<Client, Fault> {
    // Whoever was first to install one has; it is the same.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    // A redirect would take the key to somebody else.
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).tcp_nodelay(true);
    let builder = if is_near { builder.no_proxy() } else { builder };
    let unfit = |why: String| Fault::Unfit { why };
    let http = builder.build().map_err(|error| unfit(error.to_string()))?;
    Client::builder().with_reqwest(http).build().map_err(|error| unfit(error.to_string()))
}
