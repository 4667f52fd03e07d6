//! An approver for a person at a terminal: it shows the full question, then reads a key.
//!
//! It must never accept as an answer keys typed before the question could be read, silence, or the end of input.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use byleave_core::challenge::{Challenge, ChallengeVerdict};
use byleave_core::question::{Assurance, QuestionKind};
use byleave_core::question_view::QuestionView;
use byleave_core::render::Rendering;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;

use super::{Approver, ApproverError, Reply, RiskLevel};
use crate::boxed::BoxFuture;
use crate::plugin_guard::run_isolated;

/// How many invalid answers are accepted before giving up.
const TRIES_MAX: usize = 5;
/// The maximum length of one line of input.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The interval for checking whether a question was withdrawn.
const WITHDRAW_POLL: Duration = Duration::from_millis(100);

/// A console to draw on and to read keys from.
pub trait Console: Send + 'static {
    /// Draws text.
    fn draw(&mut self, text: &str) -> io::Result<()>;
    /// Discards unread input, and everything typed during this time.
    fn drain(&mut self, dwell: Duration) -> io::Result<()>;
    /// Reads typed bytes, and waits at most this long.
    fn read_keys(&mut self, wait: Duration) -> io::Result<KeyInput>;
}

/// The result of waiting for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyInput {
    /// No input yet.
    Timeout,
    /// These bytes.
    Bytes(Vec<u8>),
    /// The end of input.
    Eof,
}

/// An approver for a person at a terminal, asked one question at a time.
pub struct TerminalApprover {
    name: String,
    console: Arc<Mutex<dyn Console>>,
}

impl TerminalApprover {
    /// Opens the terminal that this process was started from.
    pub fn open(name: impl Into<String>) -> io::Result<Self> {
        Self::open_at(name, "/dev/tty")
    }

    /// Opens the terminal at this path.
    #[expect(clippy::disallowed_methods, reason = "a terminal, not a file")]
    pub fn open_at(name: impl Into<String>, path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if !rustix::termios::isatty(&file) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a terminal"));
        }
        Ok(Self::with_console(name, Tty(file)))
    }

    /// Creates an approver for any console.
    pub fn with_console(name: impl Into<String>, console: impl Console) -> Self {
        Self { name: name.into(), console: Arc::new(Mutex::new(console)) }
    }
}

impl Approver for TerminalApprover {
    fn name(&self) -> &str {
        &self.name
    }
    fn assurance(&self) -> Assurance {
        Assurance::Terminal
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        let (kind, gravity, rendering) =
            (sheet.question.kind, RiskLevel::for_question(sheet), rendering.clone());
        let needs_challenge = sheet.needs_challenge();
        let console = Arc::clone(&self.console);
        Box::pin(async move {
            let withdrawn = Arc::new(AtomicBool::new(false));
            // If the question is withdrawn, the thread must release the terminal. Otherwise it would take the next answer.
            let _withdraw = WithdrawOnDrop(Arc::clone(&withdrawn));
            run_isolated(move || {
                let mut console = console.lock();
                TerminalDialog { console: &mut *console, withdrawn: &withdrawn, typed: Vec::new() }.run(
                    kind,
                    gravity,
                    &rendering,
                    needs_challenge,
                )
            })
            .await
        })
    }
}

struct WithdrawOnDrop(Arc<AtomicBool>);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The dialog of one question, from drawing it to its answer.
struct TerminalDialog<'a> {
    console: &'a mut dyn Console,
    withdrawn: &'a AtomicBool,
    typed: Vec<u8>,
}

