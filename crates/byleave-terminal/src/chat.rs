//! The chat screen: a conversation with a model. Calls are shown as cards, and questions come before everything else.
//!
//! [`Chat`] is pure: keys, times and events go in, a drawing and actions come out. [`run`] puts it on a terminal. It knows
//! nothing of models: it receives events and returns the person's actions.

mod draw;
mod event_loop;
mod input;
mod overlays;
mod slash_commands;
mod transcript;

use std::collections::VecDeque;
use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::id::{CallId, QuestionId};
use byleave_core::question_view::QuestionView;
use byleave_core::standing_approval::StandingApproval;
use byleave_gate::approver::Reply;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::key_guard::QUIET;
use crate::question_dialog::{DialogSettings, QuestionDialog, offered_scopes};
use crate::text_input::TextField;

pub use event_loop::{ChatEvent, run};
pub use overlays::PickerItem;
pub use slash_commands::SlashCommand;
pub use transcript::{CallCard, CallCardState, TranscriptEntry};

use overlays::{Picker, TextPage};
use transcript::Transcript;

/// An action that the person wants.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatAction {
    /// No action.
    Nothing,
    /// Send this text to the model.
    SendMessage(String),
    /// Run this slash command.
    SlashCommand(SlashCommand),
    /// Cancel the work in progress.
    CancelWork,
    /// Open this conversation.
    Open(String),
    /// Give this answer to the question.
    Answer(QuestionId, Reply),
    /// Edit this text in the person's editor, then call [`Chat::set_edited_text`].
    Editor(String),
    /// Look up the past calls that a standing approval would have covered, then call [`Chat::set_covered_calls`].
    PreviewApproval(StandingApproval),
    /// Undo the last change, of any session.
    Undo,
    /// The terminal was lent to an editor. Input in the meantime is not for the chat.
    TerminalLent,
    /// The editor has returned the terminal.
    TerminalReturned,
    /// Quit the chat.
    Quit,
}

/// The text of the status bar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatStatusBar {
    /// The persona and the model.
    pub persona_and_model: String,
    /// The session.
    pub session: String,
    /// The working directory of the session.
    pub directory: String,
    /// Whether nothing is executed.
    pub is_dry_run: bool,
}

/// The activity of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelActivity {
    /// It is the person's turn. The text says how the model's last turn ended.
    Rests(String),
    /// The model or a tool has been working since this time.
    Works { since: Millis, what: &'static str },
}

/// A question in the queue.
struct QueuedQuestion {
    sheet: QuestionView,
    undo: Option<String>,
}

/// A conversation on a screen.
pub struct Chat {
    setting: DialogSettings,
    heading: ChatStatusBar,
    scroll: Transcript,
    field: TextField,
    /// The time of the last key that was not meant for a question.
    typed: Option<Duration>,
    /// Keys until this time were meant for a question that is gone.
    deaf_until: Duration,
    /// The person's messages for recall, oldest first.
    said: Vec<String>,
    /// The position in `said` during recall.
    recalled: Option<usize>,
    /// Messages to send once the model rests.
    next: VecDeque<String>,
    doing: ModelActivity,
    questions: VecDeque<QueuedQuestion>,
    dialogue: Option<QuestionDialog>,
    /// The person has put the question away to read the conversation.
    is_away: bool,
    page: Option<TextPage>,
    picker: Option<Picker>,
    /// The action that a second press of the same key performs.
    armed: Option<SecondPressAction>,
    /// A hint about the last key.
    told: Option<String>,
}

/// An action that needs a second key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecondPressAction {
    CallOff,
    Quit,
}

impl Chat {
    /// Creates an empty chat.
    pub fn new(setting: DialogSettings) -> Self {
        Self {
            setting: DialogSettings { can_go_back: true, ..setting },
            heading: ChatStatusBar::default(),
            scroll: Transcript::default(),
            field: TextField::long(""),
            typed: None,
            deaf_until: Duration::ZERO,
            said: Vec::new(),
            recalled: None,
            next: VecDeque::new(),
            doing: ModelActivity::Rests(String::new()),
            questions: VecDeque::new(),
            dialogue: None,
            is_away: false,
            page: None,
            picker: None,
            armed: None,
            told: None,
        }
    }

