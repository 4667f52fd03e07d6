//! The name of the model that a persona was made for.

use std::fmt;

/// A model by its provider and its name there: `anthropic/claude-sonnet-4-5`. This type does not know whether the model exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The provider.
    pub provider: String,
    /// The model's name at the provider. It may contain more slashes.
    pub model: String,
}

impl ModelName {
    /// Parses `provider/model`. Returns `None` if the text has another form.
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
