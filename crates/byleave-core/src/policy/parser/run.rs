//! Patterns over runs: a text is a program and its leading words; a list is exactly one whole command.

use std::ops::Range;

use super::expand::{Expansion, VariableExpander};
use super::{RuleFileReader, TomlValue, key};
use crate::pattern::Pattern;
use crate::policy::rule::Layer;

impl RuleFileReader<'_> {
    /// Reads one text, or a list of texts and of lists.
    pub(super) fn parse_runs(&mut self, value: &TomlValue<'_>, to: &mut Vec<Pattern>) {
        let items = value.get_ref().as_array().map(|items| items.iter().collect::<Vec<_>>());
        if items.as_ref().is_some_and(Vec::is_empty) {
            self.add_diagnostic(value.span(), "the list is empty", "add an item, or remove the key");
        }
        for item in items.unwrap_or_else(|| vec![value]) {
            if item.get_ref().as_array().is_some() {
                let words: Vec<String> = self.parse_texts(item).into_iter().map(|(word, _)| word).collect();
                self.parse_run(words, item.span(), Pattern::RunExact, to);
            } else if let Some(text) = self.parse_text(item) {
                let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                match key::run_problem(&words) {
                    Some((what, todo)) => self.add_diagnostic(item.span(), what, todo),
                    None => self.parse_run(words, item.span(), Pattern::Run, to),
                }
            }
        }
    }

    fn parse_run(
        &mut self,
        mut words: Vec<String>,
        span: Range<usize>,
        kind: fn(Vec<String>) -> Pattern,
        to: &mut Vec<Pattern>,
    ) {
        let expander = VariableExpander { places: self.places, built_in: self.file.layer == Layer::Builtin };
        match words.first().map(|program| expander.expand_program(program)) {
            Some(Expansion::Texts(program)) => {
                words.splice(..1, program);
                let pattern = kind(words);
                match pattern.check() {
                    Ok(()) => to.push(pattern),
                    Err(bad) => self.add_diagnostic(span, bad.to_string(), "name a program first"),
                }
            }
            Some(Expansion::Invalid(what, todo)) => self.add_diagnostic(span, what, todo),
            Some(Expansion::UnknownDirectory) | None => {}
        }
    }
}
