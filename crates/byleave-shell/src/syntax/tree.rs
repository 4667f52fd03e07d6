//! The tree that the parser makes. Nothing is expanded here.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

/// Commands one after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Item>,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) first: Pipeline,
    pub(crate) rest: Vec<(Joint, Pipeline)>,
    pub(crate) background: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    And,
    Or,
}

#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) negated: bool,
    pub(crate) commands: Vec<Node>,
}

/// One command, simple or compound.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Simple { assignments: Vec<Assign>, words: Vec<Raw> },
    Group(List),
    Subshell(List),
    Loop { condition: List, body: List },
    For { name: String, words: Option<Vec<Raw>>, body: List, asks: bool },
    ArithmeticFor { head: Raw, body: List },
    If { branches: Vec<(List, List)>, other: Option<List> },
    Case { word: Raw, arms: Vec<(Vec<Raw>, List)> },
    Function { name: String, body: Box<Node> },
    Arithmetic(Raw),
    Test(Vec<TestToken>),
    Coprocess(Box<Node>),
}

/// What stands between `[[` and `]]`.
#[derive(Clone, Debug)]
pub(crate) enum TestToken {
    Word(Raw),
    Operator,
}

/// A word as it was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raw {
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Without quotes: braces, tildes and globs mean something in it.
    Bare(String),
    /// Taken out of quotes, or escaped: exactly this.
    Quoted(String),
    /// Within double quotes, or where the shell treats text so.
    Double(Vec<Part>),
    Parameter(Box<Parameter>),
    Command(List),
    /// Its text with the backslashes taken off, as the shell reads it when it comes to it.
    Backquoted(String),
    Process(List),
    Arithmetic(Vec<Part>),
    /// `(…)` after `NAME=`.
    Array(Vec<Raw>),
    /// Something whose text cannot be told, and why.
    Opaque(&'static str),
}

/// `$x`, `${x…}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Plain `$x` or `${x}`; everything else does something to it.
    pub(crate) plain: bool,
    pub(crate) subscript: Option<Vec<Part>>,
    pub(crate) operator: String,
    pub(crate) operand: Vec<Part>,
}

#[derive(Clone, Debug)]
pub(crate) struct Assign {
    pub(crate) name: String,
    pub(crate) subscript: Option<Vec<Part>>,
    pub(crate) append: bool,
    pub(crate) value: Raw,
}

#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) operator: Direction,
    pub(crate) target: Raw,
    /// `{name}>`: the variable that gets the descriptor.
    pub(crate) variable: Option<String>,
    /// `3>`: the descriptor, as it was written.
    pub(crate) descriptor: String,
    /// The here-document, once its lines have been read.
    pub(crate) body: Rc<OnceCell<Raw>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    ReadWrite,
    DuplicateInput,
    DuplicateOutput,
    Both,
    HereDocument { tabs: bool },
    HereString,
}
