//! The commands, one file each.

#[cfg(feature = "agent")]
mod acp;
mod book;
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
mod leaves;
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

use crate::args::{self, Command};
use crate::options::Options;
use crate::screen::Screen;
use crate::status::Status;

/// Whether a command must work although a settings file does not load: to find and mend it.
pub(crate) const fn works_without_settings(command: &Command) -> bool {
    matches!(
        command,
        Command::Doctor
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Config { command: Some(args::Config::Edit | args::Config::Path) }
    )
}

/// Does what was typed.
pub(crate) async fn run(command: Command, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command {
        Command::Call(typed) => call::run(typed, options, screen).await,
        Command::Rehearse(typed) => rehearse::run(typed, options, screen).await,
        Command::Undo(typed) => undo::run(typed, options, screen).await,
        Command::Diff { call } => undo::diff(&call, options, screen).await,
        #[cfg(feature = "agent")]
        Command::Run(typed) => run::run(typed, options, screen).await,
        #[cfg(feature = "agent")]
        Command::Chat(typed) => chat::run(typed, options, screen).await,
        #[cfg(feature = "agent")]
        Command::Persona { command } => persona::run(command, options, screen),
        #[cfg(feature = "agent")]
        Command::History { command } => history::run(command, options, screen).await,
        Command::Explain(typed) => explain::run(&typed, options, screen).await,
        Command::Tools { command } => tools::run(command, options, screen),
        Command::Inbox { command } => inbox::run(command, options, screen).await,
        Command::Leaves { command } => leaves::run(command, options, screen).await,
        Command::Session { command } => session::run(command, options, screen).await,
        Command::Policy { command } => policy::run(command, options, screen).await,
        Command::Resume(typed) => resume::run(&typed, options, screen).await,
        Command::Halt(typed) => halt::run(typed, options, screen).await,
        Command::Stats(typed) => stats::run(typed, options, screen).await,
        Command::Watch(typed) => watch::run(typed, options, screen).await,
        Command::Config { command } => config::run(command, options, screen),
        Command::Completions(typed) => Ok(completions::run(&typed, screen)),
        Command::Man(typed) => man::run(&typed, screen),
        #[cfg(feature = "agent")]
        Command::Acp(typed) => acp::run(typed, options).await,
        Command::Init(typed) => init::run(&typed, options, screen),
        Command::Doctor => doctor::run(options, screen),
        Command::Hook { command } => hook::run(command, options, screen).await,
        Command::Exec(typed) => exec::run(&typed, options, screen).await,
        Command::Sandbox { command } => sandbox::run(command, options, screen).await,
        Command::Mcp { command } => mcp::run(command, options, screen).await,
        #[cfg(feature = "fleet")]
        Command::Fleet { command } => fleet::run(command, options, screen).await,
        #[cfg(feature = "serve")]
        Command::Serve(typed) => serve::run(typed, options, screen).await,
        #[cfg(feature = "serve")]
        Command::Worker(typed) => worker::run(typed, options, screen).await,
        #[cfg(feature = "serve")]
        Command::Token { command } => token::run(command, options, screen),
        #[cfg(feature = "serve")]
        Command::Webhook { command } => webhook::run(command, options, screen).await,
        Command::Book { command } => book::run(command, options, screen).await,
    }
}
