//! Continues a recorded call in this process, with the tool that it needs.

use byleave_gate::core::id::CallId;
use byleave_gate::gate::Gate;
use byleave_gate::result::CallStatus;

use crate::app_context::AppContext;
use crate::drive_call;
use crate::hook;
use crate::mcp_servers;
use crate::resolved_options::ResolvedOptions;

/// Continues a call. A call that an agent must begin is only prepared, and one that a gateway holds is left to it.
pub(crate) async fn resume(
    gate: &Gate,
    house: &AppContext,
    call: CallId,
    options: &ResolvedOptions,
) -> CallStatus {
    // Held until the call has ended. Without its server, the call stays as it is.
    let servers = mcp_servers::attach_for_call(gate, house, options, call).await;
    match &servers {
        Ok(servers) => servers.problems().iter().for_each(|problem| tracing::warn!("{problem}")),
        Err(error) => tracing::warn!(%call, "cannot start the MCP server of the call: {error}"),
    }
    let status = hook::resume(gate, call, options).await;
    drive_call::follow_run(gate, house, status, options).await
}
