//! `byleave serve`: the gate over HTTP, for agents and people in any language.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave::core::id::TenantId;
use byleave_server::listen::{self, ListenFault};
use byleave_server::{Limits, Server, Tenancy, telemetry};
use tokio::net::TcpListener;

use crate::args::{Ask, ServeHttp};
use crate::ask::waive;
use crate::command::token;
use crate::complaint::Complaint;
use crate::config::Config;
use crate::house::House;
use crate::options::Options;
use crate::screen::{Screen, prose};
use crate::show;
use crate::signals;
use crate::status::Status;

/// Who shows no good token may ask so many times less often.
const STRANGERS: u32 = 25;

/// How long calls may take to end when everything does.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) async fn run(typed: ServeHttp, options: &Options, screen: &mut Screen) -> Result<Status> {
    let usable = |fault: ListenFault| {
        Complaint::new(fault.to_string())
            .hint("`--listen 127.0.0.1:0` listens where only this machine can reach it; `--tls-cert` and `--tls-key` protect more")
    };
    let tls = typed.tls_cert.as_deref().zip(typed.tls_key.as_deref());
    let tls = tls.map(|(certificate, key)| listen::tls(certificate, key)).transpose().map_err(usable)?;
    // Before anything listens: nobody else may see even that.
    listen::may_listen(typed.listen, tls.is_some()).map_err(usable)?;
    let tokens = token::tokens(options);
    let known = tokens.list().map_err(|fault| token::unusable(&fault))?;
    let chosen = options.chosen.clone().in_mode(typed.mode);
    show::tightened(screen, &chosen);

    let (each, burst) = (typed.requests_per_second, typed.requests_per_second.saturating_mul(4));
    let strangers_per_second = (each / STRANGERS).max(1);
    let limits = Limits { requests_per_second: each, burst, strangers_per_second, ..Limits::default() };
    let mut builder = Server::builder(options.tenant.clone(), tokens).limits(limits);
    builder = builder.metrics(telemetry::collect().context("cannot count anything")?);
    builder = builder.tenancy(tenancy(options, &chosen).await?);
    for name in &typed.tenants {
        builder = builder.tenancy(tenancy(&options.of_tenant(TenantId::new(name.as_str())?), &chosen).await?);
    }
    let server = typed.hosts.iter().fold(builder, |builder, host| builder.host(host)).build();

    let listener = TcpListener::bind(typed.listen).await;
    let listener = listener.map_err(|error| {
        Complaint::new(format!("cannot listen on {}: {error}", typed.listen))
            .hint("`--listen 127.0.0.1:0` finds a free port")
    })?;
    let address = listener.local_addr().context("cannot find out where we listen")?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    screen.say(&format!("listening on {scheme}://{address}/v1"));
    if known.is_empty() {
        screen.say(&prose("nobody can use it yet: `byleave token add NAME` makes a token"));
    }
    listen::serve(server, listener, tls, signals::ended()?, GRACE).await?;
    Ok(Status::Completed)
}

/// The gate of one tenant, with questions left open for whoever answers them.
async fn tenancy(options: &Options, chosen: &Config) -> Result<Tenancy> {
    let house = House::open_or_make(options)?;
    let gate = house.gate(options, &options.cwd, Ask::Inbox, chosen.gate())?;
    waive(&gate, options).await?;
    let shelf = (Arc::clone(&house.book) as Arc<_>, Arc::clone(&house.book) as Arc<_>);
    Ok(Tenancy::new(options.tenant.clone(), gate, shelf, options.cwd.clone(), chosen.mode()))
}
