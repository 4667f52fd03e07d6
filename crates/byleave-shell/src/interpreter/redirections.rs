//! Redirections: their target files, and the input that a command reads from the text itself.

use super::ScriptReader;
use super::expand::SingleWordMode;
use super::state::{ShellState, VariableValue};
use crate::commands::{Redirection, RedirectionAccess};
use crate::syntax::tree::{RawWord, Redirect, RedirectOperator};
use crate::word::Word;

impl ScriptReader<'_> {
    /// Returns the target files of redirections, and the text that replaces standard input.
    pub(super) fn redirections(
        &mut self,
        redirects: &[Redirect],
        state: &mut ShellState,
    ) -> (Vec<Redirection>, Option<Word>) {
        let mut redirections = Vec::new();
        let mut input = None;
        // The last of several input redirections wins. Files are not read here, so with a file among them the input is unknown.
        let sole = !redirects.iter().any(Redirect::may_read_other_input);
        for redirect in redirects {
            if let Some(name) = &redirect.variable {
                self.note_hidden_assignment(name);
                state.set(name, VariableValue::Unknown);
            }
            let access = match redirect.operator {
                RedirectOperator::Read => RedirectionAccess::Read,
                RedirectOperator::Write | RedirectOperator::Both => RedirectionAccess::Write,
                RedirectOperator::ReadWrite => RedirectionAccess::ReadWrite,
                RedirectOperator::HereString => {
                    let text = match self.expand_single(&redirect.target, state, SingleWordMode::Plain) {
                        Word::Literal(text) => Word::Literal(text + "\n"),
                        unknown => unknown,
                    };
                    input = redirect.as_input(text, sole).or(input);
                    continue;
                }
                RedirectOperator::HereDocument { .. } => {
                    let text = match redirect.body.get() {
                        Some(body) => self.expand_single(body, state, SingleWordMode::Plain),
                        None => Word::unknown("a here-document is not closed"),
                    };
                    input = redirect.as_input(text, sole).or(input);
                    continue;
                }
                RedirectOperator::DuplicateInput | RedirectOperator::DuplicateOutput => {
                    let target = self.target(&redirect.target, state);
                    let is_descriptor = target.as_text().is_some_and(|text| {
                        text.bytes().all(|b| b.is_ascii_digit() || b == b'-') && !text.is_empty()
                    });
                    if !is_descriptor && redirect.operator == RedirectOperator::DuplicateOutput {
                        state.files_unchanged = false;
                        redirections.push(Redirection { access: RedirectionAccess::Write, target });
                    } else if target.as_text().is_none() {
                        redirections.push(Redirection { access: RedirectionAccess::Read, target });
                    }
                    continue;
                }
            };
            let target = self.target(&redirect.target, state);
            if access != RedirectionAccess::Read && target.as_text() != Some("/dev/null") {
                state.files_unchanged = false;
            }
            redirections.push(Redirection { access, target });
        }
        (redirections, input)
    }

    /// Returns the target file of a redirection.
    fn target(&mut self, raw: &RawWord, state: &mut ShellState) -> Word {
        let mut fields = self.expand_fields(raw, state);
        match (fields.pop(), fields.is_empty()) {
            (Some(field), true) => field.word,
            _ => Word::unknown("a redirection has no target or several"),
        }
    }
}

impl Redirect {
    /// Checks whether the command may read something from it that is not in the text.
    fn may_read_other_input(&self) -> bool {
        match self.operator {
            RedirectOperator::HereString | RedirectOperator::HereDocument { .. } => false,
            RedirectOperator::Read | RedirectOperator::ReadWrite | RedirectOperator::DuplicateInput => {
                self.is_input()
            }
            RedirectOperator::Write | RedirectOperator::Both | RedirectOperator::DuplicateOutput => {
                !self.descriptor.is_empty() && self.is_input()
            }
        }
    }

    /// Checks whether it redirects standard input.
    fn is_input(&self) -> bool {
        self.variable.is_none() && self.descriptor.trim_start_matches('0').is_empty()
    }

    /// Returns the text as input of the command, or `None` if it is for another descriptor.
    fn as_input(&self, text: Word, sole: bool) -> Option<Word> {
        match (self.is_input(), sole) {
            (false, _) => None,
            (true, true) => Some(text),
            (true, false) => Some(Word::unknown("several redirections replace the input")),
        }
    }
}
