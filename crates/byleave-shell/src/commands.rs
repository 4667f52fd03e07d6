//! A reading: every simple command that a text would run, with its words, where it would run, and what could not be told.
//!
//! The seam between the reader, which knows the grammar, and the manuals, which know the programs.

use std::ops::Range;

use crate::source_outline::Outline;
use crate::word::Word;

/// What a text would run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedCommands {
    /// Every simple command in it, wherever it stands: also those that may not come to run.
    pub commands: Vec<SimpleCommand>,
    /// What could not be told. Not empty means that it may do more than the commands say.
    pub riddles: Vec<Unresolved>,
    /// What some of the commands would be if what was last known still held: the file that a glob matches now, the value that
    /// a variable had before a loop. They prove nothing. Something that may be denied must not hide behind a doubt, though.
    pub guesses: Vec<SimpleCommand>,
    /// What stands in what, to be shown.
    pub outline: Outline,
}

impl ParsedCommands {
    /// Whether everything in it is known.
    pub fn is_certain(&self) -> bool {
        self.riddles.is_empty() && self.commands.iter().all(SimpleCommand::is_certain)
    }
}

impl SimpleCommand {
    fn is_certain(&self) -> bool {
        let words = self.words.iter().chain(self.assignments.iter().map(|(_, value)| value));
        let mut words = words.chain(self.redirections.iter().map(|redirection| &redirection.target));
        matches!(self.place, WorkingDir::At(_))
            && words.all(|word| word.text().is_some())
            && self.input.as_ref().is_none_or(|input| input.text().is_some())
    }

    /// Whether another does what this one does, wherever they stand.
    pub(crate) fn does_the_same(&self, other: &Self) -> bool {
        self.words == other.words
            && self.assignments == other.assignments
            && self.redirections == other.redirections
            && self.input == other.input
            && self.place == other.place
            && self.is_function == other.is_function
            && self.is_filled == other.is_filled
    }
}

/// One simple command, with its redirections. Without words it is only assignments or redirections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The words after expansion, the name of the program first.
    pub words: Vec<Word>,
    /// `NAME=value` in front of it.
    pub assignments: Vec<(String, Word)>,
    /// Where its input and output go. Those of a group or a loop stand on a command without words.
    pub redirections: Vec<Redirection>,
    /// What it reads from a here-document or here-string, where that is known.
    pub input: Option<Word>,
    /// Where it runs.
    pub place: WorkingDir,
    /// Where it stands in the text, in bytes.
    pub span: Range<usize>,
    /// What it stands in, from the outside in: "subshell", "if", "substitution" …
    pub within: Vec<&'static str>,
    /// A function of this text has this name: that is run, not a program.
    pub is_function: bool,
    /// Its paths stand for what another program finds beneath them: `find PATH -exec`.
    pub is_filled: bool,
}

/// The directory that a command runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkingDir {
    /// This one, absolute.
    At(String),
    /// Not known, and why.
    Unknown(String),
}

/// A redirection to or from a file. Those between descriptors are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// What is done to the file.
    pub access: RedirectionAccess,
    /// The file; `/dev/tcp/HOST/PORT` is a connection.
    pub target: Word,
}

/// What a redirection does to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectionAccess {
    /// Reads it.
    Read,
    /// Writes or appends to it.
    Write,
    /// Both.
    ReadWrite,
}

/// Something that could not be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// Why, in words for a person.
    pub why: String,
    /// Where it stands in the text, in bytes.
    pub span: Range<usize>,
}
