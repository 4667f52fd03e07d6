//! The interpreter: turns command text into [`ParsedCommands`].
//!
//! It follows every branch of the tree as bash would run it. It tracks what is certain: variables set on a straight line, the
//! directory, functions. Anything uncertain becomes an unknown word or an unresolved part. It must never leave out a command that
//! bash could run. It must never call a word literal that bash could expand to something else. It must never panic, and must end
//! soon.
//!
//! The caller guarantees bash 5.2 or a similar version, not interactive and with default options. The environment must not
//! contain `CDPATH`, `BASH_ENV`, `SHELLOPTS`, `BASHOPTS`, `GLOBIGNORE` or exported functions.
//!
//! A glob becomes the names that it matches now, unless an earlier command in the same text may have changed them. In that case,
//! or if it matches nothing, it stays unknown with its certain pieces. A file may appear before the command runs.

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

/// The longest text that is parsed. A longer one is only scanned for words.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of commands in one result.
pub const COMMANDS_MAX: usize = 4096;
/// The maximum number of words in one result.
pub const WORDS_MAX: usize = 32 * 1024;
/// The maximum nesting of text in text: `eval` in `eval`, backquotes in backquotes.
const TEXTS_DEEP_MAX: usize = 12;

/// Reads a command text as bash would: every command at any depth, and the unresolved parts.
pub fn parse_commands(text: &str, scene: &dyn ShellEnv) -> ParsedCommands {
    let mut reader = ScriptReader::new(scene);
    let mut state = ShellState::new(scene);
    if text.contains('\0') {
        reader.add_unresolved(
            "the text contains a NUL byte, where some programs stop reading and others do not",
            0..text.len(),
        );
    }
    let text = text.replace('\0', "");
    let shell = scene.shell();
    if !is_bash_compatible(shell) {
        reader.add_unresolved(
            format!("the text would run in `{shell}`, but only bash is analyzed"),
            0..text.len(),
        );
        reader.list_possible_commands(&text, &(0..text.len()));
    } else if text.len() > TEXT_BYTES_MAX {
        reader.add_unresolved("the text is too long to parse; only its words were checked", 0..text.len());
        reader.list_possible_commands(&text, &(0..text.len()));
    } else {
        reader.read_text(&text, &mut state, None);
        if reader.is_full {
            reader.add_unresolved("the text has more commands or words than are analyzed", 0..text.len());
            reader.list_possible_commands(&text, &(0..text.len()));
        }
    }
    let outline = reader.trail.into_outline();
    let mut reading = ParsedCommands {
        commands: reader.commands,
        unresolved: reader.unresolved,
        possible_commands: Vec::new(),
        outline,
    };
    if !reading.is_certain() {
        reading.possible_commands = guess_commands(&text, scene, &reading.commands);
    }
    reading
}

/// Checks whether a shell of this name parses as bash does.
fn is_bash_compatible(shell: &str) -> bool {
    matches!(shell, "bash" | "sh")
}

/// Returns the commands that would result if all facts known at any point still held.
fn guess_commands(text: &str, scene: &dyn ShellEnv, known: &[SimpleCommand]) -> Vec<SimpleCommand> {
    if text.len() > TEXT_BYTES_MAX || !is_bash_compatible(scene.shell()) {
        return Vec::new();
    }
    let mut reader = ScriptReader::new(scene);
    reader.read_text(text, &mut ShellState::new_guessing(scene), None);
    let is_new = |guess: &SimpleCommand| !known.iter().any(|command| command.is_equivalent(guess));
    reader.commands.into_iter().filter(is_new).collect()
}

/// The results so far, and the current position.
struct ScriptReader<'s> {
    env: &'s dyn ShellEnv,
    commands: Vec<SimpleCommand>,
    unresolved: Vec<Unresolved>,
    trail: NestingTracker,
    /// The names of functions that may be defined by now.
    functions: BTreeSet<String>,
    /// Byte offsets by character, for the current text.
    offsets: Vec<usize>,
    /// The span of the enclosing text, for all positions in a nested text such as an argument of `eval`.
    outer_span: Option<Range<usize>>,
    text_depth: usize,
    words: usize,
    is_full: bool,
    /// The state where an expansion may have failed. Bash then drops the rest of the line and continues after it.
    abandoned_state: Option<ShellState>,
    /// The output of the previous command in the pipeline, for the next one.
    pipe_input: Option<Word>,
}

impl<'s> ScriptReader<'s> {
    fn new(scene: &'s dyn ShellEnv) -> Self {
        Self {
            env: scene,
            commands: Vec::new(),
            unresolved: Vec::new(),
            trail: NestingTracker::default(),
            functions: BTreeSet::new(),
            offsets: Vec::new(),
            outer_span: None,
            text_depth: 0,
            words: 0,
            is_full: false,
            abandoned_state: None,
            pipe_input: None,
        }
    }

    /// Records an unresolved part. Duplicates are dropped.
    fn add_unresolved(&mut self, why: impl Into<String>, span: Range<usize>) {
        let why = why.into();
        self.trail.add_unresolved(&why);
        if self.unresolved.len() < 256 && !self.unresolved.iter().any(|riddle| riddle.reason == why) {
            self.unresolved.push(Unresolved { reason: why, span });
        }
    }

    /// Records the assignment of a variable that only the interpreter sees, as in arithmetic, if it changes what runs.
    fn note_hidden_assignment(&mut self, name: &str) {
        if affects_later_commands(name)
            || matches!(env_var_rules::env_var_risk(name), env_var_rules::EnvVarRisk::ChangesExecution(_))
        {
            self.add_unresolved_change(name);
        }
    }

    /// Does the same for an assignment or a word of a builtin. The manuals also see those, and report other changes of what runs.
    fn note_assignment(&mut self, name: &str) {
        if affects_later_commands(name) {
            self.add_unresolved_change(name);
        }
    }

    fn add_unresolved_change(&mut self, name: &str) {
        self.add_unresolved_here(&format!("`{name}` is changed, which changes what runs"));
    }

    /// Records that the rest of the line may not run from here on.
    fn note_possible_abort(&mut self, state: &ShellState) {
        self.abandoned_state = Some(match self.abandoned_state.take() {
            Some(dropped) => dropped.join(state),
            None => state.clone(),
        });
    }

    /// Converts a span in characters to one in bytes of the whole text.
    fn byte_span(&self, span: &Range<usize>) -> Range<usize> {
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
            self.trail.add_command(self.commands.len());
            self.commands.push(command);
        }
    }
}

/// Checks for variables whose value the shell acts on later. A change is always reported.
fn affects_later_commands(name: &str) -> bool {
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
