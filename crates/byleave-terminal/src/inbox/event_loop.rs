//! Runs the inbox on a terminal. Slow work runs on threads of its own, so that the screen never blocks.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use byleave_core::id::QuestionId;
use byleave_core::question_view::QuestionView;
use byleave_gate::approver::Reply;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Inbox, InboxAction, InboxItem};
use crate::editor;
use crate::prompt_settings::PromptSettings;
use crate::question_backend::QuestionBackend;
use crate::question_dialog::offered_scopes;
use crate::stderr_hold;
use crate::text::now;
use crate::tty::{DrawMode, Tty, TtyEvent};

/// The interval at which the screen checks for events.
const LOOK_UP: Duration = Duration::from_millis(50);
/// The interval at which the audit log is checked for changes.
const LOOK_OUT: Duration = Duration::from_millis(250);

/// The backend of an inbox. Called on the inbox's own threads, and may block.
pub trait InboxBackend: QuestionBackend {
    /// Returns a number that changes whenever the audit log changes. Must be cheap.
    fn version(&self) -> u64;
    /// Returns the open questions.
    fn open(&self) -> Result<Vec<InboxItem>, String>;
    /// Reads the view of a question from the verified record.
    fn question_view(&self, question: QuestionId) -> Result<QuestionView, String>;
    /// Gives an answer, continues the call, and returns the result in words.
    fn answer(&self, sheet: &QuestionView, reply: Reply) -> Result<String, String>;
}

/// An event from a background thread.
enum InboxEvent {
    /// The open questions, and what an undo would revert.
    Questions(Vec<InboxItem>, Option<String>),
    Told(String),
    Past(Vec<String>),
    Aborted,
    Nothing,
}

/// The way in which the inbox ended.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one, at the end")]
pub enum InboxExit {
    /// The person answered the only question.
    Answered(QuestionView, Reply),
    /// The person quit.
    Quit,
    /// The person aborted everything.
    Aborted,
    /// The terminal is gone, or the program was asked to end.
    TerminalClosed,
}

/// Shows the inbox until the person quits or `ends` is set.
pub fn run(
    path: &Path,
    manner: &PromptSettings,
    clerk: &Arc<dyn InboxBackend>,
    ends: &AtomicBool,
) -> io::Result<InboxExit> {
    show(path, manner, clerk, ends, None)
}

/// Shows one question, opened, until it is answered, put away or gone. The caller gives the answer to the gate.
pub fn run_one(
    path: &Path,
    manner: &PromptSettings,
    clerk: &Arc<dyn InboxBackend>,
    ends: &AtomicBool,
    question: QuestionId,
) -> io::Result<InboxExit> {
    show(path, manner, clerk, ends, Some(question))
}

fn show(
    path: &Path,
    manner: &PromptSettings,
    clerk: &Arc<dyn InboxBackend>,
    ends: &AtomicBool,
    only: Option<QuestionId>,
) -> io::Result<InboxExit> {
    let _floor = stderr_hold::hold_stderr();
    let mut tty = Tty::open(path, DrawMode::Full)?;
    let mut inbox = Inbox::new(manner.setting());
    let (tell, news) = channel();
    let watching = Arc::new(AtomicBool::new(true));
    look_out(Arc::clone(clerk), tell.clone(), Arc::clone(&watching));
    let mut shown = InboxScreen { tty: &mut tty, inbox: &mut inbox, manner, clerk, tell, news, only };
    let read = only.map_or(Ok(()), |question| shown.read(&[question]));
    let left = read.and_then(|()| shown.go(ends));
    watching.store(false, Ordering::Relaxed);
    left
}

/// Sends the open questions whenever the audit log has changed.
fn look_out(clerk: Arc<dyn InboxBackend>, tell: Sender<InboxEvent>, watching: Arc<AtomicBool>) {
    thread::spawn(move || {
        let mut stamp = None;
        while watching.load(Ordering::Relaxed) {
            let seen = clerk.version();
            if stamp != Some(seen) {
                stamp = Some(seen);
                let news = match clerk.open() {
                    Ok(items) => InboxEvent::Questions(items, clerk.last_change()),
                    Err(why) => InboxEvent::Told(format!("cannot read the open questions: {why}")),
                };
                if tell.send(news).is_err() {
                    return;
                }
            }
            thread::sleep(LOOK_OUT);
        }
    });
}

struct InboxScreen<'a> {
    tty: &'a mut Tty,
    inbox: &'a mut Inbox,
    manner: &'a PromptSettings,
    clerk: &'a Arc<dyn InboxBackend>,
    tell: Sender<InboxEvent>,
    news: Receiver<InboxEvent>,
    /// The only question that may be answered.
    only: Option<QuestionId>,
}

