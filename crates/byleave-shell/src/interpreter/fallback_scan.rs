//! Scans text that cannot be parsed for everything that looks like a command.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{COMMANDS_MAX, ScriptReader};
use crate::commands::{SimpleCommand, WorkingDir};
use crate::syntax::is_name;
use crate::word::Word;

/// Words that may precede a command without being part of it.
const LEADING_WORDS: [&str; 14] =
    ["!", "{", "}", "(", "if", "then", "elif", "else", "while", "until", "do", "time", "coproc", "["];

impl ScriptReader<'_> {
    /// Lists every stretch between operators as a command, with quotes removed. It serves denials and is never a proof. The caller
    /// must also record an unresolved part. The span is the position of the whole in the given text.
    pub(super) fn list_possible_commands(&mut self, text: &str, span: &Range<usize>) {
        let mut seen = BTreeSet::new();
        for quotes_divide in [false, true] {
            let divides = |c: char| {
                matches!(c, ';' | '|' | '&' | '(' | ')' | '\n' | '`' | '<' | '>')
                    || (quotes_divide && matches!(c, '\'' | '"' | '{' | '}'))
            };
            for stretch in text.split(divides) {
                let words: Vec<String> = stretch
                    .split([' ', '\t', '\r', ','])
                    .map(|word| word.replace(['\'', '"', '\\'], ""))
                    .filter(|word| !word.is_empty())
                    .skip_while(|word| {
                        LEADING_WORDS.contains(&word.as_str())
                            || word.split_once('=').is_some_and(|(name, _)| is_name(name))
                    })
                    .collect();
                if !words.is_empty() && seen.len() < 4 * COMMANDS_MAX && seen.insert(words.clone()) {
                    self.trail.add_possible_command(self.commands.len());
                    self.commands.push(SimpleCommand {
                        words: words.into_iter().map(Word::Literal).collect(),
                        assignments: Vec::new(),
                        redirections: Vec::new(),
                        input: None,
                        working_dir: WorkingDir::Unknown("the text was not parsed".to_owned()),
                        span: span.clone(),
                        enclosing: vec!["unread"],
                        is_function: false,
                        is_template: false,
                        is_tentative: false,
                    });
                }
            }
        }
    }
}
