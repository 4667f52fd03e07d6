//! The effects of a command, its nested commands that must be analyzed in turn, and its dangers.
//!
//! A deny must see everything, so every possible effect is included. An allow needs a proof, so unresolved parts are included as
//! unknown effects. Nothing is left out because it is too deep, too long or too numerous.

use byleave_core::effect::Effect;

use crate::commands::{SimpleCommand, WorkingDir};
use crate::danger::DangerRule;
use crate::shell_env::ShellEnv;

mod argument_roles;
mod beneath;
mod builtins;
mod command;
mod command_analyzer;
mod listed_names;
mod local_remotes;
mod nested_commands;
mod pathspec;
mod possible_targets;
mod special_programs;

use self::command_analyzer::CommandAnalyzer;
pub use self::nested_commands::analyze_all;
pub(crate) use self::nested_commands::{AnalysisObserver, CommandOrigin, analyze_observed};

/// The predicted effects of one command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandEffects {
    /// The effects of the command itself.
    pub effects: Vec<Effect>,
    /// The effects on some files below their path, but not on all of them. The words do not say which files.
    pub partial_effects: Vec<Effect>,
    /// The effects that a word may have, but that nothing proves. Rules against them apply, and no allow is needed.
    pub tentative_effects: Vec<Effect>,
    /// The effects on the contents of directories that it deletes, copies or moves.
    pub contained_effects: Vec<Effect>,
    /// The scripts that it passes to a shell, and the commands that it runs.
    pub nested: Vec<NestedCommand>,
    /// The dangerous or irreversible aspects.
    pub dangers: Vec<&'static DangerRule>,
    /// The files whose content decides what it does: scripts, and programs that were named by their path.
    pub depends_on: Vec<String>,
    /// The places that it copies, moves or links: from where to where. A later command of the text may use the new place.
    pub copies: Vec<(String, String)>,
    /// The directories that it makes repositories without `.git`.
    pub repositories: Vec<String>,
    /// The places that it packs into archives. A later command of the text may unpack them.
    pub packed: Vec<PackedPlace>,
    /// Whether it runs code of the project.
    pub runs_project_code: bool,
    /// Whether it gives later commands a variable whose value is not known.
    pub exports_unknown_text: bool,
    /// Whether it may reach hosts that are not among its effects, because nobody knows what its program does.
    pub may_reach_others: bool,
    /// The one-line description in its manual, if there is a manual.
    pub manual_summary: Option<&'static str>,
}

/// A file or directory that a command packs into an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedPlace {
    /// The path of the archive, or `-` for the output of the command.
    pub archive: String,
    /// The path of the file or directory.
    pub source: String,
    /// Its name in the archive.
    pub name: String,
}

/// The traces that the earlier commands of a text leave for the later ones.
#[derive(Clone, Debug, Default)]
struct EarlierCommands {
    /// The places that they have copied, moved or linked: from where to where.
    copies: Vec<(String, String)>,
    /// The directories that they have made repositories without `.git`.
    repositories: Vec<String>,
    /// The places that they have packed into archives.
    packed: Vec<PackedPlace>,
}

/// A nested command that must be analyzed in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestedCommand {
    /// Text that a shell parses.
    Text(Script),
    /// A command that it runs.
    Words(SimpleCommand),
}

/// Text that a shell parses. Its `$0`, `$1` and so on are not tracked: they are unknown in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The text.
    pub text: String,
    /// The working directory.
    pub working_dir: WorkingDir,
}

/// Returns the effects of one command itself. Nested commands are returned for later analysis.
pub fn analyze_command(command: &SimpleCommand, scene: &dyn ShellEnv) -> CommandEffects {
    CommandAnalyzer::new(command, scene).analyze()
}

/// Does the same after other commands of the text.
fn analyze_command_after(
    command: &SimpleCommand,
    scene: &dyn ShellEnv,
    earlier: &EarlierCommands,
) -> CommandEffects {
    let mut analyzer = CommandAnalyzer::new(command, scene);
    analyzer.earlier = Some(earlier);
    analyzer.analyze()
}
