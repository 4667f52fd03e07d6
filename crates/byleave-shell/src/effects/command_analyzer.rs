//! Analyzes the words of a command with its manual, and determines the effects of each word.

use byleave_core::effect::Effect;

use super::{CommandEffects, EarlierCommands, NestedCommand, Script};
use crate::commands::{SimpleCommand, WorkingDir};
use crate::danger::CommandFacts;
use crate::env_var_rules::{self, EnvVarRisk};
use crate::manual::{Manual, Operand, OptionSpec, OptionStyle, OptionValue, WordRole};
use crate::shell_env::ShellEnv;
use crate::word::{UnknownWord, Word};

/// The limit for words that are treated as possible commands if a wrapper is not understood.
const POSSIBLE_MAX: usize = 64;

/// The words after which a program that is not known most likely takes a command.
const INTRODUCTIONS: [&str; 4] = ["--", "exec", "run", "x"];

/// The analysis of one command in progress.
pub(super) struct CommandAnalyzer<'a> {
    pub(super) command: &'a SimpleCommand,
    pub(super) env: &'a dyn ShellEnv,
    pub(super) working_dir: WorkingDir,
    pub(super) result: CommandEffects,
    pub(super) facts: CommandFacts,
    /// The program and its sub-commands, without the words between them.
    pub(super) command_path: Vec<String>,
    /// The words as they are reported.
    pub(super) reported_words: Vec<String>,
    /// The given options that rules name.
    pub(super) leading_options: Vec<&'static OptionSpec>,
    pub(super) program: String,
    /// Whether the program writes a named directory itself. The paths that it writes below are then named.
    pub(super) changes_itself: bool,
    /// Whether links beneath the read directories are followed.
    pub(super) follows_links: bool,
    /// Whether every path means something below it.
    pub(super) all_partial: bool,
    /// Whether the command sends something to each host that it reaches, or may do so.
    pub(super) sends: bool,
    /// Whether nothing proves the effects that are being added.
    pub(super) all_tentative: bool,
    /// The traces of the earlier commands of the text, if there are any.
    pub(super) earlier: Option<&'a EarlierCommands>,
    /// Whether the text of some option or operand is not known. A program that reaches a host may send it there.
    pub(super) has_unknown_text: bool,
    /// Whether it reaches a host whose name is not known.
    pub(super) reaches_unknown_host: bool,
    /// Whether the repository at the other end is a directory of this machine.
    pub(super) uses_local_repository: bool,
    /// Whether the commands that it runs start in other directories, such as those of all packages.
    pub(super) runs_elsewhere: bool,
    /// The suffixes of the files that are made beside each written file.
    pub(super) suffixes: Vec<String>,
    /// The program and its sub-commands under their first names.
    pub(super) canonical_path: Vec<String>,
}

impl<'a> CommandAnalyzer<'a> {
    pub(super) fn new(command: &'a SimpleCommand, scene: &'a dyn ShellEnv) -> Self {
        Self {
            command,
            env: scene,
            working_dir: command.working_dir.clone(),
            result: CommandEffects::default(),
            facts: CommandFacts::default(),
            command_path: Vec::new(),
            reported_words: Vec::new(),
            leading_options: Vec::new(),
            program: String::new(),
            changes_itself: false,
            follows_links: false,
            all_partial: command.is_template,
            sends: false,
            all_tentative: command.is_tentative,
            earlier: None,
            has_unknown_text: false,
            reaches_unknown_host: false,
            uses_local_repository: false,
            runs_elsewhere: false,
            suffixes: Vec::new(),
            canonical_path: Vec::new(),
        }
    }

    /// Applies a role to something below a path.
    pub(super) fn apply_role_partial(&mut self, role: WordRole, word: &Word) {
        let before = std::mem::replace(&mut self.all_partial, true);
        self.apply_role(role, word);
        self.all_partial = before;
    }

    /// Applies a role to a directory that the words do not name. The program may read all of it, but does not change all of it.
    pub(super) fn apply_role_implicit(&mut self, role: WordRole, word: &Word) {
        match role {
            WordRole::Read => self.apply_role(role, word),
            role => self.apply_role_partial(role, word),
        }
    }

