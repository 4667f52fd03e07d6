//! Patterns over runs: a text is a program and its leading words; a list is exactly one whole command.

use std::ops::Range;

use super::expand::{Expansion, VariableExpander};
use super::{RuleFileReader, TomlValue, key};
use crate::pattern::Pattern;
use crate::policy::rule::Layer;

impl RuleFileReader<'_> {
    /// Reads one text, or a list of texts and of lists.
    pub(super) fn runs(&mut self, value: &TomlValue<'_>, to: &mut Vec<Pattern>) {
        let items = value.get_ref().as_array().map(|items| items.iter().collect::<Vec<_>>());
        if items.as_ref().is_some_and(Vec::is_empty) {
            self.flaw(value.span(), "the list is empty", "put something in it, or drop the key");
        }
        for item in items.unwrap_or_else(|| vec![value]) {
            if item.get_ref().as_array().is_some() {
                let words: Vec<String> = self.texts(item).into_iter().map(|(word, _)| word).collect();
                self.run(words, item.span(), Pattern::Exactly, to);
            } else if let Some(text) = self.text(item) {
                let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                match key::wrong_run(&words) {
                    Some((what, todo)) => self.flaw(item.span(), what, todo),
                    None => self.run(words, item.span(), Pattern::Run, to),
                }
            }
        }
    }

    fn run(
        &mut self,
        mut words: Vec<String>,
        span: Range<usize>,
        kind: fn(Vec<String>) -> Pattern,
        to: &mut Vec<Pattern>,
    ) {
        let expander = VariableExpander { places: self.places, built_in: self.file.layer == Layer::Builtin };
        match words.first().map(|program| expander.program(program)) {
            Some(Expansion::Texts(program)) => {
                words.splice(..1, program);
                let pattern = kind(words);
                match pattern.check() {
                    Ok(()) => to.push(pattern),
                    Err(bad) => self.flaw(span, bad.to_string(), "name a program first"),
                }
            }
            Some(Expansion::Flaw(what, todo)) => self.flaw(span, what, todo),
            Some(Expansion::Nowhere) | None => {}
        }
    }
}
