//! Parses everything that begins with a dollar: parameters, commands, arithmetic.

use super::lex::{LexContext, push_bare, push_quoted};
use super::parser::{ParseResult, Parser};
use super::tree::{CommandList, ParameterExpansion, WordPart};

impl Parser<'_> {
    pub(super) fn dollar(&mut self, within: LexContext, parts: &mut Vec<WordPart>) -> ParseResult<()> {
        self.bump();
        match self.peek() {
            Some('(') if self.peek_second() == Some('(') => {
                let part = self.arithmetic()?;
                parts.push(part);
            }
            Some('(') => {
                self.bump();
                parts.push(WordPart::Command(self.substituted()?));
            }
            Some('[') => {
                self.bump();
                let inside = self.bracketed_range('[', ']')?;
                parts.push(WordPart::Arithmetic(self.quoted_parts(inside)?));
            }
            Some('{') => {
                self.bump();
                let parameter = self.nested(|parser| parser.braces(within))?;
                parts.push(WordPart::Parameter(Box::new(parameter)));
            }
            Some('\'') if !within.is_quoted() => self.ansi_quoted(parts)?,
            Some('"') if !within.is_quoted() => {
                self.bump();
                let inner = self.nested(|parser| parser.parts(LexContext::Quotes))?;
                parts.push(WordPart::Double(inner));
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.name();
                parts.push(plain(name));
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                self.bump();
                parts.push(plain(c.to_string()));
            }
            _ if within.is_quoted() => push_quoted(parts, '$'),
            _ => push_bare(parts, '$'),
        }
        Ok(())
    }

    /// Parses commands up to the `)` that ends their substitution.
    pub(super) fn substituted(&mut self) -> ParseResult<CommandList> {
        self.with_own_here_documents(|parser| {
            let list = parser.list_until(&[")"])?;
            parser.bump();
            Ok(list)
        })
    }

    /// Parses `$((…))`, or commands that begin with a subshell.
    fn arithmetic(&mut self) -> ParseResult<WordPart> {
        let before = self.at;
        let doubts = self.doubts.len();
        self.eat("((");
        if let Ok(inside) = self.bracketed_range('(', ')')
            && self.chars.get(self.at) == Some(&')')
        {
            self.at += 1;
            return Ok(WordPart::Arithmetic(self.quoted_parts(inside)?));
        }
        let quoted = self.doubts.len() > doubts;
        self.doubts.truncate(doubts);
        self.rewind_to(before);
        self.bump();
        if quoted {
            self.add_doubt("`$((` seems to begin commands rather than arithmetic");
        }
        Ok(WordPart::Command(self.substituted()?))
    }

    /// Parses `${…}` after its brace.
    fn braces(&mut self, within: LexContext) -> ParseResult<ParameterExpansion> {
        let mut parameter = ParameterExpansion::default();
        if matches!(self.peek(), Some(' ' | '\t' | '\n' | '|')) {
            self.add_doubt("`${ …; }` runs commands in newer shells");
        }
        match (self.peek(), self.peek_second()) {
            (Some(c @ ('!' | '#')), Some(next)) if next != '}' => {
                self.bump();
                parameter.operator.push(c);
            }
            _ => {}
        }
        match self.peek() {
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                parameter.name = self.name();
                if self.peek() == Some('[') {
                    self.bump();
                    let inside = self.bracketed_range('[', ']')?;
                    parameter.subscript = Some(self.quoted_parts(inside)?);
                }
            }
            Some(c) if c.is_ascii_digit() => {
                while let Some(c) = self.peek().filter(char::is_ascii_digit) {
                    parameter.name.push(c);
                    self.bump();
                }
            }
            Some(c @ ('@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                self.bump();
                parameter.name.push(c);
            }
            _ => {}
        }
        if self.peek() == Some('}') {
            self.bump();
            parameter.plain = parameter.operator.is_empty() && !parameter.name.is_empty();
            return Ok(parameter);
        }
        if let Some(c) = self.peek().filter(|c| ":-=?+%#/^,@~".contains(*c)) {
            self.bump();
            parameter.operator.push(c);
            if c == ':'
                && let Some(next) = self.peek().filter(|c| "-=?+".contains(*c))
            {
                self.bump();
                parameter.operator.push(next);
            }
        }
        parameter.operand =
            self.parts(if within.is_quoted() { LexContext::QuotedBraces } else { LexContext::Braces })?;
        Ok(parameter)
    }
}

fn plain(name: String) -> WordPart {
    WordPart::Parameter(Box::new(ParameterExpansion { name, plain: true, ..ParameterExpansion::default() }))
}