impl InboxScreen<'_> {
    fn go(mut self, ends: &AtomicBool) -> io::Result<InboxExit> {
        let mut is_changed = true;
        loop {
            while let Ok(news) = self.news.try_recv() {
                is_changed = true;
                match news {
                    InboxEvent::Questions(items, undo) => {
                        self.inbox.questions(items);
                        self.inbox.last_change(undo);
                    }
                    InboxEvent::Told(text) => self.inbox.show_message(text),
                    InboxEvent::Past(words) => self.inbox.set_covered_calls(words),
                    InboxEvent::Nothing => {}
                    InboxEvent::Aborted => return Ok(InboxExit::Aborted),
                }
            }
            if is_changed || self.tty.needs_refresh() {
                self.draw()?;
            }
            if ends.load(Ordering::Relaxed) {
                return Ok(InboxExit::TerminalClosed);
            }
            let keys = match self.tty.keys(LOOK_UP)? {
                TtyEvent::Keys(keys) => keys,
                TtyEvent::End => return Ok(InboxExit::TerminalClosed),
            };
            is_changed = !keys.is_empty();
            for key in keys {
                let act = self.inbox.key(self.tty.now(), &key);
                match (act, self.only) {
                    (InboxAction::Quit, _) => return Ok(InboxExit::Quit),
                    (InboxAction::Answer(mut sheets, reply), Some(_)) => {
                        return Ok(sheets
                            .pop()
                            .map_or(InboxExit::Quit, |sheet| InboxExit::Answered(sheet, reply)));
                    }
                    (act, _) => self.act(act)?,
                }
            }
            if self.only.is_some() && !self.inbox.is_answering() {
                return Ok(InboxExit::Quit);
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let (columns, rows) = self.tty.size();
        let area = Rect::new(0, 0, columns, rows);
        let mut buf = Buffer::empty(area);
        let cursor = self.inbox.draw(area, &mut buf, self.tty.now(), now());
        self.tty.draw(&buf, cursor)
    }

    fn act(&mut self, act: InboxAction) -> io::Result<()> {
        match act {
            InboxAction::Nothing | InboxAction::Quit => {}
            InboxAction::Read(questions) => self.read(&questions)?,
            InboxAction::Editor(text) => {
                let edited = self.tty.lend(|| editor::edit(&self.manner.editor, &text))?;
                self.inbox.set_edited_text(edited);
            }
            InboxAction::PreviewApproval(leave) => {
                self.beside(move |clerk| InboxEvent::Past(clerk.covered_calls(&leave)))
            }
            InboxAction::Undo => self.beside(|clerk| InboxEvent::Told(clerk.undo())),
            InboxAction::Answer(sheets, reply) => {
                let is_abort = reply == Reply::Abort;
                let tell = self.tell.clone();
                self.beside(move |clerk| {
                    for sheet in &sheets {
                        let said = clerk.answer(sheet, reply.clone()).unwrap_or_else(|why| why);
                        tell.send(InboxEvent::Told(said)).unwrap_or_default();
                    }
                    if is_abort { InboxEvent::Aborted } else { InboxEvent::Nothing }
                });
            }
        }
        Ok(())
    }

    fn read(&mut self, questions: &[QuestionId]) -> io::Result<()> {
        let mut sheets = Vec::new();
        for question in questions {
            match self.clerk.question_view(*question) {
                Ok(sheet) => sheets.push(sheet),
                Err(why) => {
                    self.inbox.show_message(why);
                    return Ok(());
                }
            }
        }
        let offered = match sheets.as_slice() {
            [sheet] => offered_scopes(sheet),
            _ => Err("you can give a standing approval for one question only".to_owned()),
        };
        // Of several questions the one that is waited for the shortest counts.
        let until = sheets.iter().filter_map(|sheet| self.clerk.agent_waits_until(sheet)).min();
        self.inbox.open(sheets, offered, now());
        self.inbox.set_agent_deadline(until);
        // Keys typed before the question was visible do not answer it. They show whether somebody is typing.
        let ahead = self.tty.read_typed_ahead()?;
        self.inbox.ahead(self.tty.now(), &ahead);
        self.draw()
    }

    /// Does slow work on a thread and sends its event afterwards.
    fn beside(&self, work: impl FnOnce(&dyn InboxBackend) -> InboxEvent + Send + 'static) {
        let (clerk, tell) = (Arc::clone(self.clerk), self.tell.clone());
        thread::spawn(move || {
            // If the screen is gone, the result is still in the audit log.
            tell.send(work(&*clerk)).unwrap_or_default();
        });
    }
}
