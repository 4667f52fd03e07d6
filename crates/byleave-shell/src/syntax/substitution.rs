//! What begins with a dollar: parameters, commands, arithmetic.

use super::lex::{Within, push_bare, push_quoted};
use super::parser::{Parsed, Parser};
use super::tree::{List, Parameter, Part};

impl Parser<'_> {
    pub(super) fn dollar(&mut self, within: Within, parts: &mut Vec<Part>) -> Parsed<()> {
        self.bump();
        match self.peek() {
            Some('(') if self.peek_second() == Some('(') => {
                let part = self.arithmetic()?;
                parts.push(part);
            }
            Some('(') => {
                self.bump();
                parts.push(Part::Command(self.substituted()?));
            }
            Some('[') => {
                self.bump();
                let inside = self.enclosed('[', ']')?;
                parts.push(Part::Arithmetic(self.parts_of(inside)?));
            }
            Some('{') => {
                self.bump();
                let parameter = self.deeper(|parser| parser.braces(within))?;
                parts.push(Part::Parameter(Box::new(parameter)));
            }
            Some('\'') if !within.is_quoted() => self.ansi_quoted(parts)?,
            Some('"') if !within.is_quoted() => {
                self.bump();
                let inner = self.deeper(|parser| parser.parts(Within::Quotes))?;
                parts.push(Part::Double(inner));
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

    /// Commands up to the `)` that ends their substitution.
    pub(super) fn substituted(&mut self) -> Parsed<List> {
        self.apart(|parser| {
            let list = parser.list_until(&[")"])?;
            parser.bump();
            Ok(list)
        })
    }

    /// `$((…))`, or commands that begin with a subshell.
    fn arithmetic(&mut self) -> Parsed<Part> {
        let before = self.at;
        let doubts = self.doubts.len();
        self.eat("((");
        if let Ok(inside) = self.enclosed('(', ')')
            && self.chars.get(self.at) == Some(&')')
        {
            self.at += 1;
            return Ok(Part::Arithmetic(self.parts_of(inside)?));
        }
        let quoted = self.doubts.len() > doubts;
        self.doubts.truncate(doubts);
        self.back_to(before);
        self.bump();
        if quoted {
            self.doubt("`$((` begins commands rather than arithmetic, as far as can be told");
        }
        Ok(Part::Command(self.substituted()?))
    }

    /// `${…}` after its brace.
    fn braces(&mut self, within: Within) -> Parsed<Parameter> {
        let mut parameter = Parameter::default();
        if matches!(self.peek(), Some(' ' | '\t' | '\n' | '|')) {
            self.doubt("`${ …; }` runs commands in newer shells");
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
                    let inside = self.enclosed('[', ']')?;
                    parameter.subscript = Some(self.parts_of(inside)?);
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
            self.parts(if within.is_quoted() { Within::QuotedBraces } else { Within::Braces })?;
        Ok(parameter)
    }
}

fn plain(name: String) -> Part {
    Part::Parameter(Box::new(Parameter { name, plain: true, ..Parameter::default() }))
}
