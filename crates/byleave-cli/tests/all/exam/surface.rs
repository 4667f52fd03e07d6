//! Where a question is answered: the one place that knows how a question comes to a screen. Everything else reads the screen and
//! presses keys, which are the same everywhere.

use std::process::Command;
use std::sync::Arc;

use byleave::approve::Approver;
use byleave::gate::GateBuilder;
use byleave_terminal::Backing;
use byleave_terminal::colour::Palette;
use byleave_terminal::{Manner, Prompt};

use super::stage;
use crate::sitting::Sitting;
use crate::window::Window;

/// Where a question is answered.
///
/// Another one needs two things. [`Surface::call`]: start the program so that the question of a call comes to be on a screen, opened;
/// when it was answered, the program must end with the exit code of the call, or the outcome be had from the book. And
/// [`Surface::asks`]: the same for a gate of our own, whose questions come to the screen of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    /// Drawn in place, where `byleave call` runs.
    Inline,
}

impl Surface {
    pub(crate) const ALL: [Self; 1] = [Self::Inline];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
        }
    }

    /// Makes a call with the program at a terminal.
    pub(crate) fn call(self, words: &[&str]) -> Sitting {
        self.call_with(words, |_| {})
    }

    /// The same, in an environment that is changed first.
    pub(crate) fn call_with(self, words: &[&str], change: impl FnOnce(&mut Command)) -> Sitting {
        let mut command = stage::program("setsid");
        command.args(["--ctty", "--wait", stage::PROGRAM]).args(words).env("TERM", "xterm-256color");
        change(&mut command);
        match self {
            Self::Inline => Sitting::before(command),
        }
    }

    /// Has the questions of a gate come to the screen of this window.
    pub(crate) fn asks(
        self,
        builder: GateBuilder,
        window: &Window,
        backing: Arc<dyn Backing>,
    ) -> GateBuilder {
        let manner = Manner { palette: Palette::Plain, patience: 1, notify: false, editor: None };
        match self {
            Self::Inline => {
                let prompt: Arc<dyn Approver> =
                    Arc::new(Prompt::open("ann", &window.path, manner, backing).unwrap());
                builder.approver(prompt)
            }
        }
    }
}
