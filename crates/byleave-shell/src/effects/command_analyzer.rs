//! Analyzes the words of a command with its manual, and determines the effects of each word.

use byleave_core::effect::Effect;

use super::{CommandEffects, NestedCommand, Script};
use crate::commands::{SimpleCommand, WorkingDir};
use crate::danger::CommandFacts;
use crate::env_var_rules::{self, EnvVarRisk};
use crate::manual::{Manual, Operand, OptionSpec, OptionStyle, OptionValue, WordRole};
use crate::shell_env::ShellEnv;
use crate::word::{UnknownWord, Word};

/// The limit for words that are treated as possible commands if a wrapper is not understood.
const POSSIBLE_MAX: usize = 64;

/// The analysis of one command in progress.
pub(super) struct CommandAnalyzer<'a> {
    pub(super) command: &'a SimpleCommand,
    pub(super) scene: &'a dyn ShellEnv,
    pub(super) place: WorkingDir,
    pub(super) account: CommandEffects,
    pub(super) facts: CommandFacts,
    /// The program and its sub-commands, without the words between them.
    pub(super) bare: Vec<String>,
    /// The words as they are reported.
    pub(super) kept: Vec<String>,
    /// The given options that rules name.
    pub(super) front: Vec<&'static OptionSpec>,
    pub(super) program: String,
    /// Whether the program writes a named directory itself. The paths that it writes below are then named.
    pub(super) itself: bool,
    /// Whether every path means something below it.
    pub(super) beneath: bool,
}

impl<'a> CommandAnalyzer<'a> {
    pub(super) fn new(command: &'a SimpleCommand, scene: &'a dyn ShellEnv) -> Self {
        Self {
            command,
            scene,
            place: command.place.clone(),
            account: CommandEffects::default(),
            facts: CommandFacts::default(),
            bare: Vec::new(),
            kept: Vec::new(),
            front: Vec::new(),
            program: String::new(),
            itself: false,
            beneath: command.is_filled,
        }
    }

    /// Applies a role to something below a path.
    pub(super) fn role_beneath(&mut self, role: WordRole, word: &Word) {
        let before = std::mem::replace(&mut self.beneath, true);
        self.role(role, word);
        self.beneath = before;
    }

    /// Applies a role to a directory that the words do not name. The program may read all of it, but does not change all of it.
    pub(super) fn role_unnamed(&mut self, role: WordRole, word: &Word) {
        match role {
            WordRole::Read => self.role(role, word),
            role => self.role_beneath(role, word),
        }
    }

    pub(super) fn add(&mut self, effect: Effect) {
        if !self.account.effects.contains(&effect) {
            self.account.effects.push(effect);
        }
    }

    pub(super) fn unknown(&mut self, why: impl Into<String>) {
        self.add(Effect::Unknown { why: why.into() });
    }

    /// Adds the effects of an assignment. If it is not exported, it only sets a shell variable.
    pub(super) fn assignment(&mut self, name: &str, value: &Word, exported: bool) {
        match env_var_rules::bearing(name) {
            EnvVarRisk::Changes(why) => self.unknown(format!("`{name}` is set: {why}")),
            EnvVarRisk::Harmless if exported && value.text().is_none() => {
                self.unknown(format!("`{name}` is set to {}", why_of(value)));
            }
            EnvVarRisk::Unlisted if exported => {
                self.unknown(format!("`{name}` is set, and nothing is known of that variable"));
            }
            EnvVarRisk::Harmless | EnvVarRisk::Unlisted => {}
        }
    }