impl TerminalDialog<'_> {
    fn run(
        &mut self,
        kind: QuestionKind,
        gravity: RiskLevel,
        rendering: &Rendering,
        needs_challenge: bool,
    ) -> Result<Reply, ApproverError> {
        if !rendering.complete {
            return Err(ApproverError::Failed("the question cannot be shown in full on a terminal".into()));
        }
        // Another question may have used the terminal until now.
        if self.withdrawn.load(Ordering::Relaxed) {
            return Err(withdrawn_error());
        }
        let text: String =
            rendering.lines.iter().flat_map(|line| [printable(&line.text), "\n".into()]).collect();
        self.draw(&format!("\n{text}\n"))?;
        self.console.drain(gravity.min_read_time()).map_err(io_error)?;
        for _ in 0..TRIES_MAX {
            let reply = match kind {
                QuestionKind::Checkpoint => self.checkpoint()?,
                QuestionKind::Approval | QuestionKind::Release => {
                    self.read_choice(kind, gravity.confirmation_phrase(kind))?
                }
            };
            match reply {
                Some(Reply::Yes { note }) if needs_challenge => {
                    return Ok(Reply::YesWithChallenge { challenge: self.read_challenge()?, note });
                }
                Some(reply) => return Ok(reply),
                None => {}
            }
        }
        Err(ApproverError::InvalidResponse(format!("no valid answer in {TRIES_MAX} tries")))
    }

    fn read_choice(
        &mut self,
        kind: QuestionKind,
        words: Option<&str>,
    ) -> Result<Option<Reply>, ApproverError> {
        let has_tool = kind == QuestionKind::Approval;
        let result = if has_tool { "[r]esult instead  " } else { "" };
        let answer = self.read_line(&format!("[y]es  [n]o  [e]dit  {result}[a]bort > "))?;
        match answer.to_lowercase().as_str() {
            "y" | "yes" => match words {
                Some(words) => self.confirm(words),
                None => Ok(Some(Reply::Yes { note: None })),
            },
            "n" | "no" => self.read_no().map(Some),
            "e" | "edit" => self.read_edit(),
            "r" | "result" if has_tool => self.read_result(),
            "a" | "abort" => Ok(Some(Reply::Abort)),
            _ => Ok(None),
        }
    }

    /// Asks for typed words, because an irreversible action needs more than one key.
    fn confirm(&mut self, words: &str) -> Result<Option<Reply>, ApproverError> {
        let answer = self.read_line(&format!("this cannot be undone; type `{words}` to go ahead > "))?;
        Ok((answer == words).then_some(Reply::Yes { note: None }))
    }

    /// Asks for the whole word, because an accidental key press must not release a checkpoint.
    fn checkpoint(&mut self) -> Result<Option<Reply>, ApproverError> {
        let answer = self
            .read_line("type `release` to go ahead, `abort` to stop everything, anything else for no > ")?;
        match answer.as_str() {
            "release" => Ok(Some(Reply::Yes { note: None })),
            "abort" => Ok(Some(Reply::Abort)),
            _ => self.read_no().map(Some),
        }
    }

    /// Asks for the case against the call. The gate checks that it is complete.
    fn read_challenge(&mut self) -> Result<Challenge, ApproverError> {
        let assumption = self.read_line("which assumption could be wrong? > ")?;
        let failure = self.read_line("how could it fail? > ")?;
        let reason = self.read_line("why is it right all the same? > ")?;
        let verdict = ChallengeVerdict::Proceed;
        Ok(Challenge { assumptions: vec![assumption], failure_scenarios: vec![failure], verdict, reason })
    }

    fn read_no(&mut self) -> Result<Reply, ApproverError> {
        let feedback = self.read_line("what should the agent do instead? (enter to skip) > ")?;
        Ok(Reply::No { feedback: (!feedback.is_empty()).then_some(feedback) })
    }

    /// Asks for the result that the model gets in the place of the tool's output.
    fn read_result(&mut self) -> Result<Option<Reply>, ApproverError> {
        self.draw(
            "the tool will not run; type the result that the model gets instead, then an empty line\n",
        )?;
        let text = self.read_lines()?;
        if text.trim().is_empty() {
            return self.draw("that is empty\n").map(|()| None);
        }
        Ok(Some(Reply::Result { text: text.trim_end().to_owned() }))
    }

    fn read_edit(&mut self) -> Result<Option<Reply>, ApproverError> {
        self.draw("type the complete replacement as a JSON object, then an empty line\n")?;
        let text = self.read_lines()?;
        match serde_json::from_str::<Value>(&text) {
            Ok(value) if value.is_object() => Ok(Some(Reply::Edit { value, note: None })),
            Ok(_) => self.draw("that is not a JSON object\n").map(|()| None),
            Err(error) => self.draw(&format!("that is not valid JSON: {error}\n")).map(|()| None),
        }
    }

    /// Reads lines up to an empty one.
    fn read_lines(&mut self) -> Result<String, ApproverError> {
        let mut text = String::new();
        loop {
            let line = self.read_line("> ")?;
            if line.is_empty() {
                break;
            }
            text.push_str(&line);
            text.push('\n');
            if text.len() > LINE_BYTES_MAX {
                return Err(ApproverError::InvalidResponse(format!(
                    "the text has more than {LINE_BYTES_MAX} bytes"
                )));
            }
        }
        Ok(text)
    }

    fn draw(&mut self, text: &str) -> Result<(), ApproverError> {
        self.console.draw(text).map_err(io_error)
    }

    /// Reads one line and trims it.
    fn read_line(&mut self, prompt: &str) -> Result<String, ApproverError> {
        self.draw(prompt)?;
        loop {
            if let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=end).collect();
                let line = String::from_utf8(line)
                    .map_err(|_| ApproverError::InvalidResponse("the input is not valid UTF-8".into()))?;
                return Ok(line.trim().to_owned());
            }
            if self.typed.len() > LINE_BYTES_MAX {
                return Err(ApproverError::InvalidResponse(format!(
                    "the line has more than {LINE_BYTES_MAX} bytes"
                )));
            }
            if self.withdrawn.load(Ordering::Relaxed) {
                self.draw("\n(this question no longer needs an answer)\n")?;
                return Err(withdrawn_error());
            }
            match self.console.read_keys(WITHDRAW_POLL).map_err(io_error)? {
                KeyInput::Timeout => {}
                KeyInput::Bytes(bytes) => self.typed.extend_from_slice(&bytes),
                KeyInput::Eof => {
                    return Err(ApproverError::Failed("the terminal was closed without an answer".into()));
                }
            }
        }
    }
}

fn withdrawn_error() -> ApproverError {
    ApproverError::Failed("the question was withdrawn".into())
}

#[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
fn io_error(error: io::Error) -> ApproverError {
    ApproverError::Failed(format!("the terminal failed: {error}"))
}

/// Escapes control characters again. The renderer already did so, but a terminal would act on any that it missed.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// A real terminal.
struct Tty(File);

impl Console for Tty {
    fn draw(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes())?;
        self.0.flush()
    }

    fn drain(&mut self, dwell: Duration) -> io::Result<()> {
        std::thread::sleep(dwell);
        Ok(tcflush(&self.0, QueueSelector::IFlush)?)
    }

    fn read_keys(&mut self, wait: Duration) -> io::Result<KeyInput> {
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(KeyInput::Timeout),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut buffer = vec![0; 4096];
        let read = self.0.read(&mut buffer)?;
        buffer.truncate(read);
        Ok(if buffer.is_empty() { KeyInput::Eof } else { KeyInput::Bytes(buffer) })
    }
}
