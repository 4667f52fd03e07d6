//! Hooks, seen from the gate: calls of agents' own tools, judged like any others.
//!
//! A shell call whose input the agent lets us change becomes a call of our own `bash`, prepared here and begun by `byleave exec`.
//! Every other one is judged and recorded, and then done by the agent: the record says so. Nothing here lets a call pass that the
//! gate did not, and none passes twice on one answer.

mod fingerprint;
mod foreign;
mod judge;
mod ran;
mod tickets;

pub(crate) use fingerprint::Fingerprint;
pub(crate) use judge::Judge;
pub(crate) use tickets::Tickets;

use byleave::core::id::CallId;
use byleave::gate::Gate;
use byleave::result::Standing;

use crate::options::Options;

/// Drives a call on, but never begins one that is for an agent to begin.
pub(crate) async fn resume(gate: &Gate, call: CallId, options: &Options) -> Standing {
    match Tickets::of(options).find(call) {
        Ok(None) => gate.resume(call).await,
        Ok(Some(ticket)) => {
            let dialect = ticket.dialect();
            if dialect.and_then(|dialect| foreign::equip(gate, dialect, &ticket.tool)).is_err() {
                tracing::warn!(%call, "the tool of an agent is not known any more");
            }
            gate.prepare_again(call).await
        }
        // It may be an agent's.
        Err(_) => gate.prepare_again(call).await,
    }
}
