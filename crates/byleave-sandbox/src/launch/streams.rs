//! Transfers the input and output of a command in one thread, until everything has ended.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::termios::isatty;

use super::{CapturedOutput, LaunchError, internal_error};

/// Our ends of a command's standard streams.
#[derive(Debug)]
pub(super) struct CommandStreams {
    input: Option<(OwnedFd, Vec<u8>)>,
    /// Input for a terminal that has not been received yet.
    to_type: Vec<u8>,
    outputs: [OutputStream; 2],
    /// How many bytes may still be kept, of both outputs together.
    left: u64,
    /// The streams that the caller handles.
    pipes: Option<Pipes>,
    /// The receiver of all output, which is then not kept.
    pass_on: Option<OutputForwarder>,
}

/// A receiver of output.
pub(super) type OutputSink = Box<dyn FnMut(&[u8]) + Send + Sync>;

struct OutputForwarder(OutputSink);

impl fmt::Debug for OutputForwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassOn")
    }
}

/// The ends of a command's standard streams, for a caller that handles them. They block.
#[derive(Debug)]
pub struct Pipes {
    /// The input of the command.
    pub stdin: OwnedFd,
    /// Its output.
    pub stdout: OwnedFd,
    /// Its errors.
    pub stderr: OwnedFd,
}

#[derive(Debug)]
struct OutputStream {
    from: Option<OwnedFd>,
    printed: CapturedOutput,
    /// Whether currently no process inside has the terminal open. It is kept, because closing it would end the command.
    hung: bool,
}

impl OutputStream {
    fn new(from: Option<OwnedFd>) -> Self {
        Self { from, printed: CapturedOutput::default(), hung: false }
    }
}

