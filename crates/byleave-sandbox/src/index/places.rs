//! The places where editors, shells and git look for something to run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Names that make something run when a person or a program comes by, wherever they are; with them what the rules that come
/// with us let nobody write, as far as one name says it.
const NAMES: [&str; 37] = [
    ".git",
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
/// Beneath `.git`: what redirects git to other configuration, or is run by it.
const IN_GIT: [&str; 7] = [
    "commondir",
    "config",
    "config.worktree",
    "info/attributes",
    "objects/info/alternates",
    "modules",
    "worktrees",
];

/// What a directory is part of, as far as it matters to what is run from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// Nothing in particular.
    Anything,
    /// A repository's own directory, or one this far beneath it.
    Git(String),
    /// Something that is new or not as a whole.
    Whole,
}

impl Within {
    /// Whether it is part of nothing in particular.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Anything)
    }

    /// Whether there can be such a place in it.
    pub(super) fn leads_on(&self) -> bool {
        match self {
            Self::Anything => true,
            Self::Git(beneath) => {
                let above = |place: &&str| {
                    place.strip_prefix(beneath.as_str()).is_some_and(|rest| rest.starts_with('/'))
                };
                beneath.is_empty() || beneath == "hooks" || IN_GIT.iter().any(above)
            }
            Self::Whole => false,
        }
    }

    /// Whether something of this name in it could be run later, and what a directory of this name is part of.
    pub(super) fn look_at(&self, name: &str, is_directory: bool) -> (bool, Self) {
        match self {
            // A link to hooks that lie elsewhere.
            Self::Git(beneath) if beneath.is_empty() && name == "hooks" && !is_directory => {
                (true, Self::Whole)
            }
            Self::Anything if name == ".git" => (true, Self::Git(String::new())),
            Self::Anything if NAMES.contains(&name) || name.ends_with(ENDING) => (true, Self::Whole),
            Self::Anything => (false, Self::Anything),
            // Git runs a hook by its exact name, which has no dot.
            Self::Git(beneath) if beneath == "hooks" => (!name.contains('.'), Self::Whole),
            Self::Git(beneath) => {
                let beneath = if beneath.is_empty() { name.to_owned() } else { format!("{beneath}/{name}") };
                (IN_GIT.contains(&beneath.as_str()), Self::Git(beneath))
            }
            Self::Whole => (false, Self::Whole),
        }
    }
}

/// Whether a directory is a repository by what is in it, whatever it is called: git takes it for one when it is run in there.
#[derive(Debug, Default)]
pub(super) struct Repository {
    has_head: bool,
    has_objects: bool,
    has_refs: bool,
    has_commondir: bool,
}

impl Repository {
    /// Takes in that something of this name is in it.
    pub(super) fn look_at(&mut self, name: &OsStr) {
        match name.as_bytes() {
            b"HEAD" => self.has_head = true,
            b"objects" => self.has_objects = true,
            b"refs" => self.has_refs = true,
            b"commondir" => self.has_commondir = true,
            _ => {}
        }
    }

    /// Whether git would take it for one.
    pub(super) const fn is_one(&self) -> bool {
        self.has_head && (self.has_commondir || self.has_objects && self.has_refs)
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
            assert!(Within::Anything.look_at(&format!(".{name}"), true).0, "`.{name}` is not in `NAMES`");
        }
    }
}
