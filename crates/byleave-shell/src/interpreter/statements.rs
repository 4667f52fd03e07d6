//! Walks the tree: takes every branch, and joins the certain states where branches meet.

use super::ScriptReader;
use super::expand::{ExpandedField, SingleWordMode};
use super::pipe_input;
use super::position::part_name;
use super::state::{ShellState, VariableValue};
use super::state_changes;
use crate::commands::SimpleCommand;
use crate::source_outline;
use crate::syntax::tree::{
    AndOrList, AndOrOperator, CommandList, CommandNode, CommandNodeKind, Pipeline, RawWord, Redirect,
    RedirectOperator, TestToken, WordPart,
};
use crate::syntax::{Parser, SyntaxError};
use crate::word::Word;
use std::ops::Range;

/// The maximum number of iterations of a loop over known words that are followed one by one.
const ROUNDS_MAX: usize = 64;

/// The certain states after a command, by its exit status.
pub(super) struct ExitStates {
    pub(super) on_success: ShellState,
    pub(super) on_failure: ShellState,
    /// Whether the command may fail where nothing tests for it.
    pub(super) may_fail: bool,
}

impl ExitStates {
    pub(super) fn unconditional(state: ShellState) -> Self {
        Self { on_failure: state.clone(), on_success: state, may_fail: true }
    }

    /// Returns the state after either exit status.
    pub(super) fn join_outcomes(self) -> ShellState {
        if self.may_fail { self.on_success.join(&self.on_failure) } else { self.on_success }
    }
}

