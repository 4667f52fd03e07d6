//! Analyzes commands and their nested commands in turn, until none is left.
//!
//! There are limits, because the author of a command may want the analysis never to end. Anything beyond them is reported as
//! unknown, and as everything that it could run.

use std::collections::HashSet;

use byleave_core::effect::Effect;

use super::command_analyzer::possible;
use super::{CommandEffects, NestedCommand, Script, effects};
use crate::commands::{ParsedCommands, SimpleCommand};
use crate::danger::{self, DangerRule};
use crate::shell_env::ShellEnv;

/// The maximum nesting of commands. Deeper ones are reported as far as their words tell, and as unknown.
const DEPTH_MAX: usize = 40;

/// The maximum number of commands in one analysis. Further ones are reported in the same way.
const COMMANDS_MAX: usize = 4_000;

/// Returns the effects of parsed commands with all nested commands. `read` parses text as a shell would.
pub fn unwrap_all(
    reading: &ParsedCommands,
    scene: &dyn ShellEnv,
    read: &dyn Fn(&Script) -> ParsedCommands,
) -> CommandEffects {
    unwrap_watched(reading, scene, read, &mut NoObserver)
}

/// An observer of the analysis. It cannot influence it.
pub(crate) trait AnalysisObserver {
    /// Reports a parsed text. `from` is the command that contains it. The returned number identifies the text as an origin.
    fn text(&mut self, from: Option<usize>, script: Option<&Script>, reading: &ParsedCommands) -> usize;

    /// Reports an analyzed command. `from` is its text and its index there, or the command that runs it.
    fn command(
        &mut self,
        from: CommandOrigin,
        command: &SimpleCommand,
        account: &CommandEffects,
        limit: Option<&str>,
    ) -> usize;

    /// Reports a text that was not parsed, and why.
    fn unread(&mut self, from: usize, script: &Script, why: &str);
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
    fn text(&mut self, _: Option<usize>, _: Option<&Script>, _: &ParsedCommands) -> usize {
        0
    }

    fn command(&mut self, _: CommandOrigin, _: &SimpleCommand, _: &CommandEffects, _: Option<&str>) -> usize {
        0
    }

    fn unread(&mut self, _: usize, _: &Script, _: &str) {}
}

/// Does the same as [`unwrap_all`], with an observer.
pub(crate) fn unwrap_watched(
    reading: &ParsedCommands,
    scene: &dyn ShellEnv,
    read: &dyn Fn(&Script) -> ParsedCommands,
    watcher: &mut dyn AnalysisObserver,
) -> CommandEffects {
    let mut whole = EffectsBuilder::default();
    let text = watcher.text(None, None, reading);
    whole.take_in(reading, 0, text);
    let mut count = 0_usize;
    // The stack is last in, first out, and filled in reverse at each level. That yields the order of the text.
    while let Some(PendingAnalysis { depth, from, inner }) = whole.left.pop() {
        count = count.saturating_add(1);
        let limit = if depth > DEPTH_MAX {
            Some("commands within commands, too deep to be read")
        } else if count > COMMANDS_MAX {
            Some("too many commands to look into all of them")
        } else {
            None
        };
        match (inner, from, limit) {
            (NestedCommand::Words(command), from, limit) => {
                let account = effects(&command, scene);
                let number = watcher.command(from, &command, &account, limit);
                whole.add(account, depth, number, limit);
            }
            (
                NestedCommand::Text(script),
                CommandOrigin::Command(number) | CommandOrigin::Text(number, _),
                None,
            ) => {
                let reading = read(&script);
                let text = watcher.text(Some(number), Some(&script), &reading);
                whole.take_in(&reading, depth.saturating_add(1), text);
            }
            (
                NestedCommand::Text(script),
                CommandOrigin::Command(number) | CommandOrigin::Text(number, _),
                Some(why),
            ) => {
                watcher.unread(number, &script, why);
                let account =
                    CommandEffects { inner: vec![NestedCommand::Text(script)], ..CommandEffects::default() };
                whole.add(account, depth, number, limit);
            }
        }
    }
    whole.account
}

/// The combined effects while they are collected.
#[derive(Default)]
struct EffectsBuilder {
    account: CommandEffects,
    seen: HashSet<Effect>,
    left: Vec<PendingAnalysis>,
}

/// A nested command that is still to be analyzed.
struct PendingAnalysis {
    depth: usize,
    from: CommandOrigin,
    inner: NestedCommand,
}

impl EffectsBuilder {
    fn effect(&mut self, effect: Effect) {
        if self.seen.insert(effect.clone()) {
            self.account.effects.push(effect);
        }
    }

    fn danger(&mut self, danger: &'static DangerRule) {
        if !self.account.dangers.contains(&danger) {
            self.account.dangers.push(danger);
        }
    }

    /// Adds the effects of one command. At a limit, its nested commands are not parsed, but reported as far as their words tell.
    fn add(&mut self, account: CommandEffects, depth: usize, number: usize, limit: Option<&str>) {
        account.effects.into_iter().for_each(|effect| self.effect(effect));
        for effect in account.beneath {
            if !self.account.beneath.contains(&effect) {
                self.account.beneath.push(effect);
            }
        }
        account.dangers.into_iter().for_each(|danger| self.danger(danger));
        for file in account.rests_on {
            if !self.account.rests_on.contains(&file) {
                self.account.rests_on.push(file);
            }
        }
        match limit {
            None => self.left.extend(account.inner.into_iter().rev().map(|inner| PendingAnalysis {
                depth: depth.saturating_add(1),
                from: CommandOrigin::Command(number),
                inner,
            })),
            Some(why) => {
                self.effect(Effect::Unknown { why: why.into() });
                account.inner.iter().flat_map(possible).for_each(|effect| self.effect(effect));
            }
        }
    }

    fn take_in(&mut self, reading: &ParsedCommands, depth: usize, text: usize) {
        for puzzle in &reading.riddles {
            self.effect(Effect::Unknown { why: puzzle.why.clone() });
        }
        danger::of_reading(reading).into_iter().for_each(|danger| self.danger(danger));
        // Guesses come last, so that a limit cuts them off first.
        let commands: Vec<&SimpleCommand> = reading.commands.iter().chain(&reading.guesses).collect();
        self.left.extend(commands.into_iter().enumerate().rev().map(|(place, command)| PendingAnalysis {
            depth,
            from: CommandOrigin::Text(text, place),
            inner: NestedCommand::Words(command.clone()),
        }));
    }
}
