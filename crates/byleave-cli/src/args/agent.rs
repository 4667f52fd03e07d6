//! The arguments of `byleave run`, `byleave chat`, `byleave persona` and `byleave history`.

use std::path::PathBuf;

use byleave_agent::limits::TokenPrices;
use byleave_agent::tool_block_adapter::ToolCallStyle;
use clap::{Args as Group, Subcommand, ValueEnum};

use super::{AskArg, ModeArg};

/// The model, its persona and its limits.
#[derive(Debug, Group)]
pub(crate) struct ModelArgs {
    /// Persona: a name (see `byleave persona`) or a file [default: that of the session, or coder]
    #[arg(long, value_name = "NAME")]
    pub(crate) persona: Option<String>,
    /// Model, as in `anthropic/claude-sonnet-4-5` [default: that of the session, $BYLEAVE_MODEL, or that of the persona]
    ///
    /// Providers: openai, anthropic, gemini and ollama.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Compatible endpoint, as in `http://localhost:8000/v1` [default: $BYLEAVE_MODEL_URL, or that of the provider]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// How the model calls tools
    #[arg(long, value_enum, default_value_t = ToolCallStyleArg::Auto)]
    pub(crate) tool_calls: ToolCallStyleArg,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Where questions go [default: setting `ask`, or terminal if there is one, else none]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
    /// Maximum number of turns for each of your messages
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: u32,
    /// Maximum number of input and output tokens for each of your messages
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Maximum cost for each of your messages, in the unit of `--prices`
    #[arg(long, value_name = "AMOUNT", requires = "prices", value_parser = amount)]
    pub(crate) max_cost: Option<f64>,
    /// Prices of a million input and output tokens, as in `3/15`
    #[arg(long, value_name = "INPUT/OUTPUT", value_parser = prices)]
    pub(crate) prices: Option<TokenPrices>,
    /// Maximum time for each of your messages: a number and s, m, h, d or w, as in `30m`
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_time: Option<String>,
}

#[derive(Debug, Group)]
pub(crate) struct RunArgs {
    /// Task, in words; `-` reads it from stdin
    #[arg(required_unless_present = "resume")]
    pub(crate) task: Option<String>,
    /// Continue this session after a crash, a limit or an answer; a task is optional
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["every", "at"])]
    pub(crate) resume: Option<String>,
    /// Repeat the task, starting at this interval: a number and s, m, h, d or w, as in `15m`
    #[arg(long, value_name = "DURATION")]
    pub(crate) every: Option<String>,
    /// Start time in UTC: a time of day, as in `07:30`, or a date, as in `2026-03-01T14:30`
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) model_args: ModelArgs,
}

#[derive(Debug, Group)]
pub(crate) struct ChatArgs {
    /// First message
    pub(crate) message: Option<String>,
    /// Continue this conversation; without a session, choose one from a list
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    #[command(flatten)]
    pub(crate) model_args: ModelArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PersonaCommand {
    /// List the personas and their sources (the default)
    List,
    /// Show the system prompt of a persona
    Show {
        /// Name or file
        name: String,
        /// How the model calls tools
        #[arg(long, value_enum, default_value_t = ToolCallStyleArg::Native)]
        tool_calls: ToolCallStyleArg,
    },
    /// Print the prompt for a persona that a provider hosts
    ///
    /// Its tool calls are still evaluated and run on this machine.
    Export {
        /// Name or file
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List the conversations, newest first (the default)
    List(HistoryListArgs),
    /// Show a conversation
    Show {
        /// Session of the conversation
        session: String,
    },
    /// Export a conversation in full
    Export {
        /// Session of the conversation
        session: String,
        /// Output format
        #[arg(long, value_enum, default_value_t = HistoryFormat::Markdown)]
        format: HistoryFormat,
        /// New file to write to; must not exist [default: stdout]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Group)]
pub(crate) struct HistoryListArgs {
    /// Maximum number of conversations
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
    /// Only conversations with this text in messages or calls (case-insensitive)
    #[arg(long)]
    pub(crate) text: Option<String>,
}

impl Default for HistoryListArgs {
    fn default() -> Self {
        Self { limit: 20, text: None }
    }
}

/// The format of an exported conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryFormat {
    Markdown,
    Json,
    Html,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolCallStyleArg {
    /// Native tool calls, or tool blocks if the model has none
    Auto,
    /// Native tool calls of the model
    Native,
    /// Fenced blocks tagged `tool`
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
