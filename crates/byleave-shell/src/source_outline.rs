//! The outline of a reading: what stands in what, as the reader walked it. For showing, never for judging.

/// What stands in what, in one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Every part that the reader went through; a part stands behind the one that it is in.
    pub parts: Vec<OutlinePart>,
    /// What could not be told of the text as a whole.
    pub unread: Vec<String>,
    /// There is more than is listed.
    pub cut: bool,
}

/// One part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlinePart {
    /// The part that it is in; none at the top.
    pub parent: Option<usize>,
    /// What it is, in a word: "command", "pipeline", "substitution", "if", "then" …
    pub kind: &'static str,
    /// What it is called, where that says more: the name of a function, the round of a loop.
    pub label: Option<String>,
    /// How it hangs together with what stands before it.
    pub joint: ListOperator,
    /// `!` stands before it.
    pub negated: bool,
    /// The places in the reading of the command that it is, and of those that carry its redirections.
    pub commands: Vec<usize>,
    /// What could not be told of it.
    pub unread: Vec<String>,
}

/// How a command hangs together with the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListOperator {
    /// It is the first, or runs in any case.
    #[default]
    Then,
    /// It runs if the one before it succeeded.
    And,
    /// It runs if the one before it failed.
    Or,
}
