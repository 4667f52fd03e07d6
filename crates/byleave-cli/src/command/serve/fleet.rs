//! `byleave serve fleet`: shows the status of a fleet, and maintains its audit log.

use std::path::{Path, PathBuf};

use anyhow::Result;
use byleave_fleet::{BookHealth, BookLag, Fleet, Health};
use byleave_gate::core::id::TenantId;
use byleave_server::principal::Slug;
use clap::{Args as Group, Subcommand};
use serde_json::{Value, json};

use crate::console::{Console, Tone, one_line, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::private_file::read_private;
use crate::resolved_options::ResolvedOptions;
use crate::time::{format_duration, now};

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Show the health of a fleet
    ///
    /// Checks the engine, the service, the gateway and the audit log of each tenant. Exits with 1 unless all are healthy.
    Status(FleetArgs),
    /// Send entries that the engine holds to the audit logs again
    ///
    /// Use this after you have restored the audit logs from a backup.
    Resend(FleetArgs),
}

#[derive(Debug, Group)]
pub(crate) struct FleetArgs {
    /// Fleet file, as for `byleave serve --fleet`
    pub(crate) file: PathBuf,
    /// Tenant to include, besides `local`
    #[arg(long = "tenant", value_name = "NAME")]
    pub(crate) tenants: Vec<Slug>,
}

pub(crate) async fn run(
    command: FleetCommand,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command {
        FleetCommand::Status(typed) => status(&typed, options, screen).await,
        FleetCommand::Resend(typed) => resend(&typed, options, screen).await,
    }
}

/// Reads the configuration file of a fleet.
pub(crate) fn load_fleet(path: &Path) -> Result<Fleet> {
    let flawed = |why: String| {
        CliError::new(format!("cannot use the fleet file `{}`: {why}", path.display())).hint(
            "docs/operations.md describes the file; it contains keys, and only its owner may read it: `chmod 600`",
        )
    };
    let text = read_private(path).map_err(|error| flawed(error.to_string()))?;
    let text = std::str::from_utf8(text.expose()).map_err(|error| flawed(error.to_string()))?;
    Ok(Fleet::parse(text).map_err(|fault| flawed(fault.to_string()))?)
}

fn tenants(typed: &FleetArgs, options: &ResolvedOptions) -> Result<Vec<TenantId>> {
    let named = typed.tenants.iter().map(|name| Ok(TenantId::new(name.as_str())?));
    std::iter::once(Ok(options.tenant.clone())).chain(named).collect()
}

async fn status(typed: &FleetArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let health = load_fleet(&typed.file)?.look(&tenants(typed, options)?, now()).await;
    if screen.json() {
        screen.value(&as_json(&health));
    } else {
        show(&health, screen);
    }
    Ok(if health.is_well() { ExitStatus::Completed } else { ExitStatus::Failed })
}

fn show(health: &Health, screen: &mut Console) {
    let mut say = |what: &str, stands: Result<String, &String>| match stands {
        Ok(stands) => screen.line(&prose(&format!("{what}: {stands}"))),
        Err(why) => screen.message_with_tone(Tone::Careful, &format!("{what}:"), &prose(&one_line(why))),
    };
    for (node, stands) in &health.nodes {
        say(&format!("engine at {}", one_line(node)), stands.as_ref().map(|()| "responds".to_owned()));
    }
    say("service", health.service.as_ref().map(|()| "responds".to_owned()));
    say("gateway", health.gateway.as_ref().map(|()| "running".to_owned()));
    for (tenant, stands) in &health.books {
        let what = format!("audit log of {tenant}");
        let stands = stands.as_ref().map(|BookHealth { lag, backlog }| {
            let owed = match lag {
                BookLag { waiting: 0, .. } => "up to date".to_owned(),
                BookLag { waiting, oldest_ms, .. } => {
                    format!(
                        "{waiting} calls and admin actions are in transit, the oldest for {}",
                        format_duration(*oldest_ms)
                    )
                }
            };
            match backlog.out_of_order {
                0 => owed,
                early => {
                    format!(
                        "{owed}; {early} appends wait for earlier ones, the oldest for {}",
                        format_duration(backlog.oldest_out_of_order_ms)
                    )
                }
            }
        });
        say(&what, stands);
    }
    for why in
        health.books.iter().filter_map(|(_, book)| book.as_ref().ok()).flat_map(|book| &book.lag.refused)
    {
        screen.message_with_tone(Tone::Careful, "refused by the audit log:", &prose(&one_line(why)));
    }
}

fn as_json(health: &Health) -> Value {
    let stands =
        |stands: &Result<(), String>| json!({ "ok": stands.is_ok(), "reason": stands.as_ref().err() });
    let nodes = health.nodes.iter().map(|(node, state)| json!({ "address": node, "state": stands(state) }));
    let books = health.books.iter().map(|(tenant, book)| match book {
        Ok(BookHealth { lag, backlog }) => json!({
            "tenant": tenant,
            "waiting": lag.waiting,
            "oldest_ms": lag.oldest_ms,
            "refused": lag.refused,
            "early": backlog.out_of_order,
        }),
        Err(why) => json!({ "tenant": tenant, "reason": why }),
    });
    json!({
        "well": health.is_well(),
        "nodes": nodes.collect::<Vec<_>>(),
        "service": stands(&health.service),
        "gateway": stands(&health.gateway),
        "books": books.collect::<Vec<_>>(),
    })
}

async fn resend(typed: &FleetArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let fleet = load_fleet(&typed.file)?;
    let mut sent = serde_json::Map::new();
    for tenant in tenants(typed, options)? {
        let many = fleet.send_again(&tenant).await?;
        if !screen.json() {
            screen.line(&prose(&format!(
                "audit log of {tenant}: {many} calls and admin actions are sent again"
            )));
        }
        sent.insert(tenant.to_string(), json!(many));
    }
    if screen.json() {
        screen.value(&Value::Object(sent));
    } else {
        screen.message(&prose("`byleave serve fleet status` shows when they have arrived"));
    }
    Ok(ExitStatus::Completed)
}
