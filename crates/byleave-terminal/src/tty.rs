//! The terminal itself: single keys, drawings in place or on a full screen. It restores everything afterwards.
//!
//! It is not a backend of `ratatui` for two reasons. A drawing in place must not ask the terminal for the cursor position,
//! because the reply would arrive among typed keys. Keys typed ahead must be distinguished from keys typed at a question: they
//! are read before anything is drawn, and answer nothing.
//!
//! Terminal signals stay enabled, so Ctrl-C always works.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcgetwinsize, tcsetattr,
};

use crate::ansi_output;
use crate::keys::{KeyParser, KeyPress};

/// How long the rest of a key sequence may take after its beginning.
const KEY_WAIT: Duration = Duration::from_millis(40);

/// How long a drawing stays if nothing happens. Then it is made again, for the times that it shows.
const REFRESH: Duration = Duration::from_millis(250);

/// The place of drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawMode {
    /// Below the existing output. The drawing is removed at the end.
    Inline,
    /// On the alternate screen. The earlier content is restored at the end.
    Full,
}

/// A terminal in single-key mode until it is dropped.
pub struct Tty {
    file: File,
    keyboard: KeyParser,
    before: Termios,
    place: DrawMode,
    began: Instant,
    /// The number of drawn rows, and the size of the screen at that time.
    drawn: usize,
    size: (u16, u16),
    /// The last drawing. An identical one is not drawn again.
    last: Option<(Buffer, Option<Position>)>,
    /// The time of the last drawing, even if it was identical.
    refreshed: Option<Duration>,
}

/// The result of waiting for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TtyEvent {
    /// These keys, or none yet.
    Keys(Vec<KeyPress>),
    /// The terminal is gone.
    End,
}

