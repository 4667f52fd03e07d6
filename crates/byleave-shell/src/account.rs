//! The account of a command: its effects, what is inside it to be read again, and what about it is dangerous.
//!
//! Deny must see everything, so whatever a command could be is in the account. Allow needs a proof, so what could not be told is
//! in it as well, as an unknown. Nothing is ever left out because it is too deep, too long or too many.

use std::collections::HashSet;

use byleave_core::effect::Effect;

use crate::danger::{self, Danger};
use crate::reading::{Command, Place, Reading};
use crate::scene::Scene;
use crate::word::Word;

mod command;
mod roles;
mod special;
mod teller;

use self::teller::Teller;

/// Commands within commands, at most. What is deeper is reported as far as its words tell, and as unknown.
const DEPTH_MAX: usize = 40;

/// Commands in one account, at most; beyond them the same.
const COMMANDS_MAX: usize = 4_000;

/// What one command would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// What it does itself.
    pub effects: Vec<Effect>,
    /// What it has a shell read, or runs in its turn.
    pub inner: Vec<Inner>,
    /// What about it is dangerous or cannot be taken back.
    pub dangers: Vec<&'static Danger>,
}

/// Something within a command that must be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Text that a shell reads.
    Text(Script),
    /// A command that it runs.
    Words(Command),
}

/// Text that a shell reads, and what it finds there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The text.
    pub text: String,
    /// `$0`, `$1` and so on; empty where they are those of the shell around it.
    pub arguments: Vec<Word>,
    /// Where it would run.
    pub place: Place,
}

/// What one command would do by itself; what is inside it is left to be read.
pub fn effects(command: &Command, scene: &dyn Scene) -> Account {
    Teller::new(command, scene).tell()
}

/// What a reading would do, with everything inside it, to the end. `read` reads text as a shell would.
pub fn unwrap_all(reading: &Reading, scene: &dyn Scene, read: &dyn Fn(&Script) -> Reading) -> Account {
    let mut whole = Whole::default();
    whole.take_in(reading, 0);
    let mut count = 0_usize;
    // Last in, first out, and turned around at every level: the order of the text.
    while let Some((depth, inner)) = whole.left.pop() {
        count = count.saturating_add(1);
        let limit = if depth > DEPTH_MAX {
            Some("commands within commands, too deep to be read")
        } else if count > COMMANDS_MAX {
            Some("too many commands to look into all of them")
        } else {
            None
        };
        match (inner, limit) {
            (Inner::Words(command), limit) => whole.add(effects(&command, scene), depth, limit),
            (Inner::Text(script), None) => whole.take_in(&read(&script), depth.saturating_add(1)),
            (text, limit) => whole.add(Account { inner: vec![text], ..Account::default() }, depth, limit),
        }
    }
    whole.account
}

/// The account of everything, as it grows.
#[derive(Default)]
struct Whole {
    account: Account,
    seen: HashSet<Effect>,
    left: Vec<(usize, Inner)>,
}

impl Whole {
    fn effect(&mut self, effect: Effect) {
        if self.seen.insert(effect.clone()) {
            self.account.effects.push(effect);
        }
    }

    fn danger(&mut self, danger: &'static Danger) {
        if !self.account.dangers.contains(&danger) {
            self.account.dangers.push(danger);
        }
    }

    /// Takes one account in. At a limit, what is inside it is not read but reported as far as its words tell.
    fn add(&mut self, account: Account, depth: usize, limit: Option<&str>) {
        account.effects.into_iter().for_each(|effect| self.effect(effect));
        account.dangers.into_iter().for_each(|danger| self.danger(danger));
        match limit {
            None => self
                .left
                .extend(account.inner.into_iter().rev().map(|inner| (depth.saturating_add(1), inner))),
            Some(why) => {
                self.effect(Effect::Unknown { why: why.into() });
                account.inner.iter().flat_map(teller::possible).for_each(|effect| self.effect(effect));
            }
        }
    }

    fn take_in(&mut self, reading: &Reading, depth: usize) {
        for puzzle in &reading.riddles {
            self.effect(Effect::Unknown { why: puzzle.why.clone() });
        }
        danger::of_reading(reading).into_iter().for_each(|danger| self.danger(danger));
        // Guesses come last: a limit cuts them off first.
        let commands = reading.commands.iter().chain(&reading.guesses).rev();
        self.left.extend(commands.map(|command| (depth, Inner::Words(command.clone()))));
    }
}

fn add(effects: &mut Vec<Effect>, effect: Effect) {
    if !effects.contains(&effect) {
        effects.push(effect);
    }
}
