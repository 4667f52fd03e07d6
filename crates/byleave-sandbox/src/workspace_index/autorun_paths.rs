//! The places where editors, shells and git look for something to run.

use crate::repository::{GitPathKind, part};

/// Names that make something run when a person or a program comes by, wherever they are; with them what the rules that come
/// with us let nobody write, as far as one name says it.
const NAMES: [&str; 40] = [
    ".git",
    ".hg",
    ".jj",
    ".sl",
    ".envrc",
    ".mcp.json",
    "mcp.json",
    ".vscode",
    ".zed",
    ".idea",
    ".husky",
    ".pre-commit-config.yaml",
    ".bashrc",
    ".profile",
    ".bash_profile",
    ".zshrc",
    ".zshenv",
    ".gitconfig",
    ".gitmodules",
    ".byleave",
    // Of agents.
    ".agent",
    ".agents",
    ".claude",
    ".claude.json",
    ".codex",
    ".codex.json",
    ".copilot",
    ".gemini",
    ".cursor",
    ".windsurf",
    ".continue",
    ".goose",
    ".roo",
    ".cline",
    ".kiro",
    ".opencode",
    ".qwen",
    ".amazonq",
    ".aider",
    ".aider.conf.yml",
];
/// How the names of files end that open an editor with what is to be run in it.
const ENDING: &str = ".code-workspace";
/// What a directory is part of, as far as it matters to what is run from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnclosingTree {
    /// Nothing in particular.
    Anything,
    /// A repository's own directory, or one this far beneath it.
    Git(String),
    /// Something that is new or not as a whole.
    Whole,
}

impl EnclosingTree {
    /// Whether it is part of nothing in particular.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Anything)
    }

    /// Whether there can be such a place in it.
    pub(super) fn leads_on(&self) -> bool {
        match self {
            Self::Anything => true,
            Self::Git(beneath) => beneath.is_empty() || part(beneath) == GitPathKind::Above,
            Self::Whole => false,
        }
    }

    /// What something of this name in it is, and what a directory of this name is part of.
    pub(super) fn look_at(&self, name: &str, is_directory: bool) -> (GitPathKind, Self) {
        match self {
            // A link to hooks that lie elsewhere.
            Self::Git(beneath) if beneath.is_empty() && name == "hooks" && !is_directory => {
                (GitPathKind::Run, Self::Whole)
            }
            Self::Anything if name == ".git" => (GitPathKind::Run, Self::Git(String::new())),
            Self::Anything if NAMES.contains(&name) || name.ends_with(ENDING) => {
                (GitPathKind::Run, Self::Whole)
            }
            Self::Anything => (GitPathKind::Other, Self::Anything),
            Self::Git(above) => {
                let beneath = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
                let is = part(&beneath);
                (is, if above == "hooks" { Self::Whole } else { Self::Git(beneath) })
            }
            Self::Whole => (GitPathKind::Other, Self::Whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules that come with us, which this crate does not know.
    const RULES: &str = include_str!("../../../byleave-core/src/policy/builtin.toml");

    #[test]
    fn directories_of_agents_are_those_of_the_rules() {
        let (_, rule) = RULES.split_once("id = \"later-agents\"").unwrap();
        let (_, names) = rule.split_once("\"**/.{").unwrap();
        let (names, _) = names.split_once('}').unwrap();
        for name in names.split(',') {
            let is = EnclosingTree::Anything.look_at(&format!(".{name}"), true).0;
            assert_eq!(is, GitPathKind::Run, "`.{name}` is not in `NAMES`");
        }
    }
}
