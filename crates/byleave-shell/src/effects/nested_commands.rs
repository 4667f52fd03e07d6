//! Unwrapping: one command after another is told, and what is found inside it in turn, until nothing is left.
//!
//! There are limits, because whoever wrote a command may want it never to end. What lies beyond them is told as unknown, and as
//! everything that it could run.

use std::collections::HashSet;

use byleave_core::effect::Effect;

use super::command_analyzer::possible;
use super::{CommandEffects, NestedCommand, Script, effects};
use crate::commands::{ParsedCommands, SimpleCommand};
use crate::danger::{self, DangerRule};
use crate::shell_env::ShellEnv;

/// Commands within commands, at most. What is deeper is reported as far as its words tell, and as unknown.
const DEPTH_MAX: usize = 40;

/// Commands in one account, at most; beyond them the same.
const COMMANDS_MAX: usize = 4_000;

/// What a reading would do, with everything inside it, to the end. `read` reads text as a shell would.
pub fn unwrap_all(
    reading: &ParsedCommands,
    scene: &dyn ShellEnv,
    read: &dyn Fn(&Script) -> ParsedCommands,
) -> CommandEffects {
    unwrap_watched(reading, scene, read, &mut NoObserver)
}

/// Sees what is unwrapped, as it comes; has no say in it.
pub(crate) trait AnalysisObserver {
    /// A text was read. `from` is the command that it was found in; the number is what its commands say they are from.
    fn text(&mut self, from: Option<usize>, script: Option<&Script>, reading: &ParsedCommands) -> usize;

    /// A command was told. `from` is the text that it stands in, with its place there, or the command that runs it.
    fn command(
        &mut self,
        from: CommandOrigin,
        command: &SimpleCommand,
        account: &CommandEffects,
        limit: Option<&str>,
    ) -> usize;

    /// A text was not read, and why.
    fn unread(&mut self, from: usize, script: &Script, why: &str);
}

/// Where a command was found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommandOrigin {
    /// In the text with this number, at this place of its reading.
    Text(usize, usize),
    /// In the command with this number, which runs it.
    Command(usize),
}

/// Nobody looks.
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

/// The same with someone who looks on.
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
    // Last in, first out, and turned around at every level: the order of the text.
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

/// The account of everything, as it grows.
#[derive(Default)]
struct EffectsBuilder {
    account: CommandEffects,
    seen: HashSet<Effect>,
    left: Vec<PendingAnalysis>,
}

/// Something that is still to be looked into.
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

    /// Takes one account in. At a limit, what is inside it is not read but reported as far as its words tell.
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
        // Guesses come last: a limit cuts them off first.
        let commands: Vec<&SimpleCommand> = reading.commands.iter().chain(&reading.guesses).collect();
        self.left.extend(commands.into_iter().enumerate().rev().map(|(place, command)| PendingAnalysis {
            depth,
            from: CommandOrigin::Text(text, place),
            inner: NestedCommand::Words(command.clone()),
        }));
    }
}
