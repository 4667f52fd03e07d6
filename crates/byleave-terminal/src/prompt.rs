//! The prompt: one question, drawn in place where a program runs.
//!
//! It holds the terminal while it asks. Other output of this program waits until it is done ([`crate::stderr_hold`]).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use byleave_core::escape::{EscapeLevel, make_visible};
use byleave_core::question::Assurance;
use byleave_core::question_view::QuestionView;
use byleave_core::render::Rendering;
use byleave_gate::approver::{Approver, ApproverError, Reply};
use byleave_gate::boxed::BoxFuture;
use parking_lot::Mutex;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::prompt_settings::PromptSettings;
use crate::question_backend::QuestionBackend;
use crate::question_dialog::{DialogEvent, DialogSettings, QuestionDialog, offered_scopes};
use crate::text::now;
use crate::tty::{DrawMode, Tty, TtyEvent};
use crate::{editor, stderr_hold};

/// The interval at which the remaining time and a withdrawal of the question are checked.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A person at a terminal who is asked one question at a time, in place.
pub struct Prompt {
    name: String,
    path: PathBuf,
    manner: PromptSettings,
    backing: Arc<dyn QuestionBackend>,
    /// Locked while a question is asked. Holds the time of the last key at an unanswered question, for the next one.
    turn: Arc<Mutex<Option<Instant>>>,
}

impl Prompt {
    /// Opens the terminal at this path, most often `/dev/tty`.
    pub fn open(
        name: impl Into<String>,
        path: impl AsRef<Path>,
        manner: PromptSettings,
        backing: Arc<dyn QuestionBackend>,
    ) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
        if !rustix::termios::isatty(&file) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a terminal"));
        }
        Ok(Self { name: name.into(), path, manner, backing, turn: Arc::default() })
    }
}

impl Approver for Prompt {
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
        let is_complete = rendering.complete;
        let asking = ActivePrompt {
            sheet: sheet.clone(),
            path: self.path.clone(),
            manner: self.manner.clone(),
            backing: Arc::clone(&self.backing),
            withdrawn: Arc::new(AtomicBool::new(false)),
        };
        let turn = Arc::clone(&self.turn);
        Box::pin(async move {
            if !is_complete {
                return Err(failed("the question cannot be shown in full on a terminal"));
            }
            // If the caller stops waiting, the thread must release the terminal. Otherwise it would take the next answer.
            let _withdraw = WithdrawPromptGuard(Arc::clone(&asking.withdrawn));
            let asked = tokio::task::spawn_blocking(move || {
                let mut turn = turn.lock();
                asking.hold(&mut turn)
            });
            asked.await.unwrap_or_else(|_| Err(failed("the prompt failed")))
        })
    }
}

struct WithdrawPromptGuard(Arc<AtomicBool>);

impl Drop for WithdrawPromptGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One question, from its first drawing to its answer.
struct ActivePrompt {
    sheet: QuestionView,
    path: PathBuf,
    manner: PromptSettings,
    backing: Arc<dyn QuestionBackend>,
    withdrawn: Arc<AtomicBool>,
}

impl ActivePrompt {
    fn hold(&self, wrote: &mut Option<Instant>) -> Result<Reply, ApproverError> {
        // Another question may have held the terminal until now.
        if self.withdrawn.load(Ordering::Relaxed) {
            return Err(failed("the question was withdrawn"));
        }
        let _floor = stderr_hold::hold_stderr();
        let mut tty = Tty::open(&self.path, DrawMode::Inline).map_err(|error| broke(&error))?;
        let held = self.converse(&mut tty, wrote);
        let last = self.last_words(&held);
        tty.replace_with_lines(&[last]).map_err(|error| broke(&error))?;
        held
    }

    fn converse(&self, tty: &mut Tty, wrote: &mut Option<Instant>) -> Result<Reply, ApproverError> {
        // Keys typed until now were not typed for this question.
        let ahead = tty.read_typed_ahead().map_err(|error| broke(&error))?;
        let undo = self.backing.last_change();
        let setting = DialogSettings { undo, can_answer_later: true, ..self.manner.setting() };
        let mut dialogue =
            QuestionDialog::new(vec![self.sheet.clone()], offered_scopes(&self.sheet), setting);
        if let Some(ago) = wrote.map(|wrote| wrote.elapsed()) {
            dialogue.note_interrupted_typing(tty.now(), ago);
        }
        dialogue.note_typed_ahead(tty.now(), &ahead);
        self.draw(tty, &mut dialogue)?;
        self.backing.notify_waiting(&self.sheet);
        let held = self.listen(tty, &mut dialogue);
        // A person who has answered is here and reads.
        *wrote = match &held {
            Ok(_) => None,
            Err(_) => dialogue
                .time_since_typing(tty.now())
                .and_then(|ago| Instant::now().checked_sub(ago))
                .or(*wrote),
        };
        held
    }

