//! The tree that the parser makes. Nothing is expanded here.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

/// Commands one after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandList {
    pub(crate) items: Vec<AndOrList>,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Clone, Debug)]
pub(crate) struct AndOrList {
    pub(crate) first: Pipeline,
    pub(crate) rest: Vec<(AndOrOperator, Pipeline)>,
    pub(crate) background: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AndOrOperator {
    And,
    Or,
}

#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) negated: bool,
    pub(crate) commands: Vec<CommandNode>,
}

/// One command, simple or compound.
#[derive(Clone, Debug)]
pub(crate) struct CommandNode {
    pub(crate) kind: CommandNodeKind,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum CommandNodeKind {
    Simple { assignments: Vec<Assignment>, words: Vec<RawWord> },
    Group(CommandList),
    Subshell(CommandList),
    Loop { condition: CommandList, body: CommandList },
    For { name: String, words: Option<Vec<RawWord>>, body: CommandList, asks: bool },
    ArithmeticFor { head: RawWord, body: CommandList },
    If { branches: Vec<(CommandList, CommandList)>, other: Option<CommandList> },
    Case { word: RawWord, arms: Vec<(Vec<RawWord>, CommandList)> },
    Function { name: String, body: Box<CommandNode> },
    Arithmetic(RawWord),
    Test(Vec<TestToken>),
    Coprocess(Box<CommandNode>),
}

/// What stands between `[[` and `]]`.
#[derive(Clone, Debug)]
pub(crate) enum TestToken {
    Word(RawWord),
    Operator,
}

/// A word as it was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawWord {
    pub(crate) parts: Vec<WordPart>,
}

#[derive(Clone, Debug)]
pub(crate) enum WordPart {
    /// Without quotes: braces, tildes and globs mean something in it.
    Bare(String),
    /// Taken out of quotes, or escaped: exactly this.
    Quoted(String),
    /// Within double quotes, or where the shell treats text so.
    Double(Vec<WordPart>),
    Parameter(Box<ParameterExpansion>),
    Command(CommandList),
    /// Its text with the backslashes taken off, as the shell reads it when it comes to it.
    Backquoted(String),
    Process(CommandList),
    Arithmetic(Vec<WordPart>),
    /// `(…)` after `NAME=`.
    Array(Vec<RawWord>),
    /// Something whose text cannot be told, and why.
    Opaque(&'static str),
}

/// `$x`, `${x…}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParameterExpansion {
    pub(crate) name: String,
    /// Plain `$x` or `${x}`; everything else does something to it.
    pub(crate) plain: bool,
    pub(crate) subscript: Option<Vec<WordPart>>,
    pub(crate) operator: String,
    pub(crate) operand: Vec<WordPart>,
}

#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) subscript: Option<Vec<WordPart>>,
    pub(crate) append: bool,
    pub(crate) value: RawWord,
}

#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) operator: RedirectOperator,
    pub(crate) target: RawWord,
    /// `{name}>`: the variable that gets the descriptor.
    pub(crate) variable: Option<String>,
    /// `3>`: the descriptor, as it was written.
    pub(crate) descriptor: String,
    /// The here-document, once its lines have been read.
    pub(crate) body: Rc<OnceCell<RawWord>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectOperator {
    Read,
    Write,
    ReadWrite,
    DuplicateInput,
    DuplicateOutput,
    Both,
    HereDocument { tabs: bool },
    HereString,
}
