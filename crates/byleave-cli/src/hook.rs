//! Hook requests, as the gate sees them: calls of agents' own tools, evaluated like any others.
//!
//! If the agent lets us change the input, a shell call becomes a call of our own `bash`. It is prepared here and begun by
//! `byleave exec`. Every other call is evaluated and recorded, and then done by the agent, as its record says. No call may pass
//! here that the gate did not allow, and no answer lets a call pass twice.

mod agent_edit;
mod agent_tool;
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

pub(crate) use evaluate::HookEvaluator;
pub(crate) use fingerprint::Fingerprint;
pub(crate) use session_findings::SessionFindings;
pub(crate) use tickets::TicketStore;

use anyhow::Result;
use byleave_gate::catalog::Catalog;
use byleave_gate::core::id::CallId;
use byleave_gate::gate::Gate;
use byleave_gate::result::CallStatus;
use byleave_hook::AgentKind;

use crate::resolved_options::ResolvedOptions;

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
