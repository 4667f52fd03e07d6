//! Parameter expansion: `$x` and `${x…}`.

use super::ScriptReader;
use super::atom::WordAtom;
use super::state::{ShellState, VariableValue};
use crate::syntax::tree::{ParameterExpansion, WordPart};

impl ScriptReader<'_> {
    pub(super) fn parameter(
        &mut self,
        parameter: &ParameterExpansion,
        quoted: bool,
        state: &mut ShellState,
        atoms: &mut Vec<WordAtom>,
    ) {
        let all = parameter.name == "@"
            || (parameter.name == "*" && !quoted)
            || parameter.subscript.as_deref().is_some_and(|parts| is_text(parts, "@") || is_text(parts, "*"));
        let splits = !quoted || all;
        if parameter.plain && parameter.subscript.is_none() {
            match state.value(&parameter.name, self.env) {
                VariableValue::Text(text) if quoted => atoms.extend(text.chars().map(WordAtom::Exact)),
                VariableValue::Text(text) => atoms.push(WordAtom::Split(text)),
                VariableValue::Number | VariableValue::Unknown => {
                    let why = format!("`${}` is not known", parameter.name);
                    atoms.push(WordAtom::UnknownValue { why, splits });
                }
            }
            return;
        }
        self.note_possible_abort(state);
        if let Some(subscript) = &parameter.subscript
            && !all
        {
            self.arithmetic(subscript, state);
        }
        // Operands contain words of their own, and the commands in them run.
        let mut operand = Vec::new();
        self.expand_parts(&parameter.operand, quoted, state, &mut operand);
        let operator = parameter.operator.as_str();
        if operator == ":" {
            self.arithmetic(&parameter.operand, state);
        }
        let lists_names = all
            || (operator == "!@" && parameter.operand.is_empty())
            || (operator == "!" && is_text(&parameter.operand, "*"));
        if operator.starts_with('!') && !lists_names {
            self.add_unresolved_here(
                "a variable's value is used as the name of another variable and evaluated",
            );
        } else if operator == "@"
            && !["Q", "U", "u", "L", "E", "A", "K", "a", "k"].iter().any(|op| is_text(&parameter.operand, op))
        {
            self.add_unresolved_here("a variable's value is expanded as a prompt, which runs commands in it");
        }
        if operator.contains('=') || operator.starts_with('!') {
            self.note_hidden_assignment(&parameter.name);
            state.set(&parameter.name, VariableValue::Unknown);
        }
        if parameter.name.is_empty() {
            self.add_unresolved_here("an expansion has an unknown form");
        }
        let splits =
            splits || operand.iter().any(|atom| matches!(atom, WordAtom::UnknownValue { splits: true, .. }));
        atoms
            .push(WordAtom::UnknownValue {
                why: format!("`${{{}…}}` is not known", parameter.name), splits
            });
    }
}

fn is_text(parts: &[WordPart], want: &str) -> bool {
    matches!(parts, [WordPart::Bare(text) | WordPart::Quoted(text)] if text == want)
}