impl ScriptReader<'_> {
    /// Reads a text line by line, as bash does. `outer` is the position of a nested text.
    pub(super) fn read_text(&mut self, text: &str, state: &mut ShellState, outer: Option<Range<usize>>) {
        let chars: Vec<char> = text.chars().collect();
        let mut offsets = Vec::with_capacity(chars.len() + 1);
        let mut at = 0;
        for c in &chars {
            offsets.push(at);
            at += c.len_utf8();
        }
        offsets.push(at);
        let offsets = std::mem::replace(&mut self.offsets, offsets);
        let outer_before = self.outer_span.clone();
        if self.outer_span.is_none() {
            self.outer_span = outer;
        }
        let mut parser = Parser::new(&chars, self.text_depth * 8);
        let mut doubts = 0;
        loop {
            let start = parser.position();
            let parsed = parser.parse_line();
            let span = self.byte_span(&(start..parser.position()));
            for doubt in parser.doubts.iter().skip(doubts) {
                self.add_unresolved(doubt.clone(), span.clone());
            }
            doubts = parser.doubts.len();
            match parsed {
                Ok(None) => break,
                Ok(Some(list)) => {
                    *state = self.list(&list, state.clone()).join_outcomes();
                    if let Some(dropped) = &self.abandoned_state {
                        *state = state.clone().join(dropped);
                    }
                }
                Err(SyntaxError { reason: why }) => {
                    let rest: String = chars.get(start..).unwrap_or_default().iter().collect();
                    let span = self.byte_span(&(start..chars.len()));
                    self.add_unresolved(format!("the text could not be parsed: {why}"), span.clone());
                    self.list_possible_commands(&rest, &span);
                    state.forget("the text could not be parsed");
                    break;
                }
            }
            if self.is_full {
                break;
            }
        }
        self.offsets = offsets;
        self.outer_span = outer_before;
    }

    /// Reads a text that the shell parses again: `eval`, a trap, backquotes.
    pub(super) fn read_nested_text(&mut self, kind: &'static str, text: &str, state: &mut ShellState) {
        let outer = self.current_span();
        if self.text_depth >= super::TEXTS_DEEP_MAX || self.is_full {
            self.add_unresolved("text is nested in text too deeply to analyze", outer.clone());
            self.list_possible_commands(text, &outer);
            state.forget("the text was not analyzed");
            return;
        }
        self.text_depth += 1;
        self.trail.push(kind);
        self.read_text(text, state, Some(outer));
        self.trail.pop();
        self.text_depth -= 1;
    }

    /// Does the same in a subshell.
    pub(super) fn read_subshell_text(&mut self, kind: &'static str, text: &str, state: &mut ShellState) {
        let mut inner = state.clone();
        let dropped = self.abandoned_state.take();
        self.read_nested_text(kind, text, &mut inner);
        self.abandoned_state = dropped;
        state.files_unchanged &= inner.files_unchanged;
    }

    /// Returns the current position, as far as it is known.
    pub(super) fn current_span(&self) -> Range<usize> {
        self.outer_span.clone().unwrap_or(0..self.offsets.last().copied().unwrap_or(0))
    }

    pub(super) fn add_unresolved_here(&mut self, why: &str) {
        self.add_unresolved(why, self.current_span());
    }

    /// Reads commands in a subshell. Of their changes only those of files persist in this shell.
    pub(super) fn read_subshell(&mut self, kind: &'static str, list: &CommandList, state: &mut ShellState) {
        self.trail.push(kind);
        let dropped = self.abandoned_state.take();
        let after = self.list(list, state.clone()).join_outcomes();
        self.abandoned_state = dropped;
        self.trail.pop();
        state.files_unchanged &= after.files_unchanged;
    }

    fn read_enclosed(
        &mut self,
        kind: &'static str,
        part: &'static str,
        list: &CommandList,
        state: ShellState,
    ) -> ExitStates {
        self.trail.push_as(kind, part);
        let flow = self.list(list, state);
        self.trail.pop();
        flow
    }

    pub(super) fn list(&mut self, list: &CommandList, state: ShellState) -> ExitStates {
        let mut flow = ExitStates { on_failure: state.clone(), on_success: state, may_fail: false };
        for item in &list.items {
            let state = flow.join_outcomes();
            flow = self.item(item, state);
        }
        flow
    }

    fn item(&mut self, item: &AndOrList, mut state: ShellState) -> ExitStates {
        if item.background {
            // Commands after it may change the files that it matches.
            state.files_unchanged = false;
            self.trail.push("background");
            let after = self.chain(item, state.clone()).join_outcomes();
            self.trail.pop();
            state.files_unchanged &= after.files_unchanged;
            return ExitStates { on_failure: state.clone(), on_success: state, may_fail: false };
        }
        self.chain(item, state)
    }

    fn chain(&mut self, item: &AndOrList, state: ShellState) -> ExitStates {
        let mut flow = self.pipeline(&item.first, state);
        for (joint, pipeline) in &item.rest {
            self.trail.set_joint(match joint {
                AndOrOperator::And => source_outline::ListOperator::And,
                AndOrOperator::Or => source_outline::ListOperator::Or,
            });
            flow = match joint {
                AndOrOperator::And => {
                    let next = self.pipeline(pipeline, flow.on_success);
                    let bad =
                        if flow.may_fail { next.on_failure.join(&flow.on_failure) } else { next.on_failure };
                    ExitStates {
                        on_success: next.on_success,
                        on_failure: bad,
                        may_fail: next.may_fail || flow.may_fail,
                    }
                }
                AndOrOperator::Or => {
                    let next = self.pipeline(pipeline, flow.on_failure);
                    ExitStates {
                        on_success: next.on_success.join(&flow.on_success),
                        on_failure: next.on_failure,
                        may_fail: next.may_fail,
                    }
                }
            };
        }
        flow
    }

    fn pipeline(&mut self, pipeline: &Pipeline, mut state: ShellState) -> ExitStates {
        if pipeline.negated {
            self.trail.set_negated();
        }
        let flow = match pipeline.commands.as_slice() {
            [] => ExitStates::unconditional(state),
            [only] => self.node(only, state),
            several => {
                self.trail.push("pipeline");
                // All commands run at once, so one may find the files that another writes.
                let writes = |redirect: &Redirect| {
                    matches!(
                        redirect.operator,
                        RedirectOperator::Write | RedirectOperator::ReadWrite | RedirectOperator::Both
                    )
                };
                if several.iter().any(|node| node.redirects.iter().any(writes)) {
                    state.files_unchanged = false;
                }
                let mut piped = None;
                for node in several {
                    self.pipe_input = piped;
                    let after = self.node(node, state.clone()).join_outcomes();
                    state.files_unchanged &= after.files_unchanged;
                    // The output is known only for a simple command, and only a simple command uses it.
                    let is_simple = matches!(node.kind, CommandNodeKind::Simple { .. });
                    piped = self.commands.last().filter(|_| is_simple).and_then(pipe_input::piped_output);
                }
                self.trail.pop();
                ExitStates::unconditional(state)
            }
        };
        if pipeline.negated {
            ExitStates { on_success: flow.on_failure, on_failure: flow.on_success, may_fail: true }
        } else {
            flow
        }
    }

    fn node(&mut self, node: &CommandNode, state: ShellState) -> ExitStates {
        if self.is_full {
            return ExitStates::unconditional(state);
        }
        if let CommandNodeKind::For { name, .. } | CommandNodeKind::Function { name, .. } = &node.kind {
            self.trail.set_label(name.clone());
        }
        self.trail.enter_part(part_name(&node.kind));
        let flow = match &node.kind {
            CommandNodeKind::Simple { assignments, words } => {
                self.run_simple(node, assignments, words, state)
            }
            _ => self.redirected(node, state),
        };
        self.trail.leave_part();
        flow
    }

    /// Reads a compound command with its redirections.
    fn redirected(&mut self, node: &CommandNode, mut state: ShellState) -> ExitStates {
        self.pipe_input = None;
        let mut undone = None;
        if !node.redirects.is_empty() {
            let (redirections, input) = self.redirections(&node.redirects, &mut state);
            // A redirection that fails prevents the whole command from running.
            if redirections.iter().any(|redirection| redirection.target.as_text() != Some("/dev/null")) {
                undone = Some(state.clone());
            }
            let span = self.byte_span(&node.span);
            self.push(SimpleCommand {
                words: Vec::new(),
                assignments: Vec::new(),
                redirections,
                input,
                working_dir: state.working_dir(),
                span,
                enclosing: self.trail.kinds(),
                is_function: false,
                is_template: false,
                is_tentative: false,
            });
        }
        let flow = self.compound(node, state);
        match undone {
            Some(undone) => ExitStates {
                on_success: flow.on_success,
                on_failure: flow.on_failure.join(&undone),
                may_fail: true,
            },
            None => flow,
        }
    }

    fn compound(&mut self, node: &CommandNode, mut state: ShellState) -> ExitStates {
        match &node.kind {
            CommandNodeKind::Simple { .. } => ExitStates::unconditional(state),
            CommandNodeKind::Group(list) => self.read_enclosed("group", "group", list, state),
            CommandNodeKind::Subshell(list) => {
                self.read_subshell("subshell", list, &mut state);
                ExitStates::unconditional(state)
            }
            CommandNodeKind::Loop { condition, body } => self.repeat(&[condition, body], state),
            CommandNodeKind::For { name, words, body, asks } => {
                self.for_loop(name, words.as_deref(), body, *asks, state)
            }
            CommandNodeKind::ArithmeticFor { head, body } => {
                self.prepare(&[body], &mut state);
                self.arithmetic(&head.parts, &mut state);
                self.repeat(&[body], state)
            }
            CommandNodeKind::If { branches, other } => self.conditional(branches, other.as_ref(), state),
            CommandNodeKind::Case { word, arms } => self.case(word, arms, state),
            CommandNodeKind::Function { name, body } => {
                self.function(name, body, &mut state);
                ExitStates::unconditional(state)
            }
            CommandNodeKind::Arithmetic(raw) => {
                self.arithmetic(&raw.parts, &mut state);
                ExitStates::unconditional(state)
            }
            CommandNodeKind::Test(tokens) => {
                self.test(tokens, &mut state);
                ExitStates::unconditional(state)
            }
            CommandNodeKind::Coprocess(body) => {
                state.files_unchanged = false;
                self.trail.push("coprocess");
                let after = self.node(body, state.clone()).join_outcomes();
                self.trail.pop();
                state.files_unchanged &= after.files_unchanged;
                state.forget_variables();
                ExitStates::unconditional(state)
            }
        }
    }

    /// Removes from the state what one iteration of these lists may change before the next.
    fn prepare(&mut self, lists: &[&CommandList], state: &mut ShellState) {
        // One iteration may change the files that the next one matches.
        state.files_unchanged = false;
        for list in lists {
            let changes = state_changes::find_changes(list, &self.functions);
            if changes.anything {
                state.forget("a loop may change it");
            }
            if changes.variables {
                state.forget_variables();
            }
            if changes.working_dir {
                state.forget_working_dir("a loop changes it");
            }
        }
    }

    fn repeat(&mut self, lists: &[&CommandList], mut state: ShellState) -> ExitStates {
        self.prepare(lists, &mut state);
        let mut after = state.clone();
        for (at, list) in (1..).zip(lists) {
            let part = if at == lists.len() { "do" } else { "while" };
            after = self.read_enclosed("loop", part, list, after).join_outcomes();
        }
        ExitStates::unconditional(state.join(&after))
    }

    fn for_loop(
        &mut self,
        name: &str,
        words: Option<&[RawWord]>,
        body: &CommandList,
        asks: bool,
        mut state: ShellState,
    ) -> ExitStates {
        self.note_hidden_assignment(name);
        let mut values = Vec::new();
        for word in words.unwrap_or_default() {
            values.extend(self.expand_fields(word, &mut state));
        }
        if !state.are_files_unchanged() {
            values.iter_mut().for_each(ExpandedField::mark_unsettled);
        }
        let known: Option<Vec<String>> =
            values.iter().map(|field| field.word.as_text().map(str::to_owned)).collect();
        let changes = state_changes::find_changes(body, &self.functions);
        let is_still = !changes.anything && !changes.variables && !changes.working_dir;
        let is_plain = (is_still || state.is_guessing()) && !asks && words.is_some();
        if let Some(known) = known.filter(|known| is_plain && known.len() <= ROUNDS_MAX) {
            for value in known {
                self.trail.set_label(format!("{name}={value}"));
                state.set(name, VariableValue::Text(value));
                state = self.read_enclosed("loop", "round", body, state).join_outcomes();
            }
            state.set(name, VariableValue::Unknown);
            return ExitStates::unconditional(state);
        }
        state.set(name, VariableValue::Unknown);
        if asks {
            self.add_unresolved_here("`select` reads an answer from the terminal");
            state.set("REPLY", VariableValue::Unknown);
        }
        self.prepare(&[body], &mut state);
        state.set(name, VariableValue::Unknown);
        self.repeat(&[body], state)
    }

    fn conditional(
        &mut self,
        branches: &[(CommandList, CommandList)],
        other: Option<&CommandList>,
        state: ShellState,
    ) -> ExitStates {
        let mut before = state;
        let mut ends: Option<ShellState> = None;
        for (condition, body) in branches {
            let flow = self.read_enclosed("if", "condition", condition, before);
            let end = self.read_enclosed("if", "then", body, flow.on_success).join_outcomes();
            ends = Some(match ends {
                Some(ends) => ends.join(&end),
                None => end,
            });
            before = flow.on_failure;
        }
        let last = match other {
            Some(other) => self.read_enclosed("if", "else", other, before).join_outcomes(),
            None => before,
        };
        ExitStates::unconditional(match ends {
            Some(ends) => ends.join(&last),
            None => last,
        })
    }

    fn case(
        &mut self,
        word: &RawWord,
        arms: &[(Vec<RawWord>, CommandList)],
        mut state: ShellState,
    ) -> ExitStates {
        self.expand_single(word, &mut state, SingleWordMode::Plain);
        for (patterns, _) in arms {
            for pattern in patterns {
                self.expand_single(pattern, &mut state, SingleWordMode::Plain);
            }
        }
        // A branch may be entered from the one before it.
        let mut joined = state;
        for (_, body) in arms {
            let end = self.read_enclosed("case", "arm", body, joined.clone()).join_outcomes();
            joined = joined.join(&end);
        }
        ExitStates::unconditional(joined)
    }

    fn function(&mut self, name: &str, body: &CommandNode, state: &mut ShellState) {
        self.functions.insert(name.to_owned());
        state.functions.insert(name.to_owned());
        let mut inner = state.clone();
        inner.forget("the body runs wherever the function is called");
        inner.functions = state.functions.clone();
        self.trail.push("function");
        let dropped = self.abandoned_state.take();
        self.node(body, inner);
        self.abandoned_state = dropped;
        self.trail.pop();
    }

    /// Reads `[[ … ]]`: substitutions run in it, and some operators evaluate.
    fn test(&mut self, tokens: &[TestToken], state: &mut ShellState) {
        let words: Vec<Option<(Word, &RawWord)>> = tokens
            .iter()
            .map(|token| match token {
                TestToken::Word(raw) => Some((self.expand_single(raw, state, SingleWordMode::Plain), raw)),
                TestToken::Operator => None,
            })
            .collect();
        for (at, word) in words.iter().enumerate() {
            let Some((Word::Literal(operator), raw)) = word else { continue };
            if !matches!(raw.parts.as_slice(), [WordPart::Bare(_)]) {
                continue;
            }
            let beside = |at: Option<usize>| at.and_then(|at| words.get(at)).and_then(Option::as_ref);
            match operator.as_str() {
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                    for (_, raw) in [beside(at.checked_sub(1)), beside(Some(at + 1))].into_iter().flatten() {
                        self.arithmetic(&raw.parts, state);
                    }
                }
                "-v" | "-R" => {
                    if let Some((word, _)) = beside(Some(at + 1))
                        && !word.as_text().is_some_and(crate::syntax::is_name)
                    {
                        self.add_unresolved_here("`-v` evaluates the subscript of its operand");
                    }
                }
                _ => {}
            }
        }
    }
}
