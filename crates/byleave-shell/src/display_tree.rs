//! The tree of a command, which shows a person how it was read. It is for display and never for decisions.
//!
//! It is built by the same analysis that produces the effects. So each command in it was analyzed. The commands are in the order of
//! the text, with their nested commands.

use std::collections::HashMap;

use byleave_core::effect::Effect;

use crate::commands::{ParsedCommands, SimpleCommand};
use crate::danger::DangerRule;
use crate::effects::{AnalysisObserver, CommandEffects, CommandOrigin, Script};
use crate::source_outline::{ListOperator, Outline};

/// The tree of a command text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandTree {
    /// The commands of the text in order, with their nested commands.
    pub branches: Vec<CommandBranch>,
    /// The unresolved parts of the text as a whole.
    pub unresolved: Vec<String>,
    /// Whether there is more than is shown. All of it was analyzed.
    pub truncated: bool,
}

/// One part of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandBranch {
    /// The kind of the part.
    pub kind: BranchKind,
    /// A label, if it adds information.
    pub label: Option<String>,
    /// The list operator between this part and the previous one.
    pub joint: ListOperator,
    /// Whether `!` precedes it, which swaps success and failure.
    pub negated: bool,
    /// The command itself, or the command that carries the redirections of this part.
    pub command: Option<SimpleCommand>,
    /// The source text, if it is more than the words.
    pub source_text: Option<String>,
    /// The one-line description in the manual of the program, if there is a manual.
    pub manual_summary: Option<&'static str>,
    /// The effects of this part itself.
    pub effects: Vec<Effect>,
    /// The dangers of this part.
    pub dangers: Vec<&'static DangerRule>,
    /// The unresolved parts, with their reasons.
    pub unresolved: Vec<String>,
    /// The nested parts.
    pub children: Vec<CommandBranch>,
}

/// The kind of a part of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BranchKind {
    /// A program with its words, or only assignments or redirections.
    #[default]
    Command,
    /// A command that another one runs.
    Wrapped,
    /// Text that another command passes to a shell. Its label is the text.
    Text,
    /// Something that looks like a command in text that could not be parsed.
    Possible,
    /// A command that results if the facts that are known now still hold when it runs.
    Guess,
    /// A grammar construct, by its name: "pipeline", "substitution", "if", "then" …
    Part(&'static str),
}

/// Builds the tree while the commands are analyzed.
pub(crate) struct TreeBuilder {
    texts: Vec<AnalyzedText>,
    commands: Vec<AnalyzedCommand>,
}

/// A text that was parsed or skipped.
#[derive(Default)]
struct AnalyzedText {
    text: String,
    outline: Outline,
    /// The number of certain commands. The commands after them are guesses.
    certain_count: usize,
    /// The analyzed commands, by their index in the parsed text.
    analyzed: HashMap<usize, usize>,
}

/// An analyzed command.
#[derive(Default)]
struct AnalyzedCommand {
    branch: CommandBranch,
    inner: Vec<NestedSource>,
}

/// A text or command that was found inside a command, by its number.
enum NestedSource {
    Text(usize),
    Command(usize),
}

impl AnalysisObserver for TreeBuilder {
    fn on_text(&mut self, from: Option<usize>, script: Option<&Script>, reading: &ParsedCommands) -> usize {
        let number = self.texts.len();
        let text = script.map(|script| script.text.clone()).unwrap_or_default();
        let outline = reading.outline.clone();
        // The first text is the whole, which is known beforehand.
        match self.texts.first_mut().filter(|_| from.is_none()) {
            Some(whole) => {
                whole.outline = outline;
                whole.certain_count = reading.commands.len();
                return 0;
            }
            None => self.texts.push(AnalyzedText {
                text,
                outline,
                certain_count: reading.commands.len(),
                analyzed: HashMap::new(),
            }),
        }
        self.add_nested(from, NestedSource::Text(number));
        number
    }

    fn on_command(
        &mut self,
        from: CommandOrigin,
        command: &SimpleCommand,
        account: &CommandEffects,
        limit: Option<&str>,
    ) -> usize {
        let number = self.commands.len();
        let mut branch = CommandBranch { kind: BranchKind::Wrapped, ..CommandBranch::default() };
        match from {
            CommandOrigin::Command(outer) => self.add_nested(Some(outer), NestedSource::Command(number)),
            CommandOrigin::Text(text, place) => {
                if let Some(text) = self.texts.get_mut(text) {
                    text.analyzed.insert(place, number);
                    branch.source_text = source_text(&text.text, command);
                }
            }
        }
        branch.command = Some(command.clone());
        branch.manual_summary = account.manual_summary;
        branch.dangers.clone_from(&account.dangers);
        for effect in &account.effects {
            match effect {
                Effect::Unknown { reason: why } => branch.unresolved.push(why.clone()),
                effect => branch.effects.push(effect.clone()),
            }
        }
        branch.unresolved.extend(limit.filter(|_| !account.nested.is_empty()).map(str::to_owned));
        self.commands.push(AnalyzedCommand { branch, inner: Vec::new() });
        number
    }

