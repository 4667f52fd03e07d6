//! Calls of the ACP proxy (`byleave acp`), as the gates of other commands know them.

use anyhow::Result;
use byleave_gate::gate::Gate;

/// Adds the proxy's tools, because an approver of such a call must know what it was about.
#[cfg(feature = "agent")]
pub(crate) fn register_tools(gate: &Gate) -> Result<()> {
    Ok(byleave_acp::register_tools(gate)?)
}

/// Does nothing without the feature `agent`. The gate then does not know the tools of such calls, and refuses them.
#[cfg(not(feature = "agent"))]
pub(crate) fn register_tools(_gate: &Gate) -> Result<()> {
    Ok(())
}
