//! The window of a pseudo-terminal: keys go in, and the output is drawn on a screen.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Longer than anything here takes, on any slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The sequence that the program prints at the end of each frame.
const DRAWN: &[u8] = b"\x1b[?2026l";
/// The sequence with which a whole screen is closed.
const CLOSED: &str = "\u{1b}[?1049l";
/// Shown by a prompt while it waits for the keyboard to be quiet, or until the question was visible for long enough.
const WAITS: &str = "⏳";
/// Shown below a question that is read and not yet answered.
const CHOICES: &str = "x abort";
/// Shown below the card of a question.
pub(crate) const CARD: &str = "── in short";
/// Shown below a card that does not say everything.
const NEEDS_DETAILS: &str = "a yes needs the details";

/// A terminal and its screen.
pub(crate) struct TestWindow {
    keyboard: File,
    drawn: Receiver<Vec<u8>>,
    /// Output that was received but not yet drawn.
    fresh: Vec<u8>,
    /// Everything that was ever drawn.
    pub(crate) seen: String,
    pub(crate) raw: Vec<u8>,
    /// The bytes of an incomplete character at the end of the output.
    pending: Vec<u8>,
    screen: vt100::Parser,
    /// The path of the program's end.
    pub(crate) path: PathBuf,
}

impl TestWindow {
    /// Opens a window of this size. Returns it with the end for the program. The window closes when nobody holds that end any more.
    pub(crate) fn open(columns: u16, rows: u16) -> (Self, File) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_path_buf();
        let noctty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
        let end = OpenOptions::new().read(true).write(true).custom_flags(noctty).open(&path).unwrap();
        tcsetwinsize(&end, winsize(columns, rows)).unwrap();

