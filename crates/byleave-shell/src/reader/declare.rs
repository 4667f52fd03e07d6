//! `export`, `declare`, `local`, `readonly`: assignments that are words.

use super::Reader;
use super::operand::{Operand, written_name};
use super::state::{State, Value};
use crate::syntax::is_name;
use crate::syntax::tree::{Part, Raw};

impl Reader<'_> {
    pub(super) fn declare(
        &mut self,
        builtin: &str,
        operands: &[Operand<'_>],
        redirected: bool,
        state: &mut State,
    ) {
        let mut odd = builtin == "readonly";
        let mut lists = false;
        for operand in operands {
            let text = operand.field.word.text().map(str::to_owned);
            if let Some(text) = &text
                && let Some(letters) = text.strip_prefix(['-', '+'])
            {
                if letters.contains(['n', 'i']) && builtin != "export" && builtin != "readonly" {
                    self.puzzle_here("a variable is declared whose value is evaluated");
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
                        self.puzzle_here("a declaration evaluates the subscript of its operand");
                        state.forget_variables();
                        continue;
                    }
                    if value.is_some() {
                        self.watch(name);
                    }
                    // Only what is written as an assignment is sure to be taken as one word, as it stands.
                    let sure =
                        !redirected && !appends && !odd && is_plain_value(operand.raw) && builtin != "local";
                    match value {
                        Some(value) if sure => state.set(name, Value::Text(value.to_owned())),
                        None if builtin == "export" && !odd => {}
                        _ => state.set(name, Value::Unknown),
                    }
                    if odd {
                        state.make_odd(name);
                    }
                }
                (None, Some(name)) => {
                    self.watch(&name);
                    state.set(&name, Value::Unknown);
                    if odd || matches!(operand.raw.parts.last(), Some(Part::Array(_))) {
                        state.make_odd(&name);
                    }
                }
                (None, None) => {
                    self.puzzle_here("a declaration evaluates the subscript of its operand");
                    state.forget_variables();
                }
            }
        }
    }
}

/// Whether a word holds nothing that a declaration would expand otherwise than a command does.
fn is_plain_value(raw: &Raw) -> bool {
    raw.parts.iter().all(|part| match part {
        Part::Bare(text) => !text.contains(['{', '*', '?', '[', '~']),
        Part::Quoted(_) => true,
        Part::Double(inner) => inner.iter().all(|part| matches!(part, Part::Quoted(_) | Part::Parameter(_))),
        _ => false,
    })
}
