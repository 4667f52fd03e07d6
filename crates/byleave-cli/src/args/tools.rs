//! What was typed after `byleave tools`.

use byleave::provider_formats::ProviderFormat;
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools (the default)
    List,
    /// Show what a tool says of itself
    Show {
        /// The tool
        name: String,
    },
    /// Print the tools in the form that a model's provider wants
    Schema {
        /// Whose form
        #[arg(long, value_enum)]
        form: ToolFormatArg,
        /// These tools only
        names: Vec<String>,
    },
    /// Find tools by name or by what they do
    Search {
        /// What to look for
        #[arg(required = true)]
        query: Vec<String>,
    },
}

/// Whose form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolFormatArg {
    Openai,
    Anthropic,
    Gemini,
    Mcp,
}

impl From<ToolFormatArg> for ProviderFormat {
    fn from(form: ToolFormatArg) -> Self {
        match form {
            ToolFormatArg::Openai => Self::OpenAi,
            ToolFormatArg::Anthropic => Self::Anthropic,
            ToolFormatArg::Gemini => Self::Gemini,
            ToolFormatArg::Mcp => Self::Mcp,
        }
    }
}
