//! Which model, and how it is spoken to.

use serde::{Deserialize, Serialize};

/// Whose dialect a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
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
pub struct ProviderSettings {
    /// Whose dialect.
    pub kind: ProviderKind,
    /// The model's name, as the provider has it.
    pub model: String,
    /// An endpoint of one's own, up to where the paths of the dialect begin: `http://localhost:8000/v1`.
    #[serde(default)]
    pub base_url: Option<String>,
    /// How long to think. The provider's own measure where nothing is said.
    #[serde(default)]
    pub effort: Option<ReasoningEffort>,
    /// At most so many tokens are written in a turn.
    #[serde(default)]
    pub output_tokens_max: Option<u32>,
    /// How often a turn is tried in all, and how long is waited between.
    #[serde(default)]
    pub patience: RetryPolicy,
}

/// How long to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
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
pub struct RetryPolicy {
    /// Tries in all, at least one.
    pub tries_max: u32,
    /// The first wait; each one after is twice as long. A provider that says how long is heeded.
    pub wait_ms: u64,
    /// No wait is longer. A provider that wants a longer one is not waited for.
    pub wait_ms_max: u64,
    /// For so long nothing may come: neither the beginning of an answer nor more of it.
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

/// No provider of that name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no provider of that name is known; there are openai, anthropic, gemini and ollama")]
pub struct UnknownProviderError;

impl ProviderSettings {
    /// A model with everything else as usual.
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
    /// How long to think, for those who are told in tokens.
    pub(super) const fn tokens(self) -> u32 {
        match self {
            Self::Low => 1024,
            Self::Medium => 8000,
            Self::High => 24_000,
        }
    }
}

impl ProviderKind {
    /// The variable of the environment where its key usually is.
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
