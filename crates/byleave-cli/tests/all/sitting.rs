//! A person at a real terminal: a pseudo-terminal that is the program's controlling terminal, and its screen.

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use regex::Regex;

use crate::window::{PATIENCE, TestWindow};
use crate::world::CliTestWorld;

/// The program at a terminal, and its screen.
pub(crate) struct TerminalSession {
    window: TestWindow,
    child: Child,
}

impl Deref for TerminalSession {
    type Target = TestWindow;

    fn deref(&self) -> &TestWindow {
        &self.window
    }
}

impl DerefMut for TerminalSession {
    fn deref_mut(&mut self) -> &mut TestWindow {
        &mut self.window
    }
}

impl TerminalSession {
    /// Starts the program with these arguments.
    pub(crate) fn new(world: &CliTestWorld, words: &[&str]) -> Self {
        Self::with(world, words, &[])
    }

    /// Starts the program with these arguments and variables.
    pub(crate) fn with(world: &CliTestWorld, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_byleave")]).args(words);
        command.env("TERM", "xterm-256color").envs(variables.iter().copied());
        Self::before(command)
    }

    /// Starts a program at a terminal. The command begins with `setsid --ctty`, which makes the terminal the program's own.
    pub(crate) fn before(command: Command) -> Self {
        Self::sized(command, 80, 24)
    }

    /// Starts a program at a terminal of this size.
    pub(crate) fn sized(mut command: Command, columns: u16, rows: u16) -> Self {
        let (window, end) = TestWindow::open(columns, rows);
        let end = || Stdio::from(OwnedFd::from(end.try_clone().unwrap()));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { window, child }
    }

    /// Waits for a question or for the end of the program. Returns whether there is a question.
    pub(crate) fn asks(&mut self) -> bool {
        let began = Instant::now();
        loop {
            self.look(Duration::from_millis(100));
            // A question that is being closed loses its key hints first.
            let screen = self.screen();
            if screen.lines().any(|row| row.starts_with("── ")) && screen.contains("x abort") {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(began.elapsed() < PATIENCE, "neither asks nor ends:\n{}", self.seen);
        }
    }

    /// Returns the current screen, with placeholders for everything that differs between runs.
    pub(crate) fn shown(&self, world: &CliTestWorld) -> String {
        let clock = Regex::new(r"\b\d+:\d\d:\d\d\b").unwrap();
        let text = world.named(&self.screen());
        // Placeholders differ in length from the original text, so the text cut off at the edge would differ too.
        let cut = Regex::new(r"/tmp/\.[^ ]*$").unwrap();
        let lines = text.lines().map(|line| cut.replace(line.trim_end(), "[cut]").into_owned());
        clock.replace_all(&lines.collect::<Vec<_>>().join("\n"), "[clock]").into_owned()
    }

    #[cfg(feature = "agent")]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    #[cfg(feature = "agent")]
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the terminal. Returns the exit code of the program.
    pub(crate) fn hang_up(self) -> Option<i32> {
        let Self { window, mut child } = self;
        drop(window);
        child.wait().unwrap().code()
    }

    /// Returns the exit code, and everything that was on the screen.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            self.look(Duration::from_millis(20));
            assert!(began.elapsed() < PATIENCE, "it does not end:\n{}", self.screen());
        };
        self.look_to_the_end();
        (status.code(), self.window.seen)
    }
}
