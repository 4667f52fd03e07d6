//! Runs the chat on a terminal. Events and actions go through channels, so that the screen never blocks.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::id::{CallId, QuestionId};
use byleave_core::question_view::QuestionView;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{CallCard, CallCardState, Chat, ChatAction, ChatStatusBar, PickerItem, TranscriptEntry};
use crate::editor;
use crate::prompt_settings::PromptSettings;
use crate::stderr_hold;
use crate::text::now;
use crate::tty::{DrawMode, Tty, TtyEvent};

/// The interval at which the screen checks for events.
const LOOK_UP: Duration = Duration::from_millis(40);

/// An event for the screen.
pub enum ChatEvent {
    /// Another conversation with its entries so far.
    Begin(ChatStatusBar, Vec<TranscriptEntry>),
    /// A message to send as soon as the model rests.
    Later(String),
    /// The model begins its turn.
    Turn,
    /// More text of the model.
    Text(String),
    /// The model's current message is dropped.
    Anew,
    /// The model's complete message, and what is wrong with it.
    Said(String, Vec<String>),
    /// A call is about to be made.
    Calling(CallCard),
    /// Output of a running call.
    Printed(CallId, String),
    /// Progress of a call.
    Progress(CallId, String),
    /// The result of a call, and its output.
    Called(CallId, CallCardState, String),
    /// It is the person's turn.
    Rests(String),
    /// A question, and what an undo would revert.
    Asked(Box<QuestionView>, Option<String>),
    /// A question that no longer needs an answer.
    Withdrawn(QuestionId),
    /// The past calls that the standing approval in the form would have covered.
    Past(Vec<String>),
    /// A note for the person that stays in the transcript.
    Told(String),
    /// A hint about the person's last action.
    Hint(String),
    /// A page to read: its title and its text.
    Page(String, String),
    /// Conversations to choose from.
    Pick(Vec<PickerItem>),
    /// The chat ends.
    End,
}

/// Shows the chat until [`ChatEvent::End`] arrives or the terminal is gone. Sends the person's actions to `act`;
/// [`ChatAction::Quit`] alone does not end it. Returns whether the terminal is still there.
pub fn run(
    path: &Path,
    manner: &PromptSettings,
    news: &Receiver<ChatEvent>,
    act: impl Fn(ChatAction),
) -> io::Result<bool> {
    let _floor = stderr_hold::take();
    let mut tty = Tty::open(path, DrawMode::Full)?;
    let mut chat = Chat::new(manner.setting());
    loop {
        loop {
            match news.try_recv() {
                Ok(ChatEvent::End) => return Ok(true),
                Ok(news) => {
                    if let Some(word) = take_in(&mut chat, news, tty.now(), now()) {
                        act(ChatAction::Say(word));
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        draw(&mut tty, &mut chat)?;
        let keys = match tty.keys(LOOK_UP)? {
            TtyEvent::Keys(keys) => keys,
            TtyEvent::End => return Ok(false),
        };
        for key in keys {
            match chat.key(tty.now(), now(), &key) {
                ChatAction::Nothing => {}
                ChatAction::Editor(text) => {
                    act(ChatAction::Lent);
                    let edited = tty.lend(|| editor::edit(&manner.editor, &text))?;
                    act(ChatAction::Back);
                    chat.edited(tty.now(), edited);
                }
                other => act(other),
            }
        }
    }
}

fn draw(tty: &mut Tty, chat: &mut Chat) -> io::Result<()> {
    let (columns, rows) = tty.size();
    let area = Rect::new(0, 0, columns, rows);
    let mut buf = Buffer::empty(area);
    let cursor = chat.draw(area, &mut buf, tty.now(), now());
    tty.draw(&buf, cursor)
}

/// Applies an event to the chat. Returns the message that the person queued for when the model rests.
fn take_in(chat: &mut Chat, news: ChatEvent, at: Duration, time: Millis) -> Option<String> {
    match news {
        ChatEvent::Begin(heading, entries) => chat.begin(heading, entries),
        ChatEvent::Later(word) => chat.later(word),
        ChatEvent::Turn => chat.turn(time),
        ChatEvent::Text(text) => chat.text(&text),
        ChatEvent::Anew => chat.anew(),
        ChatEvent::Said(text, flaws) => chat.said(text, flaws),
        ChatEvent::Calling(card) => chat.calling(card, time),
        ChatEvent::Printed(call, text) => chat.printed(call, &text),
        ChatEvent::Progress(call, detail) => chat.progress(call, detail),
        ChatEvent::Called(call, state, output) => chat.called(call, state, &output),
        ChatEvent::Rests(words) => return chat.rests(words),
        ChatEvent::Asked(sheet, undo) => chat.ask(at, time, *sheet, undo),
        ChatEvent::Withdrawn(question) => chat.withdraw(at, time, question),
        ChatEvent::Past(words) => chat.past(words),
        ChatEvent::Told(text) => chat.tell(text),
        ChatEvent::Hint(text) => chat.hint(text),
        ChatEvent::Page(title, text) => chat.page(&title, &text),
        ChatEvent::Pick(picks) => chat.pick(picks),
        ChatEvent::End => {}
    }
    None
}
