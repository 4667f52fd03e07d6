//! Analyzes commands and their nested commands in turn, until none is left.
//!
//! There are limits, because the author of a command may want the analysis never to end. Anything beyond them is reported as
//! unknown, and as everything that it could run.

use std::collections::HashSet;

use byleave_core::effect::{Effect, is_at_or_beneath};

use super::command_analyzer::possible_effects;
use super::special_programs::is_unread_script;
use super::{CommandEffects, EarlierCommands, NestedCommand, Script, analyze_command_after};
use crate::commands::{ParsedCommands, SimpleCommand};
use crate::danger::{self, DangerRule};
use crate::shell_env::ShellEnv;

/// The maximum nesting of commands. Deeper ones are reported as far as their words tell, and as unknown.
const DEPTH_MAX: usize = 40;

/// The maximum number of copied places that later commands are held against. Beyond it, the others are reported as unknown.
const COPIES_MAX: usize = 100;

/// The maximum number of written paths that later scripts are held against.
const WRITTEN_MAX: usize = 1_000;

/// The maximum number of commands in one analysis. Further ones are reported in the same way.
const COMMANDS_MAX: usize = 4_000;

/// Returns the effects of parsed commands with all nested commands. `read` parses text as a shell would.
pub fn analyze_all(
    reading: &ParsedCommands,
    scene: &dyn ShellEnv,
    read: &dyn Fn(&Script) -> ParsedCommands,
) -> CommandEffects {
    analyze_observed(reading, scene, read, &mut NoObserver)
}

/// An observer of the analysis. It cannot influence it.
pub(crate) trait AnalysisObserver {
    /// Reports a parsed text. `from` is the command that contains it. The returned number identifies the text as an origin.
    fn on_text(&mut self, from: Option<usize>, script: Option<&Script>, reading: &ParsedCommands) -> usize;

    /// Reports an analyzed command. `from` is its text and its index there, or the command that runs it.
    fn on_command(
        &mut self,
        from: CommandOrigin,
        command: &SimpleCommand,
        account: &CommandEffects,
        limit: Option<&str>,
    ) -> usize;

    /// Reports a text that was not parsed, and why.
    fn on_unread(&mut self, from: usize, script: &Script, why: &str);
}

/// The origin of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommandOrigin {
    /// The text with this number, at this index of its commands.
    Text(usize, usize),
    /// The command with this number, which runs it.
    Command(usize),
}

/// An observer that does nothing.
struct NoObserver;

impl AnalysisObserver for NoObserver {
    fn on_text(&mut self, _: Option<usize>, _: Option<&Script>, _: &ParsedCommands) -> usize {
        0
    }

    fn on_command(
        &mut self,
        _: CommandOrigin,
        _: &SimpleCommand,
        _: &CommandEffects,
        _: Option<&str>,
    ) -> usize {
        0
    }

    fn on_unread(&mut self, _: usize, _: &Script, _: &str) {}
}

