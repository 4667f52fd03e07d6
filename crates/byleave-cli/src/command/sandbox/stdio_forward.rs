//! Forwards a confined command's streams: through its own terminal if we have one, else through pipes.
//!
//! The person's own terminal is never passed to the command. It is in raw mode while the command runs, and is always restored.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use byleave_sandbox::launch::{CommandOutcome, LaunchError, Pipes, StartedCommand};
use byleave_sandbox::plan::TerminalSize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

/// The interval at which a changed window size is noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Returns the size of our terminal, if both input and output are one.
pub(super) fn terminal() -> Option<TerminalSize> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return None;
    }
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(TerminalSize { rows: size.ws_row.max(1), columns: size.ws_col.max(1) })
}

/// Forwards until the command has ended.
pub(super) fn forward_until_exit(mut running: StartedCommand) -> Result<CommandOutcome, LaunchError> {
    if let Some(outer) = running.take_terminal()? {
        let ended = Arc::new(AtomicBool::new(false));
        let raw = RawMode::enter();
        let carried = [between(outer, &ended)];
        let outcome = running.finish();
        ended.store(true, Ordering::Relaxed);
        carried.into_iter().flatten().for_each(drop_thread);
        drop(raw);
        return outcome;
    }
    let Some(Pipes { stdin, stdout, stderr }) = running.take_pipes() else { return running.finish() };
    // Input is not waited for: this thread ends with the program.
    std::thread::spawn(move || io::copy(&mut io::stdin().lock(), &mut File::from(stdin)));
    let out = std::thread::spawn(move || copy(stdout, io::stdout()));
    let err = std::thread::spawn(move || copy(stderr, io::stderr()));
    let outcome = running.finish();
    // Every process has ended, so both threads end.
    [out, err].into_iter().for_each(drop_thread);
    outcome
}

fn drop_thread(thread: std::thread::JoinHandle<()>) {
    thread.join().unwrap_or_default();
}

/// Copies a stream. If the reader is gone, the rest is dropped, so that the command is not blocked.
fn copy(from: OwnedFd, mut to: impl Write) {
    let (mut from, mut buffer) = (File::from(from), vec![0; 16 << 10]);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let Some(part) = buffer.get(..read) else { return };
        to.write_all(part).and_then(|()| to.flush()).unwrap_or_default();
    }
}

/// Starts the two threads between the person's terminal and the command's.
fn between(outer: OwnedFd, ended: &Arc<AtomicBool>) -> Option<std::thread::JoinHandle<()>> {
    let typed = outer.try_clone().ok()?;
    let ended = Arc::clone(ended);
    std::thread::spawn(move || type_in(&typed, &ended));
    Some(std::thread::spawn(move || copy(outer, io::stdout())))
}

/// Forwards keys and the size of the window.
fn type_in(to: &OwnedFd, ended: &AtomicBool) {
    let (stdin, mut buffer) = (io::stdin(), [0; 4096]);
    let mut size = tcgetwinsize(&stdin).ok();
    let patience = Timespec::try_from(LOOK_AGAIN).ok();
    while !ended.load(Ordering::Relaxed) {
        let now = tcgetwinsize(&stdin).ok();
        if let Some(new) =
            now.filter(|new| size.is_none_or(|old| (old.ws_row, old.ws_col) != (new.ws_row, new.ws_col)))
        {
            tcsetwinsize(to, new).unwrap_or_default();
            size = now;
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], patience.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let Ok(read @ 1..) = rustix::io::read(&stdin, &mut buffer) else { return };
        let mut left = buffer.get(..read).unwrap_or_default();
        while !left.is_empty() {
            match rustix::io::write(to, left) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// The person's terminal in raw mode, until it is dropped.
struct RawMode {
    before: Termios,
}

impl RawMode {
    fn enter() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Best effort: a terminal that is gone needs no restoring.
        tcsetattr(io::stdin(), OptionalActions::Now, &self.before).unwrap_or_default();
    }
}
