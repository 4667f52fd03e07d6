//! The commands, one file each.

mod book;
mod call;
mod doctor;
mod explain;
mod halt;
mod inbox;
mod leaves;
mod policy;
mod rehearse;
mod resume;
mod sandbox;
mod session;
mod stats;
mod tools;
mod undo;
mod watch;

use anyhow::Result;

use crate::args::Command;
use crate::options::Options;
use crate::screen::Screen;
use crate::status::Status;

/// Does what was typed.
pub(crate) async fn run(command: Command, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command {
        Command::Call(typed) => call::run(typed, options, screen).await,
        Command::Rehearse(typed) => rehearse::run(typed, options, screen).await,
        Command::Undo(typed) => undo::run(typed, options, screen).await,
        Command::Diff { call } => undo::diff(&call, options, screen).await,
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
        Command::Doctor => doctor::run(options, screen),
        Command::Sandbox { command } => sandbox::run(command, options, screen).await,
        Command::Book { command } => book::run(command, options, screen).await,
    }
}
