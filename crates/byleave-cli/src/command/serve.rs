//! `byleave serve`: the gate over HTTP, for agents and people in any language.

mod backend;
#[cfg(feature = "fleet")]
mod fleet;
pub(super) mod token;
pub(super) mod webhook;
mod worker;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use backend::{ServeBackend, TenantBackend};
use byleave_gate::core::id::TenantId;
use byleave_server::listen::{self, ListenError};
use byleave_server::oidc::OidcProvider;
use byleave_server::otlp_export::OtlpExporter;
use byleave_server::principal::Slug;
use byleave_server::{
    ClientTools, PublicUrl, Server, ServerLimits, Tenant, fresh_pages_host, is_for_workers, metrics,
};
use clap::{Args as Group, Subcommand};
use tokio::net::TcpListener;

#[cfg(feature = "fleet")]
use self::fleet::FleetCommand;
use self::token::TokenCommand;
use self::webhook::WebhookCommand;
use self::worker::WorkerArgs;
use crate::active_policy::ActivePolicy;
use crate::app_context::{AppContext, state_dir, with_tools};
use crate::args::{AskArg, ModeArg};
use crate::config::Config;
use crate::console::{Console, one_line, prose};
use crate::drive_call::record_waivers;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::private_file::read_private;
use crate::resolved_options::ResolvedOptions;
use crate::{atomic_replace, call_display, reviewers, signals};

#[derive(Debug, Group)]
pub(crate) struct ServeCommandArgs {
    #[command(subcommand)]
    command: Option<ServeCommand>,
    #[command(flatten)]
    server: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// Create, list and remove tokens for the server
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
    },
    /// Manage webhooks that are notified of new questions
    ///
    /// The server sends the notifications while it runs, and signs them as Standard Webhooks specifies. A notification has the
    /// question as lists show it and a link to its page, and never the contents of the call.
    Webhook {
        #[command(subcommand)]
        command: Option<WebhookCommand>,
    },
    /// Execute calls of a remote server on this machine
    ///
    /// The server must use workers (`byleave serve --workers`). The worker opens the connection, so it needs no open port. It plans,
    /// rehearses and runs calls in its working directory, which must have the same path as the server's. The policy of the worker
    /// applies. On a signal it accepts no new calls, and exits when its running calls have ended. A second signal exits at once, with
    /// code 5.
    Worker(WorkerArgs),
    /// Show fleet health and repair its audit log
    #[cfg(feature = "fleet")]
    Fleet {
        #[command(subcommand)]
        command: FleetCommand,
    },
}

#[derive(Debug, Group)]
pub(crate) struct ServeArgs {
    /// Address to listen on; other than this machine only with TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub(crate) listen: SocketAddr,
    /// TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// TLS key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host name that clients use, besides localhost
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Public URL of the pages, for links to questions [default: the listening address]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<PublicUrl>,
    /// Let workers execute all calls (`byleave serve worker`), and run nothing here
    #[arg(long, group = "crewed")]
    pub(crate) workers: bool,
    /// Fleet file: use a durable engine and Postgres, and let workers execute all calls
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "FILE", group = "crewed")]
    pub(crate) fleet: Option<PathBuf>,
    /// Time that a disconnected worker keeps its calls: a number and s, m or h
    #[arg(long, value_name = "DURATION", default_value = "60s", requires = "crewed")]
    pub(crate) worker_lease: String,
    /// Tenant with its own audit log, besides `local`
    #[arg(long = "tenant", value_name = "NAME")]
    pub(crate) tenants: Vec<Slug>,
    /// Least strict mode; calls may use a stricter one [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// OpenID Connect issuer that authenticates people, as in https://id.example.org
    #[arg(long, value_name = "URL", requires = "oidc_client")]
    pub(crate) oidc_issuer: Option<String>,
    /// Client id of the server at the issuer; the redirect path is /sign-in/callback
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    pub(crate) oidc_client: Option<String>,
    /// File with the client secret, if there is one; only its owner may read it
    #[arg(long, value_name = "FILE", requires = "oidc_client")]
    pub(crate) oidc_secret: Option<PathBuf>,
    /// Requests per second for each principal; 1/25 for an address without a valid token
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) requests_per_second: u32,
    /// Maximum concurrent calls of a tenant; further calls are rejected, to be retried later
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) calls: u32,
    /// Maximum concurrent connections; further ones are rejected
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// Maximum concurrent event streams of a tenant; 1/8 of that for each principal
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    pub(crate) streams: u32,
}

