//! Which protocol somebody speaks. From one version on, much is said in another way: told here, for both directions.

use rmcp::model::ProtocolVersion;

/// Whether it is the newer protocol: who speaks it is asked by the result of a request, and hears only what it listens for.
pub(crate) fn is_modern(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2026_07_28
}
