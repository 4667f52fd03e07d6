//! `byleave agent history`: conversations from the audit log.

use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use byleave_agent::history::{History, render_html, render_markdown};
use byleave_gate::core::id::SessionId;
use byleave_gate::gate::Gate;
use clap::{Args as Group, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::agent_setup;
use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::{Console, Tone, one_line, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

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

pub(crate) async fn run(
    command: Option<HistoryCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    // For reading only: the gate reports settled calls and drives none.
    let gate = house.gate(options, &options.cwd, AskArg::None, options.settings.gate())?;
    let reader = HistoryReader { gate, house, options };
    match command.unwrap_or_else(|| HistoryCommand::List(HistoryListArgs::default())) {
        HistoryCommand::List(list) => reader.list(&list, screen).await,
        HistoryCommand::Show { session } => {
            let history = reader.named(&session).await?;
            show(&history, screen)?;
            Ok(ExitStatus::Completed)
        }
        HistoryCommand::Export { session, format, to } => {
            let history = reader.named(&session).await?;
            let text = format_history(&history, format)?;
            match to {
                Some(path) => {
                    write(&path, &text)?;
                    screen.message(&one_line(&format!("written to {}", path.display())));
                }
                None if std::io::stdout().is_terminal() => screen.text(&text),
                // Unescaped, because it is for a file or another program.
                None => screen.raw_text(&text),
            }
            Ok(ExitStatus::Completed)
        }
    }
}

struct HistoryReader<'a> {
    gate: Gate,
    house: AppContext,
    options: &'a ResolvedOptions,
}

impl HistoryReader<'_> {
    async fn named(&self, session: &str) -> Result<History> {
        let session = agent_setup::session(session, &self.house, self.options).await?;
        self.of(&session).await
    }

    async fn of(&self, session: &SessionId) -> Result<History> {
        let conversation = agent_setup::conversation(&self.gate, &self.house, self.options, session).await?;
        Ok(History::from_conversation(session.as_str(), &conversation))
    }

    async fn list(&self, list: &HistoryListArgs, screen: &mut Console) -> Result<ExitStatus> {
        let mut values = Vec::new();
        let mut shown = 0;
        for session in agent_setup::sessions(&self.house, self.options).await? {
            if shown >= list.limit {
                break;
            }
            let history = match self.of(&session).await {
                Ok(history) => history,
                Err(error) => {
                    let what = format!("cannot read the conversation {session}: {error}");
                    screen.message_with_tone(Tone::Careful, "note:", &prose(&what));
                    continue;
                }
            };
            // A tool of another origin may have the name of ours.
            if history.messages.is_empty() {
                continue;
            }
            if list.text.as_deref().is_some_and(|text| !history.contains_text(text)) {
                continue;
            }
            shown += 1;
            if screen.json() {
                values.push(json!({
                    "session": session, "persona": history.persona, "model": history.model, "started_at": history.started_at,
                    "first_words": history.title(), "used": history.used,
                }));
                continue;
            }
            screen.title(&one_line(history.title()));
            screen.line(&one_line(&format!("  {}", agent_setup::describe(&history))));
        }
        if screen.json() {
            screen.value(&Value::Array(values));
        } else if shown == 0 {
            screen.message("there is no such conversation; `byleave agent run` starts one");
        }
        Ok(ExitStatus::Completed)
    }
}

/// Formats a conversation.
pub(super) fn format_history(history: &History, format: HistoryFormat) -> Result<String> {
    Ok(match format {
        HistoryFormat::Markdown => render_markdown(history),
        HistoryFormat::Html => render_html(history),
        HistoryFormat::Json => format!("{}\n", serde_json::to_string_pretty(history)?),
    })
}

fn show(history: &History, screen: &mut Console) -> Result<()> {
    if screen.json() {
        screen.value(&serde_json::to_value(history)?);
    } else {
        screen.text(&render_markdown(history));
    }
    Ok(())
}

/// Writes a conversation to a new file that only its owner can read. It may contain anything, and no existing file is
/// overwritten.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    let cannot = |error: std::io::Error| {
        CliError::new(format!("cannot write `{}`: {error}", path.display()))
            .hint("choose a file that does not exist")
    };
    Ok(written.map_err(cannot)?)
}
