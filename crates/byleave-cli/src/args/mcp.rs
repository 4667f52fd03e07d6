//! The arguments of `byleave mcp`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use byleave::core::id::AgentId;
use clap::{Args as Group, Subcommand, ValueEnum};

use super::ModeArg;

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

#[derive(Debug, Group)]
pub(crate) struct AddServerArgs {
    /// Name of the server, used in rules and tool names
    pub(crate) name: String,
    /// Command that starts the server, with its arguments
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// URL of the server, instead of a command
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// Environment variable for the server; `NAME` alone passes on your value
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// HTTP header to send; `${NAME}` in the value is replaced from your environment
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    pub(crate) headers: Vec<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    /// Trust the server when it declares a tool read-only
    #[arg(long)]
    pub(crate) trusted: bool,
}

#[derive(Debug, Group)]
pub(crate) struct LoginArgs {
    /// Server name
    pub(crate) name: String,
    /// Print the login URL and open no browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Do not ask if the login involves hosts other than that of the server
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// OAuth client id, if the authorization server does not register clients itself
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Allow login hosts with private addresses, for a login in your own network
    #[arg(long)]
    pub(crate) allow_private_network: bool,
    /// Time limit for the login in the browser
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) wait: u64,
}

/// The access of a server.
#[derive(Debug, Group)]
pub(crate) struct ProfileArgs {
    /// Access to the directory that the agent works in
    #[arg(long, value_enum, default_value_t = AccessArg::Read)]
    pub(crate) workspace: AccessArg,
    /// Additional path that the server can read
    #[arg(long = "read", value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Additional path that the server can write
    #[arg(long = "write", value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Host that the server can reach
    #[arg(long = "reach", value_name = "HOST")]
    pub(crate) reach: Vec<String>,
    /// Run the server outside the sandbox, with all your permissions
    #[arg(long)]
    pub(crate) unconfined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessArg {
    /// No access
    None,
    /// Read
    Read,
    /// Read and write
    Write,
}

#[derive(Debug, Group)]
pub(crate) struct McpServeArgs {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// Offer only the one server, under its own names (for conformance tests)
    #[arg(long)]
    pub(crate) transparent: bool,
}

#[derive(Debug, Group)]
pub(crate) struct McpWrapArgs {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// Name of the server in rules and in the audit log [default: name of the program]
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    /// Allow the server to use the agent's model (MCP sampling)
    #[arg(long)]
    pub(crate) sampling: bool,
    /// Server command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The connection of the gateway to its agents.
#[derive(Debug, Group)]
pub(crate) struct GatewayArgs {
    /// Serve HTTP on this machine, as in `127.0.0.1:PORT`, instead of stdin and stdout
    ///
    /// Clients need the token in the file that is printed at the start.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Name of the agent that makes the calls [default: name of the client]
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
    /// The client's timeout for a call [default: that of a known client, else 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) deadline: Option<u64>,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
}
