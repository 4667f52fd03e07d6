//! The parser: position, lists, pipelines, simple commands. The sibling modules contain the rest of the grammar.

use std::ops::Range;

use super::heredoc::PendingHereDoc;
use super::tree::{
    AndOrList, AndOrOperator, Assignment, CommandList, CommandNode, CommandNodeKind, Pipeline, RawWord,
    WordPart,
};

/// The maximum nesting of commands, words and substitutions.
const DEPTH_MAX: usize = 160;

/// The reason why the text could not be parsed further.
#[derive(Clone, Debug)]
pub(crate) struct SyntaxError {
    pub(crate) reason: String,
}

pub(super) type ParseResult<T> = Result<T, SyntaxError>;

/// A parser over the characters of a text.
pub(crate) struct Parser<'a> {
    pub(super) chars: &'a [char],
    pub(super) at: usize,
    pub(super) depth: usize,
    /// The offset of these characters in the whole text.
    pub(super) base: usize,
    pub(super) pending: Vec<PendingHereDoc>,
    /// The constructs that were accepted although bash may read them differently.
    pub(crate) doubts: Vec<String>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(chars: &'a [char], depth: usize) -> Self {
        Self { chars, at: 0, depth, base: 0, pending: Vec::new(), doubts: Vec::new() }
    }

    /// Sets the offset of the characters in the whole text.
    pub(super) fn with_base(mut self, base: usize) -> Self {
        self.base = base;
        self
    }

    /// Parses the commands of the next complete line. Returns `None` at the end of the text.
    pub(crate) fn parse_line(&mut self) -> ParseResult<Option<CommandList>> {
        loop {
            self.skip_blanks();
            match self.peek() {
                None => {
                    self.finish_here_documents()?;
                    return Ok(None);
                }
                Some('\n') => self.newline()?,
                Some(_) => break,
            }
        }
        let mut list = CommandList::default();
        loop {
            list.items.push(self.item()?);
            self.skip_blanks();
            match self.peek() {
                None => {
                    self.finish_here_documents()?;
                    return Ok(Some(list));
                }
                Some('\n') => {
                    self.newline()?;
                    return Ok(Some(list));
                }
                Some(')') => return Err(self.syntax_error("`)` closes nothing")),
                Some(_) => {}
            }
        }
    }

    /// Returns the position in characters.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the position after line continuations, which bash removes first.
    fn past_continuations(&self, mut at: usize) -> usize {
        while self.chars.get(at) == Some(&'\\') && self.chars.get(at + 1) == Some(&'\n') {
            at += 2;
        }
        at
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.past_continuations(self.at)).copied()
    }

    /// Returns the character after the next one.
    pub(super) fn peek_second(&self) -> Option<char> {
        let first = self.past_continuations(self.at);
        self.chars.get(self.past_continuations(first + 1)).copied()
    }

    pub(super) fn peek_third(&self) -> Option<char> {
        let first = self.past_continuations(self.at);
        let second = self.past_continuations(first + 1);
        self.chars.get(self.past_continuations(second + 1)).copied()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        self.at = self.past_continuations(self.at);
        let c = self.chars.get(self.at).copied();
        if c.is_some() {
            self.at += 1;
        }
        c
    }

    /// Consumes the next character as it is, including line continuations.
    pub(super) fn bump_raw(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        if c.is_some() {
            self.at += 1;
        }
        c
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let before = self.at;
        for want in text.chars() {
            if self.bump() != Some(want) {
                self.at = before;
                return false;
            }
        }
        true
    }

    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => {
                    self.bump();
                }
                Some('#') => {
                    while self.chars.get(self.at).is_some_and(|c| *c != '\n') {
                        self.at += 1;
                    }
                    return;
                }
                _ => return,
            }
        }
    }

    pub(super) fn skip_newlines(&mut self) -> ParseResult<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    /// Consumes a newline, and the here-documents that begin after it.
    pub(super) fn newline(&mut self) -> ParseResult<()> {
        self.bump();
        for pending in std::mem::take(&mut self.pending) {
            self.here_document(&pending)?;
        }
        Ok(())
    }

    pub(super) fn syntax_error(&self, why: &str) -> SyntaxError {
        SyntaxError { reason: why.to_owned() }
    }

    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.syntax_error("the text is nested too deeply to parse"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    pub(super) fn add_doubt(&mut self, why: &str) {
        if !self.doubts.iter().any(|doubt| doubt == why) {
            self.doubts.push(why.to_owned());
        }
    }

    /// Returns to the start of a `((` that turned out not to be arithmetic.
    pub(super) fn rewind_to(&mut self, before: usize) {
        // In this case bash reads the text a second time, which changes how it treats here-documents and lines.
        if self.chars.get(before..self.at).is_some_and(|text| text.contains(&'\n')) {
            self.add_doubt("`((` that is not arithmetic spans several lines");
        }
        self.at = before;
    }

    pub(super) fn span_from(&self, start: usize) -> Range<usize> {
        self.base + start..self.base + self.at
    }

    /// Parses commands up to one of these words or operators, which is not consumed.
    pub(super) fn list_until(&mut self, ends: &[&str]) -> ParseResult<CommandList> {
        self.nested(|parser| {
            let mut list = CommandList::default();
            loop {
                parser.skip_newlines()?;
                if parser.ends(ends) {
                    return Ok(list);
                }
                if parser.peek().is_none() {
                    return Err(parser.syntax_error("the text ends before a command is closed"));
                }
                list.items.push(parser.item()?);
            }
        })
    }

    /// Checks whether one of these is at this position.
    fn ends(&mut self, ends: &[&str]) -> bool {
        ends.iter().any(|end| match *end {
            ")" => self.peek() == Some(')'),
            ";;" => self.peek() == Some(';') && matches!(self.peek_second(), Some(';' | '&')),
            word => self.at_word(word),
        })
    }

    /// Checks whether exactly this bare word is at this position.
    pub(super) fn at_word(&mut self, word: &str) -> bool {
        let before = self.at;
        let found = self.eat(word) && self.peek().is_none_or(is_break);
        self.at = before;
        found
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        self.at_word(word) && self.eat(word)
    }

    pub(super) fn expect_word(&mut self, word: &str) -> ParseResult<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.syntax_error(&format!("`{word}` is missing"))) }
    }

    /// Parses pipelines up to and including their `;` or `&`.
    fn item(&mut self) -> ParseResult<AndOrList> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            match (self.peek(), self.peek_second()) {
                (Some('&'), Some('&')) => {
                    self.eat("&&");
                    self.skip_newlines()?;
                    rest.push((AndOrOperator::And, self.pipeline()?));
                }
                (Some('|'), Some('|')) => {
                    self.eat("||");
                    self.skip_newlines()?;
                    rest.push((AndOrOperator::Or, self.pipeline()?));
                }
                (Some('&'), _) => {
                    self.bump();
                    return Ok(AndOrList { first, rest, background: true });
                }
                (Some(';'), second) if !matches!(second, Some(';' | '&')) => {
                    self.bump();
                    return Ok(AndOrList { first, rest, background: false });
                }
                (None | Some('\n' | ')' | ';'), _) => {
                    return Ok(AndOrList { first, rest, background: false });
                }
                _ => return Err(self.syntax_error("a command does not end where it should")),
            }
        }
    }

    fn pipeline(&mut self) -> ParseResult<Pipeline> {
        let mut negated = false;
        let mut prefixed = false;
        loop {
            self.skip_blanks();
            if self.at_word("!") {
                self.eat("!");
                negated = !negated;
                prefixed = true;
            } else if self.at_word("time") {
                self.eat("time");
                prefixed = true;
                self.skip_blanks();
                if self.at_word("-p") {
                    self.eat("-p");
                    self.skip_blanks();
                }
                if self.at_word("--") {
                    self.eat("--");
                }
            } else {
                break;
            }
        }
        self.skip_blanks();
        let mut commands = Vec::new();
        // `time` and `!` may occur alone.
        if prefixed && matches!(self.peek(), None | Some('\n' | ';' | '&' | '|' | ')')) {
            return Ok(Pipeline { negated, commands });
        }
        loop {
            commands.push(self.command()?);
            self.skip_blanks();
            match (self.peek(), self.peek_second()) {
                (Some('|'), Some('|')) => break,
                (Some('|'), Some('&')) => {
                    self.eat("|&");
                }
                (Some('|'), _) => {
                    self.bump();
                }
                _ => break,
            }
            self.skip_newlines()?;
        }
        Ok(Pipeline { negated, commands })
    }

    pub(super) fn command(&mut self) -> ParseResult<CommandNode> {
        self.nested(|parser| {
            parser.skip_blanks();
            let start = parser.at;
            if let Some(kind) = parser.compound()? {
                let redirects = parser.redirects()?;
                return Ok(CommandNode { kind, redirects, span: parser.span_from(start) });
            }
            parser.simple(start)
        })
    }

    fn simple(&mut self, start: usize) -> ParseResult<CommandNode> {
        let mut assignments = Vec::new();
        let mut words: Vec<RawWord> = Vec::new();
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => {
                    let [name] = words.as_slice() else {
                        return Err(self.syntax_error("found `(` where no command can begin"));
                    };
                    if !assignments.is_empty() || !redirects.is_empty() {
                        return Err(self.syntax_error("found `(` where no command can begin"));
                    }
                    let Some(name) = bare_text(name) else {
                        return Err(self.syntax_error("the name of a function is not a plain word"));
                    };
                    self.bump();
                    self.skip_blanks();
                    if self.bump() != Some(')') {
                        return Err(self.syntax_error("found `(` where no command can begin"));
                    }
                    return self.function(name, start);
                }
                Some('<' | '>') if self.peek_second() != Some('(') => {
                    return Err(self.syntax_error("a redirection has no target"));
                }
                Some(_) => {}
            }
            if words.is_empty()
                && let Some(assign) = self.assignment()?
            {
                assignments.push(assign);
                continue;
            }
            let word = self.word(true)?;
            words.push(word);
        }
        if assignments.is_empty() && words.is_empty() && redirects.is_empty() {
            return Err(self.syntax_error("a command is missing"));
        }
        Ok(CommandNode {
            kind: CommandNodeKind::Simple { assignments, words },
            redirects,
            span: self.span_from(start),
        })
    }

    /// Parses `NAME=value`, if there is one at this position.
    fn assignment(&mut self) -> ParseResult<Option<Assignment>> {
        let before = self.at;
        let name = self.name();
        if name.is_empty() {
            self.at = before;
            return Ok(None);
        }
        let mut subscript = None;
        if self.peek() == Some('[') {
            self.bump();
            let Ok(inside) = self.bracketed_range('[', ']') else {
                self.at = before;
                return Ok(None);
            };
            subscript = Some(self.quoted_parts(inside)?);
        }
        let append = self.peek() == Some('+') && self.peek_second() == Some('=');
        if append {
            self.bump();
        }
        if self.peek() != Some('=') {
            self.at = before;
            return Ok(None);
        }
        self.bump();
        let value = if self.peek() == Some('(') {
            let elements = self.array()?;
            RawWord { parts: vec![WordPart::Array(elements)] }
        } else if self.peek().is_none_or(is_break) && !self.at_process() {
            RawWord::default()
        } else {
            self.word(false)?
        };
        Ok(Some(Assignment { name, subscript, append, value }))
    }

    /// Parses the elements of `(…)`.
    pub(super) fn array(&mut self) -> ParseResult<Vec<RawWord>> {
        self.bump();
        self.nested(|parser| {
            let mut elements = Vec::new();
            loop {
                parser.skip_newlines()?;
                match parser.peek() {
                    Some(')') => {
                        parser.bump();
                        return Ok(elements);
                    }
                    None => return Err(parser.syntax_error("an array is not closed")),
                    Some('<' | '>') if parser.at_process() => elements.push(parser.word(true)?),
                    Some('<' | '>' | '&' | '|' | ';' | '(') => {
                        return Err(parser.syntax_error("there is an operator in an array"));
                    }
                    Some(_) => elements.push(parser.word(true)?),
                }
            }
        })
    }

    pub(super) fn at_process(&self) -> bool {
        matches!(self.peek(), Some('<' | '>')) && self.peek_second() == Some('(')
    }

    pub(super) fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek()
            && (c.is_ascii_alphabetic() || c == '_' || (c.is_ascii_digit() && !name.is_empty()))
        {
            name.push(c);
            self.bump();
        }
        name
    }
}

/// Checks whether a character ends an unquoted word.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}

/// Returns the text of a word if it has no quotes or expansions.
pub(super) fn bare_text(word: &RawWord) -> Option<String> {
    match word.parts.as_slice() {
        [WordPart::Bare(text)] => Some(text.clone()),
        _ => None,
    }
}
