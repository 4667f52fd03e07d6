//! The arguments of `byleave tools`.

use byleave::provider_formats::ProviderFormat;
use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools (the default)
    List,
    /// Show the manifest of a tool
    Show {
        /// Tool
        name: String,
    },
    /// Print tool schemas in the format of a model provider
    Schema {
        /// Output format
        #[arg(long, value_enum)]
        format: ToolFormatArg,
        /// Tools [default: all]
        names: Vec<String>,
    },
    /// Search tools by name or description
    Search {
        /// Search words
        #[arg(required = true)]
        query: Vec<String>,
    },
}

/// The format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolFormatArg {
    Openai,
    Anthropic,
    Gemini,
    Mcp,
}

impl From<ToolFormatArg> for ProviderFormat {
    fn from(format: ToolFormatArg) -> Self {
        match format {
            ToolFormatArg::Openai => Self::OpenAi,
            ToolFormatArg::Anthropic => Self::Anthropic,
            ToolFormatArg::Gemini => Self::Gemini,
            ToolFormatArg::Mcp => Self::Mcp,
        }
    }
}
