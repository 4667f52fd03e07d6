//! Personas: who a model is to be, as TOML, and the system prompt that is made of it, the registered tools and the guidelines (L4).
//!
//! A persona says what a model is told, and which tools it is told of. It permits nothing: whatever the model asks for, the gate
//! judges. Prompts are pure: the same persona and the same tools give the same bytes. Only the shelf reads files.

mod loader;
mod model_name;
mod parser;
mod prompt;
mod schema_text;
mod tool_description;

pub use loader::{FILE_BYTES_MAX, LoadedPersona, PersonaLoadError, PersonaSource};
pub use model_name::ModelName;
pub use parser::PersonaParseError;
pub use prompt::ToolCallFormat;
pub(crate) use prompt::{RESULTS, contained};
pub use tool_description::{ApprovalLikelihood, ToolDescription};

/// Who a model is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persona {
    /// What it is called, and calls itself.
    pub name: String,
    /// What it is for, for who chooses one.
    pub description: String,
    /// The model that it was made for.
    pub model: Option<ModelName>,
    /// The tools that it is told of: names, or beginnings of names with `*` behind. `None`: all; of an empty list: none.
    pub tools: Option<Vec<String>>,
    /// How it works, beside what all keep to; a sentence each.
    pub guidelines: Vec<String>,
    /// Who it is, in its own words. May be empty.
    pub prompt: String,
}

impl Persona {
    /// Whether the tool is one of those that this persona is told of.
    ///
    /// Who offers tools to a model must ask this, too: what it was not told of, a model can still ask for.
    pub fn has(&self, tool: &str) -> bool {
        let Some(tools) = &self.tools else { return true };
        tools.iter().any(|named| match named.strip_suffix('*') {
            Some(beginning) => tool.starts_with(beginning),
            None => named == tool,
        })
    }
}
