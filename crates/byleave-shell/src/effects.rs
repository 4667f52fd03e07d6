//! The account of a command: its effects, what is inside it to be read again, and what about it is dangerous.
//!
//! Deny must see everything, so whatever a command could be is in the account. Allow needs a proof, so what could not be told is
//! in it as well, as an unknown. Nothing is ever left out because it is too deep, too long or too many.

use byleave_core::effect::Effect;

use crate::commands::{SimpleCommand, WorkingDir};
use crate::danger::DangerRule;
use crate::shell_env::ShellEnv;

mod argument_roles;
mod builtins;
mod command;
mod command_analyzer;
mod nested_commands;
mod special_programs;

use self::command_analyzer::CommandAnalyzer;
pub use self::nested_commands::unwrap_all;
pub(crate) use self::nested_commands::{AnalysisObserver, CommandOrigin, unwrap_watched};

/// What one command would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandEffects {
    /// What it does itself.
    pub effects: Vec<Effect>,
    /// The effects that stand for something beneath their path, and not for all of it: which files is not in its words.
    pub beneath: Vec<Effect>,
    /// What it has a shell read, or runs in its turn.
    pub inner: Vec<NestedCommand>,
    /// What about it is dangerous or cannot be taken back.
    pub dangers: Vec<&'static DangerRule>,
    /// The files whose content decides what it does: scripts, and programs that were named by their path.
    pub rests_on: Vec<String>,
    /// What its manual says of it, in a line; none where there is no manual.
    pub about: Option<&'static str>,
}

/// Something within a command that must be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestedCommand {
    /// Text that a shell reads.
    Text(Script),
    /// A command that it runs.
    Words(SimpleCommand),
}

/// Text that a shell reads. What its `$0`, `$1` and so on are is not followed: they are not known in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The text.
    pub text: String,
    /// Where it would run.
    pub place: WorkingDir,
}

/// What one command would do by itself; what is inside it is left to be read.
pub fn effects(command: &SimpleCommand, scene: &dyn ShellEnv) -> CommandEffects {
    CommandAnalyzer::new(command, scene).tell()
}
