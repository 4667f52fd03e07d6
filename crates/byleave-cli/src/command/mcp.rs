//! `byleave mcp`: servers behind the gate, and the gate for agents that speak MCP.

mod add;
mod list;
mod login;
mod pages;
mod serve;
mod trust;
mod wrap;

use anyhow::Result;

use crate::args::McpCommand;
use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

pub(crate) async fn run(
    command: Option<McpCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or(McpCommand::List) {
        McpCommand::Serve(typed) => serve::run(typed, options, screen).await,
        McpCommand::Wrap(typed) => wrap::run(typed, options, screen).await,
        McpCommand::Add(typed) => add::run(typed, options, screen),
        McpCommand::List => list::run(options, screen),
        McpCommand::Show { name } => list::show(&name, options, screen),
        McpCommand::Trust { name } => trust::run(&name, options, screen).await,
        McpCommand::Login(typed) => login::run(&typed, options, screen).await,
        McpCommand::Logout { name } => login::logout(&name, options, screen),
        McpCommand::Remove { name } => add::remove(&name, options, screen),
        McpCommand::Test { name } => trust::test(&name, options, screen).await,
    }
}
