//! Patterns over tools of MCP servers: a server and a tool, each by itself, never one joined name.
//!
//! A joined name can be split in two ways. A rule about the server `a` must not match `a__b`, nor miss it.

use super::{RuleFileReader, TomlValue, key};
use crate::effect::Effect;
use crate::pattern::Pattern;

/// Checks whether it names a server without a tool.
pub(super) fn names_whole_server(value: &TomlValue<'_>) -> bool {
    let whole = |value: &TomlValue<'_>| value.get_ref().as_str().is_some_and(|text| !text.contains('/'));
    whole(value) || value.get_ref().as_array().is_some_and(|items| items.iter().any(whole))
}

impl RuleFileReader<'_> {
    /// Reads `server` for all of its tools, or `server/tool`. Each may be a glob.
    pub(super) fn parse_servers(&mut self, value: &TomlValue<'_>, to: &mut Vec<Pattern>) {
        for (text, span) in self.parse_texts(value) {
            let (server, tool) = match text.split_once('/') {
                Some((server, tool)) => (server, tool),
                None => (text.as_str(), "**"),
            };
            if server.is_empty() || tool.is_empty() {
                let what = format!("`{}` has no server or no tool", text.escape_debug());
                self.add_diagnostic(span, what, "write `server` or `server/tool`; `*` matches any name");
                continue;
            }
            let pattern = Pattern::Invoke(Effect::mcp_tool_name(server, tool));
            match key::pattern_problem(&pattern) {
                Some((what, todo)) => self.add_diagnostic(span, what, todo),
                None => to.push(pattern),
            }
        }
    }
}