    pub(super) fn add(&mut self, effect: Effect) {
        let is_tentative = self.all_tentative;
        let known = self.result.effects.contains(&effect);
        match effect {
            // The allow of the program outside covers code of the project, which is not analyzed either.
            Effect::Unknown { .. } if is_tentative => return,
            Effect::Run { .. } | Effect::Write { .. } | Effect::Delete { .. } if is_tentative => {
                if !known {
                    self.result.tentative_effects.push(effect.clone());
                }
            }
            _ => self.result.tentative_effects.retain(|own| *own != effect),
        }
        if !known {
            self.result.effects.push(effect);
        }
    }

    /// Adds effects that nothing proves.
    pub(super) fn tentatively(&mut self, add: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.all_tentative, true);
        add(self);
        self.all_tentative = before;
    }

    pub(super) fn add_unknown(&mut self, why: impl Into<String>) {
        self.add(Effect::Unknown { reason: why.into() });
    }

    /// Adds the effects of an assignment. If it is not exported, it only sets a shell variable.
    pub(super) fn add_assignment(&mut self, name: &str, value: &Word, exported: bool) {
        // A program may send the value of a variable, such as the name that it gives itself.
        self.has_unknown_text |= exported && value.as_text().is_none();
        let risk = match value.as_text() {
            Some(value) => env_var_rules::env_var_risk_of_value(name, value),
            None => env_var_rules::env_var_risk(name),
        };
        match risk {
            EnvVarRisk::NamesPaths => {
                for path in value.as_text().unwrap_or_default().split(':') {
                    self.add_path(WordRole::Read, path);
                }
            }
            EnvVarRisk::ChangesExecution(why) => self.add_unknown(format!("`{name}` is set: {why}")),
            EnvVarRisk::Harmless if exported && value.as_text().is_none() => {
                self.add_unknown(format!("`{name}` is set to {}", unknown_reason(value)));
            }
            EnvVarRisk::Unlisted if exported => {
                self.add_unknown(format!("`{name}` is set, and the effect of that variable is not known"));
            }
            EnvVarRisk::Harmless | EnvVarRisk::Unlisted => {}
        }
    }

    /// Analyzes options and operands by their roles.
    pub(super) fn analyze_words(&mut self, manual: &'static Manual, words: &[Word]) {
        let parsed = manual.parse_args(words, false);
        if self.facts.operands.is_empty() {
            self.facts.operands.extend(parsed.operands.iter().map(|operand| operand.word.to_string()));
        }
        self.apply_options(&parsed.options, &parsed.unknown);
        self.set_suffixes(&parsed);
        for (role, word) in &parsed.second_words {
            self.apply_role(*role, word);
        }
        let given =
            |mark: fn(&OptionSpec) -> bool| parsed.options.iter().filter(|(opt, _)| mark(opt)).count();
        let skipped = given(|opt| opt.gives_first_operand).min(1);
        // If two options set the role of the operands, the one with the stronger effect applies.
        let weight = |role: &WordRole| match role {
            WordRole::Text | WordRole::Word => 0,
            WordRole::Read => 1,
            _ => 2,
        };
        let over = parsed.options.iter().filter_map(|(opt, _)| opt.operands).max_by_key(weight);
        let roles = manual.operands.roles(parsed.operands.len(), skipped);
        let mut shell: Vec<&Word> = Vec::new();
        let mut files = 0_usize;
        let mut before: Option<&Word> = None;
        let fixed = manual.operands.front.len().saturating_sub(skipped);
        for (at, (operand, role)) in parsed.operands.iter().zip(roles).enumerate() {
            let role = if at < fixed { role } else { over.or(role) };
            // After `--` there are no revisions.
            let role = role.map(|role| match role {
                WordRole::Revision if operand.certain => WordRole::Read,
                // Nor is anything a branch, so a name that only a commit has is a file.
                WordRole::Any if operand.certain && self.facts.program == "git" => WordRole::Edit,
                role => role,
            });
            let word = &operand.word;
            if let Word::Unknown(riddle) = word
                && !(riddle.single_word && operand.certain)
                && !(role == Some(WordRole::Read) && word.is_pipe())
            {
                self.add_unknown(format!(
                    "{}, so it could be options or several arguments",
                    unknown_reason(word)
                ));
            }
            match role {
                Some(WordRole::Argv) => {
                    self.add_nested_words(words.get(operand.at..).unwrap_or_default());
                    files = files.saturating_add(1);
                    break;
                }
                Some(WordRole::Shell) => shell.push(word),
                Some(role) => {
                    if !matches!(role, WordRole::Text | WordRole::Word) {
                        files = files.saturating_add(1);
                    }
                    self.apply_role(role, word);
                    if operand.certain && matches!(role, WordRole::Word | WordRole::Any) {
                        // Behind `--`, another program takes options of its own.
                        self.add_possible_value(before, word);
                    }
                    before = Some(word);
                }
                None => {
                    self.add_unknown(format!(
                        "`{}` does not take the operand `{word}`",
                        self.command_path.join(" ")
                    ));
                    self.guess_roles(std::slice::from_ref(word));
                }
            }
        }
        if !shell.is_empty() {
            self.add_shell_text(&shell);
        }
        if !parsed.unknown.is_empty() && manual.operands.runs_operands() {
            self.add_possible_commands(words);
        }
        if manual.style == OptionStyle::Single && !parsed.unknown.is_empty() {
            // An unknown option that is not read as a cluster may take any operand as its value.
            let operands: Vec<Word> = parsed.operands.iter().map(|operand| operand.word.clone()).collect();
            self.guess_roles(&operands);
        }
        self.analyze_without_unknown(manual, &parsed.operands, skipped, over);
        let here = manual.cwd_role.or_else(|| parsed.options.iter().find_map(|(opt, _)| opt.cwd_role));
        match (files, here) {
            (0, Some(WordRole::Unknown)) => match self.only_local_remote() {
                Some(directory) => self.add_local_repository(&directory),
                None => self.add_unknown(format!(
                    "`{}`: without operands, its configuration decides the target",
                    self.command_path.join(" ")
                )),
            },
            (0, Some(role)) => self.apply_role_implicit(role, &Word::literal(".")),
            _ => {}
        }
        self.reported_words.extend(parsed.reported_words.iter().map(Word::to_string));
        let operands: Vec<Word> = parsed.operands.into_iter().map(|operand| operand.word).collect();
        if self.result.effects.iter().all(|effect| !matches!(effect, Effect::Run { .. })) {
            self.add_run_with(&operands);
        }
    }

    /// Also analyzes the operands as if unknown words were absent. Such a word may be none or many, which shifts the roles of the others.
    fn analyze_without_unknown(
        &mut self,
        manual: &'static Manual,
        operands: &[Operand],
        skipped: usize,
        over: Option<WordRole>,
    ) {
        let certain: Vec<&Operand> = operands
            .iter()
            .filter(|operand| !matches!(operand.word, Word::Unknown(UnknownWord { single_word: false, .. })))
            .collect();
        if certain.len() == operands.len() {
            return;
        }
        let fixed = manual.operands.front.len().saturating_sub(skipped);
        let roles = manual.operands.roles(certain.len(), skipped);
        for (at, (operand, role)) in certain.into_iter().zip(roles).enumerate() {
            match if at < fixed { role } else { over.or(role) } {
                Some(WordRole::Argv | WordRole::Shell) | None => {}
                Some(role) => self.apply_role(role, &operand.word),
            }
        }
    }

    /// Adds the effects of options.
    pub(super) fn apply_options(
        &mut self,
        given: &[(&'static OptionSpec, Option<Word>)],
        strange: &[(String, Word)],
    ) {
        for (why, word) in strange {
            self.add_unknown(format!("`{}`: {why}", self.command_path.join(" ")));
            let value =
                word.as_text().and_then(|text| text.split_once('=')).map(|(_, value)| Word::literal(value));
            self.guess_roles(std::slice::from_ref(value.as_ref().unwrap_or(word)));
        }
        // The directory comes first, because the other values are relative to it.
        let mut given: Vec<_> = given.iter().collect();
        given.sort_by_key(|(opt, _)| !opt.changes_directory);
        for (opt, value) in given {
            self.facts.options.extend(opt.names.iter().cloned());
            if let Some(why) = &opt.reason {
                let name = opt.names.last().map_or("", String::as_str);
                self.add_unknown(format!("`{} {name}`: {why}", self.command_path.join(" ")));
            }
            self.sends |= opt.sends;
            self.follows_links |= opt.follows_links;
            self.runs_elsewhere |= opt.runs_elsewhere;
            if opt.writes {
                self.apply_role_implicit(WordRole::Write, &Word::literal("."));
            }
            if opt.is_leading && !self.leading_options.iter().any(|known| known.names == opt.names) {
                self.leading_options.push(opt);
            }
            if let Some(role) = opt.names_role {
                self.add_listed_names(role, value.as_ref());
            }
            let (OptionValue::Required(role) | OptionValue::Optional(role), Some(value)) = (opt.value, value)
            else {
                continue;
            };
            if opt.changes_directory {
                self.change_directory(value);
                self.check_project_directory();
            }
            if let Word::Unknown(UnknownWord { single_word: false, .. }) = value {
                self.add_unknown(format!("{} could be several arguments", unknown_reason(value)));
            }
            if role == WordRole::Shell {
                self.add_shell_text(&[value]);
            } else {
                self.apply_role(role, value);
            }
        }
    }

    pub(super) fn change_directory(&mut self, word: &Word) {
        let Some(text) = word.as_text() else {
            self.working_dir = WorkingDir::Unknown(format!("the directory is {}", unknown_reason(word)));
            return;
        };
        let from = match &self.working_dir {
            WorkingDir::At(directory) => directory.as_str(),
            WorkingDir::Unknown(_) if text.starts_with('/') => "/",
            WorkingDir::Unknown(_) => return,
        };
        self.working_dir = match self.env.resolve(from, text) {
            Some(directory) => WorkingDir::At(directory),
            None => WorkingDir::Unknown(format!("the target of `{text}` is not known")),
        };
    }

    /// Adds a script for a shell, joined by spaces.
    pub(super) fn add_shell_text(&mut self, words: &[&Word]) {
        if let Some(word) = words.iter().find(|word| word.as_text().is_none()) {
            self.add_unknown(format!("a shell is given {}", unknown_reason(word)));
        }
        let text: Vec<String> =
            words.iter().map(|word| word.as_text().unwrap_or_default().to_owned()).collect();
        self.add_nested_text(text.join(" "));
    }

    pub(super) fn add_nested_text(&mut self, text: String) {
        self.result.nested.push(NestedCommand::Text(Script { text, working_dir: self.nested_dir() }));
    }

    /// Returns the directory that the commands start in which this one runs.
    fn nested_dir(&self) -> WorkingDir {
        match self.runs_elsewhere {
            true => WorkingDir::Unknown("it runs in the directory of each package".to_owned()),
            false => self.working_dir.clone(),
        }
    }

    /// Adds a command that this one runs.
    pub(super) fn add_nested_command(&mut self, words: Vec<Word>) {
        self.push_nested_command(words, self.command.is_template, self.all_tentative);
    }

    /// Adds a command that this one runs, with paths that represent the files that it finds below them.
    pub(super) fn add_nested_template(&mut self, words: Vec<Word>) {
        self.push_nested_command(words, true, self.all_tentative);
    }

    /// Adds a command that this one may run. Rules against it apply, and the allow of this one covers it.
    pub(super) fn add_tentative_command(&mut self, words: Vec<Word>) {
        self.push_nested_command(words, self.command.is_template, true);
    }

    fn push_nested_command(&mut self, words: Vec<Word>, is_filled: bool, is_tentative: bool) {
        if words.is_empty() {
            return;
        }
        let mut within = self.command.enclosing.clone();
        within.push("wrapper");
        self.result.nested.push(NestedCommand::Words(SimpleCommand {
            words,
            assignments: Vec::new(),
            redirections: Vec::new(),
            input: self.command.input.clone(),
            working_dir: self.nested_dir(),
            span: self.command.span.clone(),
            enclosing: within,
            is_function: false,
            is_template: is_filled,
            is_tentative,
        }));
    }

    /// Adds the command that follows the operands of a wrapper. After the file of `flock`, `-c` introduces a text for a shell.
    fn add_nested_words(&mut self, words: &[Word]) {
        match words {
            [option, text, ..]
                if self.facts.program == "flock" && matches!(option.as_text(), Some("-c" | "--command")) =>
            {
                self.add_shell_text(&[text]);
            }
            words => self.add_nested_command(words.to_vec()),
        }
    }

    /// Adds each word that could begin a command, as a command.
    pub(super) fn add_possible_commands(&mut self, words: &[Word]) {
        for effect in possible_runs(words) {
            self.add(effect);
        }
        self.add_introduced_command(words);
        self.guess_roles(words);
    }

    /// Adds the words behind `--`, `exec` or the like as a command that the program may run, so that the dangers of that command count.
    pub(super) fn add_introduced_command(&mut self, words: &[Word]) {
        let introduces = |word: &Word| word.as_text().is_some_and(|text| INTRODUCTIONS.contains(&text));
        let begin = words.iter().position(introduces).and_then(|at| words.get(at.saturating_add(1)..));
        let inner = begin.unwrap_or_default().iter().skip_while(|word| introduces(word));
        self.add_tentative_command(inner.cloned().collect());
    }

    /// Handles words with unknown roles: anything like a path may be read and written, and anything like a URL may be contacted.
    pub(super) fn guess_roles(&mut self, words: &[Word]) {
        let mut before: Option<&Word> = None;
        for word in words {
            let Some(text) = word.as_text() else {
                self.add_unknown(unknown_reason(word));
                before = None;
                continue;
            };
            self.add_possible_value(before, word);
            self.add_possible_new_file(text);
            before = Some(word);
            let value = text.split_once('=').map_or(text, |(_, value)| value);
            if value.contains("://") {
                // Nobody says that it only reads there.
                self.sends |= !value.starts_with("file:");
                self.add_url(value);
            } else if !text.starts_with('-') || text.contains(['=', '/']) {
                let value = if text.starts_with('-') && !text.contains('=') {
                    text.get(text.find('/').unwrap_or(0)..).unwrap_or(text)
                } else {
                    value
                };
                let is_path = value.contains('/') || value.starts_with(['.', '~']) || self.exists(value);
                if is_path && !self.is_url_path(value) {
                    self.add_path(WordRole::Edit, value);
                }
            }
        }
    }

    /// Adds the run itself, and the other spellings that rules may use.
    pub(super) fn add_run(&mut self) {
        self.add_run_with(&[]);
    }

    /// Adds the run with operands. Rules find an option at any position, but know few options by their other names. So if there are
    /// other names, the run is reported a second time with all of them.
    pub(super) fn add_run_with(&mut self, operands: &[Word]) {
        let program = self.program.clone();
        self.add(Effect::Run { program: program.clone(), argv: self.reported_words.clone() });
        let mut names: Vec<String> = Vec::new();
        for name in self.leading_options.iter().flat_map(|opt| &opt.names) {
            if !self.reported_words.contains(name) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        self.add_canonical_run(&names);
        let is_plain = self.reported_words.starts_with(&self.command_path);
        if is_plain && names.is_empty() {
            return;
        }
        let argv = if is_plain {
            // The names follow the leading options, so that a rule about those still matches.
            let options = self
                .reported_words
                .iter()
                .skip(self.command_path.len())
                .take_while(|word| word.starts_with('-'));
            let options = options.take_while(|word| *word != "--").count();
            let (before, behind) =
                self.reported_words.split_at(self.command_path.len().saturating_add(options));
            before.iter().chain(&names).chain(behind).cloned().collect()
        } else {
            let operands = operands.iter().map(Word::to_string);
            self.command_path.iter().chain(&names).cloned().chain(operands).collect()
        };
        self.add(Effect::Run { program, argv });
    }
}

impl CommandAnalyzer<'_> {
    /// Adds the run under the first names of the program and its sub-commands, if the words use others. Rules against the program see
    /// it so. An allow of the words as they are is enough.
    fn add_canonical_run(&mut self, names: &[String]) {
        let invoked: Vec<String> = self.command_path.iter().map(|name| file_name(name).to_owned()).collect();
        if self.canonical_path.is_empty() || self.canonical_path == invoked {
            return;
        }
        let mut path = self.command_path.iter().peekable();
        let mut tail: Vec<String> = Vec::new();
        for word in &self.reported_words {
            if path.peek() == Some(&word) {
                path.next();
            } else {
                tail.push(word.clone());
            }
        }
        let argv = self.canonical_path.iter().chain(names).cloned().chain(tail).collect();
        let program = self.program.clone();
        self.tentatively(|own| own.add(Effect::Run { program, argv }));
    }
}

/// Returns the possible runs of something that is not analyzed further.
pub(super) fn possible_effects(inner: &NestedCommand) -> Vec<Effect> {
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
            let name = rest.first()?.as_text().filter(|name| !name.starts_with('-') && !name.is_empty())?;
            let argv = rest.iter().take(POSSIBLE_MAX).map(Word::to_string).collect();
            Some(Effect::Run { program: name.to_owned(), argv })
        })
        .collect()
}

/// Returns the reason why a word is unknown.
pub(super) fn unknown_reason(word: &Word) -> String {
    match word {
        Word::Literal(text) => format!("`{text}`"),
        Word::Unknown(riddle) if riddle.pieces.is_empty() => format!("not known: {}", riddle.reason),
        Word::Unknown(riddle) => format!("not known: `{word}`: {}", riddle.reason),
    }
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
