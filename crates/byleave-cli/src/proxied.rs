//! Calls of the ACP proxy (`byleave acp`), as the gates of other commands know them.

use anyhow::Result;
use byleave::gate::Gate;

/// Adds the proxy's tools, because an approver of such a call must know what it was about.
#[cfg(feature = "agent")]
pub(crate) fn equip(gate: &Gate) -> Result<()> {
    Ok(byleave_acp::equip(gate)?)
}

/// Does nothing without the feature `agent`. The gate then does not know the tools of such calls, and refuses them.
#[cfg(not(feature = "agent"))]
pub(crate) fn equip(_gate: &Gate) -> Result<()> {
    Ok(())
}
