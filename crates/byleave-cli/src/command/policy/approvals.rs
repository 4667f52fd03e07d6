//! `byleave policy approvals`: lists and revokes standing approvals.

use anyhow::Result;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::settings::GateSettings;
use clap::Subcommand;
use serde_json::json;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::{Console, many_lines, prose};
use crate::exit_status::ExitStatus;
use crate::json_output;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::{self, short};
use crate::time::{format_duration, now};

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the standing approvals, newest first (the default)
    List,
    /// Revoke a standing approval
    Revoke {
        /// Standing approval id
        id: String,
    },
}

pub(crate) async fn run(
    command: Option<ApprovalsCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or(ApprovalsCommand::List) {
        ApprovalsCommand::List => list(options, screen).await,
        ApprovalsCommand::Revoke { id } => revoke(&id, options, screen).await,
    }
}

async fn list(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    let now = now();
    let leaves = house.audit_log.list_standing_approvals(&options.tenant, now).await?;
    if screen.json() {
        screen.value(&leaves.iter().map(|item| json_output::standing_approval_item(item, now)).collect());
    } else if leaves.is_empty() {
        screen.message("no standing approval was ever given");
    }
    for item in leaves.iter().filter(|_| !screen.json()).collect::<Vec<_>>() {
        let leave = &item.standing_approval;
        let used =
            leave.max_uses.map_or_else(|| item.uses.to_string(), |max| format!("{} of {max}", item.uses));
        let ago = format_duration(now.saturating_sub(item.granted_at));
        screen.title(&format!("standing approval {}: {}", short(&leave.id), item.state.as_str()));
        screen.line(&prose(&format!("  given by {} {ago} ago, used: {used}", item.approver.name)));
        for line in many_lines(&leave.to_rule_toml(now)) {
            screen.line(&format!("  {line}"));
        }
    }
    Ok(ExitStatus::Completed)
}

async fn revoke(id: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_to_write(options)?;
    let leave = short_ids::standing_approval(&house, options, id).await?;
    let gate = house.gate(options, &options.cwd, AskArg::None, GateSettings::default())?;
    gate.revoke(&options.tenant, &options.person.name, leave).await?;
    if screen.json() {
        screen.value(&json!({ "standing_approval": leave, "state": "revoked" }));
    } else {
        screen.line(&format!("standing approval {} is revoked", short(&leave)));
    }
    Ok(ExitStatus::Completed)
}