/// The factor by which clients without a valid token are limited more strictly.
const STRANGERS: u32 = 25;

/// How long calls may take to end at shutdown.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    typed: ServeCommandArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match typed.command {
        None => serve(typed.server, options, screen).await,
        Some(ServeCommand::Token { command }) => token::run(command, options, screen),
        Some(ServeCommand::Webhook { command }) => webhook::run(command, options, screen).await,
        Some(ServeCommand::Worker(typed)) => worker::run(typed, options, screen).await,
        #[cfg(feature = "fleet")]
        Some(ServeCommand::Fleet { command }) => fleet::run(command, options, screen).await,
    }
}

async fn serve(typed: ServeArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let options = &options.for_many();
    let usable = |fault: ListenError| {
        CliError::new(fault.to_string())
            .hint("`--listen 127.0.0.1:0` listens on this machine only; `--tls-cert` and `--tls-key` protect other addresses")
    };
    let tls = typed.tls_cert.as_deref().zip(typed.tls_key.as_deref());
    let tls = tls.map(|(certificate, key)| listen::load_tls(certificate, key)).transpose().map_err(usable)?;
    // Checked before anything listens, so that others do not see even that.
    listen::check_address(typed.listen, tls.is_some()).map_err(usable)?;
    let tokens = token::tokens(options);
    let known = tokens.list().map_err(|fault| token::unusable(&fault))?;
    let chosen = options.settings.clone().with_mode(typed.mode);
    call_display::print_tightened(screen, &chosen);

    let mut builder = Server::builder(options.tenant.clone(), tokens).limits(limits(&typed));
    builder = builder.metrics(metrics::collect().context("cannot set up metrics")?);
    let collector = OtlpExporter::from_env()?;
    let told = collector.as_ref().map(|_| OtlpExporter::endpoint());
    if let Some(collector) = collector {
        builder = builder.collector(collector);
    }
    let ground = ServeBackend::typed(&typed, options, screen).await?;
    builder = builder.tenant(tenancy(options, &chosen, &ground).await?);
    for name in &typed.tenants {
        let options = options.for_tenant(TenantId::new(name.as_str())?);
        builder = builder.tenant(tenancy(&options, &chosen, &ground).await?);
    }
    if let Some((issuer, client)) = typed.oidc_issuer.zip(typed.oidc_client) {
        builder = builder.oidc(provider(&issuer, client, typed.oidc_secret.as_deref())?);
    }
    let builder = typed.hosts.iter().fold(builder, |builder, host| builder.host(host));

    let listener = TcpListener::bind(typed.listen).await;
    let listener = listener.map_err(|error| {
        CliError::new(format!("cannot listen on {}: {error}", typed.listen))
            .hint("`--listen 127.0.0.1:0` finds a free port")
    })?;
    let address = listener.local_addr().context("cannot determine the listening address")?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let public = match typed.public_url {
        Some(url) => url,
        None => usual_url(scheme, address, typed.hosts.first())?,
    };
    // Agents and webhooks get links with the public URL. The sign-in host is for people only.
    let (builder, pages) = if tls.is_some() || public.is_encrypted() {
        (builder, public.to_string())
    } else {
        let host = pages_host(options)?;
        (builder.pages_host(&host), format!("{scheme}://{host}:{}", address.port()))
    };
    let builder = builder.public_url(public);
    let server = builder.notices(serving_file(options), webhook::webhooks(options)).build();
    screen.message(&format!("listening on {scheme}://{address}/v1"));
    screen.message(&format!("people sign in at {pages}/"));
    if ground.has_workers() {
        screen.message(&prose(&format!(
            "workers execute calls in {}: `byleave serve token add NAME --scope work` creates a token for a worker, \
             `byleave serve worker` starts one",
            options.cwd
        )));
    }
    if let Some(place) = told {
        screen.message(&format!("calls are reported to the collector: {}", one_line(&place)));
    }
    if known.is_empty() {
        screen
            .message(&prose("nobody can use the server yet: `byleave serve token add NAME` creates a token"));
    }
    let serving = listen::serve(server, listener, tls, signals::shutdown_token()?, GRACE);
    ground.serve(serving, screen).await?;
    Ok(ExitStatus::Completed)
}

