//! The tree of a command: how it was read, to be shown to a person. For showing, never for judging.
//!
//! It grows from the very reading that the effects come from: every command in it is one that was told, in the order of the
//! text, with what was found inside it.

use std::collections::HashMap;

use byleave_core::effect::Effect;

use crate::commands::{ParsedCommands, SimpleCommand};
use crate::danger::DangerRule;
use crate::effects::{AnalysisObserver, CommandEffects, CommandOrigin, Script};
use crate::source_outline::{ListOperator, Outline};

/// How a command was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandTree {
    /// The commands of the text, one after another, with what is inside them.
    pub branches: Vec<CommandBranch>,
    /// What could not be told of the text as a whole.
    pub unread: Vec<String>,
    /// There is more than is shown; all of it was judged.
    pub cut: bool,
}

/// One part of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandBranch {
    /// What it is.
    pub kind: BranchKind,
    /// What it is called, where that says more.
    pub label: Option<String>,
    /// How it hangs together with what stands before it.
    pub joint: ListOperator,
    /// `!` stands before it: success and failure are swapped.
    pub negated: bool,
    /// The command that it is, or that carries its redirections.
    pub command: Option<SimpleCommand>,
    /// What it is in the text, as it was written, where it is more than its words.
    pub written: Option<String>,
    /// What the manual of its program says of it, in a line; none where there is no manual.
    pub about: Option<&'static str>,
    /// What it does itself.
    pub effects: Vec<Effect>,
    /// What about it is dangerous.
    pub dangers: Vec<&'static DangerRule>,
    /// What could not be told of it, and why.
    pub unread: Vec<String>,
    /// What is inside it.
    pub inside: Vec<CommandBranch>,
}

/// What a part of a command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BranchKind {
    /// A program with its words, or only assignments or redirections.
    #[default]
    Command,
    /// A command that another one runs.
    Wrapped,
    /// Text that another command has a shell read; its label is the text.
    Text,
    /// Something that looks like a command in text that could not be read.
    Possible,
    /// What it may come to, if what is known now still holds then.
    Guess,
    /// A part of the grammar, in a word: "pipeline", "substitution", "if", "then" …
    Part(&'static str),
}

/// Grows the tree while the commands are told.
pub(crate) struct TreeBuilder {
    texts: Vec<AnalyzedText>,
    commands: Vec<AnalyzedCommand>,
}

/// A text that was read, or not.
#[derive(Default)]
struct AnalyzedText {
    text: String,
    outline: Outline,
    /// How many commands are certain to be in it; those that come after are guesses.
    certain: usize,
    /// The commands that were told, by their place in the reading.
    told: HashMap<usize, usize>,
}

/// A command that was told.
#[derive(Default)]
struct AnalyzedCommand {
    branch: CommandBranch,
    inner: Vec<NestedSource>,
}

/// What was found in a command, by its number.
enum NestedSource {
    Text(usize),
    Command(usize),
}

impl AnalysisObserver for TreeBuilder {
    fn text(&mut self, from: Option<usize>, script: Option<&Script>, reading: &ParsedCommands) -> usize {
        let number = self.texts.len();
        let text = script.map(|script| script.text.clone()).unwrap_or_default();
        let outline = reading.outline.clone();
        // The first is the whole, whose text is known beforehand.
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
    /// For a command with this text.
    pub(crate) fn new(text: &str) -> Self {
        let whole = AnalyzedText { text: text.to_owned(), ..AnalyzedText::default() };
        Self { texts: vec![whole], commands: Vec::new() }
    }

    /// The tree, once everything was told.
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
        // A part stands behind the one that it is in, so from the end each is whole when it is put into that.
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
        // Guesses, and what was read when the outline was full.
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

    /// Puts what was told of a command into its branch.
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

/// Whether it was found by a manual, and not by the grammar.
const fn is_told(branch: &CommandBranch) -> bool {
    matches!(branch.kind, BranchKind::Wrapped | BranchKind::Text)
}

/// The command as it stands in its text; none where it stands in a text within the text.
fn written(text: &str, command: &SimpleCommand) -> Option<String> {
    let again = |kind: &&str| matches!(*kind, "eval" | "source" | "trap" | "callback" | "alias" | "unread");
    // Backquotes are read as a text of their own, which stands for the whole.
    let whole = command.span == (0..text.len()) && !command.within.is_empty();
    if whole || command.within.iter().any(again) {
        return None;
    }
    text.get(command.span.clone()).map(|text| text.trim().to_owned())
}
