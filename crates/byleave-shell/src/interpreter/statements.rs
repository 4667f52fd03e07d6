//! Walks the tree: takes every branch, and joins the certain states where branches meet.

use super::ScriptReader;
use super::expand::{ExpandedField, SingleWordMode};
use super::pipe_input;
use super::position::part_of;
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
    pub(super) ok: ShellState,
    pub(super) bad: ShellState,
    /// Whether the command may fail where nothing tests for it.
    pub(super) may_fail: bool,
}

impl ExitStates {
    pub(super) fn same(state: ShellState) -> Self {
        Self { bad: state.clone(), ok: state, may_fail: true }
    }

    /// Returns the state after either exit status.
    pub(super) fn either(self) -> ShellState {
        if self.may_fail { self.ok.join(&self.bad) } else { self.ok }
    }
}

impl ScriptReader<'_> {
    /// Reads a text line by line, as bash does. `outer` is the position of a nested text.
    pub(super) fn text(&mut self, text: &str, state: &mut ShellState, outer: Option<Range<usize>>) {
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
        let mut parser = Parser::new(&chars, self.texts_deep * 8);
        let mut doubts = 0;
        loop {
            let start = parser.position();
            let parsed = parser.line();
            let span = self.bytes(&(start..parser.position()));
            for doubt in parser.doubts.iter().skip(doubts) {
                self.puzzle(doubt.clone(), span.clone());
            }
            doubts = parser.doubts.len();
            match parsed {
                Ok(None) => break,
                Ok(Some(list)) => {
                    *state = self.list(&list, state.clone()).either();
                    if let Some(dropped) = &self.dropped {
                        *state = state.clone().join(dropped);
                    }
                }
                Err(SyntaxError { why }) => {
                    let rest: String = chars.get(start..).unwrap_or_default().iter().collect();
                    let span = self.bytes(&(start..chars.len()));
                    self.puzzle(format!("it could not be parsed: {why}"), span.clone());
                    self.sweep(&rest, &span);
                    state.forget("it could not be parsed");
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
    pub(super) fn text_within(&mut self, kind: &'static str, text: &str, state: &mut ShellState) {
        let outer = self.here();
        if self.texts_deep >= super::TEXTS_DEEP_MAX || self.is_full {
            self.puzzle("text holds text too deeply to be read", outer.clone());
            self.sweep(text, &outer);
            state.forget("it was not read");
            return;
        }
        self.texts_deep += 1;
        self.within.push(kind);
        self.text(text, state, Some(outer));
        self.within.pop();
        self.texts_deep -= 1;
    }

    /// Does the same in a subshell.
    pub(super) fn text_apart(&mut self, kind: &'static str, text: &str, state: &mut ShellState) {
        let mut inner = state.clone();
        let dropped = self.dropped.take();
        self.text_within(kind, text, &mut inner);
        self.dropped = dropped;
        state.settled &= inner.settled;
    }

    /// Returns the current position, as far as it is known.
    pub(super) fn here(&self) -> Range<usize> {
        self.outer_span.clone().unwrap_or(0..self.offsets.last().copied().unwrap_or(0))
    }

    pub(super) fn puzzle_here(&mut self, why: &str) {
        self.puzzle(why, self.here());
    }

    /// Reads commands in a subshell. Of their changes only those of files persist in this shell.
    pub(super) fn apart(&mut self, kind: &'static str, list: &CommandList, state: &mut ShellState) {
        self.within.push(kind);
        let dropped = self.dropped.take();
        let after = self.list(list, state.clone()).either();
        self.dropped = dropped;
        self.within.pop();
        state.settled &= after.settled;
    }

    fn inside(
        &mut self,
        kind: &'static str,
        part: &'static str,
        list: &CommandList,
        state: ShellState,
    ) -> ExitStates {
        self.within.push_as(kind, part);
        let flow = self.list(list, state);
        self.within.pop();
        flow
    }

    pub(super) fn list(&mut self, list: &CommandList, state: ShellState) -> ExitStates {
        let mut flow = ExitStates { bad: state.clone(), ok: state, may_fail: false };
        for item in &list.items {
            let state = flow.either();
            flow = self.item(item, state);
        }
        flow
    }

    fn item(&mut self, item: &AndOrList, mut state: ShellState) -> ExitStates {
        if item.background {
            // Commands after it may change the files that it matches.
            state.settled = false;
            self.within.push("background");
            let after = self.chain(item, state.clone()).either();
            self.within.pop();
            state.settled &= after.settled;
            return ExitStates { bad: state.clone(), ok: state, may_fail: false };
        }
        self.chain(item, state)
    }

    fn chain(&mut self, item: &AndOrList, state: ShellState) -> ExitStates {
        let mut flow = self.pipeline(&item.first, state);
        for (joint, pipeline) in &item.rest {
            self.within.joined(match joint {
                AndOrOperator::And => source_outline::ListOperator::And,
                AndOrOperator::Or => source_outline::ListOperator::Or,
            });
            flow = match joint {
                AndOrOperator::And => {
                    let next = self.pipeline(pipeline, flow.ok);
                    let bad = if flow.may_fail { next.bad.join(&flow.bad) } else { next.bad };
                    ExitStates { ok: next.ok, bad, may_fail: next.may_fail || flow.may_fail }
                }
                AndOrOperator::Or => {
                    let next = self.pipeline(pipeline, flow.bad);
                    ExitStates { ok: next.ok.join(&flow.ok), bad: next.bad, may_fail: next.may_fail }
                }
            };
        }
        flow
    }

    fn pipeline(&mut self, pipeline: &Pipeline, mut state: ShellState) -> ExitStates {
        if pipeline.negated {
            self.within.negated();
        }
        let flow = match pipeline.commands.as_slice() {
            [] => ExitStates::same(state),
            [only] => self.node(only, state),
            several => {
                self.within.push("pipeline");
                // All commands run at once, so one may find the files that another writes.
                let writes = |redirect: &Redirect| {
                    matches!(
                        redirect.operator,
                        RedirectOperator::Write | RedirectOperator::ReadWrite | RedirectOperator::Both
                    )
                };
                if several.iter().any(|node| node.redirects.iter().any(writes)) {
                    state.settled = false;
                }
                let mut piped = None;
                for node in several {
                    self.piped = piped;
                    let after = self.node(node, state.clone()).either();
                    state.settled &= after.settled;
                    // The output is known only for a simple command, and only a simple command uses it.
                    let is_simple = matches!(node.kind, CommandNodeKind::Simple { .. });
                    piped = self.commands.last().filter(|_| is_simple).and_then(pipe_input::written);
                }
                self.within.pop();
                ExitStates::same(state)
            }
        };
        if pipeline.negated { ExitStates { ok: flow.bad, bad: flow.ok, may_fail: true } } else { flow }
    }

    fn node(&mut self, node: &CommandNode, state: ShellState) -> ExitStates {
        if self.is_full {
            return ExitStates::same(state);
        }
        if let CommandNodeKind::For { name, .. } | CommandNodeKind::Function { name, .. } = &node.kind {
            self.within.labelled(name.clone());
        }
        self.within.enter(part_of(&node.kind));
        let flow = match &node.kind {
            CommandNodeKind::Simple { assignments, words } => self.simple(node, assignments, words, state),
            _ => self.redirected(node, state),
        };
        self.within.leave();
        flow
    }

    /// Reads a compound command with its redirections.
    fn redirected(&mut self, node: &CommandNode, mut state: ShellState) -> ExitStates {
        self.piped = None;
        let mut undone = None;
        if !node.redirects.is_empty() {
            let (redirections, input) = self.redirections(&node.redirects, &mut state);
            // A redirection that fails prevents the whole command from running.
            if redirections.iter().any(|redirection| redirection.target.text() != Some("/dev/null")) {
                undone = Some(state.clone());
            }
            let span = self.bytes(&node.span);
            self.push(SimpleCommand {
                words: Vec::new(),
                assignments: Vec::new(),
                redirections,
                input,
                place: state.place(),
                span,
                within: self.within.kinds(),
                is_function: false,
                is_filled: false,
            });
        }
        let flow = self.compound(node, state);
        match undone {
            Some(undone) => ExitStates { ok: flow.ok, bad: flow.bad.join(&undone), may_fail: true },
            None => flow,
        }
    }

    fn compound(&mut self, node: &CommandNode, mut state: ShellState) -> ExitStates {
        match &node.kind {
            CommandNodeKind::Simple { .. } => ExitStates::same(state),
            CommandNodeKind::Group(list) => self.inside("group", "group", list, state),
            CommandNodeKind::Subshell(list) => {
                self.apart("subshell", list, &mut state);
                ExitStates::same(state)
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
                ExitStates::same(state)
            }
            CommandNodeKind::Arithmetic(raw) => {
                self.arithmetic(&raw.parts, &mut state);
                ExitStates::same(state)
            }
            CommandNodeKind::Test(tokens) => {
                self.test(tokens, &mut state);
                ExitStates::same(state)
            }
            CommandNodeKind::Coprocess(body) => {
                state.settled = false;
                self.within.push("coprocess");
                let after = self.node(body, state.clone()).either();
                self.within.pop();
                state.settled &= after.settled;
                state.forget_variables();
                ExitStates::same(state)
            }
        }
    }

    /// Removes from the state what one iteration of these lists may change before the next.
    fn prepare(&mut self, lists: &[&CommandList], state: &mut ShellState) {
        // One iteration may change the files that the next one matches.
        state.settled = false;
        for list in lists {
            let changes = state_changes::of(list, &self.functions);
            if changes.anything {
                state.forget("a loop may change it");
            }
            if changes.variables {
                state.forget_variables();
            }
            if changes.place {
                state.lose_place("a loop changes it");
            }
        }
    }

    fn repeat(&mut self, lists: &[&CommandList], mut state: ShellState) -> ExitStates {
        self.prepare(lists, &mut state);
        let mut after = state.clone();
        for (at, list) in (1..).zip(lists) {
            let part = if at == lists.len() { "do" } else { "while" };
            after = self.inside("loop", part, list, after).either();
        }
        ExitStates::same(state.join(&after))
    }

    fn for_loop(
        &mut self,
        name: &str,
        words: Option<&[RawWord]>,
        body: &CommandList,
        asks: bool,
        mut state: ShellState,
    ) -> ExitStates {
        self.sets(name);
        let mut values = Vec::new();
        for word in words.unwrap_or_default() {
            values.extend(self.fields(word, &mut state));
        }
        if !state.is_settled() {
            values.iter_mut().for_each(ExpandedField::unsettle);
        }
        let known: Option<Vec<String>> =
            values.iter().map(|field| field.word.text().map(str::to_owned)).collect();
        let changes = state_changes::of(body, &self.functions);
        let is_still = !changes.anything && !changes.variables && !changes.place;
        let is_plain = (is_still || state.guesses()) && !asks && words.is_some();
        if let Some(known) = known.filter(|known| is_plain && known.len() <= ROUNDS_MAX) {
            for value in known {
                self.within.labelled(format!("{name}={value}"));
                state.set(name, VariableValue::Text(value));
                state = self.inside("loop", "round", body, state).either();
            }
            state.set(name, VariableValue::Unknown);
            return ExitStates::same(state);
        }
        state.set(name, VariableValue::Unknown);
        if asks {
            self.puzzle_here("`select` asks at the terminal");
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
            let flow = self.inside("if", "condition", condition, before);
            let end = self.inside("if", "then", body, flow.ok).either();
            ends = Some(match ends {
                Some(ends) => ends.join(&end),
                None => end,
            });
            before = flow.bad;
        }
        let last = match other {
            Some(other) => self.inside("if", "else", other, before).either(),
            None => before,
        };
        ExitStates::same(match ends {
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
        self.single(word, &mut state, SingleWordMode::Plain);
        for (patterns, _) in arms {
            for pattern in patterns {
                self.single(pattern, &mut state, SingleWordMode::Plain);
            }
        }
        // A branch may be entered from the one before it.
        let mut joined = state;
        for (_, body) in arms {
            let end = self.inside("case", "arm", body, joined.clone()).either();
            joined = joined.join(&end);
        }
        ExitStates::same(joined)
    }

    fn function(&mut self, name: &str, body: &CommandNode, state: &mut ShellState) {
        self.functions.insert(name.to_owned());
        state.functions.insert(name.to_owned());
        let mut inner = state.clone();
        inner.forget("it runs wherever the function is called");
        inner.functions = state.functions.clone();
        self.within.push("function");
        let dropped = self.dropped.take();
        self.node(body, inner);
        self.dropped = dropped;
        self.within.pop();
    }

    /// Reads `[[ … ]]`: substitutions run in it, and some operators evaluate.
    fn test(&mut self, tokens: &[TestToken], state: &mut ShellState) {
        let words: Vec<Option<(Word, &RawWord)>> = tokens
            .iter()
            .map(|token| match token {
                TestToken::Word(raw) => Some((self.single(raw, state, SingleWordMode::Plain), raw)),
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
                        && !word.text().is_some_and(crate::syntax::is_name)
                    {
                        self.puzzle_here("`-v` evaluates the subscript of its operand");
                    }
                }
                _ => {}
            }
        }
    }
}
