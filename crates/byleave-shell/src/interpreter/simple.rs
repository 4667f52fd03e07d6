//! Simple commands: their words, their assignments, and the state after them.

use super::ScriptReader;
use super::expand::{ExpandedField, SingleWordMode};
use super::operand::{ExpandedOperand, written_name};
use super::state::{ShellState, VariableValue};
use super::statements::ExitStates;
use crate::commands::SimpleCommand;
use crate::syntax::tree::{Assignment, CommandNode, RawWord, WordPart};
use crate::word::Word;

impl ScriptReader<'_> {
    pub(super) fn run_simple(
        &mut self,
        node: &CommandNode,
        assignments: &[Assignment],
        words: &[RawWord],
        mut state: ShellState,
    ) -> ExitStates {
        // A redirection of the command itself may replace the pipe.
        let piped = self.pipe_input.take().filter(|_| node.redirects.is_empty());
        // Words are expanded before the assignments in front of them are made.
        let mut operands = Vec::new();
        let declares = matches!(words.first().map(|first| first.parts.as_slice()),
            Some([WordPart::Bare(name)]) if matches!(name.as_str(), "export" | "declare" | "typeset" | "local" | "readonly"));
        for raw in words {
            // A word that is written as an assignment stays one word.
            if declares && written_name(raw).is_some() {
                let word = self.expand_single(raw, &mut state, SingleWordMode::Plain);
                operands.push(ExpandedOperand { field: ExpandedField::new(word), raw });
                continue;
            }
            operands.extend(
                self.expand_fields(raw, &mut state).into_iter().map(|field| ExpandedOperand { field, raw }),
            );
        }
        if !state.are_files_unchanged() {
            operands.iter_mut().for_each(|operand| operand.field.mark_unsettled());
        }
        let is_bare = operands.is_empty() && words.is_empty();
        let mut scratch = state.clone();
        let mut listed = Vec::new();
        for assign in assignments {
            let value = self.assignment(assign, &mut scratch);
            listed.push((assign.name.clone(), value));
        }
        if is_bare {
            state = scratch;
        } else {
            state.files_unchanged &= scratch.files_unchanged;
            // If the words expand to nothing, the assignments persist.
            if operands.first().is_none_or(|first| first.field.splits) {
                for assign in assignments {
                    state.set(&assign.name, VariableValue::Unknown);
                }
            }
        }
        let (redirections, input) = self.redirections(&node.redirects, &mut state);
        if is_bare && !node.redirects.is_empty() {
            for assign in assignments {
                state.set(&assign.name, VariableValue::Unknown);
            }
        }
        // A redirection that fails prevents a builtin from doing anything.
        let redirected =
            redirections.iter().any(|redirection| redirection.target.as_text() != Some("/dev/null"));
        let name = operands.first().and_then(|first| first.field.word.as_text().map(str::to_owned));
        let is_function = name.as_ref().is_some_and(|name| state.functions.contains(name));
        let span = self.byte_span(&node.span);
        self.push(SimpleCommand {
            words: operands.iter().map(|operand| operand.field.word.clone()).collect(),
            assignments: listed,
            redirections,
            input: input.or(piped),
            working_dir: state.working_dir(),
            span,
            enclosing: self.trail.kinds(),
            is_function,
            is_template: false,
            is_tentative: false,
        });
        if operands.is_empty() {
            return ExitStates::unconditional(state);
        }
        let prefixed: Vec<&str> = assignments.iter().map(|assign| assign.name.as_str()).collect();
        self.apply_effects(name.as_deref(), &operands, &prefixed, redirected, state)
    }

    fn assignment(&mut self, assign: &Assignment, state: &mut ShellState) -> Word {
        if state.is_uncertain(&assign.name) {
            self.note_possible_abort(state);
        }
        self.note_assignment(&assign.name);
        if let Some(subscript) = &assign.subscript {
            self.arithmetic(subscript, state);
        }
        let is_array = matches!(assign.value.parts.as_slice(), [WordPart::Array(_)]);
        if let [WordPart::Array(elements)] = assign.value.parts.as_slice() {
            for element in elements {
                let field = self.expand_fields(element, state);
                if element_has_subscript(element) {
                    self.add_unresolved_here("an array element is set by a subscript, which is evaluated");
                }
                drop(field);
            }
        }
        let numeric = matches!(assign.value.parts.as_slice(), [WordPart::Arithmetic(_)]);
        let riddles = self.unresolved.len();
        let word = if is_array {
            Word::unknown("the value is an array")
        } else {
            self.expand_single(&assign.value, state, SingleWordMode::Value)
        };
        let value = match &word {
            _ if assign.append || assign.subscript.is_some() => VariableValue::Unknown,
            Word::Literal(text) => VariableValue::Text(text.clone()),
            Word::Unknown(_) if numeric && riddles == self.unresolved.len() => VariableValue::Number,
            Word::Unknown(_) => VariableValue::Unknown,
        };
        state.set(&assign.name, value);
        if is_array || assign.subscript.is_some() {
            state.mark_uncertain(&assign.name);
        }
        word
    }

    /// Returns the state of the shell after a command.
    fn apply_effects(
        &mut self,
        name: Option<&str>,
        operands: &[ExpandedOperand<'_>],
        prefixed: &[&str],
        redirected: bool,
        mut state: ShellState,
    ) -> ExitStates {
        let Some(name) = name else {
            state.forget("an unknown command may have changed it");
            return ExitStates::unconditional(state);
        };
        if self.functions.contains(name) {
            let functions = state.functions.clone();
            state.forget("a function may have changed it");
            state.functions = functions;
            return ExitStates::unconditional(state);
        }
        self.apply_builtin_effects(name, operands, prefixed, redirected, state)
    }

    /// Does the same for a command that is not a function.
    fn apply_builtin_effects(
        &mut self,
        name: &str,
        operands: &[ExpandedOperand<'_>],
        prefixed: &[&str],
        redirected: bool,
        mut state: ShellState,
    ) -> ExitStates {
        let rest = operands.get(1..).unwrap_or_default();
        // The prefix assignments hold while the builtin runs.
        let mut inner = state.clone();
        for name in prefixed {
            inner.set(name, VariableValue::Unknown);
        }
        match name {
            "builtin" | "command" => {
                let mut rest = rest;
                while let Some((first, after)) = rest.split_first() {
                    match first.field.word.as_text() {
                        Some("-p" | "--") => rest = after,
                        Some(option) if option.starts_with('-') => return ExitStates::unconditional(state),
                        _ => break,
                    }
                }
                let next = rest.first().map(|operand| operand.field.word.as_text().map(str::to_owned));
                match next {
                    None => ExitStates::unconditional(state),
                    // Functions are skipped.
                    Some(Some(next)) if next != "builtin" && next != "command" => {
                        self.apply_builtin_effects(&next, rest, prefixed, redirected, state)
                    }
                    Some(_) => {
                        state.forget("an unknown command may have changed it");
                        ExitStates::unconditional(state)
                    }
                }
            }
            "cd" | "pushd" | "popd" | "dirs" => {
                self.change_directory(name, rest, redirected || !prefixed.is_empty(), state)
            }
            _ => {
                let known = self.builtin(name, rest, redirected, &mut inner);
                if redirected {
                    inner = inner.join(&state);
                }
                if known && prefixed.is_empty() {
                    return ExitStates::unconditional(inner);
                }
                if known {
                    // The prefix assignments are reverted, regardless of what the builtin did to them.
                    for name in prefixed {
                        inner.set(name, VariableValue::Unknown);
                    }
                    return ExitStates::unconditional(inner);
                }
                state.files_unchanged = false;
                ExitStates::unconditional(state)
            }
        }
    }
}

fn element_has_subscript(element: &RawWord) -> bool {
    matches!(element.parts.first(), Some(WordPart::Bare(text)) if text.starts_with('['))
}
