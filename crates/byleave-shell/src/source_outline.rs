//! The outline of a text: its nesting as the interpreter followed it. It is for display and never for decisions.

/// The nesting of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Every part that the interpreter visited. A part comes after its parent.
    pub parts: Vec<OutlinePart>,
    /// The unresolved parts of the text as a whole.
    pub unresolved: Vec<String>,
    /// Whether there is more than is listed.
    pub truncated: bool,
}

/// One part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlinePart {
    /// The parent, or `None` at the top.
    pub parent: Option<usize>,
    /// The kind in one word: "command", "pipeline", "substitution", "if", "then" …
    pub kind: &'static str,
    /// A label, if it adds information: the name of a function, the iteration of a loop.
    pub label: Option<String>,
    /// The list operator between this part and the previous one.
    pub joint: ListOperator,
    /// Whether `!` precedes it.
    pub negated: bool,
    /// The indices of its command, and of the commands that carry its redirections.
    pub commands: Vec<usize>,
    /// The unresolved parts of it.
    pub unresolved: Vec<String>,
}

/// The operator between a command and the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListOperator {
    /// The command is the first, or runs in any case.
    #[default]
    Then,
    /// The command runs if the previous one succeeded.
    And,
    /// The command runs if the previous one failed.
    Or,
}
