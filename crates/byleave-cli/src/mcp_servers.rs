//! The person's MCP servers: their definitions, their environment, and their tools in the catalogs of the program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::catalog::Catalog;
use byleave_gate::core::id::CallId;
use byleave_gate::gate::Gate;
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::gateway::is_pending;
use byleave_mcp::upstream::login_store::LoginStore;
use byleave_mcp::upstream::pins::PinFile;
use byleave_mcp::upstream::server_definition::{ServerDefinition, ServerName};
use byleave_mcp::upstream::{AcceptanceContext, ServerEnvironment, ServerStatus, Upstream, config_file};

use crate::app_context::AppContext;
use crate::atomic_replace;
use crate::console::{Console, Tone, prose};
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

/// Returns the pins for a session. A dry run accepts nothing for later sessions.
pub(crate) fn session_pins(options: &ResolvedOptions, dry_run: bool) -> Result<PinFile> {
    let pins = pins(options);
    Ok(if dry_run { pins.without_saving()? } else { pins })
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
    pins: PinFile,
    options: &ResolvedOptions,
) -> Result<Upstream> {
    let ground = ground(house, options)?;
    Ok(Upstream::new(definitions, &ground, pins, exchange, gate.catalog().clone())?)
}

/// How long a command waits for servers that start slowly.
const START_TIMEOUT: Duration = Duration::from_secs(8);

/// Running servers whose tools are in a catalog. They end when this is dropped.
pub(crate) struct AttachedServers {
    upstream: Option<Upstream>,
}

impl AttachedServers {
    /// Says of each server that offers no tools why not, and what to do.
    pub(crate) fn problems(&self) -> Vec<String> {
        let statuses = self.upstream.iter().flat_map(Upstream::statuses);
        let problem = |(server, status): (ServerName, ServerStatus)| match status {
            ServerStatus::Connected { suspended, .. } if suspended.is_empty() => None,
            ServerStatus::Connected { .. } => Some(format!(
                "the MCP server `{server}` has changed, and what changed is not used; accept it with `byleave mcp trust {server}`"
            )),
            ServerStatus::NotAccepted => Some(format!(
                "the MCP server `{server}` is not accepted, so it is not started; accept it with `byleave mcp trust {server}`"
            )),
            ServerStatus::NotConnected => Some(format!("the MCP server `{server}` did not start in time")),
            ServerStatus::Unavailable(why) => {
                Some(format!("the MCP server `{server}` is not available: {why}"))
            }
        };
        statuses.filter_map(problem).collect()
    }

    /// Prints a note for each of these servers.
    pub(crate) fn print_problems(&self, screen: &mut Console) {
        for problem in self.problems() {
            screen.message_with_tone(Tone::Careful, "note:", &prose(&problem));
        }
    }
}

/// Starts the accepted servers and adds their tools to a catalog. Nobody is asked to accept a server here.
pub(crate) async fn attach(
    catalog: &Catalog,
    house: &AppContext,
    options: &ResolvedOptions,
) -> Result<AttachedServers> {
    attach_some(catalog, house, options, |_| true).await
}

/// Starts the accepted server that may offer this tool, if it is not in the catalog.
pub(crate) async fn attach_for_tool(
    catalog: &Catalog,
    house: &AppContext,
    options: &ResolvedOptions,
    tool: &str,
) -> Result<AttachedServers> {
    if !tool.starts_with("mcp_") || catalog.contains(tool) {
        return Ok(AttachedServers { upstream: None });
    }
    attach_some(catalog, house, options, |server| tool.starts_with(&format!("mcp_{server}_"))).await
}

/// Starts the accepted server that a recorded call needs, unless a gateway holds the call and continues it, or a person answered in the
/// place of the tool.
pub(crate) async fn attach_for_call(
    gate: &Gate,
    house: &AppContext,
    options: &ResolvedOptions,
    call: CallId,
) -> Result<AttachedServers> {
    let kept = house.audit_log.record(call).await?;
    let kept = kept.filter(|kept| kept.record.person_result().is_none());
    let tool = kept.as_ref().and_then(|kept| Some(kept.record.header()?.tool.as_str()));
    match tool {
        Some(tool) if !is_pending(&pending_dir(options), call) => {
            attach_for_tool(gate.catalog(), house, options, tool).await
        }
        _ => Ok(AttachedServers { upstream: None }),
    }
}

async fn attach_some(
    catalog: &Catalog,
    house: &AppContext,
    options: &ResolvedOptions,
    is_wanted: impl Fn(&ServerName) -> bool,
) -> Result<AttachedServers> {
    if options.config.is_none() {
        return Ok(AttachedServers { upstream: None });
    }
    let mut definitions = all(options)?;
    definitions.retain(|definition| is_wanted(&definition.name));
    if definitions.is_empty() {
        return Ok(AttachedServers { upstream: None });
    }
    let ground = ground(house, options)?;
    let callers = ActiveCallers::default();
    let upstream = Upstream::for_accepted(definitions, &ground, pins(options), &callers, catalog.clone());
    if tokio::time::timeout(START_TIMEOUT, upstream.refresh_all()).await.is_err() {
        tracing::warn!("not all MCP servers were up in time");
    }
    Ok(AttachedServers { upstream: Some(upstream) })
}

/// Returns the directory where gateways note the calls that they hold.
pub(crate) fn pending_dir(options: &ResolvedOptions) -> PathBuf {
    options.state.join("mcp-pending")
}

/// Returns the person in whose name servers are accepted.
pub(crate) fn asking(options: &ResolvedOptions) -> AcceptanceContext {
    AcceptanceContext { tenant: options.tenant.clone(), cwd: options.cwd.clone(), at_terminal: false }
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
