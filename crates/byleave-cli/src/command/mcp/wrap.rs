//! `byleave mcp wrap`: the gate in front of one server, whose tool names stay unchanged.

use std::ffi::OsString;

use anyhow::Result;
use byleave_mcp::gateway::NamingScheme;
use byleave_mcp::upstream::server_definition::{Launch, ServerDefinition, ServerName};
use clap::Args as Group;

use super::add::ProfileArgs;
use super::serve::GatewayArgs;
use super::{add, serve};
use crate::console::Console;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::mcp_servers;
use crate::resolved_options::{ResolvedOptions, text_of};

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
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(super) async fn run(
    typed: McpWrapArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let words: Vec<String> =
        typed.command.iter().map(|word| text_of(word.as_ref())).collect::<Result<_>>()?;
    let (command, args) = words.split_first().ok_or_else(|| CliError::new("no command was given"))?;
    let name = match typed.name {
        Some(name) => ServerName::new(name).map_err(|no| CliError::new(no.to_string()))?,
        None => mcp_servers::name_of(command)?,
    };
    let launch =
        Launch::Child { command: command.clone(), args: args.to_vec(), env: Default::default(), cwd: None };
    let mut definition = ServerDefinition::new(name.clone(), launch);
    definition.profile = add::profile(typed.profile, options);
    definition.sampling = typed.sampling;
    // The typed command is consent to start it. Its tools are accepted and pinned the first time; later changes are asked about.
    let first = mcp_servers::pins(options).get(&name)?.tools.is_empty();
    serve::serve_servers(typed.gateway, vec![definition], NamingScheme::Upstream, first, options, screen)
        .await
}
