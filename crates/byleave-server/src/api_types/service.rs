//! Types of the server itself: halts and health.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether everything is halted
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HaltStatus {
    pub(crate) halted: bool,
    pub(crate) why: Option<String>,
    pub(crate) by: Option<String>,
}

/// Why everything is halted
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HaltBody {
    #[schema(min_length = 1, max_length = 1000)]
    pub(crate) why: String,
}

/// How the server is
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// ok
    pub(crate) status: String,
    pub(crate) version: String,
}
