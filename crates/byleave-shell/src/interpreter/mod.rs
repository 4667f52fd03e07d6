//! The reader: command text to [`ParsedCommands`].
//!
//! Walks the tree as bash would run it, every branch of it, and keeps what is certain: variables set on a straight line, the
//! directory, functions. What is not certain becomes an unknown word or a puzzle. It must never leave out a command that
//! bash could run, never call a word literal that bash could make something else of, never panic, and never go on for long.
//!
//! Taken as given, because whoever runs the command sees to it: bash 5.2 or near it, not interactive, with its default
//! options and without `CDPATH`, `BASH_ENV`, `SHELLOPTS`, `BASHOPTS`, `GLOBIGNORE` or exported functions in its environment.
//!
//! A glob becomes the names that it matches now, unless a command before it in the same text may have changed them; then,
//! and where it matches nothing, it stays unknown with its certain pieces, since a file may appear before the command runs.

mod arithmetic;
mod atom;
mod braces;
mod builtins;
mod cwd;
mod declare;
mod expand;
mod fallback_scan;
mod glob;
mod operand;
mod parameters;
mod pipe_input;
mod position;
mod redirections;
mod simple;
mod state;
mod state_changes;
mod statements;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::commands::{ParsedCommands, SimpleCommand, Unresolved};
use crate::env_var_rules;
use crate::shell_env::ShellEnv;
use crate::word::Word;
use position::NestingTracker;
use state::ShellState;

/// The longest text that is parsed; a longer one is only swept for words.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The most commands that a reading lists.
pub const COMMANDS_MAX: usize = 4096;
/// The most words that a reading lists.
pub const WORDS_MAX: usize = 32 * 1024;
/// How often text may hold text: `eval` in `eval`, backquotes in backquotes.
const TEXTS_DEEP_MAX: usize = 12;

/// Reads a command as bash would: every command in it, wherever it stands, and what could not be told.
pub fn read(text: &str, scene: &dyn ShellEnv) -> ParsedCommands {
    let mut reader = ScriptReader::new(scene);
    let mut state = ShellState::new(scene);
    if text.contains('\0') {
        reader
            .puzzle("it holds a NUL byte, where some programs stop reading and others do not", 0..text.len());
    }
    let text = text.replace('\0', "");
    let shell = scene.shell();
    if !is_read(shell) {
        reader.puzzle(format!("`{shell}` would run it, and only bash is read"), 0..text.len());
        reader.sweep(&text, &(0..text.len()));
    } else if text.len() > TEXT_BYTES_MAX {
        reader.puzzle("it is longer than is read; only its words were looked at", 0..text.len());
        reader.sweep(&text, &(0..text.len()));
    } else {
        reader.text(&text, &mut state, None);
        if reader.is_full {
            reader.puzzle("it holds more commands or words than are read", 0..text.len());
            reader.sweep(&text, &(0..text.len()));
        }
    }
    let outline = reader.within.outline();
    let mut reading =
        ParsedCommands { commands: reader.commands, riddles: reader.riddles, guesses: Vec::new(), outline };
    if !reading.is_certain() {
        reading.guesses = guess(&text, scene, &reading.commands);
    }
    reading
}

/// Whether a shell of this name reads as bash does.
fn is_read(shell: &str) -> bool {
    matches!(shell, "bash" | "sh")
}

/// The commands that it would come to if nothing got in the way of what is known at any point.
fn guess(text: &str, scene: &dyn ShellEnv, known: &[SimpleCommand]) -> Vec<SimpleCommand> {
    if text.len() > TEXT_BYTES_MAX || !is_read(scene.shell()) {
        return Vec::new();
    }
    let mut reader = ScriptReader::new(scene);
    reader.text(text, &mut ShellState::guessing(scene), None);
    let is_new = |guess: &SimpleCommand| !known.iter().any(|command| command.does_the_same(guess));
    reader.commands.into_iter().filter(is_new).collect()
}

