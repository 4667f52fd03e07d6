//! The places where editors, shells and Git look for files to run.

use std::path::Path;

use crate::repository::{GitPathKind, classify_git_path};

/// Names that make a file run when a person or a program enters its directory. They include paths that the built-in rules protect
/// from writes, as far as a single name identifies them.
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
    // Names of agents.
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
/// The extension of files that open an editor with something to run.
const ENDING: &str = ".code-workspace";
/// The tree that a directory belongs to, as far as it matters for files that are run from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnclosingTree {
    /// No special tree.
    Ordinary,
    /// A repository's own directory, or a directory at this path beneath it.
    GitDirectory(String),
    /// A tree that is new or not as a whole.
    NewTree,
}

impl EnclosingTree {
    /// Returns the tree that an indexed directory belongs to by its own path.
    pub(super) fn of_root(root: &Path) -> Self {
        let is_module = || root.to_str().is_some_and(|path| path.contains("/.git/modules/"));
        match root.file_name().is_some_and(|name| name == ".git") || is_module() {
            true => Self::GitDirectory(String::new()),
            false => Self::Ordinary,
        }
    }

    /// Returns whether the directory belongs to no special tree.
    pub(super) fn is_ordinary(&self) -> bool {
        matches!(self, Self::Ordinary)
    }

    /// Returns whether it can contain such a place.
    pub(super) fn may_contain_runnable(&self) -> bool {
        match self {
            Self::Ordinary => true,
            Self::GitDirectory(beneath) => {
                beneath.is_empty() || classify_git_path(beneath) == GitPathKind::Parent
            }
            Self::NewTree => false,
        }
    }

    /// Classifies an entry with this name, and returns the tree that a directory of this name belongs to.
    pub(super) fn classify(&self, name: &str, is_directory: bool) -> (GitPathKind, Self) {
        match self {
            // A link to hooks elsewhere.
            Self::GitDirectory(beneath) if beneath.is_empty() && name == "hooks" && !is_directory => {
                (GitPathKind::Run, Self::NewTree)
            }
            Self::Ordinary if name == ".git" => (GitPathKind::Run, Self::GitDirectory(String::new())),
            Self::Ordinary if NAMES.contains(&name) || name.ends_with(ENDING) => {
                (GitPathKind::Run, Self::NewTree)
            }
            Self::Ordinary => (GitPathKind::Other, Self::Ordinary),
            Self::GitDirectory(above) => {
                let beneath = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
                let is = classify_git_path(&beneath);
                (is, if above == "hooks" { Self::NewTree } else { Self::GitDirectory(beneath) })
            }
            Self::NewTree => (GitPathKind::Other, Self::NewTree),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The built-in rules, which this crate does not depend on.
    const RULES: &str = include_str!("../../../byleave-core/src/policy/builtin.toml");

    #[test]
    fn directories_of_agents_are_those_of_the_rules() {
        let (_, rule) = RULES.split_once("id = \"later-agents\"").unwrap();
        let (_, names) = rule.split_once("\"**/.{").unwrap();
        let (names, _) = names.split_once('}').unwrap();
        for name in names.split(',') {
            let is = EnclosingTree::Ordinary.classify(&format!(".{name}"), true).0;
            assert_eq!(is, GitPathKind::Run, "`.{name}` is not in `NAMES`");
        }
    }
}
