//! The simple commands that a text would run: their words, their working directory, and what stayed unresolved.
//!
//! This is the interface between the interpreter, which knows the grammar, and the manuals, which know the programs.

use std::ops::Range;

use crate::source_outline::Outline;
use crate::word::Word;

/// The commands that a text would run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedCommands {
    /// Every simple command at any depth, including commands that may not run.
    pub commands: Vec<SimpleCommand>,
    /// The unresolved parts. If there are any, the text may do more than the commands say.
    pub unresolved: Vec<Unresolved>,
    /// The commands as they would be if the last known facts still held: the file that a glob matches now, the value that a variable
    /// had before a loop. They prove nothing. But a doubt must not hide a command that a rule may deny.
    pub possible_commands: Vec<SimpleCommand>,
    /// The nesting of the text, for display.
    pub outline: Outline,
}

impl ParsedCommands {
    /// Checks whether everything in it is known.
    pub fn is_certain(&self) -> bool {
        self.unresolved.is_empty() && self.commands.iter().all(SimpleCommand::is_certain)
    }
}

impl SimpleCommand {
    fn is_certain(&self) -> bool {
        let words = self.words.iter().chain(self.assignments.iter().map(|(_, value)| value));
        let mut words = words.chain(self.redirections.iter().map(|redirection| &redirection.target));
        matches!(self.working_dir, WorkingDir::At(_))
            && words.all(|word| word.as_text().is_some())
            && self.input.as_ref().is_none_or(|input| input.as_text().is_some())
    }

    /// Checks whether another command does the same, regardless of position.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        self.words == other.words
            && self.assignments == other.assignments
            && self.redirections == other.redirections
            && self.input == other.input
            && self.working_dir == other.working_dir
            && self.is_function == other.is_function
            && self.is_template == other.is_template
            && self.is_tentative == other.is_tentative
    }
}

/// One simple command with its redirections. Without words it has only assignments or redirections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The words after expansion. The first is the name of the program.
    pub words: Vec<Word>,
    /// The `NAME=value` assignments in front of it.
    pub assignments: Vec<(String, Word)>,
    /// The redirections of its input and output. Those of a group or a loop are on a command without words.
    pub redirections: Vec<Redirection>,
    /// Its input from a here-document, a here-string or a pipe, if that is known.
    pub input: Option<Word>,
    /// The working directory.
    pub working_dir: WorkingDir,
    /// The position in the text, in bytes.
    pub span: Range<usize>,
    /// The enclosing constructs from the outside in: "subshell", "if", "substitution" …
    pub enclosing: Vec<&'static str>,
    /// Whether a function of this text has this name. Then the function runs, and not a program.
    pub is_function: bool,
    /// Whether its paths represent the files that another program finds below them: `find PATH -exec`.
    pub is_template: bool,
    /// Whether another program may run it, and the allow of that program covers it: `npx NAME`. Rules against it apply.
    pub is_tentative: bool,
}

/// The directory that a command runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkingDir {
    /// A known absolute path.
    At(String),
    /// An unknown directory, with the reason.
    Unknown(String),
}

/// A redirection to or from a file. Redirections between descriptors are not included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// The access to the file.
    pub access: RedirectionAccess,
    /// The file. `/dev/tcp/HOST/PORT` is a connection.
    pub target: Word,
}

/// The access of a redirection to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectionAccess {
    /// Reads it.
    Read,
    /// Writes or appends to it.
    Write,
    /// Both.
    ReadWrite,
}

/// A part of the text that could not be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The reason, as text for a person.
    pub reason: String,
    /// The position in the text, in bytes.
    pub span: Range<usize>,
}
