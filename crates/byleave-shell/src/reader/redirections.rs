//! Redirections: which files they lead to, and what a command reads from one that stands in the text.

use super::Reader;
use super::expand::Single;
use super::state::{State, Value};
use crate::reading::{Access, Redirection};
use crate::syntax::tree::{Direction, Raw, Redirect};
use crate::word::Word;

impl Reader<'_> {
    /// The files that redirections lead to, and what stands in for standard input.
    pub(super) fn redirections(
        &mut self,
        redirects: &[Redirect],
        state: &mut State,
    ) -> (Vec<Redirection>, Option<Word>) {
        let mut redirections = Vec::new();
        let mut input = None;
        // Of several that are the input the last one wins. A file among them is not read here, so then it is not known.
        let sole = !redirects.iter().any(Redirect::may_be_another_input);
        for redirect in redirects {
            if let Some(name) = &redirect.variable {
                self.sets(name);
                state.set(name, Value::Unknown);
            }
            let access = match redirect.operator {
                Direction::Read => Access::Read,
                Direction::Write | Direction::Both => Access::Write,
                Direction::ReadWrite => Access::ReadWrite,
                Direction::HereString => {
                    let text = match self.single(&redirect.target, state, Single::Plain) {
                        Word::Literal(text) => Word::Literal(text + "\n"),
                        unknown => unknown,
                    };
                    input = redirect.as_input(text, sole).or(input);
                    continue;
                }
                Direction::HereDocument { .. } => {
                    let text = match redirect.body.get() {
                        Some(body) => self.single(body, state, Single::Plain),
                        None => Word::unknown("a here-document has no end"),
                    };
                    input = redirect.as_input(text, sole).or(input);
                    continue;
                }
                Direction::DuplicateInput | Direction::DuplicateOutput => {
                    let target = self.target(&redirect.target, state);
                    let is_descriptor = target.text().is_some_and(|text| {
                        text.bytes().all(|b| b.is_ascii_digit() || b == b'-') && !text.is_empty()
                    });
                    if !is_descriptor && redirect.operator == Direction::DuplicateOutput {
                        state.settled = false;
                        redirections.push(Redirection { access: Access::Write, target });
                    } else if target.text().is_none() {
                        redirections.push(Redirection { access: Access::Read, target });
                    }
                    continue;
                }
            };
            let target = self.target(&redirect.target, state);
            if access != Access::Read && target.text() != Some("/dev/null") {
                state.settled = false;
            }
            redirections.push(Redirection { access, target });
        }
        (redirections, input)
    }

    /// The file that a redirection leads to.
    fn target(&mut self, raw: &Raw, state: &mut State) -> Word {
        let mut fields = self.fields(raw, state);
        match (fields.pop(), fields.is_empty()) {
            (Some(field), true) => field.word,
            _ => Word::unknown("a redirection leads to no file or to several"),
        }
    }
}

impl Redirect {
    /// Whether the command may read from it something that does not stand in the text.
    fn may_be_another_input(&self) -> bool {
        match self.operator {
            Direction::HereString | Direction::HereDocument { .. } => false,
            Direction::Read | Direction::ReadWrite | Direction::DuplicateInput => self.is_of_input(),
            Direction::Write | Direction::Both | Direction::DuplicateOutput => {
                !self.descriptor.is_empty() && self.is_of_input()
            }
        }
    }

    /// Whether it is about the descriptor that is read where none is named.
    fn is_of_input(&self) -> bool {
        self.variable.is_none() && self.descriptor.trim_start_matches('0').is_empty()
    }

    /// The text as what the command reads; none where it is for another descriptor.
    fn as_input(&self, text: Word, sole: bool) -> Option<Word> {
        match (self.is_of_input(), sole) {
            (false, _) => None,
            (true, true) => Some(text),
            (true, false) => Some(Word::unknown("several redirections lead to the input")),
        }
    }
}