/// Does the same as [`analyze_all`], with an observer.
pub(crate) fn analyze_observed(
    reading: &ParsedCommands,
    scene: &dyn ShellEnv,
    read: &dyn Fn(&Script) -> ParsedCommands,
    watcher: &mut dyn AnalysisObserver,
) -> CommandEffects {
    let mut whole = EffectsBuilder::default();
    let text = watcher.on_text(None, None, reading);
    whole.add_commands(reading, 0, text);
    let mut count = 0_usize;
    let mut exports_unknown_text = false;
    // The stack is last in, first out, and filled in reverse at each level. That yields the order of the text.
    while let Some(PendingAnalysis { depth, from, inner }) = whole.pending.pop() {
        count = count.saturating_add(1);
        let limit = if depth > DEPTH_MAX {
            Some("commands are nested too deeply to analyze")
        } else if count > COMMANDS_MAX {
            Some("there are too many nested commands to analyze all of them")
        } else {
            None
        };
        match (inner, from, limit) {
            (NestedCommand::Words(command), from, limit) => {
                let mut account = analyze_command_after(&command, scene, &whole.earlier);
                whole.follow_sequence(&command, &mut account);
                exports_unknown_text |= account.exports_unknown_text;
                let number = watcher.on_command(from, &command, &account, limit);
                whole.add(account, depth, number, limit);
            }
            (
                NestedCommand::Text(script),
                CommandOrigin::Command(number) | CommandOrigin::Text(number, _),
                None,
            ) => {
                let reading = read(&script);
                let text = watcher.on_text(Some(number), Some(&script), &reading);
                whole.add_commands(&reading, depth.saturating_add(1), text);
            }
            (
                NestedCommand::Text(script),
                CommandOrigin::Command(number) | CommandOrigin::Text(number, _),
                Some(why),
            ) => {
                watcher.on_unread(number, &script, why);
                let account =
                    CommandEffects { nested: vec![NestedCommand::Text(script)], ..CommandEffects::default() };
                whole.add(account, depth, number, limit);
            }
        }
    }
    if exports_unknown_text {
        // A program may send the value of a variable, such as the name that it gives itself.
        let sends = |effect: &Effect| match effect {
            Effect::Reach { host, port } => Some(Effect::Send { host: host.clone(), port: *port }),
            _ => None,
        };
        let sends: Vec<Effect> = whole.result.effects.iter().filter_map(sends).collect();
        whole.result.effects.extend(sends.into_iter().filter(|send| !whole.seen.contains(send)));
    }
    whole.result
}

/// The combined effects while they are collected.
#[derive(Default)]
struct EffectsBuilder {
    result: CommandEffects,
    seen: HashSet<Effect>,
    pending: Vec<PendingAnalysis>,
    /// The traces that the commands so far leave.
    earlier: EarlierCommands,
    /// How far the commands so far have come in downloading a file.
    download: DownloadStage,
    /// The paths that they have written since a download.
    written: Vec<String>,
}

/// How far the commands of a text have come in downloading a file.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum DownloadStage {
    /// Nothing was fetched.
    #[default]
    None,
    /// A program has fetched something.
    Fetched,
    /// It may have been written into a file.
    Written,
}

/// The programs that fetch files. A package manager fetches packages, which its own manual is about.
const DOWNLOADERS: [&str; 14] = [
    "curl", "wget", "aria2c", "axel", "scp", "sftp", "rsync", "git", "gh", "glab", "lynx", "w3m", "http",
    "xh",
];

/// A nested command that is still to be analyzed.
struct PendingAnalysis {
    depth: usize,
    from: CommandOrigin,
    inner: NestedCommand,
}

impl EffectsBuilder {
    /// Follows what a command does with the files of those before it: a place may be a copy, and code may have been downloaded.
    fn follow_sequence(&mut self, command: &SimpleCommand, account: &mut CommandEffects) {
        self.earlier.copies.append(&mut account.copies);
        self.earlier.repositories.append(&mut account.repositories);
        self.earlier.packed.append(&mut account.packed);
        let traces = [self.earlier.copies.len(), self.earlier.repositories.len(), self.earlier.packed.len()];
        if traces.iter().any(|count| *count > COPIES_MAX) {
            account
                .effects
                .push(Effect::Unknown { reason: "too many places are copied or linked to follow".into() });
            self.earlier.copies.truncate(COPIES_MAX);
            self.earlier.repositories.truncate(COPIES_MAX);
            self.earlier.packed.truncate(COPIES_MAX);
        }
        // A tool of the project reads files that it does not name. A script is the file that it names.
        let is_written = |file: &String| self.written.iter().any(|path| is_at_or_beneath(file, path));
        let runs_written = account.runs_project_code || account.depends_on.iter().any(is_written);
        if runs_written && self.download == DownloadStage::Written {
            let reason = "it runs code after a download, which may have changed that code".to_owned();
            account.effects.push(Effect::Unknown { reason });
        }
        let name = command.words.first().and_then(|word| word.as_text()).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or(name);
        let fetches = DOWNLOADERS.contains(&name)
            && account.effects.iter().any(|effect| matches!(effect, Effect::Reach { .. }));
        let runs_input =
            |effect: &Effect| matches!(effect, Effect::Unknown { reason } if is_unread_script(reason));
        if self.download >= DownloadStage::Fetched && account.effects.iter().any(runs_input) {
            account.dangers.extend(danger::all_dangers().iter().filter(|danger| danger.id == "run-download"));
        }
        if fetches {
            self.download = self.download.max(DownloadStage::Fetched);
        }
        let is_tentative = |effect: &Effect| account.tentative_effects.contains(effect);
        let writes = |effect: &Effect| matches!(effect, Effect::Write { .. }) && !is_tentative(effect);
        if self.download >= DownloadStage::Fetched && account.effects.iter().any(writes) {
            self.download = DownloadStage::Written;
            let written = account.effects.iter().filter(|effect| writes(effect));
            self.written.extend(written.filter_map(|effect| effect.path().map(str::to_owned)));
            self.written.truncate(WRITTEN_MAX);
        }
    }

