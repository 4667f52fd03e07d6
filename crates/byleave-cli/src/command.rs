//! The commands, one file for each.

#[cfg(feature = "agent")]
mod acp;
mod approvals;
mod audit;
mod call;
#[cfg(feature = "agent")]
mod chat;
mod completions;
mod config;
mod doctor;
mod exec;
mod explain;
#[cfg(feature = "fleet")]
mod fleet;
mod halt;
#[cfg(feature = "agent")]
mod history;
mod hook;
mod inbox;
mod init;
mod man;
mod mcp;
#[cfg(feature = "agent")]
mod persona;
mod policy;
mod rehearse;
mod resume;
#[cfg(feature = "agent")]
mod run;
mod sandbox;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod stats;
#[cfg(feature = "serve")]
mod token;
mod tools;
mod undo;
mod watch;
#[cfg(feature = "serve")]
mod webhook;
#[cfg(feature = "serve")]
mod worker;

use anyhow::Result;

use crate::args::{self, CliCommand};
use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

/// Checks whether a command must work even if a settings file does not load, so that one can find and fix it.
pub(crate) const fn works_without_settings(command: &CliCommand) -> bool {
    matches!(
        command,
        CliCommand::Doctor
            | CliCommand::Completions(_)
            | CliCommand::Man(_)
            | CliCommand::Config { command: Some(args::ConfigCommand::Edit | args::ConfigCommand::Path) }
    )
}

/// Runs the typed command.
pub(crate) async fn run(
    command: CliCommand,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command {
        CliCommand::Call(typed) => call::run(typed, options, screen).await,
        CliCommand::Rehearse(typed) => rehearse::run(typed, options, screen).await,
        CliCommand::Undo(typed) => undo::run(typed, options, screen).await,
        CliCommand::Diff { call } => undo::diff(&call, options, screen).await,
        #[cfg(feature = "agent")]
        CliCommand::Run(typed) => run::run(typed, options, screen).await,
        #[cfg(feature = "agent")]
        CliCommand::Chat(typed) => chat::run(typed, options, screen).await,
        #[cfg(feature = "agent")]
        CliCommand::Persona { command } => persona::run(command, options, screen),
        #[cfg(feature = "agent")]
        CliCommand::History { command } => history::run(command, options, screen).await,
        CliCommand::Explain(typed) => explain::run(&typed, options, screen).await,
        CliCommand::Tools { command } => tools::run(command, options, screen),
        CliCommand::Inbox { command } => inbox::run(command, options, screen).await,
        CliCommand::Leaves { command } => approvals::run(command, options, screen).await,
        CliCommand::Session { command } => session::run(command, options, screen).await,
        CliCommand::Policy { command } => policy::run(command, options, screen).await,
        CliCommand::Resume(typed) => resume::run(&typed, options, screen).await,
        CliCommand::Halt(typed) => halt::run(typed, options, screen).await,
        CliCommand::Stats(typed) => stats::run(typed, options, screen).await,
        CliCommand::Watch(typed) => watch::run(typed, options, screen).await,
        CliCommand::Config { command } => config::run(command, options, screen),
        CliCommand::Completions(typed) => Ok(completions::run(&typed, screen)),
        CliCommand::Man(typed) => man::run(&typed, screen),
        #[cfg(feature = "agent")]
        CliCommand::Acp(typed) => acp::run(typed, options).await,
        CliCommand::Init(typed) => init::run(&typed, options, screen),
        CliCommand::Doctor => doctor::run(options, screen),
        CliCommand::Hook { command } => hook::run(command, options, screen).await,
        CliCommand::Exec(typed) => exec::run(&typed, options, screen).await,
        CliCommand::Sandbox { command } => sandbox::run(command, options, screen).await,
        CliCommand::Mcp { command } => mcp::run(command, options, screen).await,
        #[cfg(feature = "fleet")]
        CliCommand::Fleet { command } => fleet::run(command, options, screen).await,
        #[cfg(feature = "serve")]
        CliCommand::Serve(typed) => serve::run(typed, options, screen).await,
        #[cfg(feature = "serve")]
        CliCommand::Worker(typed) => worker::run(typed, options, screen).await,
        #[cfg(feature = "serve")]
        CliCommand::Token { command } => token::run(command, options, screen),
        #[cfg(feature = "serve")]
        CliCommand::Webhook { command } => webhook::run(command, options, screen).await,
        CliCommand::Book { command } => audit::run(command, options, screen).await,
    }
}
