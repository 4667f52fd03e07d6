//! Types of the server itself: halts and health.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a halt is active
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HaltStatus {
    pub(crate) halted: bool,
    pub(crate) reason: Option<String>,
    pub(crate) actor: Option<String>,
}

/// The reason for a halt
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HaltBody {
    #[schema(min_length = 1, max_length = 1000)]
    pub(crate) reason: String,
}

/// The health of the server
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// Always `ok`
    pub(crate) status: String,
    pub(crate) version: String,
}
