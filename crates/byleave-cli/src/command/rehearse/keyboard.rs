//! Reads single keys from a person until Ctrl-C. The program handles that signal while it works, so the signal does not end a read by
//! itself.

use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// The result of a prompt.
pub(super) enum KeyboardInput {
    /// A key, in lower case.
    Key(char),
    /// The input has ended.
    End,
    /// Ctrl-C was pressed.
    Interrupt,
    /// The question was answered in another place.
    Answered,
}

/// Ends when the question is answered in another place. It must not be polled again after that.
pub(super) type QuestionClosed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// How long the keyboard must be quiet before the first key counts, if somebody was typing.
const QUIET: Duration = Duration::from_millis(600);
/// The maximum number of such waits.
const QUIET_WAITS_MAX: usize = 50;
/// Ctrl-D.
const END: u8 = 4;

/// The person's keyboard in single-key mode.
pub(super) struct KeyReader {
    keys: mpsc::Receiver<io::Result<Option<u8>>>,
    wanted: std::sync::mpsc::Sender<()>,
    interrupts: Signal,
    _mode: SingleKeyMode,
}

/// The terminal in single-key mode until it is dropped. Ctrl-C still sends its signal.
struct SingleKeyMode(Termios);

impl SingleKeyMode {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut single = before.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Drain, &single)?;
        Ok(Self(before))
    }
}

impl Drop for SingleKeyMode {
    fn drop(&mut self) {
        // If the terminal was taken away, nothing has to be restored.
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.0).unwrap_or_default();
    }
}

impl KeyReader {
    pub(super) fn new() -> Result<Self> {
        let (send, keys) = mpsc::channel(1);
        let (wanted, next) = std::sync::mpsc::channel();
        // A detached thread, because a read cannot be cancelled.
        std::thread::spawn(move || {
            while next.recv().is_ok() {
                let mut key = [0];
                let read = io::stdin().read(&mut key);
                let [key] = key;
                if send.blocking_send(read.map(|bytes| (bytes > 0).then_some(key))).is_err() {
                    return;
                }
            }
        });
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let mode = SingleKeyMode::enter().context("cannot read single keys")?;
        Ok(Self { keys, wanted, interrupts, _mode: mode })
    }

    /// Discards the keys that were typed until now. They were not typed for the next question. Waits until the keyboard is quiet.
    pub(super) fn discard_typed_ahead(&self) -> Result<()> {
        for _ in 0..QUIET_WAITS_MAX {
            let ready = poll(
                &mut [PollFd::new(&io::stdin(), PollFlags::IN)],
                Some(&Timespec { tv_sec: 0, tv_nsec: 0 }),
            );
            if ready.unwrap_or(0) == 0 {
                break;
            }
            tcflush(io::stdin(), QueueSelector::IFlush)?;
            std::thread::sleep(QUIET);
        }
        Ok(())
    }

    /// Asks for one of these keys. Other keys are ignored.
    pub(super) async fn prompt(
        &mut self,
        text: &str,
        choices: &str,
        answered: &mut QuestionClosed<'_>,
    ) -> Result<KeyboardInput> {
        let mut talk = io::stderr();
        write!(talk, "{text}").and_then(|()| talk.flush())?;
        loop {
            self.wanted.send(()).context("the keyboard reader has stopped")?;
            let key = tokio::select! {
                biased;
                _ = self.interrupts.recv() => {
                    writeln!(talk)?;
                    return Ok(KeyboardInput::Interrupt);
                }
                () = &mut *answered => {
                    writeln!(talk)?;
                    return Ok(KeyboardInput::Answered);
                }
                key = self.keys.recv() => key.context("the keyboard reader has stopped")??,
            };
            match key {
                None | Some(END) => return Ok(KeyboardInput::End),
                Some(key) => {
                    let key = char::from(key.to_ascii_lowercase());
                    if choices.contains(key) {
                        // The terminal does not show the key itself.
                        writeln!(talk, "{key}")?;
                        return Ok(KeyboardInput::Key(key));
                    }
                }
            }
        }
    }
}
