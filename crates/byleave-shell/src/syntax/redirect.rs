//! Parses redirections and here-documents.

use std::cell::OnceCell;
use std::rc::Rc;

use super::heredoc::PendingHereDoc;
use super::parser::{ParseResult, Parser, is_break};
use super::tree::{RawWord, Redirect, RedirectOperator, WordPart};

impl Parser<'_> {
    pub(super) fn redirects(&mut self) -> ParseResult<Vec<Redirect>> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(redirects),
            }
        }
    }

    pub(super) fn redirect(&mut self) -> ParseResult<Option<Redirect>> {
        let before = self.at;
        let mut variable = None;
        let mut descriptor = String::new();
        if self.peek() == Some('{') {
            self.bump();
            let name = self.name();
            if self.peek() == Some('[') {
                self.bump();
                if self.bracketed_range('[', ']').is_ok() && self.peek() == Some('}') {
                    self.bump();
                    if matches!(self.peek(), Some('<' | '>')) {
                        self.add_doubt(
                            "a descriptor is stored in an array element, whose subscript is evaluated",
                        );
                    }
                }
                self.at = before;
                return Ok(None);
            }
            if name.is_empty() || self.bump() != Some('}') {
                self.at = before;
                return Ok(None);
            }
            variable = Some(name);
        } else {
            while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
                self.bump();
                descriptor.push(digit);
            }
        }
        let numbered = !descriptor.is_empty();
        let direction = match (self.peek(), self.peek_second(), self.peek_third()) {
            (Some('<' | '>'), Some('('), _) => None,
            (Some('<'), Some('<'), Some('<')) => Some(("<<<", RedirectOperator::HereString)),
            (Some('<'), Some('<'), Some('-')) => Some(("<<-", RedirectOperator::HereDocument { tabs: true })),
            (Some('<'), Some('<'), _) => Some(("<<", RedirectOperator::HereDocument { tabs: false })),
            (Some('<'), Some('>'), _) => Some(("<>", RedirectOperator::ReadWrite)),
            (Some('<'), Some('&'), _) => Some(("<&", RedirectOperator::DuplicateInput)),
            (Some('<'), ..) => Some(("<", RedirectOperator::Read)),
            (Some('>'), Some('>'), _) => Some((">>", RedirectOperator::Write)),
            (Some('>'), Some('|'), _) => Some((">|", RedirectOperator::Write)),
            (Some('>'), Some('&'), _) => Some((">&", RedirectOperator::DuplicateOutput)),
            (Some('>'), ..) => Some((">", RedirectOperator::Write)),
            (Some('&'), Some('>'), Some('>')) if variable.is_none() && !numbered => {
                Some(("&>>", RedirectOperator::Both))
            }
            (Some('&'), Some('>'), _) if variable.is_none() && !numbered => {
                Some(("&>", RedirectOperator::Both))
            }
            _ => None,
        };
        let Some((text, operator)) = direction else {
            self.at = before;
            return Ok(None);
        };
        self.eat(text);
        self.skip_blanks();
        if self.peek().is_none_or(is_break) && !self.at_process() {
            return Err(self.syntax_error("a redirection has no target"));
        }
        let start = self.at;
        let target = self.word(true)?;
        let body = Rc::new(OnceCell::new());
        if let RedirectOperator::HereDocument { tabs } = operator {
            let (delimiter, quoted) = self.delimiter(start, &target);
            self.pending.push(PendingHereDoc { delimiter, quoted, tabs, body: Rc::clone(&body) });
        }
        Ok(Some(Redirect { operator, target, variable, descriptor, body }))
    }

    /// Returns the delimiter of a here-document: its word without quotes, and without expansion.
    fn delimiter(&mut self, start: usize, word: &RawWord) -> (String, bool) {
        let mut text = String::new();
        let mut quoted = false;
        for part in &word.parts {
            match part {
                WordPart::Bare(bare) => text.push_str(bare),
                WordPart::Quoted(inner) => {
                    quoted = true;
                    text.push_str(inner);
                }
                WordPart::Double(inner) => {
                    quoted = true;
                    for part in inner {
                        match part {
                            WordPart::Quoted(inner) => text.push_str(inner),
                            _ => self.add_doubt("the delimiter of a here-document contains an expansion"),
                        }
                    }
                }
                _ => self.add_doubt("the delimiter of a here-document contains an expansion"),
            }
        }
        if self
            .chars
            .get(start..self.at)
            .is_some_and(|raw| raw.contains(&'\n') || raw.windows(2).any(|w| w == ['$', '\'']))
        {
            self.add_doubt("the delimiter of a here-document is quoted in a way that differs between shells");
        }
        (text, quoted)
    }

    pub(super) fn here_document(&mut self, pending: &PendingHereDoc) -> ParseResult<()> {
        let start = self.at;
        let mut lines: Vec<char> = Vec::new();
        let mut ended = false;
        while self.at < self.chars.len() {
            let mut line: Vec<char> = Vec::new();
            let mut strip = pending.tabs;
            loop {
                match self.bump_raw() {
                    None => break,
                    Some('\t') if strip => {}
                    // If the text is expanded, a continued line is one line, also for the search for the delimiter.
                    Some('\\') if !pending.quoted => {
                        strip = false;
                        match self.bump_raw() {
                            Some('\n') => {}
                            Some(next) => line.extend(['\\', next]),
                            None => line.push('\\'),
                        }
                    }
                    Some('\n') => {
                        line.push('\n');
                        break;
                    }
                    Some(c) => {
                        strip = false;
                        line.push(c);
                    }
                }
            }
            let text: String = line.iter().filter(|c| **c != '\n').collect();
            if text == pending.delimiter {
                ended = true;
                break;
            }
            lines.extend(line);
        }
        if !ended {
            self.add_doubt("a here-document is not closed");
        }
        let parts = if pending.quoted {
            vec![WordPart::Quoted(lines.into_iter().collect())]
        } else {
            let mut inner = Parser::new(&lines, self.depth).with_base(self.base + start);
            let parts = inner.nested(|inner| inner.here_parts())?;
            for doubt in inner.doubts {
                self.add_doubt(&doubt);
            }
            vec![WordPart::Double(parts)]
        };
        if pending.body.set(RawWord { parts }).is_err() {
            self.add_doubt("a here-document was read twice");
        }
        Ok(())
    }

    /// Ends pending here-documents at the end of the text or of a substitution. They get no further lines.
    pub(super) fn finish_here_documents(&mut self) -> ParseResult<()> {
        if !self.pending.is_empty() {
            self.add_doubt("a here-document is not closed");
            for pending in std::mem::take(&mut self.pending) {
                self.here_document(&pending)?;
            }
        }
        Ok(())
    }

    /// Parses a substitution, which has here-documents of its own.
    pub(super) fn with_own_here_documents<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        let outer = std::mem::take(&mut self.pending);
        let start = self.at;
        let parsed = parse(self);
        if !self.pending.is_empty() {
            self.add_doubt("a here-document begins in a substitution and does not end there");
            self.pending.clear();
        }
        if !outer.is_empty() && self.chars.get(start..self.at).is_some_and(|text| text.contains(&'\n')) {
            self.add_doubt("a substitution spans the line on which a here-document begins");
        }
        self.pending = outer;
        parsed
    }
}
