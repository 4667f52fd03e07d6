//! Protocol versions of peers. The only place, for both directions, that distinguishes the newer protocol from the older one.

use rmcp::model::ProtocolVersion;

/// Checks whether this is the newer protocol. Its clients are asked through the result of a request, and receive only
/// notifications that they listen for.
pub(crate) fn is_modern(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2026_07_28
}
