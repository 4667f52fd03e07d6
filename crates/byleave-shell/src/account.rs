//! The account of a command: its effects, what is inside it to be read again, and what about it is dangerous.
//!
//! Deny must see everything, so whatever a command could be is in the account. Allow needs a proof, so what could not be told is
//! in it as well, as an unknown. Nothing is ever left out because it is too deep, too long or too many.

use byleave_core::effect::Effect;

use crate::danger::Danger;
use crate::reading::{Command, Place};
use crate::scene::Scene;

mod builtins;
mod command;
mod roles;
mod special;
mod teller;
mod unwrap;

use self::teller::Teller;
pub use self::unwrap::unwrap_all;
pub(crate) use self::unwrap::{Origin, Watcher, unwrap_watched};

/// What one command would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// What it does itself.
    pub effects: Vec<Effect>,
    /// The effects that stand for something beneath their path, and not for all of it: which files is not in its words.
    pub beneath: Vec<Effect>,
    /// What it has a shell read, or runs in its turn.
    pub inner: Vec<Inner>,
    /// What about it is dangerous or cannot be taken back.
    pub dangers: Vec<&'static Danger>,
    /// The files whose content decides what it does: scripts, and programs that were named by their path.
    pub rests_on: Vec<String>,
    /// What its manual says of it, in a line; none where there is no manual.
    pub about: Option<&'static str>,
}

/// Something within a command that must be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Text that a shell reads.
    Text(Script),
    /// A command that it runs.
    Words(Command),
}

/// Text that a shell reads. What its `$0`, `$1` and so on are is not followed: they are not known in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The text.
    pub text: String,
    /// Where it would run.
    pub place: Place,
}

/// What one command would do by itself; what is inside it is left to be read.
pub fn effects(command: &Command, scene: &dyn Scene) -> Account {
    Teller::new(command, scene).tell()
}
