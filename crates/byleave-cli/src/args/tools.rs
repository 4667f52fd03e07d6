//! What was typed after `byleave tools`.

use byleave::forms::Form;
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Tools {
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
        form: FormArg,
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
pub(crate) enum FormArg {
    Openai,
    Anthropic,
    Gemini,
    Mcp,
}

impl From<FormArg> for Form {
    fn from(form: FormArg) -> Self {
        match form {
            FormArg::Openai => Self::OpenAi,
            FormArg::Anthropic => Self::Anthropic,
            FormArg::Gemini => Self::Gemini,
            FormArg::Mcp => Self::Mcp,
        }
    }
}