    fn add_effect(&mut self, effect: Effect) {
        self.result.tentative_effects.retain(|known| *known != effect);
        if self.seen.insert(effect.clone()) {
            self.result.effects.push(effect);
        }
    }

    fn add_tentative_effect(&mut self, effect: Effect) {
        if self.seen.insert(effect.clone()) {
            self.result.tentative_effects.push(effect.clone());
            self.result.effects.push(effect);
        }
    }

    fn add_danger(&mut self, danger: &'static DangerRule) {
        if !self.result.dangers.contains(&danger) {
            self.result.dangers.push(danger);
        }
    }

    /// Adds the effects of one command. At a limit, its nested commands are not parsed, but reported as far as their words tell.
    fn add(&mut self, account: CommandEffects, depth: usize, number: usize, limit: Option<&str>) {
        self.result.may_reach_others |= account.may_reach_others;
        for effect in account.effects {
            match account.tentative_effects.contains(&effect) {
                true => self.add_tentative_effect(effect),
                false => self.add_effect(effect),
            }
        }
        for effect in account.partial_effects {
            if !self.result.partial_effects.contains(&effect) {
                self.result.partial_effects.push(effect);
            }
        }
        for effect in account.contained_effects {
            if !self.result.contained_effects.contains(&effect) {
                self.result.contained_effects.push(effect);
            }
        }
        account.dangers.into_iter().for_each(|danger| self.add_danger(danger));
        for file in account.depends_on {
            if !self.result.depends_on.contains(&file) {
                self.result.depends_on.push(file);
            }
        }
        match limit {
            None => self.pending.extend(account.nested.into_iter().rev().map(|inner| PendingAnalysis {
                depth: depth.saturating_add(1),
                from: CommandOrigin::Command(number),
                inner,
            })),
            Some(why) => {
                self.add_effect(Effect::Unknown { reason: why.into() });
                account.nested.iter().flat_map(possible_effects).for_each(|effect| self.add_effect(effect));
            }
        }
    }

    fn add_commands(&mut self, reading: &ParsedCommands, depth: usize, text: usize) {
        for puzzle in &reading.unresolved {
            self.add_effect(Effect::Unknown { reason: puzzle.reason.clone() });
        }
        danger::find_dangers_in_text(reading).into_iter().for_each(|danger| self.add_danger(danger));
        // Guesses come last, so that a limit cuts them off first.
        let commands: Vec<&SimpleCommand> =
            reading.commands.iter().chain(&reading.possible_commands).collect();
        self.pending.extend(commands.into_iter().enumerate().rev().map(|(place, command)| PendingAnalysis {
            depth,
            from: CommandOrigin::Text(text, place),
            inner: NestedCommand::Words(command.clone()),
        }));
    }
}
