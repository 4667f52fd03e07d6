//! What goes into a command and comes out of it, carried by one thread until everything has ended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::{LaunchError, Printed, ours};

/// The ends of a command's standard streams that are ours.
#[derive(Debug)]
pub(super) struct Streams {
    input: Option<(OwnedFd, Vec<u8>)>,
    outputs: [Output; 2],
    /// How much may still be kept, of both together.
    left: u64,
}

#[derive(Debug)]
struct Output {
    from: Option<OwnedFd>,
    printed: Printed,
}

impl Streams {
    pub(super) fn new(
        to_input: OwnedFd,
        input: &[u8],
        from: [OwnedFd; 2],
        kept_max: u64,
    ) -> Result<Self, LaunchError> {
        for fd in [to_input.as_fd(), from[0].as_fd(), from[1].as_fd()] {
            let flags = fcntl_getfl(fd).map_err(ours("preparing a pipe"))?;
            fcntl_setfl(fd, flags | OFlags::NONBLOCK).map_err(ours("preparing a pipe"))?;
        }
        let mut bytes = input.to_vec();
        // Written from the end of the vector, so that what is left needs no copying.
        bytes.reverse();
        let input = (!bytes.is_empty()).then_some((to_input, bytes));
        let outputs = from.map(|from| Output { from: Some(from), printed: Printed::default() });
        Ok(Self { input, outputs, left: kept_max })
    }

    /// Carries until the process has ended, and with it everything inside; whether that was before the deadline.
    pub(super) fn carry(
        &mut self,
        process: BorrowedFd<'_>,
        deadline: Option<Instant>,
    ) -> Result<bool, LaunchError> {
        // Never filled beforehand: most commands print little.
        let mut buffer = Vec::with_capacity(64 << 10);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let ended = match self.wait(process, left.and_then(|left| Timespec::try_from(left).ok()))? {
                Waited::Nothing => continue,
                Waited::Something => false,
                Waited::Ended => true,
            };
            self.give()?;
            // When the last process has ended, nobody can write any more: all of it is there, and then the end.
            while self.take(&mut buffer)? && ended {}
            if ended {
                return Ok(true);
            }
        }
    }

    fn wait(&self, process: BorrowedFd<'_>, left: Option<Timespec>) -> Result<Waited, LaunchError> {
        let mut polled = vec![PollFd::from_borrowed_fd(process, PollFlags::IN)];
        let outputs = self.outputs.iter().filter_map(|output| output.from.as_ref());
        polled.extend(outputs.map(|from| PollFd::new(from, PollFlags::IN)));
        polled.extend(self.input.as_ref().map(|(to, _)| PollFd::new(to, PollFlags::OUT)));
        match poll(&mut polled, left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(Waited::Nothing),
            Ok(_) => {}
            Err(errno) => return Err(ours("waiting for the command")(errno)),
        }
        let ended = polled.first().is_some_and(|process| !process.revents().is_empty());
        Ok(if ended { Waited::Ended } else { Waited::Something })
    }

    fn give(&mut self) -> Result<(), LaunchError> {
        let Some((to, bytes)) = &mut self.input else { return Ok(()) };
        let next: Vec<u8> = bytes.iter().rev().take(4096).copied().collect();
        match rustix::io::write(&*to, &next) {
            Ok(written) => bytes.truncate(bytes.len() - written),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // It reads no more of it, which is its own affair.
            Err(Errno::PIPE) => bytes.clear(),
            Err(errno) => return Err(ours("writing to the command")(errno)),
        }
        if bytes.is_empty() {
            self.input = None;
        }
        Ok(())
    }

    /// Reads once from each; whether there may be more.
    fn take(&mut self, buffer: &mut Vec<u8>) -> Result<bool, LaunchError> {
        let mut more = false;
        for output in &mut self.outputs {
            let Some(from) = &output.from else { continue };
            buffer.clear();
            match rustix::io::read(from, rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => output.from = None,
                Ok(count) => {
                    more = true;
                    let kept = usize::try_from(self.left).unwrap_or(usize::MAX).min(count);
                    output.printed.bytes.extend(buffer.iter().take(kept));
                    output.printed.dropped += (count - kept) as u64;
                    self.left -= kept as u64;
                }
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => more = true,
                Err(errno) => return Err(ours("reading from the command")(io::Error::from(errno))),
            }
        }
        Ok(more)
    }

    pub(super) fn printed(&mut self) -> [Printed; 2] {
        self.outputs.each_mut().map(|output| std::mem::take(&mut output.printed))
    }
}

enum Waited {
    Nothing,
    Something,
    Ended,
}
