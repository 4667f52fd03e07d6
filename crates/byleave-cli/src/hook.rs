//! Hook requests, as the gate sees them: calls of agents' own tools, evaluated like any others.
//!
//! If the agent lets us change the input, a shell call becomes a call of our own `bash`. It is prepared here and begun by
//! `byleave exec`. Every other call is evaluated and recorded, and then done by the agent, as its record says. No call may pass
//! here that the gate did not allow, and no answer lets a call pass twice.

mod agent_edit;
mod agent_tool;
mod attended_calls;
mod codex_sandbox;
mod evaluate;
mod fingerprint;
mod passed_edits;
mod post_tool_report;
mod reports;
mod session_findings;
mod session_notes;
mod tickets;
mod turn_summary;
mod window_questions;
mod window_tickets;

pub(crate) use attended_calls::AttendedCalls;
pub(crate) use evaluate::HookEvaluator;
pub(crate) use fingerprint::Fingerprint;
pub(crate) use session_findings::SessionFindings;
pub(crate) use tickets::TicketStore;
pub(crate) use window_tickets::{WindowTicket, WindowTickets};

use anyhow::Result;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::catalog::Catalog;
use byleave_gate::core::id::CallId;
use byleave_gate::core::pipeline::{NextStep, Task, next_step};
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::result::CallStatus;
use byleave_hook::AgentKind;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::one_line;
use crate::resolved_options::ResolvedOptions;
use crate::time::now;

/// The maximum number of calls that are looked at for those that wait.
const WAITING_MAX: usize = 200;

/// Adds the agent's tool of a recorded call to a catalog, so that the call can be evaluated again. Other tools are left alone.
pub(crate) fn register_recorded_tool(catalog: &Catalog, name: &str) -> Result<()> {
    if name == post_tool_report::NAME {
        if !catalog.contains(name) {
            catalog.replace_generated(post_tool_report::ReportedRunTool::new())?;
        }
    } else if let Some((agent, tool)) = name.split_once(':')
        && let Some(agent) = AgentKind::from_name(agent)
    {
        agent_tool::register_tool(catalog, agent, tool, None)?;
    }
    Ok(())
}

/// Ends the calls whose agent went away while they waited, so that nobody is asked about them.
pub(crate) async fn end_abandoned(house: &AppContext, options: &ResolvedOptions) -> Result<()> {
    let attended = AttendedCalls::new(options);
    if attended.has_abandoned() {
        let gate = house.gate(options, &options.cwd, AskArg::Inbox, options.settings.gate())?;
        attended.end_abandoned(&gate, &house.audit_log, None).await?;
    }
    Ok(())
}

/// Says how many calls wait behind calls that a person is asked about, if there are any.
pub(crate) async fn waiting_behind(house: &AppContext, options: &ResolvedOptions) -> Result<Option<String>> {
    let attended = AttendedCalls::new(options);
    let mut tools = Vec::new();
    for call in house.audit_log.resumable_calls(now(), WAITING_MAX).await? {
        let Some(kept) = house.audit_log.record(call).await? else { continue };
        // A call that stepped back has only its receipt.
        let waits = matches!(next_step(&kept.record), NextStep::Do(Task::Resolve));
        if let Some(header) = kept.record.header().filter(|_| waits && !attended.is_unattended(call)) {
            tools.push(one_line(&header.tool));
        }
    }
    let count = tools.len() as u64;
    tools.sort();
    tools.dedup();
    let tools = tools.join(", ");
    Ok((count > 0).then(|| match count {
        1 => format!("1 call waits behind a question ({tools})"),
        _ => format!("{count} calls wait behind a question ({tools})"),
    }))
}

/// Continues a call, but never begins one that an agent must begin.
pub(crate) async fn resume(gate: &Gate, call: CallId, options: &ResolvedOptions) -> CallStatus {
    match TicketStore::new(options).find(call) {
        Ok(None) => gate.resume(call).await,
        Ok(Some(ticket)) => {
            let dialect = ticket.dialect();
            let place = (options, ticket.workspace.as_str());
            let known = dialect.and_then(|dialect| {
                agent_tool::register_tool(gate.catalog(), dialect, &ticket.tool, Some(place))
            });
            if known.is_err() {
                tracing::warn!(%call, "an agent's tool is no longer known");
            }
            gate.prepare_existing(call).await
        }
        // It may be an agent's call.
        Err(_) => gate.prepare_existing(call).await,
    }
}
