//! The syntax tree of the parser. Nothing in it is expanded.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

/// A sequence of commands.
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

/// A token between `[[` and `]]`.
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
    /// Unquoted text, in which braces, tildes and globs are special.
    Bare(String),
    /// Quoted or escaped text, taken literally.
    Quoted(String),
    /// Text in double quotes, or in a place that the shell treats in the same way.
    Double(Vec<WordPart>),
    Parameter(Box<ParameterExpansion>),
    Command(CommandList),
    /// The text in backquotes, with the backslashes removed, as the shell parses it later.
    Backquoted(String),
    Process(CommandList),
    Arithmetic(Vec<WordPart>),
    /// `(…)` after `NAME=`.
    Array(Vec<RawWord>),
    /// A part whose text cannot be determined, with the reason.
    Opaque(&'static str),
}

/// A parameter expansion: `$x`, `${x…}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParameterExpansion {
    pub(crate) name: String,
    /// Whether it is plain `$x` or `${x}`. Every other form changes the value.
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
    /// The variable that receives the descriptor: `{name}>`.
    pub(crate) variable: Option<String>,
    /// The descriptor as it was written: `3>`.
    pub(crate) descriptor: String,
    /// The here-document, once its body has been read.
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
