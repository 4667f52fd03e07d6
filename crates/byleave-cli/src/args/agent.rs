//! What was typed of the commands with a model: `run`, `chat`, `persona`, `history`.

use std::path::PathBuf;

use byleave_agent::limits::TokenPrices;
use byleave_agent::tool_block_adapter::ToolCallStyle;
use clap::{Args as Group, Subcommand, ValueEnum};

use super::{AskArg, ModeArg};

/// Who speaks, and how far it may go.
#[derive(Debug, Group)]
pub(crate) struct ModelArgs {
    /// Who the model is to be: a name (`byleave persona`), or a file [default: that of the session, coder]
    #[arg(long, value_name = "NAME")]
    pub(crate) persona: Option<String>,
    /// The model, as in `anthropic/claude-sonnet-4-5`; openai, anthropic, gemini and ollama are known [default: that of the session, $BYLEAVE_MODEL, the persona's]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Another endpoint that speaks like the provider, as in `http://localhost:8000/v1` [default: $BYLEAVE_MODEL_URL, the provider's own]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// How the model asks for tools
    #[arg(long, value_enum, default_value_t = ToolCallStyleArg::Auto)]
    pub(crate) calling: ToolCallStyleArg,
    /// How much is asked [default: as set, confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Where questions go [default: as set, or terminal at a terminal, else none]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
    /// At most so many turns for one word of yours
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns_max: u32,
    /// At most so many tokens, read and written
    #[arg(long, value_name = "N")]
    pub(crate) tokens_max: Option<u64>,
    /// At most so much money, in the unit of `--prices`
    #[arg(long, value_name = "AMOUNT", requires = "prices", value_parser = amount)]
    pub(crate) cost_max: Option<f64>,
    /// What a million tokens cost, read and written, as in `3/15`
    #[arg(long, value_name = "READ/WRITTEN", value_parser = prices)]
    pub(crate) prices: Option<TokenPrices>,
    /// For at most so long: a number and s, m, h, d or w, as in `30m`
    #[arg(long, value_name = "SPAN")]
    pub(crate) time_max: Option<String>,
}

#[derive(Debug, Group)]
pub(crate) struct RunArgs {
    /// The task, in words; `-` reads it from standard input
    #[arg(required_unless_present = "resume")]
    pub(crate) task: Option<String>,
    /// Go on with this session: after a crash, a limit or an answer, or with another word of yours
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["every", "at"])]
    pub(crate) resume: Option<String>,
    /// Do it again and again, this long after it was last begun: a number and s, m, h, d or w, as in `15m`
    #[arg(long, value_name = "SPAN")]
    pub(crate) every: Option<String>,
    /// Begin then, in UTC: a time of the day as in `07:30`, or a date as in `2026-03-01T14:30`
    #[arg(long, value_name = "WHEN")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) speaking: ModelArgs,
}

#[derive(Debug, Group)]
pub(crate) struct ChatArgs {
    /// What to say first
    pub(crate) word: Option<String>,
    /// Go on with this conversation; without a name, choose one
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    #[command(flatten)]
    pub(crate) speaking: ModelArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PersonaCommand {
    /// List the personas, and where each comes from (the default)
    List,
    /// Show what a model is told: who it is, how it works, the tools that are here
    Show {
        /// Its name, or a file
        name: String,
        /// For a model that asks for tools in this way
        #[arg(long, value_enum, default_value_t = ToolCallStyleArg::Native)]
        calling: ToolCallStyleArg,
    },
    /// Print the prompt for a persona that a provider hosts; what it asks for is still read and run here
    Export {
        /// Its name, or a file
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List the conversations, the newest first (the default)
    List(HistoryListArgs),
    /// Show a conversation
    Show {
        /// Its session
        session: String,
    },
    /// Print a conversation in full
    Export {
        /// Its session
        session: String,
        /// As what
        #[arg(long, value_enum, default_value_t = HistoryFormat::Markdown)]
        form: HistoryFormat,
        /// Into this file, which must not be there
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Group)]
pub(crate) struct HistoryListArgs {
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
    /// Only those with this in what was said or asked for; small and capital letters are the same
    #[arg(long)]
    pub(crate) text: Option<String>,
}

impl Default for HistoryListArgs {
    fn default() -> Self {
        Self { limit: 20, text: None }
    }
}

/// A conversation's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryFormat {
    Markdown,
    Json,
    Html,
}

/// How a model asks for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolCallStyleArg {
    /// By blocks where it has no calls of its own, else by those
    Auto,
    /// By calls of its own
    Native,
    /// By fenced blocks tagged `tool`
    Blocks,
}

impl From<ToolCallStyleArg> for ToolCallStyle {
    fn from(typed: ToolCallStyleArg) -> Self {
        match typed {
            ToolCallStyleArg::Auto => Self::Auto,
            ToolCallStyleArg::Native => Self::Native,
            ToolCallStyleArg::Blocks => Self::Blocks,
        }
    }
}

fn amount(typed: &str) -> Result<f64, String> {
    let amount: Option<f64> = typed.parse().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
        .ok_or_else(|| "expected a number, as in `1.50`".into())
}

fn prices(typed: &str) -> Result<TokenPrices, String> {
    let (input, output) = typed.split_once('/').ok_or("expected two numbers, as in `3/15`")?;
    Ok(TokenPrices { input: amount(input)?, output: amount(output)? })
}
