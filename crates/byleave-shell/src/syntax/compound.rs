//! Parses compound commands: groups, loops, conditions, functions.

use super::parser::{ParseResult, Parser, bare_text, is_break};
use super::tree::{CommandList, CommandNode, CommandNodeKind, RawWord, TestToken, WordPart};

impl Parser<'_> {
    /// Parses the compound command at this position, if there is one.
    pub(super) fn compound(&mut self) -> ParseResult<Option<CommandNodeKind>> {
        if self.peek() == Some('(') {
            return self.parentheses().map(Some);
        }
        let Some(keyword) =
            ["{", "if", "while", "until", "for", "select", "case", "function", "coproc", "[["]
                .into_iter()
                .find(|keyword| self.at_word(keyword))
        else {
            for keyword in ["then", "else", "elif", "fi", "do", "done", "esac", "}"] {
                if self.at_word(keyword) {
                    return Err(self.syntax_error(&format!("found `{keyword}` where a command should begin")));
                }
            }
            return Ok(None);
        };
        self.eat(keyword);
        let kind = match keyword {
            "{" => CommandNodeKind::Group(self.body("}")?),
            "if" => self.conditional()?,
            "while" | "until" => {
                let condition = self.some_list(&["do"])?;
                self.expect_word("do")?;
                CommandNodeKind::Loop { condition, body: self.body("done")? }
            }
            "for" | "select" => self.for_loop(keyword == "select")?,
            "case" => self.case()?,
            "function" => {
                self.skip_blanks();
                let start = self.at;
                let word = self.word(true)?;
                let Some(name) = bare_text(&word) else {
                    return Err(self.syntax_error("the name of a function is not a plain word"));
                };
                self.skip_blanks();
                if self.peek() == Some('(') {
                    let before = self.at;
                    self.bump();
                    self.skip_blanks();
                    if self.peek() == Some(')') {
                        self.bump();
                    } else {
                        self.at = before;
                    }
                }
                self.function(name, start)?.kind
            }
            "coproc" => self.coprocess()?,
            _ => CommandNodeKind::Test(self.test()?),
        };
        Ok(Some(kind))
    }

    /// Parses the body of a function, after its name.
    pub(super) fn function(&mut self, name: String, start: usize) -> ParseResult<CommandNode> {
        self.skip_newlines()?;
        let begin = self.at;
        let body = self.nested(|parser| match parser.compound()? {
            Some(kind) => {
                let redirects = parser.redirects()?;
                Ok(CommandNode { kind, redirects, span: parser.span_from(begin) })
            }
            None => Err(parser.syntax_error("a function has no body")),
        })?;
        let span = self.span_from(start);
        Ok(CommandNode {
            kind: CommandNodeKind::Function { name, body: Box::new(body) },
            redirects: Vec::new(),
            span,
        })
    }

    fn some_list(&mut self, ends: &[&str]) -> ParseResult<CommandList> {
        let list = self.list_until(ends)?;
        if list.items.is_empty() { Err(self.syntax_error("a command is missing")) } else { Ok(list) }
    }

    fn body(&mut self, end: &str) -> ParseResult<CommandList> {
        let list = self.some_list(&[end])?;
        self.expect_word(end)?;
        Ok(list)
    }

    /// Parses `( … )` or `(( … ))`.
    fn parentheses(&mut self) -> ParseResult<CommandNodeKind> {
        if self.peek_second() == Some('(') {
            let before = self.at;
            self.eat("((");
            let doubts = self.doubts.len();
            if let Ok(inside) = self.bracketed_range('(', ')')
                && self.chars.get(self.at) == Some(&')')
            {
                self.at += 1;
                return Ok(CommandNodeKind::Arithmetic(RawWord { parts: self.quoted_parts(inside)? }));
            }
            self.doubts.truncate(doubts);
            self.rewind_to(before);
        }
        self.bump();
        let list = self.some_list(&[")"])?;
        self.bump();
        Ok(CommandNodeKind::Subshell(list))
    }

    fn conditional(&mut self) -> ParseResult<CommandNodeKind> {
        let mut branches = Vec::new();
        loop {
            let condition = self.some_list(&["then"])?;
            self.expect_word("then")?;
            let body = self.some_list(&["elif", "else", "fi"])?;
            branches.push((condition, body));
            if self.eat_word("elif") {
                continue;
            }
            let other = if self.eat_word("else") { Some(self.some_list(&["fi"])?) } else { None };
            self.expect_word("fi")?;
            return Ok(CommandNodeKind::If { branches, other });
        }
    }

    fn for_loop(&mut self, asks: bool) -> ParseResult<CommandNodeKind> {
        self.skip_blanks();
        if self.peek() == Some('(') && self.peek_second() == Some('(') {
            self.eat("((");
            let inside = self.bracketed_range('(', ')')?;
            if self.bump_raw() != Some(')') {
                return Err(self.syntax_error("`((` is not closed"));
            }
            let head = RawWord { parts: self.quoted_parts(inside)? };
            self.skip_blanks();
            if self.peek() == Some(';') {
                self.bump();
            }
            let body = self.loop_body()?;
            return Ok(CommandNodeKind::ArithmeticFor { head, body });
        }
        let word = self.word(true)?;
        let Some(name) = bare_text(&word) else {
            return Err(self.syntax_error("the variable of a loop is not a plain name"));
        };
        self.skip_newlines()?;
        let mut words = None;
        if self.at_word("in") {
            self.eat("in");
            let mut values = Vec::new();
            loop {
                self.skip_blanks();
                match self.peek() {
                    None | Some('\n' | ';') => break,
                    Some('<' | '>') if self.at_process() => values.push(self.word(true)?),
                    Some(c) if is_break(c) => {
                        return Err(self.syntax_error("there is an operator among the words of a loop"));
                    }
                    Some(_) => values.push(self.word(true)?),
                }
            }
            words = Some(values);
        }
        self.skip_blanks();
        if self.peek() == Some(';') {
            self.bump();
        }
        let body = self.loop_body()?;
        Ok(CommandNodeKind::For { name, words, body, asks })
    }

    fn loop_body(&mut self) -> ParseResult<CommandList> {
        self.skip_newlines()?;
        if self.eat_word("{") {
            return self.body("}");
        }
        self.expect_word("do")?;
        self.body("done")
    }

    fn case(&mut self) -> ParseResult<CommandNodeKind> {
        self.skip_blanks();
        if self.peek().is_none_or(is_break) && !self.at_process() {
            return Err(self.syntax_error("`case` has no word"));
        }
        let word = self.word(true)?;
        self.skip_newlines()?;
        self.expect_word("in")?;
        let mut arms = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.eat_word("esac") {
                return Ok(CommandNodeKind::Case { word, arms });
            }
            if self.peek() == Some('(') {
                self.bump();
                self.skip_blanks();
            }
            let mut patterns = Vec::new();
            loop {
                self.skip_blanks();
                if self.peek().is_none_or(is_break) && !self.at_process() {
                    return Err(self.syntax_error("a pattern is missing"));
                }
                patterns.push(self.word(true)?);
                self.skip_blanks();
                match self.bump() {
                    Some('|') => {}
                    Some(')') => break,
                    _ => return Err(self.syntax_error("a pattern does not end with `)`")),
                }
            }
            let body = self.list_until(&[";;", "esac"])?;
            arms.push((patterns, body));
            if !(self.eat(";;&") || self.eat(";;") || self.eat(";&")) {
                self.expect_word("esac")?;
                return Ok(CommandNodeKind::Case { word, arms });
            }
        }
    }

    fn coprocess(&mut self) -> ParseResult<CommandNodeKind> {
        self.skip_blanks();
        let before = self.at;
        let name = self.name();
        if !name.is_empty() && !self.at_keyword(before) {
            self.skip_blanks();
            if self.peek() == Some('(') || self.at_keyword(self.at) {
                self.add_doubt("a coprocess sets the variable with its name");
                return Ok(CommandNodeKind::Coprocess(Box::new(self.command()?)));
            }
        }
        self.at = before;
        Ok(CommandNodeKind::Coprocess(Box::new(self.command()?)))
    }

    fn at_keyword(&mut self, at: usize) -> bool {
        let before = self.at;
        self.at = at;
        let found = ["{", "if", "while", "until", "for", "select", "case", "[["]
            .into_iter()
            .any(|keyword| self.at_word(keyword));
        self.at = before;
        found
    }

    /// Parses the tokens between `[[` and `]]`.
    fn test(&mut self) -> ParseResult<Vec<TestToken>> {
        let mut tokens = Vec::new();
        let mut loose = false;
        loop {
            self.skip_newlines()?;
            if !loose && self.eat_word("]]") {
                return Ok(tokens);
            }
            match (self.peek(), self.peek_second()) {
                (None, _) => return Err(self.syntax_error("`[[` is not closed")),
                (Some('&'), Some('&')) | (Some('|'), Some('|')) => {
                    self.bump();
                    self.bump();
                    tokens.push(TestToken::Operator);
                }
                (Some('<' | '>'), second) if second != Some('(') => {
                    self.bump();
                    tokens.push(TestToken::Operator);
                }
                (Some('(' | ')'), _) if !loose => {
                    self.bump();
                    tokens.push(TestToken::Operator);
                }
                (Some('&' | '|' | ';'), _) => return Err(self.syntax_error("there is an operator in `[[`")),
                _ => {
                    let word = if loose { self.pattern_word()? } else { self.word(true)? };
                    loose = matches!(word.parts.as_slice(),
                        [WordPart::Bare(text)] if !loose && matches!(text.as_str(), "=~" | "==" | "!=" | "="));
                    tokens.push(TestToken::Word(word));
                    continue;
                }
            }
            loose = false;
        }
    }
}