impl Tty {
    /// Opens the terminal at this path, most often `/dev/tty`.
    pub fn open(path: &Path, place: DrawMode) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Self::from_file(file, place)
    }

    /// Takes over an open terminal.
    pub fn from_file(mut file: File, place: DrawMode) -> io::Result<Self> {
        let before = tcgetattr(&file)?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        // Otherwise Ctrl-S stops the screen, and Enter looks like Ctrl-J.
        raw.input_modes.remove(InputModes::IXON | InputModes::ICRNL | InputModes::INLCR);
        // If the program were suspended here, the shell would get the terminal in this mode.
        raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        // Keys typed ahead are kept for [`Tty::read_typed_ahead`].
        tcsetattr(&file, OptionalActions::Drain, &raw)?;
        let screen = if place == DrawMode::Full { "\x1b[?1049h" } else { "" };
        // Bracketed paste on, cursor hidden.
        let entered = file.write_all(format!("{screen}\x1b[?2004h\x1b[?25l").as_bytes());
        let tty = Self {
            file,
            keyboard: KeyParser::default(),
            before,
            place,
            began: Instant::now(),
            drawn: 0,
            size: (0, 0),
            last: None,
            refreshed: None,
        };
        entered.map(|()| tty)
    }

    /// Returns the time since the terminal was taken over. The key guard uses this clock.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns columns and rows.
    pub fn size(&self) -> (u16, u16) {
        let size = tcgetwinsize(&self.file).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (size.ws_col, size.ws_row))
    }

    /// Returns the keys that were pressed and not read, however long ago.
    pub fn read_typed_ahead(&mut self) -> io::Result<Vec<KeyPress>> {
        let mut keys = Vec::new();
        // Limited to what the kernel buffers, so that a long paste does not keep it here.
        for _ in 0..16 {
            match self.keys(Duration::ZERO)? {
                TtyEvent::Keys(more) if more.is_empty() => break,
                TtyEvent::Keys(more) => keys.extend(more),
                TtyEvent::End => break,
            }
        }
        Ok(keys)
    }

    /// Discards keys that were typed and not read.
    pub fn drain(&mut self) -> io::Result<()> {
        self.keyboard = KeyParser::default();
        Ok(tcflush(&self.file, QueueSelector::IFlush)?)
    }

    /// Returns the pressed keys. Waits at most this long for the first.
    pub fn keys(&mut self, wait: Duration) -> io::Result<TtyEvent> {
        if !self.is_ready(wait)? {
            return Ok(TtyEvent::Keys(self.keyboard.flush()));
        }
        let mut buffer = vec![0; 4096];
        let read = match self.file.read(&mut buffer) {
            Ok(0) => return Ok(TtyEvent::End),
            Ok(read) => read,
            // The terminal hung up.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                return Ok(TtyEvent::End);
            }
            Err(error) => return Err(error),
        };
        buffer.truncate(read);
        let mut keys = self.keyboard.read(&buffer, true);
        if !self.is_ready(KEY_WAIT)? {
            keys.extend(self.keyboard.flush());
        }
        Ok(TtyEvent::Keys(keys))
    }

    /// Checks whether a drawing is due although nothing has happened: it is old, or the size has changed.
    pub fn needs_refresh(&self) -> bool {
        self.refreshed.is_none_or(|at| self.now() >= at + REFRESH) || self.size() != self.size
    }

    /// Draws. In place, the new rows replace the rows of the last drawing.
    pub fn draw(&mut self, buf: &Buffer, cursor: Option<Position>) -> io::Result<()> {
        let area: Rect = *buf.area();
        let size = self.size();
        self.refreshed = Some(self.now());
        if self.size == size && self.last.as_ref().is_some_and(|last| last.0 == *buf && last.1 == cursor) {
            return Ok(());
        }
        let rows = ansi_output::rows(buf);
        let mut out = String::from("\x1b[?2026h\x1b[?25l\x1b[?7l");
        match self.place {
            DrawMode::Full => out.push_str("\x1b[H"),
            // After a change of width the old rows may be anywhere, so the screen is cleared.
            DrawMode::Inline if self.drawn > 0 && self.size != size => out.push_str("\x1b[2J\x1b[H"),
            DrawMode::Inline if self.drawn > 1 => out.push_str(&format!("\r\x1b[{}A", self.drawn - 1)),
            DrawMode::Inline => out.push('\r'),
        }
        let last = rows.len().saturating_sub(1);
        for (place, row) in rows.iter().enumerate() {
            let end = if place == last { "" } else { "\r\n" };
            out.push_str(&format!("\x1b[2K{row}{end}"));
        }
        out.push_str("\x1b[J");
        if let Some(cursor) = cursor {
            let up = usize::from(area.height.saturating_sub(1).saturating_sub(cursor.y));
            if up > 0 {
                out.push_str(&format!("\x1b[{up}A"));
            }
            out.push_str(&format!("\r\x1b[{}C", cursor.x.max(1)));
            if cursor.x == 0 {
                out.push('\r');
            }
            out.push_str("\x1b[?25h");
            // The next drawing begins at the last row of this one.
            self.drawn = rows.len() - up;
        } else {
            self.drawn = rows.len();
        }
        out.push_str("\x1b[?7h\x1b[?2026l");
        self.size = size;
        self.last = Some((buf.clone(), cursor));
        self.file.write_all(out.as_bytes())?;
        self.file.flush()
    }

    /// Removes the drawing and leaves these lines in its place.
    pub fn replace_with_lines(&mut self, lines: &[String]) -> io::Result<()> {
        let mut out = match (self.place, self.drawn) {
            (DrawMode::Full, _) => String::new(),
            (DrawMode::Inline, 0 | 1) => String::from("\r\x1b[J"),
            (DrawMode::Inline, rows) => format!("\r\x1b[{}A\x1b[J", rows - 1),
        };
        for line in lines {
            out.push_str(line);
            out.push_str("\r\n");
        }
        self.drawn = 0;
        self.last = None;
        self.refreshed = None;
        self.file.write_all(out.as_bytes())?;
        self.file.flush()
    }

    /// Lends the terminal to a program and takes it back.
    pub fn lend<T>(&mut self, run: impl FnOnce() -> T) -> io::Result<T> {
        let before = self.before.clone();
        let raw = tcgetattr(&self.file)?;
        self.replace_with_lines(&[])?;
        let (out, back) = match self.place {
            DrawMode::Full => ("\x1b[?1049l\x1b[?2004l\x1b[?25h", "\x1b[?1049h\x1b[?2004h\x1b[?25l"),
            DrawMode::Inline => ("\x1b[?2004l\x1b[?25h", "\x1b[?2004h\x1b[?25l"),
        };
        self.file.write_all(out.as_bytes())?;
        tcsetattr(&self.file, OptionalActions::Drain, &before)?;
        let result = run();
        tcsetattr(&self.file, OptionalActions::Flush, &raw)?;
        self.file.write_all(back.as_bytes())?;
        self.drain()?;
        Ok(result)
    }

    fn is_ready(&self, wait: Duration) -> io::Result<bool> {
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&wait)) {
            Ok(ready) => Ok(ready > 0),
            // A signal, for example of a resize.
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let screen = if self.place == DrawMode::Full { "\x1b[?1049l" } else { "" };
        let back = format!("\x1b[0m{screen}\x1b[?2004l\x1b[?7h\x1b[?25h");
        // If the terminal was taken away, nothing has to be restored.
        self.file.write_all(back.as_bytes()).unwrap_or_default();
        tcsetattr(&self.file, OptionalActions::Drain, &self.before).unwrap_or_default();
    }
}
