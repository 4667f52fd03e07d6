//! Which model a persona was made for.

use std::fmt;

/// A model, by its provider and its name there: `anthropic/claude-sonnet-4-5`. Whether there is such a one is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The provider.
    pub provider: String,
    /// The model's name there, which may have further slashes.
    pub model: String,
}

impl ModelName {
    /// Reads `provider/model`; none where it is not that.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once('/')?;
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let graphic = |c: char| c.is_ascii_graphic();
        let is_one = !provider.is_empty() && provider.chars().all(word);
        (is_one && !model.is_empty() && model.chars().all(graphic))
            .then(|| Self { provider: provider.to_owned(), model: model.to_owned() })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}