/// Returns the host on which people sign in without TLS. It is the same each time, so that bookmarks work.
fn pages_host(options: &ResolvedOptions) -> Result<String> {
    let path = options.state.join("pages-host");
    let known = atomic_replace::text(&path)?;
    if let Some(host) = known.as_deref().map(str::trim).filter(|host| !host.is_empty()) {
        return Ok(host.to_owned());
    }
    let host = fresh_pages_host().context("cannot get random numbers")?;
    atomic_replace::replace(&path, known.as_deref(), &host)?;
    Ok(host)
}

fn limits(typed: &ServeArgs) -> ServerLimits {
    let many = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let each = typed.requests_per_second;
    ServerLimits {
        requests_per_second: each,
        burst: each.saturating_mul(4),
        unauthenticated_per_second: (each / STRANGERS).max(1),
        max_calls: many(typed.calls),
        max_connections: many(typed.connections),
        max_streams: many(typed.streams),
        max_streams_per_principal: many(typed.streams / 8),
        ..ServerLimits::default()
    }
}

/// Creates the OIDC provider that authenticates people.
fn provider(issuer: &str, client: String, secret: Option<&Path>) -> Result<OidcProvider> {
    let secret = secret.map(|path| {
        let hint =
            "the file must contain only the client's secret, and only its owner may read it: `chmod 600`";
        read_private(path).map_err(|why| {
            CliError::new(format!("cannot use the secret in `{}`: {why}", path.display())).hint(hint)
        })
    });
    let provider = OidcProvider::new(issuer, client, secret.transpose()?.as_ref());
    Ok(provider.map_err(|fault| {
        CliError::new(fault.to_string()).hint("`--oidc-issuer` is the issuer URL of the provider, with https")
    })?)
}

/// Returns the file that says that a server runs on this audit log, and where its pages are.
pub(super) fn serving_file(options: &ResolvedOptions) -> PathBuf {
    options.state.join("serving.json")
}

/// Returns the default URL of the pages: the listening address, with the name that clients use.
fn usual_url(scheme: &str, address: SocketAddr, host: Option<&String>) -> Result<PublicUrl> {
    let port = address.port();
    let url = match host {
        Some(host) => format!("{scheme}://{host}:{port}"),
        // An unspecified address cannot be used in a link.
        None if address.ip().is_unspecified() => format!("{scheme}://localhost:{port}"),
        None => format!("{scheme}://{address}"),
    };
    url.parse::<PublicUrl>().or_else(|_| {
        // A name may be valid for clients and not for a link without TLS.
        let here: PublicUrl = format!("{scheme}://localhost:{port}").parse()?;
        Ok(here)
    })
}

/// Builds the gate of one tenant. Its questions stay open until somebody answers them.
async fn tenancy(options: &ResolvedOptions, chosen: &Config, ground: &ServeBackend) -> Result<Tenant> {
    let TenantBackend { ledger, audit_log: book, workers: crew } = ground.tenant_backend(options).await?;
    let state = state_dir(options)?;
    let policy = ActivePolicy { options, workspace: &options.cwd, state: &state }.load()?.policy;
    let builder =
        with_tools(options, &options.cwd, AskArg::Inbox, chosen.gate(), Arc::clone(&ledger))?.policy(policy);
    let builder = if crew.is_some() { builder.skip_calls(Arc::new(is_for_workers)) } else { builder };
    let own = ClientTools::default();
    // After those of the clients, because a later reviewer sees the changes of the earlier ones.
    let builder = reviewers::attach(own.attach_reviewers(builder), chosen, &options.cwd)?;
    let gate = AppContext::build_gate(builder)?;
    record_waivers(&gate, options).await?;
    let mut tenancy =
        Tenant::new(options.tenant.clone(), gate, (ledger, book), options.cwd.clone(), chosen.mode());
    if let Some(crew) = crew {
        tenancy = tenancy.with_workers(crew);
    }
    let options = options.clone();
    let tried = move |text: &str| {
        ActivePolicy { options: &options, workspace: &options.cwd, state: &state }.with_own(text)
    };
    Ok(tenancy.with_client_tools(own).with_trial_policy(Arc::new(tried)))
}
