//! A reviewer that is a program. It gets the subject on standard input and writes its opinion to standard output.
//!
//! An exit status other than 0, or any output that is not an opinion, is an objection. The program and its process group
//! are killed when the gate stops waiting for it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use byleave_core::outcome::Output;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::protocol::{WireOpinion, WireSubject, parse_response};
use crate::boxed::BoxFuture;
use crate::review::{InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewError};

/// The maximum output that is read from a program.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
/// The maximum length of a program's error message that is reported.
const COMPLAINT_CHARS_MAX: usize = 400;

/// A reviewer of arguments or results that is a program of the operator.
#[derive(Clone, Debug)]
pub struct ProgramReviewer {
    name: String,
    path: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// The error for a program that cannot be a reviewer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an absolute path; give the full path of the reviewer, so that no other program can take its place", .0.display())]
pub struct InvalidProgramError(pub PathBuf);

impl ProgramReviewer {
    /// Creates a reviewer that runs the program at this absolute path, in `/`, with only `PATH` in its environment.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Result<Self, InvalidProgramError> {
        let path = path.into();
        if !path.is_absolute() {
            return Err(InvalidProgramError(path));
        }
        Ok(Self { name: name.into(), path, arguments: Vec::new(), environment: Vec::new() })
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    async fn review_with_program<T: for<'de> Deserialize<'de>>(
        &self,
        subject: WireSubject<'_>,
    ) -> Result<Opinion<T>, ReviewError> {
        let answer = self.run(subject.to_bytes()?).await?;
        Ok(parse_response::<WireOpinion<T>>(&answer)?.into())
    }

    async fn run(&self, subject: Vec<u8>) -> Result<Vec<u8>, ReviewError> {
        let failed = |what: &str| {
            let path = self.path.display().to_string();
            let what = what.to_owned();
            move |error: std::io::Error| ReviewError::Failed(format!("cannot {what} `{path}`: {error}"))
        };
        let mut child = Command::new(&self.path)
            .args(&self.arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed("start"))?;
        let mut group = ProcessGroupGuard::new(child.id());
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async move {
            // A program may decide without reading everything, so a closed pipe is not a failure.
            if let Some(mut stdin) = stdin
                && let Err(error) = stdin.write_all(&subject).await
            {
                tracing::debug!(%error, "a reviewer program did not read all of its input");
            }
        };
        let ((), stdout, stderr) = tokio::join!(feed, drain(stdout), drain(stderr));
        let (stdout, stderr) = (stdout.map_err(failed("read"))?, stderr.map_err(failed("read"))?);
        if stdout.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(ReviewError::InvalidResponse(format!(
                "the answer has more than {OUTPUT_BYTES_MAX} bytes"
            )));
        }
        let status = child.wait().await.map_err(failed("wait for"))?;
        group.disarm();
        if !status.success() {
            let complaint: String =
                String::from_utf8_lossy(&stderr).trim().chars().take(COMPLAINT_CHARS_MAX).collect();
            return Err(ReviewError::Failed(format!(
                "`{}` ended with {status}: {complaint}",
                self.path.display()
            )));
        }
        Ok(stdout)
    }
}

/// Reads to the end or to just past the limit. Then it closes the pipe, which stops a program that continues to write.
async fn drain(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// A guard that kills a process group when dropped, until its leader was waited for. After that the id may be reused.
struct ProcessGroupGuard(Option<Pid>);

impl ProcessGroupGuard {
    fn new(leader: Option<u32>) -> Self {
        Self(leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "a reviewer program ended before it could be killed");
        }
    }
}

impl InputReviewer for ProgramReviewer {
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        Box::pin(self.review_with_program(subject.into()))
    }
}

impl OutputReviewer for ProgramReviewer {
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        Box::pin(self.review_with_program(subject.into()))
    }
}
