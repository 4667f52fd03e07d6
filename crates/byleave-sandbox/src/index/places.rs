//! The places where editors, shells and git look for something to run.

/// Names that make something run when a person or a program comes by, wherever they are.
const NAMES: [&str; 13] = [
    ".git",
    ".envrc",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude",
    ".cursor",
    ".husky",
    ".pre-commit-config.yaml",
    ".bashrc",
    ".profile",
    ".gitmodules",
    ".byleave",
];
/// Beneath `.git`: what redirects git to other configuration, or is run by it.
const IN_GIT: [&str; 6] =
    ["commondir", "config.worktree", "info/attributes", "objects/info/alternates", "modules", "worktrees"];

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
    pub(super) fn look_at(&self, name: &str) -> (bool, Self) {
        match self {
            Self::Anything if name == ".git" => (true, Self::Git(String::new())),
            Self::Anything if NAMES.contains(&name) => (true, Self::Whole),
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
