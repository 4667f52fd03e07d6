//! `byleave mcp`: servers behind the gate, and the gate in front of agents that speak MCP.

mod add;
mod list;
mod login;
mod pages;
mod serve;
mod trust;
mod wrap;

use anyhow::Result;

use crate::args::Mcp;
use crate::options::Options;
use crate::screen::Screen;
use crate::status::Status;

pub(crate) async fn run(command: Option<Mcp>, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command.unwrap_or(Mcp::List) {
        Mcp::Serve(typed) => serve::run(typed, options, screen).await,
        Mcp::Wrap(typed) => wrap::run(typed, options, screen).await,
        Mcp::Add(typed) => add::run(typed, options, screen),
        Mcp::List => list::run(options, screen),
        Mcp::Show { name } => list::show(&name, options, screen),
        Mcp::Trust { name } => trust::run(&name, options, screen).await,
        Mcp::Login(typed) => login::run(&typed, options, screen).await,
        Mcp::Logout { name } => login::logout(&name, options, screen),
        Mcp::Remove { name } => add::remove(&name, options, screen),
        Mcp::Test { name } => trust::test(&name, options, screen).await,
    }
}
