//! The settings of a model and its provider.

use serde::{Deserialize, Serialize};

/// The API that a provider has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// OpenAI's chat completions, and compatible ones.
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// Gemini's content API.
    Gemini,
    /// Ollama's chat API, without a key.
    Ollama,
}

/// The settings of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSettings {
    /// The API.
    pub kind: ProviderKind,
    /// The name of the model at the provider.
    pub model: String,
    /// A custom endpoint, up to where the paths of the API begin: `http://localhost:8000/v1`.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The reasoning effort. Without it, the provider's default is used.
    #[serde(default)]
    pub effort: Option<ReasoningEffort>,
    /// The maximum number of tokens that a turn may write.
    #[serde(default)]
    pub output_tokens_max: Option<u32>,
    /// The number of attempts, and the waiting times between them.
    #[serde(default)]
    pub patience: RetryPolicy,
}

/// The reasoning effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
}

/// The number of attempts and their waiting times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryPolicy {
    /// The total number of attempts, at least one.
    pub tries_max: u32,
    /// The first waiting time; each later one is twice as long. A time that the provider asks for takes precedence.
    pub wait_ms: u64,
    /// The maximum waiting time. If the provider asks for more, the attempt is not repeated.
    pub wait_ms_max: u64,
    /// The maximum time without data: before the response begins, or within it.
    pub silence_ms_max: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries_max: 4, wait_ms: 500, wait_ms_max: 60_000, silence_ms_max: 300_000 }
    }
}

impl std::str::FromStr for ProviderKind {
    type Err = UnknownProviderError;

    fn from_str(name: &str) -> Result<Self, UnknownProviderError> {
        let all = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama];
        all.into_iter().find(|kind| kind.name() == name).ok_or(UnknownProviderError)
    }
}

/// The error for an unknown provider name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider; use openai, anthropic, gemini or ollama")]
pub struct UnknownProviderError;

impl ProviderSettings {
    /// Creates settings with defaults for everything else.
    pub fn new(kind: ProviderKind, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            kind,
            model,
            base_url: None,
            effort: None,
            output_tokens_max: None,
            patience: RetryPolicy::default(),
        }
    }
}

impl ReasoningEffort {
    /// Returns the reasoning budget for models that take one in tokens.
    pub(super) const fn tokens(self) -> u32 {
        match self {
            Self::Low => 1024,
            Self::Medium => 8000,
            Self::High => 24_000,
        }
    }
}

impl ProviderKind {
    /// Returns the environment variable that usually holds the key.
    pub const fn variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }

    pub(super) const fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/",
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }
}
