//! `byleave mcp`: servers behind the gate, and the gate for agents that speak MCP.

mod add;
mod list;
mod login;
mod pages;
mod serve;
mod trust;
mod wrap;

use anyhow::Result;
use clap::Subcommand;

use self::add::AddServerArgs;
use self::login::LoginArgs;
use self::serve::McpServeArgs;
use self::wrap::McpWrapArgs;
use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Run an MCP server that puts every tool behind the gate
    ///
    /// Uses stdin and stdout, or HTTP. Questions go to `byleave inbox`, and also to the user of the client if the client can show a
    /// form. If a call waits too long for the client, the result says that it is pending; the agent makes the same call again to get
    /// the result.
    Serve(McpServeArgs),
    /// Run one MCP server behind the gate, with unchanged names
    ///
    /// The tools of the server are accepted at the first start. Later changes must be accepted.
    Wrap(McpWrapArgs),
    /// Add a server
    ///
    /// The server is not started until you have accepted it (`byleave mcp trust`).
    Add(AddServerArgs),
    /// List the servers and their accepted tools (the default)
    ///
    /// No server is started.
    List,
    /// Show how a server starts, its access and its accepted tools
    Show {
        /// Server name
        name: String,
    },
    /// Review a server and accept its start and its tools
    Trust {
        /// Server name
        name: String,
    },
    /// Log in to an HTTP server with OAuth
    ///
    /// Prints the login URL, and opens it in your browser if there is a display or a terminal. The redirect is received on this
    /// machine. The login is stored in a file that only you can read, and is never printed.
    Login(LoginArgs),
    /// Delete the login at a server
    Logout {
        /// Server name
        name: String,
    },
    /// Remove a server, its accepted tools and its login
    Remove {
        /// Server name
        name: String,
    },
    /// Start an accepted server and list its tools
    Test {
        /// Server name
        name: String,
    },
}

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
