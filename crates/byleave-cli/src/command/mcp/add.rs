//! `byleave mcp add` and `remove`: manage the list of servers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use byleave_mcp::upstream::config_file;
use byleave_mcp::upstream::server_definition::{
    DirectoryAccess, Launch, ServerDefinition, ServerName, ServerProfile,
};
use clap::{Args as Group, ValueEnum};
use serde_json::json;

use super::list;
use crate::console::Console;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::{atomic_replace, mcp_config_file, mcp_servers};

#[derive(Debug, Group)]
pub(crate) struct AddServerArgs {
    /// Name of the server, used in rules and tool names
    pub(crate) name: String,
    /// Command that starts the server, with its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "url", value_name = "COMMAND")]
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

pub(super) fn run(
    typed: AddServerArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let definition = defined(typed, options)?;
    if mcp_servers::all(options)?.contains(&definition) {
        return told(&definition, options, screen);
    }
    let path = atomic_replace::target(&mcp_servers::path(options)?)?;
    let old = atomic_replace::text(&path)?;
    let text =
        mcp_config_file::add_whole(old.as_deref().unwrap_or_default(), &definition).map_err(|fault| {
            CliError::new(fault.to_string()).hint(
                "`byleave mcp remove NAME` removes the existing server, `byleave mcp show NAME` shows it",
            )
        })?;
    // A definition that cannot be read back is not written, because the next start would fail.
    let read = config_file::parse_servers(&text).map_err(|bad| CliError::new(bad.to_string()))?;
    if !read.contains(&definition) {
        return Err(CliError::new("the server cannot be stored as typed").into());
    }
    atomic_replace::replace(&path, old.as_deref(), &text)?;
    told(&definition, options, screen)
}

pub(super) fn remove(name: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let definition = mcp_servers::find(options, name)?;
    let path = atomic_replace::target(&mcp_servers::path(options)?)?;
    let old = atomic_replace::text(&path)?;
    let text = mcp_config_file::remove(old.as_deref().unwrap_or_default(), name)
        .map_err(|fault| CliError::new(fault.to_string()).hint("remove the server from the file by hand"))?;
    atomic_replace::replace(&path, old.as_deref(), &text)?;
    mcp_servers::pins(options).forget(&definition.name)?;
    mcp_servers::logins(options).forget(&definition.name)?;
    if screen.json() {
        screen.value(&json!({ "server": definition.name, "removed": true }));
    } else {
        screen.line(&format!("server {} is removed, and its accepted tools are forgotten", definition.name));
    }
    Ok(ExitStatus::Completed)
}

fn told(
    definition: &ServerDefinition,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    if screen.json() {
        screen.value(&json!({ "server": definition.name, "added": true }));
        return Ok(ExitStatus::Completed);
    }
    let pinned = mcp_servers::pins(options).get(&definition.name)?;
    list::print_server(definition, &pinned, &mcp_servers::logins(options).status(definition)?, screen);
    if pinned.tools.is_empty() {
        screen.message(&format!(
            "not started yet: `byleave mcp trust {}` reviews it with you",
            definition.name
        ));
    }
    Ok(ExitStatus::Completed)
}

/// Returns the profile of a server as typed.
pub(super) fn profile(typed: ProfileArgs, options: &ResolvedOptions) -> ServerProfile {
    let absolute =
        |paths: Vec<PathBuf>| paths.into_iter().map(|path| PathBuf::from(&options.cwd).join(path)).collect();
    ServerProfile {
        workspace: match typed.workspace {
            AccessArg::None => DirectoryAccess::None,
            AccessArg::Read => DirectoryAccess::Read,
            AccessArg::Write => DirectoryAccess::Write,
        },
        read: absolute(typed.read),
        write: absolute(typed.write),
        hosts: typed.reach,
        unconfined: typed.unconfined,
    }
}

fn defined(typed: AddServerArgs, options: &ResolvedOptions) -> Result<ServerDefinition> {
    let name = ServerName::new(typed.name).map_err(|no| CliError::new(no.to_string()))?;
    let launch = match (typed.url, typed.command.split_first()) {
        (Some(url), _) => Launch::Http { url, headers: pairs(typed.headers)? },
        (None, Some((command, args))) => {
            Launch::Child { command: command.clone(), args: args.to_vec(), env: pairs(typed.env)?, cwd: None }
        }
        (None, None) => return Err(CliError::new("the server has neither a command nor an address").into()),
    };
    let mut definition = ServerDefinition::new(name, launch);
    definition.profile = profile(typed.profile, options);
    definition.trusted = typed.trusted;
    Ok(definition)
}

/// Parses `NAME=VALUE`, or `NAME` for the person's own value.
fn pairs(typed: Vec<String>) -> Result<BTreeMap<String, String>> {
    let pair = |word: String| match word.split_once('=') {
        Some(("", _)) => Err(CliError::new(format!("`{word}` has no name before the `=`")).into()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Ok((word.clone(), format!("${{{word}}}"))),
    };
    typed.into_iter().map(pair).collect()
}