/// How often remaining output is read after a command has ended: more than any pipe or terminal holds.
const READS_AFTER_END: usize = 256;
/// How soon to check a terminal again that no process has open, because the kernel does not notify.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl CommandStreams {
    pub(super) fn new(
        to_input: Option<OwnedFd>,
        input: &[u8],
        from: [Option<OwnedFd>; 2],
        kept_max: u64,
    ) -> Result<Self, LaunchError> {
        for fd in from.iter().flatten().chain(&to_input) {
            nonblocking(fd, true)?;
        }
        let bytes = reversed(input);
        let input = to_input.filter(|_| !bytes.is_empty()).map(|to| (to, bytes));
        let outputs = from.map(OutputStream::new);
        Ok(Self { input, to_type: Vec::new(), outputs, left: kept_max, pipes: None, pass_on: None })
    }

    /// Creates streams that the caller handles.
    pub(super) fn for_caller(stdin: OwnedFd, [stdout, stderr]: [OwnedFd; 2]) -> Self {
        let outputs = [(); 2].map(|()| OutputStream::new(None));
        let pipes = Some(Pipes { stdin, stdout, stderr });
        Self { input: None, to_type: Vec::new(), outputs, left: 0, pipes, pass_on: None }
    }

    /// Gives the streams to the caller that handles them.
    pub(super) fn take_pipes(&mut self) -> Option<Pipes> {
        self.pipes.take()
    }

    /// Sends output to this listener as it arrives.
    pub(super) fn forward_output(&mut self, to: OutputSink) {
        self.pass_on = Some(OutputForwarder(to));
    }

    /// Creates the streams of a terminal that is still to be received.
    pub(super) fn pending_terminal(input: &[u8], kept_max: u64) -> Self {
        const END: u8 = 4;
        // At the beginning of a line this character is the end of input. Within a line, the first one only submits the line.
        let ends: &[u8] = if matches!(input.last(), None | Some(b'\n')) { &[END] } else { &[END, END] };
        let outputs = [(); 2].map(|()| OutputStream::new(None));
        let to_type = reversed(&[input, ends].concat());
        Self { input: None, to_type, outputs, left: kept_max, pipes: None, pass_on: None }
    }

    /// Sets the received terminal.
    pub(super) fn set_terminal(&mut self, outer: OwnedFd) -> Result<(), LaunchError> {
        nonblocking(&outer, true)?;
        let typed = outer.try_clone().map_err(internal_error("copying a descriptor"))?;
        self.input = Some((typed, std::mem::take(&mut self.to_type)));
        let [shown, _] = &mut self.outputs;
        shown.from = Some(outer);
        Ok(())
    }

    /// Gives the terminal away, if there is one.
    pub(super) fn take_terminal(&mut self) -> Result<Option<OwnedFd>, LaunchError> {
        let [shown, other] = &mut self.outputs;
        let is_terminal = |from: &mut OwnedFd| other.from.is_none() && isatty(from);
        let taken = shown.from.take_if(is_terminal);
        if let Some(outer) = &taken {
            self.input = None;
            nonblocking(outer, false)?;
        }
        Ok(taken)
    }

    /// Transfers until the process and all others inside have ended. Returns whether that was before the deadline.
    pub(super) fn copy_until_end(
        &mut self,
        process: BorrowedFd<'_>,
        deadline: Option<Instant>,
    ) -> Result<bool, LaunchError> {
        // Not zeroed beforehand, because most commands print little.
        let mut buffer = Vec::with_capacity(64 << 10);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let hung = self.outputs.iter().any(|output| output.hung);
            let patience =
                if hung { Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN))) } else { left };
            let ended = match self.wait(process, patience.and_then(|left| Timespec::try_from(left).ok()))? {
                WaitResult::Nothing if !hung => continue,
                WaitResult::Nothing => false,
                WaitResult::Something => false,
                WaitResult::Ended => true,
            };
            self.give()?;
            // When the last process has ended, all output is there, followed by the end. The exception is output that was handed
            // to another command of the session, which is not waited for.
            let mut reads = 0;
            while self.take(&mut buffer)? && ended && reads < READS_AFTER_END {
                reads += 1;
            }
            if ended {
                return Ok(true);
            }
        }
    }

    fn wait(&self, process: BorrowedFd<'_>, left: Option<Timespec>) -> Result<WaitResult, LaunchError> {
        let mut polled = vec![PollFd::from_borrowed_fd(process, PollFlags::IN)];
        let outputs = self.outputs.iter().filter(|output| !output.hung);
        let outputs = outputs.filter_map(|output| output.from.as_ref());
        polled.extend(outputs.map(|from| PollFd::new(from, PollFlags::IN)));
        polled.extend(self.input.as_ref().map(|(to, _)| PollFd::new(to, PollFlags::OUT)));
        match poll(&mut polled, left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(WaitResult::Nothing),
            Ok(_) => {}
            Err(errno) => return Err(internal_error("waiting for the command")(errno)),
        }
        let ended = polled.first().is_some_and(|process| !process.revents().is_empty());
        Ok(if ended { WaitResult::Ended } else { WaitResult::Something })
    }

    fn give(&mut self) -> Result<(), LaunchError> {
        let Some((to, bytes)) = &mut self.input else { return Ok(()) };
        let next: Vec<u8> = bytes.iter().rev().take(4096).copied().collect();
        match rustix::io::write(&*to, &next) {
            Ok(written) => bytes.truncate(bytes.len() - written),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The command does not read any more, which is not an error. A terminal that no process has open returns another
            // error.
            Err(Errno::PIPE | Errno::IO) => bytes.clear(),
            Err(errno) => return Err(internal_error("writing to the command")(errno)),
        }
        if bytes.is_empty() {
            self.input = None;
        }
        Ok(())
    }

    /// Reads once from each stream. Returns whether there may be more.
    fn take(&mut self, buffer: &mut Vec<u8>) -> Result<bool, LaunchError> {
        let mut more = false;
        for output in &mut self.outputs {
            let Some(from) = &output.from else { continue };
            buffer.clear();
            match rustix::io::read(from, rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => output.from = None,
                Err(Errno::IO) => output.hung = true,
                Ok(count) => {
                    output.hung = false;
                    more = true;
                    if let Some(OutputForwarder(to)) = &mut self.pass_on {
                        to(buffer);
                        continue;
                    }
                    let kept = usize::try_from(self.left).unwrap_or(usize::MAX).min(count);
                    output.printed.bytes.extend(buffer.iter().take(kept));
                    output.printed.dropped_bytes += (count - kept) as u64;
                    self.left -= kept as u64;
                }
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => more = true,
                Err(errno) => return Err(internal_error("reading from the command")(io::Error::from(errno))),
            }
        }
        Ok(more)
    }

    pub(super) fn take_output(&mut self) -> [CapturedOutput; 2] {
        self.outputs.each_mut().map(|output| std::mem::take(&mut output.printed))
    }
}

/// Reverses the input. It is written from the end of the vector, so that the rest need not be copied.
fn reversed(input: &[u8]) -> Vec<u8> {
    input.iter().rev().copied().collect()
}

fn nonblocking(fd: &OwnedFd, wanted: bool) -> Result<(), LaunchError> {
    let mut flags = fcntl_getfl(fd).map_err(internal_error("preparing a descriptor"))?;
    flags.set(OFlags::NONBLOCK, wanted);
    fcntl_setfl(fd, flags).map_err(internal_error("preparing a descriptor"))
}

enum WaitResult {
    Nothing,
    Something,
    Ended,
}
