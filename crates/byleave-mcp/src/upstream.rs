//! MCP servers whose tools become tools of the gate.
//!
//! ```text
//! mcp.toml ─▶ definition ─▶ pins: accepted? ─▶ link (child in the sandbox, or HTTP) ─▶ offered ─▶ pins: accepted? ─▶ catalog
//! ```
//!
//! No part of a server is started, shown to a model or called before a person has accepted exactly that part.

mod active_calls;
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

pub use connection::ServerUnavailableError;
pub use server_process::{ServerEnvironment, ServerStartError};
pub use server_tool::ServerTool;
pub use servers::{ServerStatus, Upstream};
pub use trust_server::{ACCEPT_TOOL, AcceptanceContext};

/// A server as the gateway sees it.
pub trait Server: Send + Sync {
    /// Returns its configured name.
    fn name(&self) -> &str;
    /// Returns its description from initialization; `None` while it is down or suspended.
    fn peer_info(&self) -> Option<Arc<ServerPeerInfo>>;
    /// Returns the connection for requests that bypass the gate (prompts, completion); `None` while it is down or suspended.
    fn peer(&self) -> Option<Peer<RoleClient>>;
    /// Returns its definition of a tool, by the tool's catalog name; `None` if the definition is not passed on unchanged.
    fn definition(&self, _tool: &str) -> Option<Arc<Tool>> {
        None
    }
}

/// A change at a server, of which agents are notified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// Its tools changed, after the pins were checked.
    Tools,
    /// Its prompts changed.
    Prompts,
    /// Its resources changed.
    Resources,
    /// The contents of one resource changed.
    Resource {
        /// The address of the resource.
        uri: String,
    },
}

/// All servers.
pub trait Servers: Send + Sync {
    /// Returns the servers, by name.
    fn list(&self) -> Vec<Arc<dyn Server>>;
    /// Subscribes to changes from now on, each with the server's name.
    fn subscribe(&self) -> broadcast::Receiver<(String, ServerChange)>;
}
