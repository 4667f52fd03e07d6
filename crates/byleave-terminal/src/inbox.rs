//! The inbox: all open questions on a full screen. Each is answered as at the prompt, or several with one answer.
//!
//! [`Inbox`] is pure: keys, times and lists go in, a drawing and actions come out. [`run`] puts it on a terminal.

mod draw;
mod event_loop;
mod list;

use std::time::Duration;

use byleave_core::approval_scopes::ApprovalScope;
use byleave_core::call::Millis;
use byleave_core::id::QuestionId;
use byleave_core::question_view::QuestionView;
use byleave_core::standing_approval::StandingApproval;
use byleave_gate::approver::Reply;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::keys::KeyPress;
use crate::question_dialog::{DialogEvent, DialogSettings, QuestionDialog};
use crate::text_input::TextField;

pub use event_loop::{InboxBackend, InboxExit, run, run_one};
pub use list::{InboxItem, InboxList, InboxOrder};

/// The maximum number of questions that get one answer. Nobody reads more than that.
const TOGETHER_MAX: usize = 50;

/// An action that the inbox wants.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxAction {
    /// No action.
    Nothing,
    /// Read these questions, and give them to [`Inbox::open`].
    Read(Vec<QuestionId>),
    /// Give this answer to these questions as they were shown.
    Answer(Vec<QuestionView>, Reply),
    /// Let the person change a text in their editor, then call [`Inbox::set_edited_text`].
    Editor(String),
    /// Look up the past calls that a standing approval would have covered, then call [`Inbox::set_covered_calls`].
    PreviewApproval(StandingApproval),
    /// Undo the last change.
    Undo,
    /// Leave the inbox.
    Quit,
}

/// All open questions, and the state of the screen.
pub struct Inbox {
    list: InboxList,
    setting: DialogSettings,
    filter: Option<TextField>,
    dialogue: Option<QuestionDialog>,
    /// Results of actions, newest last.
    news: Vec<String>,
    /// Whether the open questions were read once.
    is_read: bool,
    /// An undo waits for its second key press.
    is_undoing: bool,
}

impl Inbox {
    /// Creates an inbox before its first read.
    pub fn new(setting: DialogSettings) -> Self {
        Self {
            list: InboxList::default(),
            setting: DialogSettings { can_go_back: true, has_one_key_answers: true, ..setting },
            filter: None,
            dialogue: None,
            news: Vec::new(),
            is_read: false,
            is_undoing: false,
        }
    }

    /// Replaces the list of open questions.
    pub fn questions(&mut self, items: Vec<InboxItem>) {
        self.is_read = true;
        self.list.replace(items);
        let gone = self
            .dialogue
            .as_ref()
            .is_some_and(|dialogue| dialogue.sheets().iter().any(|sheet| !self.list.has(sheet.question.id)));
        if gone {
            self.dialogue = None;
            self.show_message("the question was answered elsewhere, cancelled or has expired");
        }
    }

    /// Opens the questions of an [`InboxAction::Read`].
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

    /// Sets the time until which the agent waits for the answer to the opened question.
    pub const fn set_agent_deadline(&mut self, until: Option<Millis>) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.set_agent_deadline(until);
        }
    }

    /// Checks whether a question is open for an answer.
    pub const fn is_answering(&self) -> bool {
        self.dialogue.is_some()
    }

    /// Sets the description of the change that an undo would revert.
    pub fn last_change(&mut self, undo: Option<String>) {
        self.setting.undo = undo;
    }

    /// Takes keys that were pressed before the opened question was on the screen.
    pub fn ahead(&mut self, now: Duration, keys: &[KeyPress]) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.note_typed_ahead(now, keys);
        }
    }

    /// Shows the result of an action.
    pub fn show_message(&mut self, text: impl Into<String>) {
        self.news.push(text.into());
        let extra = self.news.len().saturating_sub(50);
        self.news.drain(..extra);
    }

    /// Takes the text from the person's editor.
    pub fn set_edited_text(&mut self, text: Result<String, String>) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.set_edited_text(text);
        }
    }

    /// Takes the past calls that the standing approval in the form would have covered.
    pub fn set_covered_calls(&mut self, words: Vec<String>) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.set_covered_calls(words);
        }
    }

    /// Draws everything and returns the position of the cursor.
    pub fn draw(&mut self, area: Rect, buf: &mut Buffer, now: Duration, time: Millis) -> Option<Position> {
        if let Some(dialogue) = &mut self.dialogue {
            let left = dialogue.time_left(time);
            return dialogue.draw(area, buf, now, Some(left));
        }
        draw::draw(self, area, buf, time)
    }

    /// Handles a key.
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
                    self.show_message(format!(
                        "you can answer at most {TOGETHER_MAX} questions together; {} are marked",
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
                    self.show_message(format!("press u again to undo {undo}"));
                }
                None => self.show_message("there is nothing to undo"),
            },
            KeyPress::Char('q') => return InboxAction::Quit,
            // The first Escape clears filter and marks.
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
            DialogEvent::PreviewApproval(leave) => InboxAction::PreviewApproval(leave),
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
