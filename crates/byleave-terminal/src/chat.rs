//! The chat: a conversation with a model on a screen of its own, with its calls as cards and its questions before everything else.
//!
//! [`Chat`] is pure: keys, times and news go in, a drawing and acts come out. [`run`] puts it on a terminal. It knows nothing of
//! models: what is said and what came of calls is told to it, and what a person wants is told by it.

mod draw;
mod event_loop;
mod input;
mod overlays;
mod slash_commands;
mod transcript;

use std::collections::VecDeque;
use std::time::Duration;

use byleave::approver::Reply;
use byleave_core::call::Millis;
use byleave_core::id::{CallId, QuestionId};
use byleave_core::question_view::QuestionView;
use byleave_core::standing_approval::StandingApproval;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::key_guard::QUIET;
use crate::question_dialog::{DialogSettings, QuestionDialog, offered};
use crate::text_input::TextField;

pub use event_loop::{ChatEvent, run};
pub use overlays::PickerItem;
pub use slash_commands::SlashCommand;
pub use transcript::{CallCard, CallCardState, TranscriptEntry};

use overlays::{Picker, TextPage};
use transcript::Transcript;

/// What a person wants.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatAction {
    /// Nothing.
    Nothing,
    /// This said to the model.
    Say(String),
    /// One of the orders that begin with a stroke.
    Order(SlashCommand),
    /// The work called off.
    CallOff,
    /// This conversation opened.
    Open(String),
    /// This answer given.
    Answer(QuestionId, Reply),
    /// A text changed in the person's editor; then [`Chat::edited`].
    Editor(String),
    /// Looked up what a leave would have covered; then [`Chat::past`].
    Consider(StandingApproval),
    /// Taken back what was changed last, whoever changed it.
    Undo,
    /// The terminal lent to an editor: what it sends meanwhile is not for us.
    Lent,
    /// The terminal is back.
    Back,
    /// An end.
    Quit,
}

/// What the bar says of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatStatusBar {
    /// Who the model is to be, and which model it is.
    pub who: String,
    /// The session.
    pub session: String,
    /// The directory that it works in.
    pub place: String,
}

/// What the model is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelActivity {
    /// Nothing: it is the person's turn. What came of the last, in words.
    Rests(String),
    /// Something, since then.
    Works { since: Millis, what: &'static str },
}

/// A question that waits.
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
    /// When something was last typed that was not meant for a question.
    typed: Option<Duration>,
    /// What is typed until then was meant for a question that has gone.
    deaf_until: Duration,
    /// What was said, for who wants to say it again; the oldest first.
    said: Vec<String>,
    /// How far back that was looked for.
    recalled: Option<usize>,
    /// What is to be said once the model rests.
    next: VecDeque<String>,
    doing: ModelActivity,
    questions: VecDeque<QueuedQuestion>,
    dialogue: Option<QuestionDialog>,
    /// The person has put the question away, to read.
    is_away: bool,
    page: Option<TextPage>,
    picker: Option<Picker>,
    /// The next key of the same kind does it.
    armed: Option<SecondPressAction>,
    /// Something about the last key.
    told: Option<String>,
}

/// What a second key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecondPressAction {
    CallOff,
    Quit,
}

impl Chat {
    /// A chat in which nothing was said yet.
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

    /// Another conversation, as far as it has come.
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

    /// Something for the person to say as soon as the model rests.
    pub fn later(&mut self, word: String) {
        self.said.push(word.clone());
        self.next.push_back(word);
    }

    /// The model begins to speak.
    pub fn turn(&mut self, time: Millis) {
        self.works(time, "the model thinks");
    }

    /// The model says something.
    pub fn text(&mut self, text: &str) {
        if let ModelActivity::Works { what, .. } = &mut self.doing {
            *what = "the model speaks";
        }
        self.scroll.hear(text);
    }

    /// What it was saying counts for nothing: it begins anew.
    pub fn anew(&mut self) {
        self.scroll.unhear();
    }

    /// What it has said, whole.
    pub fn said(&mut self, text: String, flaws: Vec<String>) {
        self.scroll.heard(text);
        for flaw in flaws {
            self.note(flaw);
        }
    }

