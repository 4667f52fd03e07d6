//! Simple commands: their words, their assignments, and what they leave behind.

use super::Reader;
use super::expand::{Field, Single};
use super::operand::{Operand, written_name};
use super::state::{State, Value};
use super::walk::Flow;
use crate::reading::Command;
use crate::syntax::tree::{Assign, Node, Part, Raw};
use crate::word::Word;

impl Reader<'_> {
    pub(super) fn simple(
        &mut self,
        node: &Node,
        assignments: &[Assign],
        words: &[Raw],
        mut state: State,
    ) -> Flow {
        // A redirection of its own may take the place of the pipe.
        let piped = self.piped.take().filter(|_| node.redirects.is_empty());
        // Words are expanded before the assignments in front of them are made.
        let mut operands = Vec::new();
        let declares = matches!(words.first().map(|first| first.parts.as_slice()),
            Some([Part::Bare(name)]) if matches!(name.as_str(), "export" | "declare" | "typeset" | "local" | "readonly"));
        for raw in words {
            // What is written as an assignment stays one word.
            if declares && written_name(raw).is_some() {
                let word = self.single(raw, &mut state, Single::Plain);
                operands.push(Operand { field: Field::new(word), raw });
                continue;
            }
            operands.extend(self.fields(raw, &mut state).into_iter().map(|field| Operand { field, raw }));
        }
        if !state.is_settled() {
            operands.iter_mut().for_each(|operand| operand.field.unsettle());
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
            state.settled &= scratch.settled;
            // Words that turn out to be none leave the assignments standing.
            if operands.first().is_none_or(|first| first.field.splits) {
                for assign in assignments {
                    state.set(&assign.name, Value::Unknown);
                }
            }
        }
        let (redirections, input) = self.redirections(&node.redirects, &mut state);
        if is_bare && !node.redirects.is_empty() {
            for assign in assignments {
                state.set(&assign.name, Value::Unknown);
            }
        }
        // One that fails keeps a builtin from doing anything.
        let redirected =
            redirections.iter().any(|redirection| redirection.target.text() != Some("/dev/null"));
        let name = operands.first().and_then(|first| first.field.word.text().map(str::to_owned));
        let is_function = name.as_ref().is_some_and(|name| state.functions.contains(name));
        let span = self.bytes(&node.span);
        self.push(Command {
            words: operands.iter().map(|operand| operand.field.word.clone()).collect(),
            assignments: listed,
            redirections,
            input: input.or(piped),
            place: state.place(),
            span,
            within: self.within.kinds(),
            is_function,
            is_filled: false,
        });
        if operands.is_empty() {
            return Flow::same(state);
        }
        let prefixed: Vec<&str> = assignments.iter().map(|assign| assign.name.as_str()).collect();
        self.effects(name.as_deref(), &operands, &prefixed, redirected, state)
    }

    fn assignment(&mut self, assign: &Assign, state: &mut State) -> Word {
        if state.is_odd(&assign.name) {
            self.may_drop(state);
        }
        self.watch(&assign.name);
        if let Some(subscript) = &assign.subscript {
            self.arithmetic(subscript, state);
        }
        let is_array = matches!(assign.value.parts.as_slice(), [Part::Array(_)]);
        if let [Part::Array(elements)] = assign.value.parts.as_slice() {
            for element in elements {
                let field = self.fields(element, state);
                if element_has_subscript(element) {
                    self.puzzle_here("an element of an array is set by a subscript, which is evaluated");
                }
                drop(field);
            }
        }
        let numeric = matches!(assign.value.parts.as_slice(), [Part::Arithmetic(_)]);
        let riddles = self.riddles.len();
        let word = if is_array {
            Word::unknown("it is an array")
        } else {
            self.single(&assign.value, state, Single::Value)
        };
        let value = match &word {
            _ if assign.append || assign.subscript.is_some() => Value::Unknown,
            Word::Literal(text) => Value::Text(text.clone()),
            Word::Unknown(_) if numeric && riddles == self.riddles.len() => Value::Number,
            Word::Unknown(_) => Value::Unknown,
        };
        state.set(&assign.name, value);
        if is_array || assign.subscript.is_some() {
            state.make_odd(&assign.name);
        }
        word
    }

    /// What a command leaves behind in the shell.
    fn effects(
        &mut self,
        name: Option<&str>,
        operands: &[Operand<'_>],
        prefixed: &[&str],
        redirected: bool,
        mut state: State,
    ) -> Flow {
        let Some(name) = name else {
            state.forget("a command that is not known may have changed it");
            return Flow::same(state);
        };
        if self.functions.contains(name) {
            let functions = state.functions.clone();
            state.forget("a function may have changed it");
            state.functions = functions;
            return Flow::same(state);
        }
        self.effects_of(name, operands, prefixed, redirected, state)
    }

    /// The same for what is no function.
    fn effects_of(
        &mut self,
        name: &str,
        operands: &[Operand<'_>],
        prefixed: &[&str],
        redirected: bool,
        mut state: State,
    ) -> Flow {
        let rest = operands.get(1..).unwrap_or_default();
        // What the prefixes set holds while the builtin runs.
        let mut inner = state.clone();
        for name in prefixed {
            inner.set(name, Value::Unknown);
        }
        match name {
            "builtin" | "command" => {
                let mut rest = rest;
                while let Some((first, after)) = rest.split_first() {
                    match first.field.word.text() {
                        Some("-p" | "--") => rest = after,
                        Some(option) if option.starts_with('-') => return Flow::same(state),
                        _ => break,
                    }
                }
                let next = rest.first().map(|operand| operand.field.word.text().map(str::to_owned));
                match next {
                    None => Flow::same(state),
                    // Functions are passed over.
                    Some(Some(next)) if next != "builtin" && next != "command" => {
                        self.effects_of(&next, rest, prefixed, redirected, state)
                    }
                    Some(_) => {
                        state.forget("a command that is not known may have changed it");
                        Flow::same(state)
                    }
                }
            }
            "cd" | "pushd" | "popd" | "dirs" => {
                self.directory(name, rest, redirected || !prefixed.is_empty(), state)
            }
            _ => {
                let known = self.builtin(name, rest, redirected, &mut inner);
                if redirected {
                    inner = inner.join(&state);
                }
                if known && prefixed.is_empty() {
                    return Flow::same(inner);
                }
                if known {
                    // The prefixes are taken back, whatever the builtin did to them.
                    for name in prefixed {
                        inner.set(name, Value::Unknown);
                    }
                    return Flow::same(inner);
                }
                state.settled = false;
                Flow::same(state)
            }
        }
    }
}

fn element_has_subscript(element: &Raw) -> bool {
    matches!(element.parts.first(), Some(Part::Bare(text)) if text.starts_with('['))
}
