//! `byleave agent`: the reference agent of Byleave, its conversations and personas.

mod chat;
mod history;
mod persona;
mod run;

use anyhow::Result;
use clap::Subcommand;

use self::chat::ChatArgs;
use self::history::HistoryCommand;
use self::persona::PersonaCommand;
use self::run::RunArgs;
use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Chat with a model that uses the tools of this machine
    ///
    /// Opens a full screen with the model's messages, its calls and their output, and the questions for you. `/help` lists the
    /// commands. Every turn and every call goes through the gate and is recorded in the audit log. `--resume` continues an earlier
    /// or interrupted conversation where it stopped, and runs no call twice.
    Chat(ChatArgs),
    /// Run a task with a model and the tools of this machine
    ///
    /// Every turn and every call of the model goes through the gate and is recorded in the audit log. `byleave undo --session
    /// SESSION` undoes the file changes. Without a terminal, a call that needs an answer is refused. With `--ask inbox` the question
    /// stays in the inbox instead, and `--resume` continues the session later. With `--json`, each event is one line. Only one run
    /// at a time can work in a directory.
    Run(RunArgs),
    /// List, search, show and export conversations with models
    History {
        #[command(subcommand)]
        command: Option<HistoryCommand>,
    },
    /// List personas and show their system prompts
    Persona {
        #[command(subcommand)]
        command: Option<PersonaCommand>,
    },
}

pub(crate) async fn run(
    command: AgentCommand,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command {
        AgentCommand::Chat(typed) => chat::run(typed, options, screen).await,
        AgentCommand::Run(typed) => run::run(typed, options, screen).await,
        AgentCommand::History { command } => history::run(command, options, screen).await,
        AgentCommand::Persona { command } => persona::run(command, options, screen),
    }
}
