//! Types of workers in lists.

use byleave_worker::WorkerInfo;
use serde::Serialize;
use utoipa::ToSchema;

/// The workers of the tenant
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerList {
    /// Whether the server executes calls itself, without workers
    pub(crate) executes_locally: bool,
    /// The connected workers, and those that may reconnect
    pub(crate) workers: Vec<WorkerItem>,
}

/// A worker
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerItem {
    /// The name on its token
    pub(crate) name: String,
    /// Whether it is connected
    pub(crate) connected: bool,
    /// Whether it accepts no new calls
    pub(crate) draining: bool,
    /// The number of calls that it executes
    pub(crate) active_calls: u32,
    /// The maximum number of calls that it executes at once
    pub(crate) capacity: u32,
    /// Its working directory
    pub(crate) dir: String,
    /// Its labels
    pub(crate) labels: Vec<String>,
    /// Its tools
    pub(crate) tools: Vec<String>,
}

impl From<WorkerInfo> for WorkerItem {
    fn from(worker: WorkerInfo) -> Self {
        let WorkerInfo {
            name,
            is_connected: is_here,
            is_draining: is_leaving,
            pending_calls: busy,
            capabilities: skills,
            ..
        } = worker;
        Self {
            name,
            connected: is_here,
            draining: is_leaving,
            active_calls: busy,
            capacity: skills.capacity,
            dir: skills.dir,
            labels: skills.labels.into_iter().collect(),
            tools: skills.tools.into_iter().collect(),
        }
    }
}