/// What has been read so far, and where the reading stands.
struct ScriptReader<'s> {
    scene: &'s dyn ShellEnv,
    commands: Vec<SimpleCommand>,
    riddles: Vec<Unresolved>,
    within: NestingTracker,
    /// Names of functions that may be defined by now, somewhere.
    functions: BTreeSet<String>,
    /// From characters to bytes, for the text being read.
    offsets: Vec<usize>,
    /// Stands for all places of a text within the text, such as an argument of `eval`.
    outer_span: Option<Range<usize>>,
    texts_deep: usize,
    words: usize,
    is_full: bool,
    /// What was certain where an expansion may have failed: bash then drops the rest of the line and goes on after it.
    dropped: Option<ShellState>,
    /// What the command before in the pipeline writes, for the one that comes next.
    piped: Option<Word>,
}

impl<'s> ScriptReader<'s> {
    fn new(scene: &'s dyn ShellEnv) -> Self {
        Self {
            scene,
            commands: Vec::new(),
            riddles: Vec::new(),
            within: NestingTracker::default(),
            functions: BTreeSet::new(),
            offsets: Vec::new(),
            outer_span: None,
            texts_deep: 0,
            words: 0,
            is_full: false,
            dropped: None,
            piped: None,
        }
    }

    /// Notes something that could not be told; the same thing only once.
    fn puzzle(&mut self, why: impl Into<String>, span: Range<usize>) {
        let why = why.into();
        self.within.puzzle(&why);
        if self.riddles.len() < 256 && !self.riddles.iter().any(|riddle| riddle.why == why) {
            self.riddles.push(Unresolved { why, span });
        }
    }

    /// Notes that a variable is set where only the reader sees it, as in arithmetic, if that changes what runs.
    fn sets(&mut self, name: &str) {
        if acts_later(name) || matches!(env_var_rules::bearing(name), env_var_rules::EnvVarRisk::Changes(_)) {
            self.puzzle_change(name);
        }
    }

    /// The same for an assignment, or a word of a builtin: the manuals see those as well, and say what else changes what runs.
    fn watch(&mut self, name: &str) {
        if acts_later(name) {
            self.puzzle_change(name);
        }
    }

    fn puzzle_change(&mut self, name: &str) {
        self.puzzle_here(&format!("`{name}` is changed, which changes what runs"));
    }

    /// Notes that the rest of the line may not run from here on.
    fn may_drop(&mut self, state: &ShellState) {
        self.dropped = Some(match self.dropped.take() {
            Some(dropped) => dropped.join(state),
            None => state.clone(),
        });
    }

    /// A span in characters as one in bytes of the whole text.
    fn bytes(&self, span: &Range<usize>) -> Range<usize> {
        if let Some(outer) = &self.outer_span {
            return outer.clone();
        }
        let last = self.offsets.last().copied().unwrap_or(0);
        let byte = |at: usize| self.offsets.get(at).copied().unwrap_or(last);
        byte(span.start)..byte(span.end)
    }

    fn push(&mut self, command: SimpleCommand) {
        self.words += command.words.len() + 1;
        if self.commands.len() >= COMMANDS_MAX || self.words > WORDS_MAX {
            self.is_full = true;
        } else {
            self.within.command(self.commands.len());
            self.commands.push(command);
        }
    }
}

/// Variables whose value the shell acts on later; a change is never silent.
fn acts_later(name: &str) -> bool {
    name.starts_with("BASH_")
        || matches!(
            name,
            "ENV"
                | "PATH"
                | "PROMPT_COMMAND"
                | "PS0"
                | "PS1"
                | "PS2"
                | "PS4"
                | "SHELLOPTS"
                | "BASHOPTS"
                | "GLOBIGNORE"
                | "POSIXLY_CORRECT"
                | "EXECIGNORE"
                | "DIRSTACK"
                | "FUNCNEST"
                | "LC_ALL"
                | "LC_CTYPE"
                | "LC_COLLATE"
                | "LANG"
        )
}
