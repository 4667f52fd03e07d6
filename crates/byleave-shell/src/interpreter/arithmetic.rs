//! Arithmetic. It is harmless only over numbers: the value of a variable is evaluated in turn, and a subscript in it may run
//! commands.

use super::ScriptReader;
use super::atom::WordAtom;
use super::state::{ShellState, VariableValue, is_integer};
use crate::syntax::tree::WordPart;

impl ScriptReader<'_> {
    /// Reads an expression. Returns whether it certainly computes over numbers only.
    pub(super) fn arithmetic(&mut self, parts: &[WordPart], state: &mut ShellState) -> bool {
        let mut text = String::new();
        let mut certain = true;
        for part in parts {
            match part {
                WordPart::Bare(piece) | WordPart::Quoted(piece) => text.push_str(piece),
                WordPart::Parameter(parameter) if parameter.plain && parameter.subscript.is_none() => {
                    if self.is_number(&parameter.name, state) {
                        text.push('0');
                    } else {
                        certain = false;
                    }
                }
                WordPart::Arithmetic(inner) => {
                    certain &= self.arithmetic(inner, state);
                    text.push('0');
                }
                part => {
                    certain = false;
                    let mut atoms: Vec<WordAtom> = Vec::new();
                    self.expand_parts(std::slice::from_ref(part), true, state, &mut atoms);
                }
            }
        }
        self.expression(&text, certain, state)
    }

    /// Does the same for an expression with known text.
    pub(super) fn expression(&mut self, text: &str, mut certain: bool, state: &mut ShellState) -> bool {
        // It may fail by a division by zero, or because it is not an expression.
        self.note_possible_abort(state);
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        let mut assigned = Vec::new();
        while let Some(c) = chars.get(at).copied() {
            if c.is_ascii_alphabetic() || c == '_' {
                let mut name = String::new();
                while let Some(c) = chars.get(at).filter(|c| c.is_ascii_alphanumeric() || **c == '_') {
                    name.push(*c);
                    at += 1;
                }
                while chars.get(at).is_some_and(|c| matches!(c, ' ' | '\t')) {
                    at += 1;
                }
                let is_set = chars.get(at) == Some(&'=') && chars.get(at + 1) != Some(&'=');
                if !is_set && !assigned.contains(&name) && !self.is_number(&name, state) {
                    certain = false;
                }
                assigned.push(name);
            } else {
                if c.is_ascii_digit() {
                    while chars.get(at + 1).is_some_and(|c| c.is_ascii_alphanumeric()) {
                        at += 1;
                    }
                }
                if !(c.is_ascii_digit() || " \t\n+-*/%<>=!&|^~?:,;()".contains(c)) {
                    certain = false;
                }
                at += 1;
            }
        }
        let writes = text.contains('=') || text.contains("++") || text.contains("--");
        for name in assigned {
            if writes {
                self.note_hidden_assignment(&name);
                state.set(&name, if certain { VariableValue::Number } else { VariableValue::Unknown });
            }
        }
        if !certain {
            self.add_unresolved_here(
                "a value that may not be a number is used in arithmetic, which evaluates it",
            );
            if writes {
                state.forget_variables();
            }
        }
        certain
    }

    fn is_number(&self, name: &str, state: &ShellState) -> bool {
        if matches!(name, "#" | "?" | "$" | "!") {
            return true;
        }
        match state.value(name, self.env) {
            VariableValue::Number => true,
            VariableValue::Text(text) => is_integer(&text),
            VariableValue::Unknown => false,
        }
    }
}