    fn listen(&self, tty: &mut Tty, dialogue: &mut QuestionDialog) -> Result<Reply, ApproverError> {
        loop {
            if self.withdrawn.load(Ordering::Relaxed) {
                return Err(failed("the question was withdrawn"));
            }
            if now() >= dialogue.expires_at() {
                return Err(failed("the question expired"));
            }
            let keys = match tty.keys(LOOK_UP).map_err(|error| broke(&error))? {
                TtyEvent::Keys(keys) => keys,
                TtyEvent::End => return Err(failed("the terminal was closed without an answer")),
            };
            let is_changed = !keys.is_empty();
            for key in keys {
                let step = dialogue.key(tty.now(), &key);
                if let Some(reply) = self.step(tty, dialogue, step)? {
                    return Ok(reply);
                }
            }
            if is_changed || tty.needs_refresh() {
                self.draw(tty, dialogue)?;
            }
        }
    }

    fn step(
        &self,
        tty: &mut Tty,
        dialogue: &mut QuestionDialog,
        step: DialogEvent,
    ) -> Result<Option<Reply>, ApproverError> {
        match step {
            DialogEvent::Stay => {}
            DialogEvent::Back => return Err(ApproverError::Later),
            DialogEvent::Reply(reply) => return Ok(Some(reply)),
            DialogEvent::PreviewApproval(leave) => {
                self.draw(tty, dialogue)?;
                dialogue.set_covered_calls(self.backing.covered_calls(&leave));
            }
            DialogEvent::Undo => {
                dialogue.show_message(self.backing.undo());
            }
            DialogEvent::Editor(text) => {
                let edited =
                    tty.lend(|| editor::edit(&self.manner.editor, &text)).map_err(|error| broke(&error))?;
                dialogue.set_edited_text(edited);
            }
        }
        Ok(None)
    }

    fn draw(&self, tty: &mut Tty, dialogue: &mut QuestionDialog) -> Result<(), ApproverError> {
        let (columns, rows) = tty.size();
        let wanted = u16::try_from(dialogue.height(columns)).unwrap_or(u16::MAX);
        let area = Rect::new(0, 0, columns, wanted.clamp(4, rows.max(4)));
        let mut buf = Buffer::empty(area);
        let left = Duration::from_millis(dialogue.expires_at().saturating_sub(now()));
        let cursor = dialogue.draw(area, &mut buf, tty.now(), Some(left));
        tty.draw(&buf, cursor).map_err(|error| broke(&error))
    }

    /// Says how the question was answered in another place, if it was.
    fn answered_elsewhere(&self) -> Option<String> {
        let is_withdrawn = self.withdrawn.load(Ordering::Relaxed);
        is_withdrawn.then(|| self.backing.answered_elsewhere(&self.sheet)).flatten()
    }

    /// Returns the line that stays on the screen after a question is gone.
    fn last_words(&self, held: &Result<Reply, ApproverError>) -> String {
        let tool = make_visible(&self.sheet.resolved_tool.tool, EscapeLevel::Name);
        let came = match held {
            Ok(Reply::Yes { .. } | Reply::YesWithChallenge { .. }) => "yes".to_owned(),
            Ok(Reply::No { feedback: None }) => "no".to_owned(),
            Ok(Reply::No { feedback: Some(text) }) => {
                format!("no: {}", make_visible(text, EscapeLevel::Text))
            }
            Ok(Reply::Edit { .. }) => "edited".to_owned(),
            Ok(Reply::Partial { paths, .. }) => format!("partly: {} changes applied", paths.len()),
            Ok(Reply::StandingApproval(_)) => "yes, with a standing approval".to_owned(),
            Ok(Reply::Result { .. }) => "answered in the place of the tool".to_owned(),
            Ok(Reply::Abort) => "abort".to_owned(),
            Err(ApproverError::Later) => "left open for a later answer".to_owned(),
            Err(_) if let Some(answer) = self.answered_elsewhere() => {
                format!("answered elsewhere: {}", make_visible(&answer, EscapeLevel::Text))
            }
            Err(fault) => format!("not answered: {}", make_visible(&fault.to_string(), EscapeLevel::Text)),
        };
        format!("asked about {tool}: {came}")
    }
}

fn failed(why: &str) -> ApproverError {
    ApproverError::Failed(why.to_owned())
}

fn broke(error: &io::Error) -> ApproverError {
    ApproverError::Failed(format!("the terminal failed: {error}"))
}
