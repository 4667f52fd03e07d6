//! Catalog names of servers' tools. They are generated and never parsed; a tool is found by lookup.

use byleave_gate::core::digest::Digest;

use super::server_definition::ServerName;

/// The maximum length of a name that providers accept.
const CHARS_MAX: usize = 64;
/// The length of the digest in a shortened name.
const DIGEST_CHARS: usize = 8;

/// Checks whether a server may use this tool name. Other names cannot be displayed, or have another meaning elsewhere.
pub(super) fn is_valid_tool_name(tool: &str) -> bool {
    !tool.is_empty()
        && tool.len() <= 128
        && tool.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && tool.split('/').all(|step| !matches!(step, "" | "." | ".."))
}

/// Returns the catalog name: `mcp_{server}_{tool}`. A name that is too long keeps its end, which says most, and gets a digest
/// of the whole.
pub fn catalog_name(server: &ServerName, tool: &str) -> String {
    let plain: String =
        tool.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let name = format!("mcp_{server}_{plain}");
    if name.len() <= CHARS_MAX {
        return name;
    }
    let digest =
        Digest::compute_parts("byleave.mcp.name", &[server.as_str().as_bytes(), tool.as_bytes()]).to_string();
    let digest: String = digest.chars().take(DIGEST_CHARS).collect();
    let start = format!("mcp_{server}_{digest}_");
    let kept = CHARS_MAX.saturating_sub(start.len());
    let tail: String = plain.chars().skip(plain.chars().count().saturating_sub(kept)).collect();
    format!("{start}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_and_their_own() {
        let server = ServerName::new("git_hub").unwrap();
        assert_eq!(catalog_name(&server, "create.issue"), "mcp_git_hub_create_issue");
        let long = catalog_name(&server, &"a".repeat(120));
        let other = catalog_name(&server, &format!("b{}", "a".repeat(119)));
        assert!(long.len() == CHARS_MAX && other.len() == CHARS_MAX && long != other, "{long} {other}");
        for name in ["", "../go", "a b", "a\u{1b}[8m", "a\u{e0072}", &"a".repeat(129), "é"] {
            assert!(!is_valid_tool_name(name), "{name}");
        }
        assert!(
            is_valid_tool_name("textDocument/definition")
                && !is_valid_tool_name("/go")
                && !is_valid_tool_name("a//b")
        );
    }
}
