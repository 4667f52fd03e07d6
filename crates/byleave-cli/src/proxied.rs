//! Calls that came by a proxy (`byleave acp`), as the gates of other commands know them.

use anyhow::Result;
use byleave::gate::Gate;

/// Whoever answers a question about a call that came by a proxy must know what it was about.
#[cfg(feature = "agent")]
pub(crate) fn equip(gate: &Gate) -> Result<()> {
    Ok(byleave_acp::equip(gate)?)
}

/// Without the feature `agent` a gate does not know the tools of such calls, and refuses them.
#[cfg(not(feature = "agent"))]
pub(crate) fn equip(_gate: &Gate) -> Result<()> {
    Ok(())
}
