//! Tools that agents can use, and their formats for model providers.

pub use byleave_core::manifest::{ApprovalRequirement, ArgumentRole, Manifest, PermissionClass};
pub use byleave_core::outcome::Output;
pub use byleave_core::rehearsal::Rehearsal;
pub use byleave_gate::catalog::{Catalog, CatalogEntry, ManifestError, RegisterError, UnknownToolError};
pub use byleave_gate::provider_formats::{
    FormatError, ProviderFormat, ToolReport, anthropic_messages, gemini_messages, mcp_result,
    openai_messages, result_json, result_text, schema, schemas,
};
pub use byleave_gate::tool::{
    EarlierData, OutputChunk, Progress, Rehearsable, RehearseError, RunContext, Tool, ToolContext, ToolError,
};
pub use byleave_gate::typed_tool::{IntoOutput, Json, TypedTool};
