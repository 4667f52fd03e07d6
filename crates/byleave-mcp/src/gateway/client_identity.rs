//! The identity of a client: its agent, session and protocol version.

use byleave_gate::core::id::{AgentId, SessionId};
use rmcp::model::ProtocolVersion;
use rmcp::service::{RequestContext, RoleServer};

use super::connection::ClientConnection;
use crate::protocol_version;

/// The identity of a client, as far as its connection shows.
pub(super) struct ClientIdentity {
    pub(super) agent: AgentId,
    pub(super) session: SessionId,
    pub(super) client: String,
    pub(super) version: Option<ProtocolVersion>,
}

impl ClientIdentity {
    pub(super) fn from_request(
        at: &ClientConnection,
        cx: &RequestContext<RoleServer>,
    ) -> Result<Self, String> {
        let client = cx.client_info().map(|client| client.name).unwrap_or_default();
        let named = || {
            let visible = |c: char| if c.is_control() || c.is_whitespace() { '-' } else { c };
            let name: String = client.chars().map(visible).take(128).collect();
            AgentId::new(if name.is_empty() { "mcp".to_owned() } else { name })
        };
        let agent = at.gateway.setup.agent.clone().map_or_else(named, Ok);
        let agent = agent.map_err(|bad| bad.to_string())?;
        let version = cx.protocol_version();
        Ok(Self { agent, session: at.session(version.as_ref()), client, version })
    }

    /// Checks whether the client uses the newer protocol, in which it is asked through the result of its call.
    pub(super) fn is_modern(&self) -> bool {
        self.version.as_ref().is_some_and(protocol_version::is_modern)
    }
}
