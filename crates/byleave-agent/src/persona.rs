//! Personas (TOML): who a model is to be, and the system prompt made of the persona, the registered tools and the guidelines (L4).
//!
//! A persona defines the prompt and the tools that it describes to a model. It permits nothing: the gate evaluates every call. Prompts are
//! pure: the same persona and the same tools give the same bytes. Only `loader` reads files.

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
pub(crate) use prompt::{RESULTS, indent_text};
pub use tool_description::{ApprovalLikelihood, ToolDescription};

/// A persona: who a model is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persona {
    /// The display name, which the model also uses for itself.
    pub name: String,
    /// The purpose, for people who choose a persona.
    pub description: String,
    /// The model that it was made for.
    pub model: Option<ModelName>,
    /// The provider that hosts the persona, and its id there (L11). The provider has the prompt then, so none is sent.
    pub hosted: Option<ModelName>,
    /// The tools that the prompt describes: names, or prefixes of names followed by `*`. `None` means all; an empty list means none.
    pub tools: Option<Vec<String>>,
    /// Additional guidelines, one sentence each. They follow the common ones.
    pub guidelines: Vec<String>,
    /// The persona's own text on who it is. It may be empty.
    pub prompt: String,
}

impl Persona {
    /// Checks whether this persona has the tool.
    ///
    /// Code that offers tools to a model must check this too, because a model can call a tool that its prompt does not describe.
    pub fn allows_tool(&self, tool: &str) -> bool {
        let Some(tools) = &self.tools else { return true };
        tools.iter().any(|named| match named.strip_suffix('*') {
            Some(beginning) => tool.starts_with(beginning),
            None => named == tool,
        })
    }
}
