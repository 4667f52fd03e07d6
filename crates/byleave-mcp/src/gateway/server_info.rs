//! The gateway's description of itself for clients.

use rmcp::model::{
    Implementation, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities, ServerConfig,
    TASKS_EXTENSION_ID, ToolsCapability,
};

use super::{GatewayInner, NamingScheme};

/// The instructions for agents.
const INSTRUCTIONS: &str = "Rules decide about every call here, and some calls wait for a person. A result that begins with `[byleave] pending` \
means that the call has not run: make exactly the same call again later to get its result. A refusal says why, and what to do instead; the same \
call is refused again.";

/// Returns the gateway's description. A gateway for a single server passes on that server's description, except for
/// unsupported parts.
pub(super) fn server_config(gateway: &GatewayInner) -> ServerConfig {
    let servers = gateway.servers.list();
    if gateway.setup.naming == NamingScheme::Upstream
        && let Some(says) = servers.first().and_then(|server| server.peer_info())
    {
        let (info, instructions) = (says.server_info.clone(), says.instructions.clone());
        let mut says = ServerConfig::new(says.capabilities.clone());
        if let Some(info) = info {
            says = says.with_server_info(info);
        }
        says.instructions = instructions;
        // Tasks are not supported: the server keeps them for its client, and the gateway does not follow them.
        if let Some(extensions) = &mut says.capabilities.extensions {
            extensions.remove(TASKS_EXTENSION_ID);
        }
        return says;
    }
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(true);
    capabilities.tools = Some(tools);
    // A server that is down now may be up later, and a client asks only once.
    if !servers.is_empty() {
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = Some(true);
        let mut resources = ResourcesCapability::default();
        (resources.list_changed, resources.subscribe) = (Some(true), Some(true));
        capabilities.prompts = Some(prompts);
        capabilities.resources = Some(resources);
        capabilities.completions = Some(JsonObject::new());
        capabilities.logging = Some(JsonObject::new());
    }
    ServerConfig::new(capabilities)
        .with_server_info(Implementation::new("byleave", env!("CARGO_PKG_VERSION")))
        .with_instructions(INSTRUCTIONS)
}
