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
    pub unread: Vec<String>,
    /// Whether there is more than is shown. All of it was analyzed.
    pub cut: bool,
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
    pub written: Option<String>,
    /// The one-line description in the manual of the program, if there is a manual.
    pub about: Option<&'static str>,
    /// The effects of this part itself.
    pub effects: Vec<Effect>,
    /// The dangers of this part.
    pub dangers: Vec<&'static DangerRule>,
    /// The unresolved parts, with their reasons.
    pub unread: Vec<String>,
    /// The nested parts.
    pub inside: Vec<CommandBranch>,
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
    certain: usize,
    /// The analyzed commands, by their index in the parsed text.
    told: HashMap<usize, usize>,
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
    fn text(&mut self, from: Option<usize>, script: Option<&Script>, reading: &ParsedCommands) -> usize {
        let number = self.texts.len();
        let text = script.map(|script| script.text.clone()).unwrap_or_default();
        let outline = reading.outline.clone();
        // The first text is the whole, which is known beforehand.
        match self.texts.first_mut().filter(|_| from.is_none()) {
            Some(whole) => {
                whole.outline = outline;
                whole.certain = reading.commands.len();
                return 0;
            }
            None => self.texts.push(AnalyzedText {
                text,
                outline,
                certain: reading.commands.len(),
                told: HashMap::new(),
            }),
        }
        self.found(from, NestedSource::Text(number));
        number
    }

    fn command(
        &mut self,
        from: CommandOrigin,
        command: &SimpleCommand,
        account: &CommandEffects,
        limit: Option<&str>,
    ) -> usize {
        let number = self.commands.len();
        let mut branch = CommandBranch { kind: BranchKind::Wrapped, ..CommandBranch::default() };
        match from {
            CommandOrigin::Command(outer) => self.found(Some(outer), NestedSource::Command(number)),
            CommandOrigin::Text(text, place) => {
                if let Some(text) = self.texts.get_mut(text) {
                    text.told.insert(place, number);
                    branch.written = written(&text.text, command);
                }
            }
        }
        branch.command = Some(command.clone());
        branch.about = account.about;
        branch.dangers.clone_from(&account.dangers);
        for effect in &account.effects {
            match effect {
                Effect::Unknown { why } => branch.unread.push(why.clone()),
                effect => branch.effects.push(effect.clone()),
            }
        }
        branch.unread.extend(limit.filter(|_| !account.inner.is_empty()).map(str::to_owned));
        self.commands.push(AnalyzedCommand { branch, inner: Vec::new() });
        number
    }

    fn unread(&mut self, from: usize, script: &Script, why: &str) {
        let outline = Outline { unread: vec![why.to_owned()], ..Outline::default() };
        self.found(Some(from), NestedSource::Text(self.texts.len()));
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
    pub(crate) fn tree(mut self) -> CommandTree {
        self.grown(0)
    }

    fn found(&mut self, from: Option<usize>, inner: NestedSource) {
        if let Some(told) = from.and_then(|from| self.commands.get_mut(from)) {
            told.inner.push(inner);
        }
    }

    fn grown(&mut self, text: usize) -> CommandTree {
        let AnalyzedText { outline, certain, mut told, .. } =
            self.texts.get_mut(text).map(std::mem::take).unwrap_or_default();
        let Outline { parts, unread, cut } = outline;
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
                unread: part.unread.clone(),
                ..CommandBranch::default()
            };
            for number in part.commands.iter().filter_map(|place| told.remove(place)) {
                self.put(&mut branch, number);
            }
            grown.push(branch);
        }
        // A part comes after its parent. So, from the end, each part is complete when it is moved into its parent.
        let mut branches = Vec::new();
        while let Some(mut branch) = grown.pop() {
            let parent = parts.get(grown.len()).and_then(|part| part.parent);
            let (told, parts) = std::mem::take(&mut branch.inside).into_iter().partition(is_told);
            let (told, mut parts): (Vec<CommandBranch>, Vec<CommandBranch>) = (told, parts);
            parts.reverse();
            branch.inside = parts;
            branch.inside.extend(told);
            match parent.and_then(|parent| grown.get_mut(parent)) {
                Some(parent) => parent.inside.push(branch),
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
            self.put(&mut branch, number);
            branches.push(branch);
        }
        CommandTree { branches, unread, cut }
    }

    /// Moves the analysis of a command into its branch.
    fn put(&mut self, branch: &mut CommandBranch, number: usize) {
        let AnalyzedCommand { branch: told, inner } =
            self.commands.get_mut(number).map(std::mem::take).unwrap_or_default();
        branch.command = told.command;
        branch.written = told.written;
        branch.about = told.about;
        branch.effects.extend(told.effects);
        branch.dangers.extend(told.dangers);
        for why in told.unread {
            if !branch.unread.contains(&why) {
                branch.unread.push(why);
            }
        }
        for inner in inner {
            let inside = match inner {
                NestedSource::Command(number) => {
                    let mut inside = CommandBranch { kind: BranchKind::Wrapped, ..CommandBranch::default() };
                    self.put(&mut inside, number);
                    inside
                }
                NestedSource::Text(number) => {
                    let label = self.texts.get(number).map(|text| text.text.clone());
                    let CommandTree { branches, unread, .. } = self.grown(number);
                    CommandBranch {
                        kind: BranchKind::Text,
                        label,
                        unread,
                        inside: branches,
                        ..CommandBranch::default()
                    }
                }
            };
            branch.inside.push(inside);
        }
    }
}

/// Checks whether a manual found it, and not the grammar.
const fn is_told(branch: &CommandBranch) -> bool {
    matches!(branch.kind, BranchKind::Wrapped | BranchKind::Text)
}

/// Returns the source text of a command, or `None` if it is in a nested text.
fn written(text: &str, command: &SimpleCommand) -> Option<String> {
    let again = |kind: &&str| matches!(*kind, "eval" | "source" | "trap" | "callback" | "alias" | "unread");
    // Backquotes are parsed as a text of their own, so the span covers the whole.
    let whole = command.span == (0..text.len()) && !command.within.is_empty();
    if whole || command.within.iter().any(again) {
        return None;
    }
    text.get(command.span.clone()).map(|text| text.trim().to_owned())
}
