//! Upstream: MCP servers, whose tools become tools of the gate.
//!
//! ```text
//! mcp.toml ─▶ definition ─▶ pins: accepted? ─▶ link (child in the sandbox, or HTTP) ─▶ offered ─▶ pins: accepted? ─▶ catalog
//! ```
//!
//! Nothing of a server is started, shown to a model or called before a person has accepted just that.

mod accept;
mod child;
pub mod definition;
mod ear;
pub mod file;
mod link;
pub mod login;
pub mod names;
pub mod pins;
mod servers;
mod shape;
mod tap;
pub mod tokens;
mod tool;
mod under_way;
mod web;

use std::sync::Arc;

use rmcp::model::{ServerPeerInfo, Tool};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::broadcast;

pub use accept::{ACCEPT, Asking};
pub use child::{Ground, NotStarted};
pub use link::Down;
pub use servers::{Stands, Upstream};
pub use tool::ServerTool;

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
pub enum News {
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
    fn news(&self) -> broadcast::Receiver<(String, News)>;
}
