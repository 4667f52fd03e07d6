//! The inbox: all open questions on a screen of their own, each answered as at the prompt, or several with one answer.
//!
//! [`Inbox`] is pure: keys, times and lists go in, a drawing and acts come out. [`run`] puts it on a terminal.

mod draw;
mod event_loop;
mod list;

use std::time::Duration;

use byleave::approver::Reply;
use byleave_core::approval_scopes::ApprovalScope;
use byleave_core::call::Millis;
use byleave_core::id::QuestionId;
use byleave_core::question_view::QuestionView;
use byleave_core::standing_approval::StandingApproval;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::keys::KeyPress;
use crate::question_dialog::{DialogEvent, DialogSettings, QuestionDialog};
use crate::text_input::TextField;

pub use event_loop::{InboxBackend, InboxExit, run, run_one};
pub use list::{InboxItem, InboxList, InboxOrder};

/// The most questions that get one answer: more than that nobody reads.
const TOGETHER_MAX: usize = 50;

/// What the inbox wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxAction {
    /// Nothing.
    Nothing,
    /// Read these questions, and give them to [`Inbox::open`].
    Read(Vec<QuestionId>),
    /// Give this answer to these questions, as they were shown.
    Answer(Vec<QuestionView>, Reply),
    /// Let the person change a text in their editor; then [`Inbox::edited`].
    Editor(String),
    /// Look up what a leave would have covered; then [`Inbox::past`].
    Consider(StandingApproval),
    /// Take back what was changed last.
    Undo,
    /// Leave the inbox.
    Quit,
}

/// All open questions, and what the person is doing with them.
pub struct Inbox {
    list: InboxList,
    setting: DialogSettings,
    filter: Option<TextField>,
    dialogue: Option<QuestionDialog>,
    /// What came of what was done, the newest last.
    news: Vec<String>,
    /// Whether the open questions were read once.
    is_read: bool,
    /// An undo awaits its second key.
    is_undoing: bool,
}

impl Inbox {
    /// An inbox in which nothing was read yet.
    pub fn new(setting: DialogSettings) -> Self {
        Self {
            list: InboxList::default(),
            setting: DialogSettings { can_go_back: true, ..setting },
            filter: None,
            dialogue: None,
            news: Vec::new(),
            is_read: false,
            is_undoing: false,
        }
    }

    /// The questions that are open now.
    pub fn questions(&mut self, items: Vec<InboxItem>) {
        self.is_read = true;
        self.list.replace(items);
        let gone = self
            .dialogue
            .as_ref()
            .is_some_and(|dialogue| dialogue.sheets().iter().any(|sheet| !self.list.has(sheet.question.id)));
        if gone {
            self.dialogue = None;
            self.tell("the question was answered elsewhere, called off, or is too old: it can no longer be answered");
        }
    }

    /// The questions that were to be read.
    pub fn open(
        &mut self,
        sheets: Vec<QuestionView>,
        offered: Result<Vec<ApprovalScope>, String>,
        now: Millis,
    ) {
        if !sheets.is_empty() {
            let setting = DialogSettings { now, ..self.setting.clone() };
            self.dialogue = Some(QuestionDialog::new(sheets, offered, setting));
        }
    }

    /// Whether a question is open to be answered.
    pub const fn is_answering(&self) -> bool {
        self.dialogue.is_some()
    }

    /// What an undo would take back now.
    pub fn last_change(&mut self, undo: Option<String>) {
        self.setting.undo = undo;
    }

    /// Keys that were pressed before the question that was opened was on the screen.
    pub fn ahead(&mut self, now: Duration, keys: &[KeyPress]) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.ahead(now, keys);
        }
    }

    /// What came of something, for the person.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.news.push(text.into());
        let extra = self.news.len().saturating_sub(50);
        self.news.drain(..extra);
    }

    /// The text that came out of the person's editor.
    pub fn edited(&mut self, text: Result<String, String>) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.edited(text);
        }
    }

    /// What the leave that is considered would have covered.
    pub fn past(&mut self, words: Vec<String>) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.past(words);
        }
    }

    /// Draws everything; returns where the cursor is.
    pub fn draw(&mut self, area: Rect, buf: &mut Buffer, now: Duration, time: Millis) -> Option<Position> {
        if let Some(dialogue) = &mut self.dialogue {
            let left = Duration::from_millis(dialogue.expires_at().saturating_sub(time));
            return dialogue.draw(area, buf, now, Some(left));
        }
        draw::draw(self, area, buf, time)
    }

    /// Takes a key.
    pub fn key(&mut self, now: Duration, key: &KeyPress) -> InboxAction {
        if self.dialogue.is_some() {
            return self.answering(now, key);
        }
        if self.filter.is_some() {
            return self.filtering(key);
        }
        let was_undoing = std::mem::take(&mut self.is_undoing);
        match key {
            KeyPress::Enter => {
                let chosen = self.list.chosen();
                if chosen.len() > TOGETHER_MAX {
                    self.tell(format!(
                        "at most {TOGETHER_MAX} questions get one answer; {} are marked",
                        chosen.len()
                    ));
                    return InboxAction::Nothing;
                }
                if !chosen.is_empty() {
                    return InboxAction::Read(chosen);
                }
            }
            KeyPress::Char(' ') => self.list.mark(),
            KeyPress::Char('*') => self.list.mark_all(),
            KeyPress::Char('s') => self.list.reorder(),
            KeyPress::Char('/') => self.filter = Some(TextField::line()),
            KeyPress::Char('u') if was_undoing => return InboxAction::Undo,
            KeyPress::Char('u') => match self.setting.undo.clone() {
                Some(undo) => {
                    self.is_undoing = true;
                    self.tell(format!("u again takes back {undo}"));
                }
                None => self.tell("there is nothing to take back"),
            },
            KeyPress::Char('q') => return InboxAction::Quit,
            // First what was narrowed is wide again.
            KeyPress::Escape if self.list.is_narrowed() => self.list.widen(),
            KeyPress::Escape => return InboxAction::Quit,
            key => self.list.key(key),
        }
        InboxAction::Nothing
    }

    fn filtering(&mut self, key: &KeyPress) -> InboxAction {
        let Some(field) = &mut self.filter else { return InboxAction::Nothing };
        match key {
            KeyPress::Enter => self.filter = None,
            KeyPress::Escape => {
                self.filter = None;
                self.list.narrow("");
            }
            KeyPress::Up | KeyPress::Down | KeyPress::PageUp | KeyPress::PageDown => self.list.key(key),
            key => {
                field.key(key);
                let text = field.text();
                self.list.narrow(&text);
            }
        }
        InboxAction::Nothing
    }

    fn answering(&mut self, now: Duration, key: &KeyPress) -> InboxAction {
        let Some(dialogue) = &mut self.dialogue else { return InboxAction::Nothing };
        match dialogue.key(now, key) {
            DialogEvent::Stay => InboxAction::Nothing,
            DialogEvent::Back => {
                self.dialogue = None;
                InboxAction::Nothing
            }
            DialogEvent::Editor(text) => InboxAction::Editor(text),
            DialogEvent::Consider(leave) => InboxAction::Consider(leave),
            DialogEvent::Undo => InboxAction::Undo,
            DialogEvent::Reply(reply) => {
                let sheets = dialogue.sheets().to_vec();
                self.dialogue = None;
                self.list.unmark(sheets.iter().map(|sheet| sheet.question.id));
                InboxAction::Answer(sheets, reply)
            }
        }
    }
}