    /// A call is about to be made. One that is shown already is made again.
    pub fn calling(&mut self, card: CallCard, time: Millis) {
        self.scroll.card(card);
        self.works(time, "a tool works");
    }

    /// What a call has printed while it runs.
    pub fn printed(&mut self, call: CallId, text: &str) {
        self.scroll.printed(call, text);
    }

    /// How far a call has come, in words.
    pub fn progress(&mut self, call: CallId, detail: String) {
        self.scroll.progress(call, detail);
    }

    /// What came of a call.
    pub fn called(&mut self, call: CallId, state: CallCardState, output: &str) {
        self.scroll.called(call, state, output);
    }

    /// Something for the person, among what was said.
    pub fn note(&mut self, text: impl Into<String>) {
        self.scroll.push(TranscriptEntry::Note(text.into()));
    }

    /// What came of what the person wanted.
    pub fn tell(&mut self, text: impl Into<String>) {
        let text = text.into();
        if let Some(dialogue) = self.dialogue.as_mut().filter(|_| !self.is_away) {
            dialogue.tell(text.clone());
        }
        if self.picker.is_some() {
            self.told = Some(text.clone());
        }
        self.note(text);
    }

    /// Something about what the person just did.
    pub fn hint(&mut self, text: String) {
        self.told = Some(text);
    }

    /// It is the person's turn; what came of the model's, in words. Returns what is to be said next.
    pub fn rests(&mut self, words: String) -> Option<String> {
        self.scroll.unhear();
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

    /// A question that a person must answer. What is typed now was not typed for it.
    pub fn ask(&mut self, now: Duration, time: Millis, sheet: QuestionView, undo: Option<String>) {
        self.armed = None;
        self.scroll.waits(sheet.call, true);
        self.questions.push_back(QueuedQuestion { sheet, undo });
        self.open(now, time);
    }

    /// A question that need not be answered any more.
    pub fn withdraw(&mut self, now: Duration, time: Millis, question: QuestionId) {
        let is_it = |sheet: &QuestionView| sheet.question.id == question;
        let front = self.questions.front().is_some_and(|waiting| is_it(&waiting.sheet));
        for waiting in self.questions.iter().filter(|waiting| is_it(&waiting.sheet)) {
            self.scroll.waits(waiting.sheet.call, false);
        }
        self.questions.retain(|waiting| !is_it(&waiting.sheet));
        if front {
            if let Some(ago) = self.dialogue.take().and_then(|dialogue| dialogue.wrote(now)) {
                self.typed = self.typed.max(Some(now.saturating_sub(ago)));
            }
            if !self.is_away {
                // Whoever was about to answer it must not say that to the model.
                self.deaf_until = now + QUIET;
                self.note("the question was answered elsewhere, called off, or is too old");
            }
            self.open(now, time);
        }
    }

    /// A page to read, over everything but a question.
    pub fn page(&mut self, title: &str, text: &str) {
        self.page = Some(TextPage::new(title, text));
    }

    /// Conversations to choose from.
    pub fn pick(&mut self, picks: Vec<PickerItem>) {
        self.picker = Some(Picker::new(picks));
        self.told = None;
    }

    /// The text that came out of the person's editor.
    pub fn edited(&mut self, now: Duration, text: Result<String, String>) {
        self.typed = Some(now);
        match (self.dialogue.as_mut().filter(|_| !self.is_away), text) {
            (Some(dialogue), text) => dialogue.edited(text),
            (None, Ok(text)) => self.field = TextField::long_at_end(text.trim_end()),
            (None, Err(why)) => self.told = Some(why),
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
        self.dialogue = Some(QuestionDialog::new(vec![sheet.clone()], offered(sheet), setting));
        self.amid(now);
    }

    /// Who writes something else goes on with it, and answers nothing.
    fn amid(&mut self, now: Duration) {
        if let (Some(dialogue), Some(typed)) = (&mut self.dialogue, self.typed) {
            dialogue.amid(now, now.saturating_sub(typed));
        }
    }
}
