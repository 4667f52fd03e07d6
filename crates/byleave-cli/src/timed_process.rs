//! Runs another program with a limit for its time and its output. When the time is up, it ends the program and everything that it started.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// The maximum size of what is read from each stream.
const OUTPUT_BYTES_MAX: u64 = 8 << 20;

/// What a program left.
#[derive(Debug)]
pub(crate) struct TimedOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program to its end. Fails if it cannot be started or does not end in time.
pub(crate) fn run(command: &mut Command, input: &str, limit: Duration) -> Result<TimedOutput> {
    let until = Instant::now() + limit;
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = RunningProcess(command.spawn()?);
    let (stdout, stderr) = (reader(child.0.stdout.take()), reader(child.0.stderr.take()));
    let stdin = child.0.stdin.take();
    let input = input.as_bytes().to_vec();
    // A detached thread, because a program that hangs may never read.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let late = || format!("`{program}` did not answer within {} s", limit.as_secs());
    while child.0.try_wait()?.is_none() {
        anyhow::ensure!(Instant::now() < until, late());
        // Waiting for a child with a time limit requires polling.
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = child.0.wait()?;
    // Something that it started may keep the streams open.
    let read = |stream: Receiver<String>| {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
        stream.recv_timeout(left).with_context(late)
    };
    Ok(TimedOutput { status, stdout: read(stdout)?, stderr: read(stderr)? })
}

fn reader(stream: Option<impl std::io::Read + Send + 'static>) -> Receiver<String> {
    let (done, reading) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stream.map(|stream| stream.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes));
        // The receiver may have given up, and part of an output is better than none.
        drop((read, done.send(String::from_utf8_lossy(&bytes).into_owned())));
    });
    reading
}

/// A process that ends with this value, together with everything in its group.
pub(crate) struct RunningProcess(pub(crate) Child);

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // A process that was waited for has no group of its own any more.
        if matches!(self.0.try_wait(), Ok(None)) {
            let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
            // It may have ended by itself in the meantime.
            group.and_then(|group| kill_process_group(group, Signal::KILL).err());
            drop(self.0.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let line = format!("sleep 1000 & echo $! > {}; kill -STOP $$", pid.display());
        let mut command = Command::new("/bin/sh");
        let error = run(command.args(["-c", &line]), "", Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("did not answer within 1 s"), "{error:#}");
        if let Ok(pid) = std::fs::read_to_string(pid) {
            let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            while !(stat().is_empty() || stat().contains(") Z")) {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn input_output_and_status_are_those_of_the_program() {
        let mut command = Command::new("/bin/sh");
        let said =
            run(command.args(["-c", "cat; echo no >&2; exit 3"]), "yes", Duration::from_secs(60)).unwrap();
        assert_eq!(
            (said.stdout.as_str(), said.stderr.as_str(), said.status.code()),
            ("yes", "no\n", Some(3))
        );
    }
}
