//! `byleave serve`: the gate over HTTP, for agents and people in any language.

mod backend;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave::core::id::TenantId;
use byleave_server::listen::{self, ListenError};
use byleave_server::oidc::OidcProvider;
use byleave_server::otlp_export::OtlpExporter;
use byleave_server::{
    ClientTools, PublicUrl, Server, ServerLimits, Tenant, fresh_pages_host, is_for_workers, metrics,
};
use tokio::net::TcpListener;

use crate::active_policy::ActivePolicy;
use crate::app_context::{AppContext, state_dir, with_tools};
use crate::args::{AskArg, ServeArgs};
use crate::atomic_replace;
use crate::call_display;
use crate::command::{token, webhook};
use crate::config::Config;
use crate::console::{Console, one_line, prose};
use crate::drive_call::record_waivers;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::private_file::read_private;
use crate::resolved_options::ResolvedOptions;
use crate::signals;

use backend::{ServeBackend, TenantBackend};

/// The factor by which clients without a valid token are limited more strictly.
const STRANGERS: u32 = 25;

/// How long calls may take to end at shutdown.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    typed: ServeArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
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
            "workers execute calls in {}: `byleave token add NAME --scope work` creates a token for a worker, \
             `byleave worker` starts one",
            options.cwd
        )));
    }
    if let Some(place) = told {
        screen.message(&format!("calls are reported to the collector: {}", one_line(&place)));
    }
    if known.is_empty() {
        screen.message(&prose("nobody can use the server yet: `byleave token add NAME` creates a token"));
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
    let gate = AppContext::build_gate(own.attach_reviewers(builder))?;
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
