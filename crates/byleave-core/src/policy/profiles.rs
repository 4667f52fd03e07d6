//! Profiles: policy files that are part of the program. A policy file names one with `profile = "everyday"`.

/// A policy file that is part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub description: &'static str,
    /// The policy file.
    pub toml: &'static str,
}

impl Profile {
    /// All profiles, the one that asks most last.
    pub const ALL: [Self; 4] = [
        Self {
            name: "everyday",
            description: "Work that can be undone passes. Pushing, new hosts and everything outside the workspace are asked about.",
            toml: include_str!("profiles/everyday.toml"),
        },
        Self {
            name: "ci",
            description: "For a job that nobody watches: changes inside the workspace pass, and the rest is refused.",
            toml: include_str!("profiles/ci.toml"),
        },
        Self {
            name: "careful",
            description: "Nothing changes without a rule or a person. This holds without a profile, too.",
            toml: include_str!("profiles/careful.toml"),
        },
        Self {
            name: "strict",
            description: "Everything is asked about, reading included.",
            toml: include_str!("profiles/strict.toml"),
        },
    ];

    /// Returns the profile with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// Returns whether the profile only tightens, so that a project may name it.
    pub(super) fn only_tightens(self) -> bool {
        matches!(self.name, "careful" | "strict")
    }
}