    /// Analyzes options and operands by their roles.
    pub(super) fn ordinary(&mut self, manual: &'static Manual, words: &[Word]) {
        let parsed = manual.take_apart(words, false);
        if self.facts.operands.is_empty() {
            self.facts.operands.extend(parsed.operands.iter().map(|operand| operand.word.to_string()));
        }
        self.options(&parsed.given, &parsed.strange);
        for (role, word) in &parsed.seconds {
            self.role(*role, word);
        }
        let given = |mark: fn(&OptionSpec) -> bool| parsed.given.iter().filter(|(opt, _)| mark(opt)).count();
        let skipped = given(|opt| opt.shift).min(1);
        // If two options set the role of the operands, the one with the stronger effect applies.
        let weight = |role: &WordRole| match role {
            WordRole::Text => 0,
            WordRole::Read => 1,
            _ => 2,
        };
        let over = parsed.given.iter().filter_map(|(opt, _)| opt.operands).max_by_key(weight);
        let roles = manual.operands.roles(parsed.operands.len(), skipped);
        let mut shell: Vec<&Word> = Vec::new();
        let mut files = 0_usize;
        let fixed = manual.operands.front.len().saturating_sub(skipped);
        for (at, (operand, role)) in parsed.operands.iter().zip(roles).enumerate() {
            let role = if at < fixed { role } else { over.or(role) };
            // After `--` there are no revisions.
            let role = role.map(|role| match role {
                WordRole::Revision if operand.certain => WordRole::Read,
                role => role,
            });
            let word = &operand.word;
            if let Word::Unknown(riddle) = word
                && !(riddle.one && operand.certain)
            {
                self.unknown(format!("{}, so it could be options or several words", why_of(word)));
            }
            match role {
                Some(WordRole::Argv) => {
                    self.inner_words(words.get(operand.at..).unwrap_or_default().to_vec());
                    files = files.saturating_add(1);
                    break;
                }
                Some(WordRole::Shell) => shell.push(word),
                Some(role) => {
                    if role != WordRole::Text {
                        files = files.saturating_add(1);
                    }
                    self.role(role, word);
                }
                None => {
                    self.unknown(format!("`{}` takes no such operand: `{word}`", self.bare.join(" ")));
                    self.guess(std::slice::from_ref(word));
                }
            }
        }
        if !shell.is_empty() {
            self.shell(&shell);
        }
        if !parsed.strange.is_empty() && manual.operands.runs() {
            self.possible_words(words);
        }
        if manual.style == OptionStyle::Single && !parsed.strange.is_empty() {
            // An unknown option that is not read as a cluster may take any operand as its value.
            let operands: Vec<Word> = parsed.operands.iter().map(|operand| operand.word.clone()).collect();
            self.guess(&operands);
        }
        self.without_unknown(manual, &parsed.operands, skipped, over);
        let here = manual.here.or_else(|| parsed.given.iter().find_map(|(opt, _)| opt.here));
        match (files, here) {
            (0, Some(WordRole::Unknown)) => {
                self.unknown(format!(
                    "`{}`: without operands, its settings say where it leads",
                    self.bare.join(" ")
                ));
            }
            (0, Some(role)) => self.role_unnamed(role, &Word::literal(".")),
            _ => {}
        }
        self.kept.extend(parsed.kept.iter().map(Word::to_string));
        let operands: Vec<Word> = parsed.operands.into_iter().map(|operand| operand.word).collect();
        if self.account.effects.iter().all(|effect| !matches!(effect, Effect::Run { .. })) {
            self.run_with(&operands);
        }
    }

    /// Also analyzes the operands as if unknown words were absent. Such a word may be none or many, which shifts the roles of the others.
    fn without_unknown(
        &mut self,
        manual: &'static Manual,
        operands: &[Operand],
        skipped: usize,
        over: Option<WordRole>,
    ) {
        let certain: Vec<&Operand> = operands
            .iter()
            .filter(|operand| !matches!(operand.word, Word::Unknown(UnknownWord { one: false, .. })))
            .collect();
        if certain.len() == operands.len() {
            return;
        }
        let fixed = manual.operands.front.len().saturating_sub(skipped);
        let roles = manual.operands.roles(certain.len(), skipped);
        for (at, (operand, role)) in certain.into_iter().zip(roles).enumerate() {
            match if at < fixed { role } else { over.or(role) } {
                Some(WordRole::Argv | WordRole::Shell) | None => {}
                Some(role) => self.role(role, &operand.word),
            }
        }
    }

