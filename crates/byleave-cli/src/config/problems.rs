//! The errors of a settings file, each with its place.

use std::ops::Range;

use byleave_gate::core::policy::Diagnostic;

/// The errors that were found in a text so far.
pub(super) struct Problems<'a> {
    text: &'a str,
    all: Vec<Diagnostic>,
}

impl<'a> Problems<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, all: Vec::new() }
    }

    /// Adds an error and what to do about it.
    pub(super) fn add(&mut self, span: Range<usize>, what: impl Into<String>, todo: impl Into<String>) {
        let (line, column) = place(self.text, span.start);
        self.all.push(Diagnostic { span, line, column, message: what.into(), help: todo.into() });
    }

    pub(super) const fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the line of a place, from 1.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        place(self.text, span.start).0
    }

    /// Returns the errors in the order of the text.
    pub(super) fn sorted(mut self) -> Vec<Diagnostic> {
        self.all.sort_by_key(|problem| problem.span.start);
        self.all
    }
}

/// Returns line and column, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count().saturating_add(1);
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count());
    (line, column.saturating_add(1))
}
