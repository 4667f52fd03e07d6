//! Types of workers in lists.

use byleave_worker::WorkerInfo;
use serde::Serialize;
use utoipa::ToSchema;

/// Who drives calls
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerList {
    /// The server drives calls itself, and there are no workers
    pub(crate) drives_itself: bool,
    /// The workers that are here, and those that may come back
    pub(crate) workers: Vec<WorkerItem>,
}

/// A worker
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerItem {
    /// The name that its token was made for
    pub(crate) name: String,
    /// It is here
    pub(crate) here: bool,
    /// It takes nothing new
    pub(crate) leaving: bool,
    /// How many calls it drives
    pub(crate) busy: u32,
    /// How many it drives at most
    pub(crate) capacity: u32,
    /// The directory that it works in
    pub(crate) dir: String,
    /// Words that it was started with
    pub(crate) labels: Vec<String>,
    /// The tools that it has
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
            here: is_here,
            leaving: is_leaving,
            busy,
            capacity: skills.capacity,
            dir: skills.dir,
            labels: skills.labels.into_iter().collect(),
            tools: skills.tools.into_iter().collect(),
        }
    }
}
