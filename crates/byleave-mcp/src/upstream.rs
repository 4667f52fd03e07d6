//! Upstream: MCP servers, whose tools become tools of the gate.
//!
//! ```text
//! mcp.toml ─▶ definition ─▶ pins: accepted? ─▶ link (child in the sandbox, or HTTP) ─▶ offered ─▶ pins: accepted? ─▶ catalog
//! ```
//!
//! Nothing of a server is started, shown to a model or called before a person has accepted just that.

mod active_calls;
mod argument_effects;
mod client_handler;
pub mod config_file;
mod connection;
mod http;
pub mod login;
pub mod login_store;
pub mod pins;
mod raw_capture;
pub mod server_definition;
mod server_process;
mod server_tool;
mod servers;
pub mod tool_names;
mod trust_server;

use std::sync::Arc;

use rmcp::model::{ServerPeerInfo, Tool};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::broadcast;

pub use connection::ServerUnavailable;
pub use server_process::{ServerEnvironment, ServerStartError};
pub use server_tool::ServerTool;
pub use servers::{ServerStatus, Upstream};
pub use trust_server::{ACCEPT, AcceptanceContext};

/// A server that is there, as the gateway sees it.
pub trait Server: Send + Sync {
    /// Its name with us.
    fn name(&self) -> &str;
    /// What it said of itself when it was connected; nothing while it is down or suspended.
    fn says(&self) -> Option<Arc<ServerPeerInfo>>;
    /// How to speak to it, for what passes by the gate (prompts, completion); nothing while it is down or suspended.
    fn peer(&self) -> Option<Peer<RoleClient>>;
    /// What it said of a tool, by the tool's name in the catalog; nothing where it is not passed on as it was said.
    fn definition(&self, _tool: &str) -> Option<Arc<Tool>> {
        None
    }
}

/// Something that changed at a server, of which agents are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// Its tools are others, after pins were looked at.
    Tools,
    /// Its prompts are others.
    Prompts,
    /// Its resources are others.
    Resources,
    /// One of its resources has changed.
    Resource {
        /// Which.
        uri: String,
    },
}

/// All servers.
pub trait Servers: Send + Sync {
    /// Those that there are, by name.
    fn list(&self) -> Vec<Arc<dyn Server>>;
    /// Hears what changes from now on: the server's name, and what.
    fn news(&self) -> broadcast::Receiver<(String, ServerChange)>;
}
