//! `byleave mcp serve`: an MCP server for agents, on standard input and output or over HTTP.
//!
//! Standard output belongs to the protocol. Nothing else may ever be written there.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave_gate::core::id::AgentId;
use byleave_gate::core::question::Question;
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::gateway::http::{self, GatewayToken, PATH};
use byleave_mcp::gateway::{Gateway, GatewaySettings, NamingScheme, SamplingChallenger, stdio};
use byleave_mcp::upstream::server_definition::ServerDefinition;
use byleave_mcp::upstream::{ServerStatus, Upstream};
use clap::Args as Group;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::pages::pages;
use crate::app_context::{AppContext, collect_garbage_in_background};
use crate::args::{AskArg, ModeArg};
use crate::console::{Console, one_line, prose};
use crate::drive_call::record_waivers;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::{call_display, mcp_servers, notify, signals};

/// A person needs longer than this to read a form and decline it.
const MIN_DECLINE_TIME: Duration = Duration::from_secs(2);

#[derive(Debug, Group)]
pub(crate) struct McpServeArgs {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// Offer only the one server, under its own names (for conformance tests)
    #[arg(long)]
    pub(crate) transparent: bool,
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
    /// Show what each call would do; run and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The interval at which a client is notified that a call still waits.
const TICK: Duration = Duration::from_secs(5);

/// How long clients wait for servers that start slowly.
const UP: Duration = Duration::from_secs(8);

/// How long calls may take to end at shutdown.
const GRACE: Duration = Duration::from_secs(5);

pub(super) async fn run(
    typed: McpServeArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let definitions = mcp_servers::all(options)?;
    if typed.transparent && definitions.len() != 1 {
        let count = definitions.len();
        return Err(CliError::new(format!(
            "`--transparent` needs exactly one server, and there are {count}"
        ))
        .hint("`byleave mcp wrap -- COMMAND` puts the gate in front of one")
        .into());
    }
    let names = if typed.transparent { NamingScheme::Upstream } else { NamingScheme::Catalog };
    serve_servers(typed.gateway, definitions, names, false, options, screen).await
}

/// Serves these servers, and the built-in tools if the names are ours.
pub(super) async fn serve_servers(
    typed: GatewayArgs,
    definitions: Vec<ServerDefinition>,
    names: NamingScheme,
    accept: bool,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let (there, dry_run) = (typed.http, typed.dry_run || options.settings.is_dry_run());
    let (house, chosen) =
        (AppContext::open_or_create(options)?, options.settings.clone().with_mode(typed.mode));
    call_display::print_tightened(screen, &chosen);
    collect_garbage_in_background(options);
    // Standard input belongs to the client, so nobody can be asked there.
    let ask = match options.resolve_ask(None, AskArg::Inbox) {
        AskArg::None => AskArg::None,
        AskArg::Terminal | AskArg::Inbox => AskArg::Inbox,
    };
    let exchange = ActiveCallers::default();
    let builder = house.builder(&options.for_models(), &options.cwd, ask, chosen.gate())?;
    let gate = builder.challenger(SamplingChallenger::new(exchange.clone())).build()?;
    record_waivers(&gate, options).await?;
    let pins = mcp_servers::session_pins(options, dry_run)?;
    let upstream = mcp_servers::connect(&gate, &house, &exchange, definitions, pins, options)?;
    brought_up(&upstream, accept).await;
    if names == NamingScheme::Upstream
        && let Some((server, ServerStatus::Unavailable(why))) = upstream.statuses().into_iter().next()
    {
        let down = CliError::new(format!("cannot put the gate in front of the server `{server}`: {why}"));
        return Err(down
            .hint("`byleave doctor` shows what the sandbox lacks; `-v` shows the output of the server")
            .into());
    }
    let asking = (!dry_run).then(|| (gate.clone(), mcp_servers::asking(options)));
    let attending = tokio::spawn(upstream.clone().supervise(asking));
    let setup = GatewaySettings { mode: chosen.mode(), ..setup(typed, names, options) };
    let gateway = Gateway::new(gate, exchange, Arc::new(upstream), setup)?;
    let end = signals::shutdown_token()?;
    match there {
        None => stdio::serve_stdio(&gateway, end).await?,
        Some(address) => listen(&gateway, address, end, options, screen).await?,
    }
    gateway.wait_until_idle(GRACE).await;
    attending.abort();
    Ok(ExitStatus::Completed)
}

/// Gives servers a moment to start. Clients list tools once, and not all of them handle a later change.
async fn brought_up(upstream: &Upstream, accept: bool) {
    // Outside the time limit: a server that is cut off here would need a person to accept it. Its connection has its own limit.
    for (server, _) in upstream.statuses().into_iter().filter(|_| accept) {
        if let Err(why) = upstream.accept_on_first_use(&server).await {
            tracing::warn!(%server, why, "a server is not available");
        }
    }
    if tokio::time::timeout(UP, upstream.refresh_all()).await.is_err() {
        tracing::warn!("not all servers were up in time; their tools are added when they are");
    }
}

fn setup(typed: GatewayArgs, names: NamingScheme, options: &ResolvedOptions) -> GatewaySettings {
    let chosen = options.settings.clone();
    let told = move |question: &Question, tool: &str| {
        // Nobody reads our standard error, so a failed notification is ignored.
        notify::try_notify(&chosen, question, &one_line(tool)).unwrap_or_default();
    };
    GatewaySettings {
        tenant: options.tenant.clone(),
        cwd: options.cwd.clone(),
        mode: options.settings.mode(),
        dry_run: typed.dry_run || options.settings.is_dry_run(),
        agent: typed.agent,
        elicitation: options.settings.mcp_elicitation(),
        min_decline_time: MIN_DECLINE_TIME,
        pages: pages(options),
        call_timeout: typed.deadline.map(Duration::from_secs),
        progress_interval: TICK,
        naming: names,
        pending_dir: mcp_servers::pending_dir(options),
        notifier: Some(Arc::new(told)),
    }
}

async fn listen(
    gateway: &Gateway,
    address: SocketAddr,
    end: CancellationToken,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<()> {
    // Checked before anything listens, so that others do not see even that.
    let usable = |fault: http::HttpServeError| {
        CliError::new(fault.to_string()).hint("`--http 127.0.0.1:0` listens on this machine only")
    };
    http::check_loopback(address).map_err(usable)?;
    let file: PathBuf = options.state.join("mcp-token");
    let token = GatewayToken::load_or_create(&file).map_err(|fault| {
        CliError::new(fault.to_string()).hint("`byleave mcp serve` without `--http` needs no token")
    })?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        CliError::new(format!("cannot listen on {address}: {error}"))
            .hint("`--http 127.0.0.1:0` finds a free port")
    })?;
    let address = listener.local_addr().context("cannot determine the listening address")?;
    screen.message(&format!("listening on http://{address}{PATH}"));
    screen.message(&prose(&format!(
        "clients send `Authorization: Bearer` with the token in {}",
        file.display()
    )));
    http::serve(gateway.clone(), listener, token, end).await?;
    Ok(())
}