        let keyboard = File::from(master);
        let mut eyes = keyboard.try_clone().unwrap();
        let (draws, drawn) = channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            // Ends when the last handle of the program's end is closed.
            while let Ok(read @ 1..) = eyes.read(&mut buffer) {
                if draws.send(buffer.get(..read).unwrap().to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(size(rows), size(columns), 10_000);
        (
            Self {
                keyboard,
                drawn,
                fresh: Vec::new(),
                seen: String::new(),
                raw: Vec::new(),
                pending: Vec::new(),
                screen,
                path,
            },
            end,
        )
    }

    /// Waits until this text was on the screen at some time.
    pub(crate) fn await_text(&mut self, text: &str) {
        let began = Instant::now();
        while !self.seen.contains(text) {
            self.look(Duration::from_secs(2));
            assert!(began.elapsed() < PATIENCE, "no `{text}` was on the screen:\n{}", self.seen);
        }
    }

    /// Waits until this text was drawn this many times.
    pub(crate) fn await_times(&mut self, text: &str, times: usize) {
        let began = Instant::now();
        while self.seen.matches(text).count() < times {
            self.look(Duration::from_secs(2));
            assert!(began.elapsed() < PATIENCE, "`{text}` was not drawn {times} times:\n{}", self.screen());
        }
    }

    /// Waits until the screen matches.
    pub(crate) fn await_screen(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !(self.is_whole() && is_so(&self.screen())) {
            self.look(Duration::from_secs(2));
            assert!(began.elapsed() < PATIENCE, "never {what}:\n{}", self.screen());
        }
    }

    /// Returns whether the last frame is complete. The program marks the beginning and the end of each frame.
    fn is_whole(&self) -> bool {
        self.seen.rfind("\u{1b}[?2026h") <= self.seen.rfind("\u{1b}[?2026l")
    }

    /// Waits until this text is on the screen.
    pub(crate) fn await_shown(&mut self, text: &str) {
        self.await_screen(&format!("`{text}` on the screen"), |screen| screen.contains(text));
    }

    /// Waits until this text is on the screen, even for a single frame. Looks at one frame after the other.
    pub(crate) fn await_drawn(&mut self, text: &str) {
        let began = Instant::now();
        while !(self.is_whole() && self.screen().contains(text)) {
            self.look_at_next(Duration::from_secs(2));
            assert!(began.elapsed() < PATIENCE, "never `{text}` on the screen:\n{}", self.screen());
        }
    }

    /// Waits until a key can answer, because the question was visible for long enough.
    pub(crate) fn await_ready(&mut self) {
        self.await_screen("ready for an answer", |screen| {
            screen.contains(CHOICES) && !screen.contains(WAITS)
        });
    }

    /// Chooses a letter, and confirms it if the screen wants that. Before an answer that approves, reads the details if they are needed.
    pub(crate) fn choose(&mut self, letter: &str, name: &str) {
        self.await_ready();
        if ["y", "a", "p"].contains(&letter) && self.screen().contains(NEEDS_DETAILS) {
            self.open_details();
            self.press("\u{1b}[F");
            self.await_screen("the end", |screen| !screen.contains("below"));
            self.await_ready();
        }
        let before = self.seen.len();
        self.press(letter);
        let chosen = format!("{name}: ");
        let began = Instant::now();
        // The next question may be on the screen before anybody looks. The screen of this one was closed then.
        while !(self.is_whole()
            && (self.screen().contains(&chosen)
                || !self.screen().contains(CHOICES)
                || self.seen.get(before..).is_some_and(|fresh| fresh.contains(CLOSED))))
        {
            self.look(Duration::from_secs(2));
            assert!(began.elapsed() < PATIENCE, "never `{chosen}` or an answer:\n{}", self.screen());
        }
        // A screen that was opened to answer questions does not ask for Enter.
        if self.screen().contains(&chosen) {
            self.press("\r");
        }
    }

    /// Says yes after a change to the world: between the letter and its Enter, or before the letter where one key answers.
    pub(crate) fn yes_after(&mut self, has_one_key_answers: bool, change: impl FnOnce()) {
        self.await_ready();
        if has_one_key_answers {
            change();
            self.choose("y", "yes");
            return;
        }
        self.press("y");
        self.await_shown("yes: ");
        change();
        self.press("\r");
    }

    /// Goes from the card of a question to its details.
    pub(crate) fn open_details(&mut self) {
        self.await_ready();
        if self.screen().contains(CARD) {
            self.press("d");
            self.await_screen("the details", |screen| screen.contains(CHOICES) && !screen.contains(CARD));
        }
    }

    /// Processes new output. Returns whether there was any.
    pub(crate) fn look(&mut self, wait: Duration) -> bool {
        let mut fresh = std::mem::take(&mut self.fresh);
        if fresh.is_empty() {
            let Ok(drawn) = self.drawn.recv_timeout(wait) else { return false };
            fresh = drawn;
        }
        self.take_in(&fresh);
        while let Ok(drawn) = self.drawn.try_recv() {
            self.take_in(&drawn);
        }
        true
    }

    /// Processes new output, up to the end of one frame.
    fn look_at_next(&mut self, wait: Duration) {
        if self.fresh.is_empty() {
            self.fresh = self.drawn.recv_timeout(wait).unwrap_or_default();
        }
        let end = self.fresh.windows(DRAWN.len()).position(|window| window == DRAWN);
        let end = end.map_or(self.fresh.len(), |at| at + DRAWN.len());
        let drawing: Vec<u8> = self.fresh.drain(..end).collect();
        self.take_in(&drawing);
    }

    /// Processes all output until nobody holds the other end any more, or nothing has come for long.
    pub(crate) fn look_to_the_end(&mut self) {
        while self.look(Duration::from_secs(10)) {}
    }

    fn take_in(&mut self, drawn: &[u8]) {
        self.raw.extend_from_slice(drawn);
        // Draws only complete characters, because a part of one would be drawn as another.
        self.pending.extend_from_slice(drawn);
        let whole = match std::str::from_utf8(&self.pending) {
            Ok(_) => self.pending.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.pending.len(),
        };
        let drawn: Vec<u8> = self.pending.drain(..whole).collect();
        self.seen.push_str(&String::from_utf8_lossy(&drawn));
        self.screen.process(&drawn);
    }

    /// Returns the current screen.
    pub(crate) fn screen(&self) -> String {
        self.screen.screen().contents()
    }

    /// Returns the current screen row by row, with its colors.
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

    /// Resizes the window.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        // First processes the output for the old size, up to the end of a frame.
        let began = Instant::now();
        while self.look(Duration::from_millis(50)) || !self.is_whole() {
            assert!(began.elapsed() < PATIENCE, "it never stops drawing:\n{}", self.screen());
        }
        tcsetwinsize(&self.keyboard, winsize(columns, rows)).unwrap();
        self.screen.set_size(size(rows), size(columns));
    }
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
