//! Lexes words: quotes, escapes, and the ends of words.

use std::ops::Range;

use super::ansi_c_quoting;
use super::parser::{ParseResult, Parser, is_break};
use super::tree::{RawWord, WordPart};

/// The context of word parts, which determines special characters and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexContext {
    /// A word. An array may follow `NAME=` if `arrays` is set.
    Word { arrays: bool },
    /// A pattern or regular expression in `[[`, where parentheses are text.
    Pattern,
    /// `${…}` outside double quotes.
    Braces,
    /// `${…}` within double quotes.
    QuotedBraces,
    /// Double quotes.
    Quotes,
    /// A here-document or arithmetic, to the end of the text.
    All,
}

impl LexContext {
    /// Checks whether text is literal: no word splitting and no globs.
    pub(super) fn is_quoted(self) -> bool {
        matches!(self, Self::QuotedBraces | Self::Quotes | Self::All)
    }
}

impl Parser<'_> {
    pub(super) fn word(&mut self, arrays: bool) -> ParseResult<RawWord> {
        self.one_word(LexContext::Word { arrays })
    }

    pub(super) fn pattern_word(&mut self) -> ParseResult<RawWord> {
        self.one_word(LexContext::Pattern)
    }

    pub(super) fn here_parts(&mut self) -> ParseResult<Vec<WordPart>> {
        self.parts(LexContext::All)
    }

    /// Lexes a stretch of the text as within double quotes.
    pub(super) fn quoted_parts(&mut self, inside: Range<usize>) -> ParseResult<Vec<WordPart>> {
        let chars = self.chars.get(inside.clone()).unwrap_or_default();
        let mut inner = Parser::new(chars, self.depth).with_base(self.base + inside.start);
        let parts = inner.nested(|inner| inner.parts(LexContext::All))?;
        for doubt in inner.doubts {
            self.add_doubt(&doubt);
        }
        Ok(parts)
    }

    /// Skips from after an opening bracket to after its closing one. Returns the range between them.
    pub(super) fn bracketed_range(&mut self, open: char, close: char) -> ParseResult<Range<usize>> {
        let start = self.at;
        let mut depth = 1_usize;
        loop {
            match self.bump_raw() {
                None => return Err(self.syntax_error(&format!("`{open}` is not closed"))),
                Some('\\') => {
                    self.bump_raw();
                }
                Some(quote @ ('\'' | '"' | '`')) => {
                    self.add_doubt("there are quotes in arithmetic or in a subscript");
                    self.skip_quoted(quote)?;
                }
                Some(c) if c == close => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                Some(c) if c == open => depth += 1,
                Some(_) => {}
            }
        }
        let inside = start..self.at - 1;
        let text: String = self.chars.get(inside.clone()).unwrap_or_default().iter().collect();
        if text.contains("$(") && (text.contains("case") || text.contains('#') || text.contains("<<")) {
            self.add_doubt("arithmetic contains a substitution, so its end is not certain");
        }
        Ok(inside)
    }

    fn skip_quoted(&mut self, quote: char) -> ParseResult<()> {
        loop {
            match self.bump_raw() {
                None => return Err(self.syntax_error("a quote is not closed")),
                Some('\\') if quote != '\'' => {
                    self.bump_raw();
                }
                Some(c) if c == quote => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn one_word(&mut self, within: LexContext) -> ParseResult<RawWord> {
        let parts = self.nested(|parser| parser.parts(within))?;
        if parts.is_empty() {
            return Err(self.syntax_error("a word is missing"));
        }
        Ok(RawWord { parts })
    }

    /// Lexes parts up to the end of the context. Closing quotes and braces are consumed.
    pub(super) fn parts(&mut self, within: LexContext) -> ParseResult<Vec<WordPart>> {
        let mut parts: Vec<WordPart> = Vec::new();
        let mut parentheses = 0_usize;
        loop {
            let Some(c) = self.peek() else {
                return match within {
                    LexContext::Word { .. } | LexContext::Pattern | LexContext::All => Ok(parts),
                    LexContext::Quotes => Err(self.syntax_error("a quote is not closed")),
                    LexContext::Braces | LexContext::QuotedBraces => {
                        Err(self.syntax_error("`${` is not closed"))
                    }
                };
            };
            if matches!(c, '<' | '>') && self.peek_second() == Some('(') && !within.is_quoted() {
                self.eat(if c == '<' { "<(" } else { ">(" });
                parts.push(WordPart::Process(self.substituted()?));
                continue;
            }
            match (within, c) {
                (LexContext::Word { arrays: true }, '(') if names_array(&parts) => {
                    let elements = self.array()?;
                    parts.push(WordPart::Array(elements));
                    continue;
                }
                (LexContext::Word { .. }, c) if is_break(c) => return Ok(parts),
                (LexContext::Pattern, '(') => {
                    parentheses += 1;
                    self.bump();
                    push_bare(&mut parts, c);
                    continue;
                }
                (LexContext::Pattern, ')') if parentheses > 0 => {
                    parentheses -= 1;
                    self.bump();
                    push_bare(&mut parts, c);
                    continue;
                }
                (LexContext::Pattern, '|') if parentheses > 0 || self.peek_second() != Some('|') => {
                    self.bump();
                    push_bare(&mut parts, c);
                    continue;
                }
                (LexContext::Pattern, c) if is_break(c) => {
                    if parentheses == 0 {
                        return Ok(parts);
                    }
                    if c == '\n' {
                        self.add_doubt("a pattern spans several lines");
                    }
                    self.bump();
                    push_bare(&mut parts, c);
                    continue;
                }
                (LexContext::Braces | LexContext::QuotedBraces, '}') | (LexContext::Quotes, '"') => {
                    self.bump();
                    return Ok(parts);
                }
                _ => {}
            }
            self.part(within, c, &mut parts)?;
        }
    }

    /// Adds one part, or one character to the last part.
    fn part(&mut self, within: LexContext, c: char, parts: &mut Vec<WordPart>) -> ParseResult<()> {
        match c {
            '\\' => {
                self.bump();
                let next = self.chars.get(self.at).copied();
                let Some(next) = next else {
                    push_quoted(parts, '\\');
                    return Ok(());
                };
                let escapes = match within {
                    LexContext::Quotes => matches!(next, '$' | '`' | '"' | '\\'),
                    LexContext::QuotedBraces => matches!(next, '$' | '`' | '"' | '\\' | '}'),
                    LexContext::All => matches!(next, '$' | '`' | '\\'),
                    LexContext::Word { .. } | LexContext::Pattern | LexContext::Braces => true,
                };
                if escapes {
                    self.at += 1;
                    push_quoted(parts, next);
                } else {
                    push_quoted(parts, '\\');
                }
            }
            '\'' if !within.is_quoted() => {
                self.bump();
                let text = self.until_quote(false)?;
                push_quoted_text(parts, &text);
            }
            '\'' if within == LexContext::QuotedBraces => {
                self.add_doubt("there are single quotes in an expansion within double quotes");
                self.bump();
                let text = self.until_quote(false)?;
                push_quoted_text(parts, &format!("'{text}'"));
            }
            '"' if within != LexContext::All => {
                self.bump();
                let inner = self.nested(|parser| parser.parts(LexContext::Quotes))?;
                parts.push(WordPart::Double(inner));
            }
            '$' => self.dollar(within, parts)?,
            '`' => {
                self.bump();
                let text = self.backquoted(within)?;
                parts.push(WordPart::Backquoted(text));
            }
            _ => {
                self.bump();
                if within.is_quoted() {
                    push_quoted(parts, c);
                } else {
                    push_bare(parts, c);
                }
            }
        }
        Ok(())
    }

    /// Returns the text up to a single quote. If `escapes` is set, a backslash escapes the quote.
    pub(super) fn until_quote(&mut self, escapes: bool) -> ParseResult<String> {
        let mut text = String::new();
        loop {
            match self.bump_raw() {
                None => return Err(self.syntax_error("a quote is not closed")),
                Some('\'') => return Ok(text),
                Some('\\') if escapes => {
                    text.push('\\');
                    if let Some(next) = self.bump_raw() {
                        text.push(next);
                    }
                }
                Some(c) => text.push(c),
            }
        }
    }

    /// Returns the text up to a backquote, without the backslashes that only escape there.
    fn backquoted(&mut self, within: LexContext) -> ParseResult<String> {
        let mut text = String::new();
        loop {
            match self.bump_raw() {
                None => return Err(self.syntax_error("a backquote is not closed")),
                Some('`') => return Ok(text),
                Some('\\') => match self.bump_raw() {
                    Some(c @ ('`' | '\\' | '$')) => text.push(c),
                    Some('"') if matches!(within, LexContext::Quotes | LexContext::QuotedBraces) => {
                        text.push('"')
                    }
                    Some(c) => text.extend(['\\', c]),
                    None => return Err(self.syntax_error("a backquote is not closed")),
                },
                Some(c) => text.push(c),
            }
        }
    }

    /// Lexes `$'…'` after its dollar.
    pub(super) fn ansi_quoted(&mut self, parts: &mut Vec<WordPart>) -> ParseResult<()> {
        self.bump();
        let text = self.until_quote(true)?;
        match ansi_c_quoting::decode(&text) {
            Some(text) => push_quoted_text(parts, &text),
            None => parts.push(WordPart::Opaque("the bytes of `$'…'` are not certain")),
        }
        Ok(())
    }
}

/// Checks whether an array may follow: the word is `NAME=` or `NAME+=` so far.
fn names_array(parts: &[WordPart]) -> bool {
    let [WordPart::Bare(text)] = parts else { return false };
    let Some(name) = text.strip_suffix('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name)
}

/// Checks whether a text is a valid variable name.
pub(crate) fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(super) fn push_bare(parts: &mut Vec<WordPart>, c: char) {
    match parts.last_mut() {
        Some(WordPart::Bare(text)) => text.push(c),
        _ => parts.push(WordPart::Bare(c.to_string())),
    }
}

pub(super) fn push_quoted(parts: &mut Vec<WordPart>, c: char) {
    match parts.last_mut() {
        Some(WordPart::Quoted(text)) => text.push(c),
        _ => parts.push(WordPart::Quoted(c.to_string())),
    }
}

fn push_quoted_text(parts: &mut Vec<WordPart>, more: &str) {
    match parts.last_mut() {
        Some(WordPart::Quoted(text)) => text.push_str(more),
        _ => parts.push(WordPart::Quoted(more.to_owned())),
    }
}