    /// Shows another conversation with its entries so far.
    pub fn begin(&mut self, heading: ChatStatusBar, entries: Vec<TranscriptEntry>) {
        self.heading = heading;
        self.said = entries
            .iter()
            .filter_map(|entry| match entry {
                TranscriptEntry::Person(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        self.scroll = Transcript::with(entries);
        self.picker = None;
        self.doing = ModelActivity::Rests(String::new());
    }

    /// Queues a message of the person until the model rests.
    pub fn queue_message(&mut self, word: String) {
        self.said.push(word.clone());
        self.next.push_back(word);
    }

    /// Shows that the model begins its turn.
    pub fn start_turn(&mut self, time: Millis) {
        self.works(time, "the model is thinking");
    }

    /// Appends text to the model's current message.
    pub fn append_text(&mut self, text: &str) {
        if let ModelActivity::Works { what, .. } = &mut self.doing {
            *what = "the model is writing";
        }
        self.scroll.append_text(text);
    }

    /// Drops the model's current message, because the model begins it again.
    pub fn restart_turn(&mut self) {
        self.scroll.discard_text();
    }

    /// Replaces the current message by the complete one, and notes what is wrong with it.
    pub fn finish_text(&mut self, text: String, flaws: Vec<String>) {
        self.scroll.finish_text(text);
        for flaw in flaws {
            self.add_note(flaw);
        }
    }

    /// Shows a call that is about to be made. A call that is already shown starts again.
    pub fn start_call(&mut self, card: CallCard, time: Millis) {
        self.scroll.start_call(card);
        self.works(time, "a tool is running");
    }

    /// Appends output of a running call.
    pub fn append_output(&mut self, call: CallId, text: &str) {
        self.scroll.append_output(call, text);
    }

    /// Shows the progress of a call.
    pub fn progress(&mut self, call: CallId, detail: String) {
        self.scroll.progress(call, detail);
    }

    /// Shows the result of a call.
    pub fn finish_call(&mut self, call: CallId, state: CallCardState, output: &str) {
        self.scroll.finish_call(call, state, output);
    }

    /// Adds a note for the person to the transcript.
    pub fn add_note(&mut self, text: impl Into<String>) {
        self.scroll.push(TranscriptEntry::Note(text.into()));
    }

    /// Shows the result of an action of the person.
    pub fn show_message(&mut self, text: impl Into<String>) {
        let text = text.into();
        if let Some(dialogue) = self.dialogue.as_mut().filter(|_| !self.is_away) {
            dialogue.show_message(text.clone());
        }
        if self.picker.is_some() {
            self.told = Some(text.clone());
        }
        self.add_note(text);
    }

    /// Shows a hint about the person's last action.
    pub fn hint(&mut self, text: String) {
        self.told = Some(text);
    }

    /// Shows that it is the person's turn, and how the model's turn ended. Returns the next queued message.
    pub fn finish_work(&mut self, words: String) -> Option<String> {
        self.scroll.discard_text();
        self.doing = ModelActivity::Rests(words);
        (self.armed, self.told) = (None, None);
        let next = self.next.pop_front()?;
        self.scroll.push(TranscriptEntry::Person(next.clone()));
        Some(next)
    }

    /// Whether the model is at work.
    pub const fn is_working(&self) -> bool {
        matches!(self.doing, ModelActivity::Works { .. })
    }

    /// Queues a question that the person must answer. Keys typed before it appears do not answer it.
    pub fn ask(&mut self, now: Duration, time: Millis, sheet: QuestionView, undo: Option<String>) {
        self.armed = None;
        self.scroll.set_waiting(sheet.call, true);
        self.questions.push_back(QueuedQuestion { sheet, undo });
        self.open(now, time);
    }

    /// Removes a question that no longer needs an answer.
    pub fn withdraw(&mut self, now: Duration, time: Millis, question: QuestionId) {
        let is_it = |sheet: &QuestionView| sheet.question.id == question;
        let front = self.questions.front().is_some_and(|waiting| is_it(&waiting.sheet));
        for waiting in self.questions.iter().filter(|waiting| is_it(&waiting.sheet)) {
            self.scroll.set_waiting(waiting.sheet.call, false);
        }
        self.questions.retain(|waiting| !is_it(&waiting.sheet));
        if front {
            if let Some(ago) = self.dialogue.take().and_then(|dialogue| dialogue.time_since_typing(now)) {
                self.typed = self.typed.max(Some(now.saturating_sub(ago)));
            }
            if !self.is_away {
                // Keys meant as the answer must not go to the model as a message.
                self.deaf_until = now + QUIET;
                self.add_note("the question was answered elsewhere, cancelled or has expired");
            }
            self.open(now, time);
        }
    }

    /// Shows a page to read, over everything except a question.
    pub fn page(&mut self, title: &str, text: &str) {
        self.page = Some(TextPage::new(title, text));
    }

    /// Shows conversations to choose from.
    pub fn pick(&mut self, picks: Vec<PickerItem>) {
        self.picker = Some(Picker::new(picks));
        self.told = None;
    }

    /// Takes the text from the person's editor.
    pub fn set_edited_text(&mut self, now: Duration, text: Result<String, String>) {
        self.typed = Some(now);
        match (self.dialogue.as_mut().filter(|_| !self.is_away), text) {
            (Some(dialogue), text) => dialogue.set_edited_text(text),
            (None, Ok(text)) => self.field = TextField::long_at_end(text.trim_end()),
            (None, Err(why)) => self.told = Some(why),
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
        draw::draw(self, area, buf, now, time)
    }

    fn works(&mut self, time: Millis, doing: &'static str) {
        match &mut self.doing {
            ModelActivity::Works { what, .. } => *what = doing,
            ModelActivity::Rests(_) => self.doing = ModelActivity::Works { since: time, what: doing },
        }
    }

    /// Opens the next question, if none is open.
    fn open(&mut self, now: Duration, time: Millis) {
        if self.dialogue.is_some() {
            return;
        }
        self.is_away = false;
        let Some(QueuedQuestion { sheet, undo }) = self.questions.front() else { return };
        let setting = DialogSettings { now: time, undo: undo.clone(), ..self.setting.clone() };
        self.dialogue = Some(QuestionDialog::new(vec![sheet.clone()], offered_scopes(sheet), setting));
        self.amid(now);
    }

    /// Passes on the time of the last key, so that a person in the middle of typing answers nothing.
    fn amid(&mut self, now: Duration) {
        if let (Some(dialogue), Some(typed)) = (&mut self.dialogue, self.typed) {
            dialogue.note_interrupted_typing(now, now.saturating_sub(typed));
        }
    }
}
