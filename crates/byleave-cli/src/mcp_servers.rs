//! The person's MCP servers: their definitions and their environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use byleave_gate::gate::Gate;
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::upstream::login_store::LoginStore;
use byleave_mcp::upstream::pins::PinFile;
use byleave_mcp::upstream::server_definition::{ServerDefinition, ServerName};
use byleave_mcp::upstream::{AcceptanceContext, ServerEnvironment, Upstream, config_file};

use crate::app_context::AppContext;
use crate::atomic_replace;
use crate::error::CliError;
use crate::mcp_config_file::FILE;
use crate::resolved_options::ResolvedOptions;
use crate::tool_catalog;

/// Returns the path of the file of servers.
pub(crate) fn path(options: &ResolvedOptions) -> Result<PathBuf> {
    let nowhere = || CliError::new("your settings directory is not known").hint("set HOME");
    Ok(Path::new(options.config.as_ref().ok_or_else(nowhere)?).join(FILE))
}

/// Returns all servers, by name.
pub(crate) fn all(options: &ResolvedOptions) -> Result<Vec<ServerDefinition>> {
    let path = path(options)?;
    let text = atomic_replace::text(&path)?.unwrap_or_default();
    let read = config_file::parse_servers(&text);
    Ok(read.map_err(|bad| {
        CliError::new(format!("cannot use `{}`: {bad}", path.display()))
            .hint("correct the line, or remove the server")
    })?)
}

/// Returns one server.
pub(crate) fn find(options: &ResolvedOptions, name: &str) -> Result<ServerDefinition> {
    let found = all(options)?.into_iter().find(|server| server.name.as_str() == name);
    let missing = || {
        CliError::new(format!("there is no server `{}`", name.escape_debug()))
            .hint("`byleave mcp list` lists the servers; `byleave mcp add NAME -- COMMAND` adds one")
    };
    Ok(found.ok_or_else(missing)?)
}

/// Returns the pins of accepted servers.
pub(crate) fn pins(options: &ResolvedOptions) -> PinFile {
    PinFile::in_state_dir(&options.state)
}

/// Returns the person's logins at servers.
pub(crate) fn logins(options: &ResolvedOptions) -> LoginStore {
    LoginStore::in_state_dir(&options.state)
}

/// Puts these servers behind a gate, none of them started.
pub(crate) fn connect(
    gate: &Gate,
    house: &AppContext,
    exchange: &ActiveCallers,
    definitions: Vec<ServerDefinition>,
    options: &ResolvedOptions,
) -> Result<Upstream> {
    let ground = ground(house, options)?;
    Ok(Upstream::new(definitions, &ground, pins(options), exchange, gate.catalog().clone())?)
}

/// Returns the person in whose name servers are accepted.
pub(crate) fn asking(options: &ResolvedOptions) -> AcceptanceContext {
    AcceptanceContext { tenant: options.tenant.clone(), cwd: options.cwd.clone() }
}

/// Derives a name for a server without one.
pub(crate) fn name_of(command: &str) -> Result<ServerName> {
    let program = command.rsplit('/').next().unwrap_or(command);
    let name = crate::mcp_config_file::to_server_name(program).unwrap_or_else(|| "server".into());
    Ok(ServerName::new(name)?)
}

fn ground(house: &AppContext, options: &ResolvedOptions) -> Result<ServerEnvironment> {
    let state = options.state.canonicalize().unwrap_or_else(|_| options.state.clone());
    let config = options.config.as_ref().map(PathBuf::from);
    Ok(ServerEnvironment {
        workspace: PathBuf::from(&options.cwd),
        home: options.home.as_ref().map(PathBuf::from),
        unfinished_runs: Some(tool_catalog::unfinished(&state)),
        hidden_paths: std::iter::once(state).chain(config).collect(),
        homes: options.cache().join("byleave").join("mcp"),
        environment: std::env::vars().collect(),
        policy: Arc::new(house.policy(options, &options.cwd)?),
        logins: logins(options),
        waived: options.waived.clone(),
        bare: false,
    })
}