    fn on_unread(&mut self, from: usize, script: &Script, why: &str) {
        let outline = Outline { unresolved: vec![why.to_owned()], ..Outline::default() };
        self.add_nested(Some(from), NestedSource::Text(self.texts.len()));
        self.texts.push(AnalyzedText { text: script.text.clone(), outline, ..AnalyzedText::default() });
    }
}

impl TreeBuilder {
    /// Creates a builder for a command text.
    pub(crate) fn new(text: &str) -> Self {
        let whole = AnalyzedText { text: text.to_owned(), ..AnalyzedText::default() };
        Self { texts: vec![whole], commands: Vec::new() }
    }

    /// Returns the tree after everything was analyzed.
    pub(crate) fn into_tree(mut self) -> CommandTree {
        self.build_text(0)
    }

    fn add_nested(&mut self, from: Option<usize>, inner: NestedSource) {
        if let Some(told) = from.and_then(|from| self.commands.get_mut(from)) {
            told.inner.push(inner);
        }
    }

    fn build_text(&mut self, text: usize) -> CommandTree {
        let AnalyzedText { outline, certain_count: certain, analyzed: mut told, .. } =
            self.texts.get_mut(text).map(std::mem::take).unwrap_or_default();
        let Outline { parts, unresolved: unread, truncated: cut } = outline;
        let mut grown: Vec<CommandBranch> = Vec::with_capacity(parts.len());
        for part in &parts {
            let kind = match part.kind {
                "command" => BranchKind::Command,
                "possible" => BranchKind::Possible,
                kind => BranchKind::Part(kind),
            };
            let mut branch = CommandBranch {
                kind,
                label: part.label.clone(),
                joint: part.joint,
                negated: part.negated,
                unresolved: part.unresolved.clone(),
                ..CommandBranch::default()
            };
            for number in part.commands.iter().filter_map(|place| told.remove(place)) {
                self.fill_branch(&mut branch, number);
            }
            grown.push(branch);
        }
        // A part comes after its parent. So, from the end, each part is complete when it is moved into its parent.
        let mut branches = Vec::new();
        while let Some(mut branch) = grown.pop() {
            let parent = parts.get(grown.len()).and_then(|part| part.parent);
            let (told, parts) = std::mem::take(&mut branch.children).into_iter().partition(is_analyzed);
            let (told, mut parts): (Vec<CommandBranch>, Vec<CommandBranch>) = (told, parts);
            parts.reverse();
            branch.children = parts;
            branch.children.extend(told);
            match parent.and_then(|parent| grown.get_mut(parent)) {
                Some(parent) => parent.children.push(branch),
                None => branches.push(branch),
            }
        }
        branches.reverse();
        // Guesses, and commands that were found after the outline was full.
        let mut rest: Vec<(usize, usize)> = told.into_iter().collect();
        rest.sort_unstable();
        for (place, number) in rest {
            let kind = if place < certain { BranchKind::default() } else { BranchKind::Guess };
            let mut branch = CommandBranch { kind, ..CommandBranch::default() };
            self.fill_branch(&mut branch, number);
            branches.push(branch);
        }
        CommandTree { branches, unresolved: unread, truncated: cut }
    }

    /// Moves the analysis of a command into its branch.
    fn fill_branch(&mut self, branch: &mut CommandBranch, number: usize) {
        let AnalyzedCommand { branch: told, inner } =
            self.commands.get_mut(number).map(std::mem::take).unwrap_or_default();
        branch.command = told.command;
        branch.source_text = told.source_text;
        branch.manual_summary = told.manual_summary;
        branch.effects.extend(told.effects);
        branch.dangers.extend(told.dangers);
        for why in told.unresolved {
            if !branch.unresolved.contains(&why) {
                branch.unresolved.push(why);
            }
        }
        for inner in inner {
            let inside = match inner {
                NestedSource::Command(number) => {
                    let mut inside = CommandBranch { kind: BranchKind::Wrapped, ..CommandBranch::default() };
                    self.fill_branch(&mut inside, number);
                    inside
                }
                NestedSource::Text(number) => {
                    let label = self.texts.get(number).map(|text| text.text.clone());
                    let CommandTree { branches, unresolved: unread, .. } = self.build_text(number);
                    CommandBranch {
                        kind: BranchKind::Text,
                        label,
                        unresolved: unread,
                        children: branches,
                        ..CommandBranch::default()
                    }
                }
            };
            branch.children.push(inside);
        }
    }
}

/// Checks whether a manual found it, and not the grammar.
const fn is_analyzed(branch: &CommandBranch) -> bool {
    matches!(branch.kind, BranchKind::Wrapped | BranchKind::Text)
}

/// Returns the source text of a command, or `None` if it is in a nested text.
fn source_text(text: &str, command: &SimpleCommand) -> Option<String> {
    let again = |kind: &&str| matches!(*kind, "eval" | "source" | "trap" | "callback" | "alias" | "unread");
    // Backquotes are parsed as a text of their own, so the span covers the whole.
    let whole = command.span == (0..text.len()) && !command.enclosing.is_empty();
    if whole || command.enclosing.iter().any(again) {
        return None;
    }
    text.get(command.span.clone()).map(|text| text.trim().to_owned())
}