    /// Adds the effects of options.
    pub(super) fn options(
        &mut self,
        given: &[(&'static OptionSpec, Option<Word>)],
        strange: &[(String, Word)],
    ) {
        for (why, word) in strange {
            self.unknown(format!("`{}`: {why}", self.bare.join(" ")));
            let value =
                word.text().and_then(|text| text.split_once('=')).map(|(_, value)| Word::literal(value));
            self.guess(std::slice::from_ref(value.as_ref().unwrap_or(word)));
        }
        // The directory comes first, because the other values are relative to it.
        let mut given: Vec<_> = given.iter().collect();
        given.sort_by_key(|(opt, _)| !opt.cd);
        for (opt, value) in given {
            self.facts.options.extend(opt.names.iter().cloned());
            if let Some(why) = &opt.why {
                let name = opt.names.last().map_or("", String::as_str);
                self.unknown(format!("`{} {name}`: {why}", self.bare.join(" ")));
            }
            if opt.writes {
                self.role_unnamed(WordRole::Write, &Word::literal("."));
            }
            if opt.front && !self.front.iter().any(|known| known.names == opt.names) {
                self.front.push(opt);
            }
            let (OptionValue::Required(role) | OptionValue::Optional(role), Some(value)) = (opt.value, value)
            else {
                continue;
            };
            if opt.cd {
                self.change_directory(value);
            }
            if let Word::Unknown(UnknownWord { one: false, .. }) = value {
                self.unknown(format!("{} could be several words", why_of(value)));
            }
            if role == WordRole::Shell {
                self.shell(&[value]);
            } else {
                self.role(role, value);
            }
        }
    }

    pub(super) fn change_directory(&mut self, word: &Word) {
        let Some(text) = word.text() else {
            self.place = WorkingDir::Unknown(format!("the directory is {}", why_of(word)));
            return;
        };
        let from = match &self.place {
            WorkingDir::At(directory) => directory.as_str(),
            WorkingDir::Unknown(_) if text.starts_with('/') => "/",
            WorkingDir::Unknown(_) => return,
        };
        self.place = match self.scene.resolve(from, text) {
            Some(directory) => WorkingDir::At(directory),
            None => WorkingDir::Unknown(format!("it cannot be told where `{text}` leads")),
        };
    }

    /// Adds a script for a shell, joined by spaces.
    pub(super) fn shell(&mut self, words: &[&Word]) {
        if let Some(word) = words.iter().find(|word| word.text().is_none()) {
            self.unknown(format!("a shell is given {}", why_of(word)));
        }
        let text: Vec<String> = words.iter().map(|word| word.text().unwrap_or_default().to_owned()).collect();
        self.inner_text(text.join(" "));
    }

    pub(super) fn inner_text(&mut self, text: String) {
        self.account.inner.push(NestedCommand::Text(Script { text, place: self.place.clone() }));
    }

    /// Adds a command that this one runs.
    pub(super) fn inner_words(&mut self, words: Vec<Word>) {
        self.inner_command(words, self.command.is_filled);
    }

    /// Adds a command that this one runs, with paths that represent the files that it finds below them.
    pub(super) fn inner_filled(&mut self, words: Vec<Word>) {
        self.inner_command(words, true);
    }

    fn inner_command(&mut self, words: Vec<Word>, is_filled: bool) {
        if words.is_empty() {
            return;
        }
        let mut within = self.command.within.clone();
        within.push("wrapper");
        self.account.inner.push(NestedCommand::Words(SimpleCommand {
            words,
            assignments: Vec::new(),
            redirections: Vec::new(),
            input: self.command.input.clone(),
            place: self.place.clone(),
            span: self.command.span.clone(),
            within,
            is_function: false,
            is_filled,
        }));
    }

    /// Adds each word that could begin a command, as a command.
    pub(super) fn possible_words(&mut self, words: &[Word]) {
        for effect in possible_runs(words) {
            self.add(effect);
        }
        self.guess(words);
    }

    /// Handles words with unknown roles: anything like a path may be read and written, and anything like a URL may be contacted.
    pub(super) fn guess(&mut self, words: &[Word]) {
        for word in words {
            let Some(text) = word.text() else {
                self.unknown(why_of(word));
                continue;
            };
            let value = text.split_once('=').map_or(text, |(_, value)| value);
            if value.contains("://") {
                self.url(value);
            } else if !text.starts_with('-') || text.contains(['=', '/']) {
                let value = if text.starts_with('-') && !text.contains('=') {
                    text.get(text.find('/').unwrap_or(0)..).unwrap_or(text)
                } else {
                    value
                };
                if value.contains('/') || value.starts_with(['.', '~']) || self.exists(value) {
                    self.path(WordRole::Edit, value);
                }
            }
        }
    }

    /// Adds the run itself, and the other spellings that rules may use.
    pub(super) fn run(&mut self) {
        self.run_with(&[]);
    }

    /// Adds the run with operands. Rules find an option at any position, but know few options by their other names. So if there are
    /// other names, the run is reported a second time with all of them.
    pub(super) fn run_with(&mut self, operands: &[Word]) {
        let program = self.program.clone();
        self.add(Effect::Run { program: program.clone(), argv: self.kept.clone() });
        let mut names: Vec<String> = Vec::new();
        for name in self.front.iter().flat_map(|opt| &opt.names) {
            if !self.kept.contains(name) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        let is_plain = self.kept.starts_with(&self.bare);
        if is_plain && names.is_empty() {
            return;
        }
        let argv = if is_plain {
            // The names follow the leading options, so that a rule about those still matches.
            let options = self.kept.iter().skip(self.bare.len()).take_while(|word| word.starts_with('-'));
            let options = options.take_while(|word| *word != "--").count();
            let (before, behind) = self.kept.split_at(self.bare.len().saturating_add(options));
            before.iter().chain(&names).chain(behind).cloned().collect()
        } else {
            let operands = operands.iter().map(Word::to_string);
            self.bare.iter().chain(&names).cloned().chain(operands).collect()
        };
        self.add(Effect::Run { program, argv });
    }
}

/// Returns the possible runs of something that is not analyzed further.
pub(super) fn possible(inner: &NestedCommand) -> Vec<Effect> {
    match inner {
        NestedCommand::Words(command) => possible_runs(&command.words),
        NestedCommand::Text(script) => {
            let separators =
                |c: char| c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '\'' | '"' | '`');
            let words: Vec<Word> =
                script.text.split(separators).filter(|word| !word.is_empty()).map(Word::literal).collect();
            possible_runs(&words)
        }
    }
}

fn possible_runs(words: &[Word]) -> Vec<Effect> {
    let tail = words.len().saturating_sub(POSSIBLE_MAX);
    (0..words.len())
        .filter(|at| *at < POSSIBLE_MAX || *at >= tail)
        .filter_map(|at| {
            let rest = words.get(at..)?;
            let name = rest.first()?.text().filter(|name| !name.starts_with('-') && !name.is_empty())?;
            let argv = rest.iter().take(POSSIBLE_MAX).map(Word::to_string).collect();
            Some(Effect::Run { program: name.to_owned(), argv })
        })
        .collect()
}

/// Returns the reason why a word is unknown.
pub(super) fn why_of(word: &Word) -> String {
    match word {
        Word::Literal(text) => format!("`{text}`"),
        Word::Unknown(riddle) if riddle.pieces.is_empty() => format!("not known: {}", riddle.why),
        Word::Unknown(riddle) => format!("not known: `{word}`: {}", riddle.why),
    }
}

pub(super) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
