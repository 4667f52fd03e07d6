//! A person at a real terminal: a pseudo-terminal of which the program is told that it is its own, and what is on its screen.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use regex::Regex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(60);
/// What a prompt says while it waits for the keyboard to be quiet, or for the question to be looked at.
const WAITS: &str = "⏳";

/// The program at a terminal, and what is on its screen.
pub(crate) struct Sitting {
    keyboard: File,
    drawn: Receiver<Vec<u8>>,
    pub(crate) seen: String,
    screen: vt100::Parser,
    child: Child,
}

impl Sitting {
    /// Starts the program with these words.
    pub(crate) fn new(world: &World, words: &[&str]) -> Self {
        Self::with(world, words, &[])
    }

    /// The same, with these variables.
    pub(crate) fn with(world: &World, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_byleave")]).args(words);
        command.env("TERM", "xterm-256color").envs(variables.iter().copied());
        Self::before(command)
    }

    /// Starts a program at a terminal. It begins with `setsid --ctty`, which makes the terminal the program's own.
    pub(crate) fn before(command: Command) -> Self {
        Self::sized(command, 80, 24)
    }

    /// The same, at a terminal of this size.
    pub(crate) fn sized(mut command: Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let noctty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
        let slave = OpenOptions::new().read(true).write(true).custom_flags(noctty).open(path).unwrap();
        tcsetwinsize(&slave, winsize(columns, rows)).unwrap();
        let end = || Stdio::from(OwnedFd::from(slave.try_clone().unwrap()));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();

        let keyboard = File::from(master);
        let mut eyes = keyboard.try_clone().unwrap();
        let (draws, drawn) = channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            // Ends when the last of the program's ends is closed.
            while let Ok(read @ 1..) = eyes.read(&mut buffer) {
                if draws.send(buffer.get(..read).unwrap().to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(size(rows), size(columns), 10_000);
        Self { keyboard, drawn, seen: String::new(), screen, child }
    }

    /// Waits until this was on the screen at some time.
    pub(crate) fn await_text(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.look(PATIENCE), "no `{text}` was on the screen:\n{}", self.seen);
        }
    }

    /// Waits until the screen is like that.
    pub(crate) fn await_screen(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !(self.is_whole() && is_so(&self.screen())) {
            self.look(Duration::from_secs(2));
            assert!(began.elapsed() < PATIENCE, "never {what}:\n{}", self.screen());
        }
    }

    /// Whether the last drawing has come to its end: the program says when one begins and ends.
    fn is_whole(&self) -> bool {
        self.seen.rfind("\u{1b}[?2026h") <= self.seen.rfind("\u{1b}[?2026l")
    }

    /// Waits until this is on the screen.
    pub(crate) fn await_shown(&mut self, text: &str) {
        self.await_screen(&format!("`{text}` on the screen"), |screen| screen.contains(text));
    }

    /// Waits until a key can answer: the question was looked at for long enough.
    pub(crate) fn await_ready(&mut self) {
        self.await_screen("ready for an answer", |screen| {
            screen.contains("a abort") && !screen.contains(WAITS)
        });
    }

    /// Chooses a letter, and confirms it once the screen has it.
    pub(crate) fn choose(&mut self, letter: &str, name: &str) {
        self.await_ready();
        self.press(letter);
        self.await_shown(&format!("{name}: "));
        self.press("\r");
    }

    /// Takes in what was drawn; returns whether there was something.
    fn look(&mut self, wait: Duration) -> bool {
        let Ok(drawn) = self.drawn.recv_timeout(wait) else { return false };
        self.seen.push_str(&String::from_utf8_lossy(&drawn));
        self.screen.process(&drawn);
        while let Ok(drawn) = self.drawn.try_recv() {
            self.seen.push_str(&String::from_utf8_lossy(&drawn));
            self.screen.process(&drawn);
        }
        true
    }

    /// What is on the screen now.
    pub(crate) fn screen(&self) -> String {
        self.screen.screen().contents()
    }

    /// What is on the screen now, with names for whatever is different each time.
    pub(crate) fn shown(&self, world: &World) -> String {
        let clock = Regex::new(r"\b\d+:\d\d:\d\d\b").unwrap();
        let text = world.named(&self.screen());
        // Names are not as long as what they stand for: what is cut at the edge depends on that.
        let cut = Regex::new(r"/tmp/\.[^ ]*$").unwrap();
        let lines = text.lines().map(|line| cut.replace(line.trim_end(), "[cut]").into_owned());
        clock.replace_all(&lines.collect::<Vec<_>>().join("\n"), "[clock]").into_owned()
    }

    /// What is on the screen now, row by row, with its colours.
    pub(crate) fn painted(&self) -> String {
        let screen = self.screen.screen();
        let (_, columns) = screen.size();
        let rows = screen.rows_formatted(0, columns.get());
        let rows: Vec<String> = rows.map(|row| format!("{row}\u{1b}[0m")).collect();
        rows.join("\n").trim_end().to_owned()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Makes the window so large.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        // What was drawn for the old size is taken in first.
        while self.look(Duration::from_millis(50)) {}
        tcsetwinsize(&self.keyboard, winsize(columns, rows)).unwrap();
        self.screen.set_size(size(rows), size(columns));
    }

    /// Hangs up: the terminal is gone. Returns how the program ended.
    pub(crate) fn hang_up(mut self) -> Option<i32> {
        drop(self.keyboard);
        drop(self.drawn);
        self.child.wait().unwrap().code()
    }

    /// The exit code, and everything that was on the screen.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        while self.look(Duration::from_secs(1)) {}
        (code, self.seen)
    }
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
