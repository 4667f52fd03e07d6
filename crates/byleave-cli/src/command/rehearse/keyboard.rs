//! Reads lines from a person until Ctrl-C. The program handles that signal while it works, so the signal does not end a read by
//! itself.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// The result of a prompt.
pub(super) enum KeyboardInput {
    /// A line, trimmed and in lower case.
    Line(String),
    /// The input has ended.
    End,
    /// Ctrl-C was pressed.
    Interrupt,
}

/// The person's keyboard.
pub(super) struct LineReader {
    lines: mpsc::Receiver<io::Result<Option<String>>>,
    wanted: std::sync::mpsc::Sender<()>,
    interrupts: Signal,
}

impl LineReader {
    pub(super) fn new() -> Result<Self> {
        let (send, lines) = mpsc::channel(1);
        let (wanted, next) = std::sync::mpsc::channel();
        // A detached thread, because a read cannot be cancelled.
        std::thread::spawn(move || {
            while next.recv().is_ok() {
                let mut line = String::new();
                let read = io::stdin().read_line(&mut line);
                if send.blocking_send(read.map(|bytes| (bytes > 0).then_some(line))).is_err() {
                    return;
                }
            }
        });
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        Ok(Self { lines, wanted, interrupts })
    }

    /// Asks for a line.
    pub(super) async fn prompt(&mut self, text: &str) -> Result<KeyboardInput> {
        let mut talk = io::stderr();
        write!(talk, "{text}").and_then(|()| talk.flush())?;
        self.wanted.send(()).context("the keyboard reader has stopped")?;
        tokio::select! {
            biased;
            _ = self.interrupts.recv() => {
                writeln!(talk)?;
                Ok(KeyboardInput::Interrupt)
            }
            line = self.lines.recv() => Ok(match line.context("the keyboard reader has stopped")?? {
                Some(line) => KeyboardInput::Line(line.trim().to_lowercase()),
                None => KeyboardInput::End,
            }),
        }
    }
}
