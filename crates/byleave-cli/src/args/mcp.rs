//! What was typed after `byleave mcp`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use byleave::core::id::AgentId;
use clap::{Args as Group, Subcommand, ValueEnum};

use super::ModeArg;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Be an MCP server for an agent: every tool goes through the gate
    ///
    /// Speaks on standard input and output, or over HTTP. What must be asked goes to the person behind the client where that can show
    /// a form, and to `byleave inbox`; a call that waits too long for its client is told to be pending, and picked up by making it
    /// again.
    Serve(McpServeArgs),
    /// Put the gate in front of one MCP server, whose names stay as they are
    Wrap(McpWrapArgs),
    /// Add a server; it is not started before you have accepted it
    Add(AddServerArgs),
    /// List the servers and what was accepted of them; starts none (the default)
    List,
    /// Show a server in full: how it is started, what it may touch, what was accepted
    Show {
        /// The server
        name: String,
    },
    /// Look at a server, and accept how it is started and what it offers
    Trust {
        /// The server
        name: String,
    },
    /// Log in at a server over HTTP that wants it (OAuth)
    ///
    /// The address to log in at is printed, and opened in your browser where there is a display or a terminal. What comes back is
    /// taken on this machine, and the login is kept in a file of your own; nothing of it is ever printed.
    Login(LoginArgs),
    /// Forget the login at a server
    Logout {
        /// The server
        name: String,
    },
    /// Remove a server, and forget what was accepted of it
    Remove {
        /// The server
        name: String,
    },
    /// Start an accepted server and say what it offers
    Test {
        /// The server
        name: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct AddServerArgs {
    /// What to call it: it stands in rules and in names of tools
    pub(crate) name: String,
    /// How it is started
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Where it is, instead of a command
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// A variable for it, as `NAME=VALUE`; `NAME` alone passes yours on
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// A header that is sent along, as `NAME=VALUE`; `${NAME}` in it is taken from your environment
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    pub(crate) headers: Vec<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    /// Believe it where it says that a tool only reads
    #[arg(long)]
    pub(crate) trusted: bool,
}

#[derive(Debug, Group)]
pub(crate) struct LoginArgs {
    /// The server
    pub(crate) name: String,
    /// Only print the address
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Go on without asking where other hosts than the server's have a part in it
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// What the authorization server knows you by, where it registers nobody by itself
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The login is in your own network: hosts at private addresses may be talked to
    #[arg(long)]
    pub(crate) own_network: bool,
    /// How long the browser may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) wait: u64,
}

/// What a server may touch.
#[derive(Debug, Group)]
pub(crate) struct ProfileArgs {
    /// What it may do with the directory that the agent works in
    #[arg(long, value_enum, default_value_t = AccessArg::Read)]
    pub(crate) workspace: AccessArg,
    /// More that it can read
    #[arg(long = "read", value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// More that it can write
    #[arg(long = "write", value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// A host that it can reach
    #[arg(long = "reach", value_name = "HOST")]
    pub(crate) reach: Vec<String>,
    /// Run it outside the sandbox, with all that you can do
    #[arg(long)]
    pub(crate) unconfined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessArg {
    /// It is not there
    None,
    /// Read it
    Read,
    /// Read and write it
    Write,
}

#[derive(Debug, Group)]
pub(crate) struct McpServeArgs {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// Offer what the one server has under its own names, and nothing else; for tests of conformance
    #[arg(long)]
    pub(crate) transparent: bool,
}

#[derive(Debug, Group)]
pub(crate) struct McpWrapArgs {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// What to call it in rules and in the book [default: as its program]
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    /// Let it use the agent's model
    #[arg(long)]
    pub(crate) sampling: bool,
    /// The server and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How the gateway meets its agents.
#[derive(Debug, Group)]
pub(crate) struct GatewayArgs {
    /// Listen here instead, on this machine only: `127.0.0.1:PORT`. Clients need the token in the file that is named then
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Who makes the calls [default: as the client calls itself]
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
    /// How long the client waits for a call [default: by what is known of it, else 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) deadline: Option<u64>,
    /// How much is asked [default: as set, confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
}
