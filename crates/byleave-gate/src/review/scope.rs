//! The calls that a reviewer reviews, by the tool's own name.

/// The calls that a reviewer reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewScope {
    /// Calls of every tool.
    All,
    /// Calls of the tool with this name.
    Tool(String),
    /// Calls of the tools whose names have this prefix.
    Prefix(String),
    /// Calls of the tools whose names match one of these patterns.
    Patterns {
        /// The patterns. In each, `*` matches any text.
        names: Vec<String>,
        /// Names that no `*` matches. Only the whole name selects them.
        except: Vec<String>,
    },
}

impl ReviewScope {
    /// Checks whether calls of the tool with this name are reviewed.
    pub(super) fn matches(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Tool(name) => name == tool,
            Self::Prefix(start) => tool.starts_with(start.as_str()),
            Self::Patterns { names, except } if except.iter().any(|name| name == tool) => {
                names.iter().any(|name| name == tool)
            }
            Self::Patterns { names, .. } => names.iter().any(|pattern| matches_pattern(pattern, tool)),
        }
    }
}

impl From<&str> for ReviewScope {
    fn from(tool: &str) -> Self {
        Self::Tool(tool.into())
    }
}

/// Checks whether a name matches a pattern, in which `*` matches any text.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: R1
    #[test]
    fn a_star_matches_any_text() {
        let yes = [
            ("*", "bash"),
            ("*", ""),
            ("bash", "bash"),
            ("bash*", "bash"),
            ("bash*", "bash_output"),
            ("*_file", "read_file"),
            ("mcp_*_read", "mcp_notes_read"),
            ("mcp_*_*_x", "mcp_a_b_c_x"),
            ("a**b", "ab"),
            ("a*b*a", "aba"),
        ];
        for (pattern, name) in yes {
            assert!(matches_pattern(pattern, name), "{pattern} {name}");
        }
        let no = [
            ("bash", "bash_output"),
            ("bash", "Bash"),
            ("bash*", "my_bash"),
            ("*_file", "file"),
            ("aba*ba", "aba"),
            ("a*b*a", "aa"),
            ("", "bash"),
            ("mcp_*_read", "mcp_read"),
        ];
        for (pattern, name) in no {
            assert!(!matches_pattern(pattern, name), "{pattern} {name}");
        }
    }

    // req: R1
    #[test]
    fn only_its_whole_name_selects_an_excepted_tool() {
        let scope = |names: &[&str]| ReviewScope::Patterns {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            except: vec!["model_turn".into()],
        };
        assert!(!scope(&["*", "model_*"]).matches("model_turn"));
        assert!(scope(&["*", "model_*"]).matches("model_card"));
        assert!(scope(&["*", "model_turn"]).matches("model_turn"));
    }
}
