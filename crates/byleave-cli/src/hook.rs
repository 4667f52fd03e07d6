//! Hooks, seen from the gate: calls of agents' own tools, judged like any others.
//!
//! A shell call whose input the agent lets us change becomes a call of our own `bash`, prepared here and begun by `byleave exec`.
//! Every other one is judged and recorded, and then done by the agent: the record says so. Nothing here lets a call pass that the
//! gate did not, and none passes twice on one answer.

mod agent_tool;
mod evaluate;
mod fingerprint;
mod post_tool_report;
mod tickets;

pub(crate) use evaluate::HookEvaluator;
pub(crate) use fingerprint::Fingerprint;
pub(crate) use tickets::TicketStore;

use byleave::core::id::CallId;
use byleave::gate::Gate;
use byleave::result::CallStatus;

use crate::resolved_options::ResolvedOptions;

/// Drives a call on, but never begins one that is for an agent to begin.
pub(crate) async fn resume(gate: &Gate, call: CallId, options: &ResolvedOptions) -> CallStatus {
    match TicketStore::of(options).find(call) {
        Ok(None) => gate.resume(call).await,
        Ok(Some(ticket)) => {
            let dialect = ticket.dialect();
            if dialect.and_then(|dialect| agent_tool::equip(gate, dialect, &ticket.tool)).is_err() {
                tracing::warn!(%call, "the tool of an agent is not known any more");
            }
            gate.prepare_again(call).await
        }
        // It may be an agent's.
        Err(_) => gate.prepare_again(call).await,
    }
}
