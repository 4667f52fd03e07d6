//! The builtins `export`, `declare`, `local` and `readonly`: assignments that are words.

use super::ScriptReader;
use super::operand::{ExpandedOperand, written_name};
use super::state::{ShellState, VariableValue};
use crate::syntax::is_name;
use crate::syntax::tree::{RawWord, WordPart};

impl ScriptReader<'_> {
    pub(super) fn declare(
        &mut self,
        builtin: &str,
        operands: &[ExpandedOperand<'_>],
        redirected: bool,
        state: &mut ShellState,
    ) {
        let mut odd = builtin == "readonly";
        let mut lists = false;
        for operand in operands {
            let text = operand.field.word.as_text().map(str::to_owned);
            if let Some(text) = &text
                && let Some(letters) = text.strip_prefix(['-', '+'])
            {
                if letters.contains(['n', 'i']) && builtin != "export" && builtin != "readonly" {
                    self.add_unresolved_here("a variable is declared whose value is evaluated");
                    state.forget_variables();
                }
                lists |= letters.contains(['f', 'F', 'p']);
                odd |= !letters.chars().all(|c| matches!(c, 'x' | 'g' | '-'));
                continue;
            }
            if lists {
                continue;
            }
            let written = written_name(operand.raw);
            match (text, written) {
                (Some(text), _) => {
                    let (name, value) = match text.split_once('=') {
                        Some((name, value)) => (name, Some(value)),
                        None => (text.as_str(), None),
                    };
                    let appends = name.ends_with('+');
                    let name = name.strip_suffix('+').unwrap_or(name);
                    if !is_name(name) {
                        self.add_unresolved_here("a declaration evaluates the subscript of its operand");
                        state.forget_variables();
                        continue;
                    }
                    if value.is_some() {
                        self.note_assignment(name);
                    }
                    // Only a word that is written as an assignment is certainly taken as one word, unchanged.
                    let sure =
                        !redirected && !appends && !odd && is_plain_value(operand.raw) && builtin != "local";
                    match value {
                        Some(value) if sure => state.set(name, VariableValue::Text(value.to_owned())),
                        None if builtin == "export" && !odd => {}
                        _ => state.set(name, VariableValue::Unknown),
                    }
                    if odd {
                        state.mark_uncertain(name);
                    }
                }
                (None, Some(name)) => {
                    self.note_assignment(&name);
                    state.set(&name, VariableValue::Unknown);
                    if odd || matches!(operand.raw.parts.last(), Some(WordPart::Array(_))) {
                        state.mark_uncertain(&name);
                    }
                }
                (None, None) => {
                    self.add_unresolved_here("a declaration evaluates the subscript of its operand");
                    state.forget_variables();
                }
            }
        }
    }
}

/// Checks whether a word contains nothing that a declaration would expand differently than a command does.
fn is_plain_value(raw: &RawWord) -> bool {
    raw.parts.iter().all(|part| match part {
        WordPart::Bare(text) => !text.contains(['{', '*', '?', '[', '~']),
        WordPart::Quoted(_) => true,
        WordPart::Double(inner) => {
            inner.iter().all(|part| matches!(part, WordPart::Quoted(_) | WordPart::Parameter(_)))
        }
        _ => false,
    })
}
