//! A person at a real terminal: a pseudo-terminal of which the program is told that it is its own, and what is on its screen.

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::window::Window;
use crate::world::World;

/// The program at a terminal, and what is on its screen.
pub(crate) struct Sitting {
    window: Window,
    child: Child,
}

impl Deref for Sitting {
    type Target = Window;

    fn deref(&self) -> &Window {
        &self.window
    }
}

impl DerefMut for Sitting {
    fn deref_mut(&mut self) -> &mut Window {
        &mut self.window
    }
}

impl Sitting {
    /// Starts the program with these words.
    pub(crate) fn new(world: &World, words: &[&str]) -> Self {
        let mut command = world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_byleave")]).args(words);
        command.env("TERM", "xterm-256color");
        Self::before(command)
    }

    /// Starts a program at a terminal. It begins with `setsid --ctty`, which makes the terminal the program's own.
    pub(crate) fn before(command: Command) -> Self {
        Self::sized(command, 80, 24)
    }

    /// The same, at a terminal of this size.
    pub(crate) fn sized(mut command: Command, columns: u16, rows: u16) -> Self {
        let (window, end) = Window::open(columns, rows);
        let end = || Stdio::from(OwnedFd::from(end.try_clone().unwrap()));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { window, child }
    }

    /// Waits for a question, or for the end of the program; returns whether there is a question.
    pub(crate) fn asks(&mut self) -> bool {
        let began = Instant::now();
        loop {
            self.look(Duration::from_millis(100));
            if self.screen().lines().any(|row| row.starts_with("── ")) {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "neither asks nor ends:\n{}", self.seen);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Hangs up: the terminal is gone.
    pub(crate) fn hang_up(self) -> Child {
        self.child
    }

    /// The exit code, and everything that was on the screen.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        while self.look(Duration::from_secs(1)) {}
        (code, self.window.seen)
    }
}
