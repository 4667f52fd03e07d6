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
    QueueMessage(String),
    /// The model begins its turn.
    Turn,
    /// More text of the model.
    Text(String),
    /// The model's current message is dropped.
    TurnRestarted,
    /// The model's complete message, and what is wrong with it.
    TextFinished(String, Vec<String>),
    /// A call is about to be made.
    CallStarted(CallCard),
    /// Output of a running call.
    CallOutput(CallId, String),
    /// Progress of a call.
    Progress(CallId, String),
    /// The result of a call, and its output.
    CallFinished(CallId, CallCardState, String),
    /// It is the person's turn.
    WorkFinished(String),
    /// A question, and what an undo would revert.
    QuestionAsked(Box<QuestionView>, Option<String>),
    /// A question that no longer needs an answer.
    Withdrawn(QuestionId),
    /// The past calls that the standing approval in the form would have covered.
    CoveredCalls(Vec<String>),
    /// A note for the person that stays in the transcript.
    Message(String),
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
    let _floor = stderr_hold::hold_stderr();
    let mut tty = Tty::open(path, DrawMode::Full)?;
    let mut chat = Chat::new(manner.setting());
    let mut is_changed = true;
    loop {
        loop {
            match news.try_recv() {
                Ok(ChatEvent::End) => return Ok(true),
                Ok(news) => {
                    is_changed = true;
                    if let Some(word) = take_in(&mut chat, news, tty.now(), now()) {
                        act(ChatAction::SendMessage(word));
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        if is_changed || tty.needs_refresh() {
            draw(&mut tty, &mut chat)?;
        }
        let keys = match tty.keys(LOOK_UP)? {
            TtyEvent::Keys(keys) => keys,
            TtyEvent::End => return Ok(false),
        };
        is_changed = !keys.is_empty();
        for key in keys {
            match chat.key(tty.now(), now(), &key) {
                ChatAction::Nothing => {}
                ChatAction::Editor(text) => {
                    act(ChatAction::TerminalLent);
                    let edited = tty.lend(|| editor::edit(&manner.editor, &text))?;
                    act(ChatAction::TerminalReturned);
                    chat.set_edited_text(tty.now(), edited);
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
        ChatEvent::QueueMessage(word) => chat.queue_message(word),
        ChatEvent::Turn => chat.start_turn(time),
        ChatEvent::Text(text) => chat.append_text(&text),
        ChatEvent::TurnRestarted => chat.restart_turn(),
        ChatEvent::TextFinished(text, flaws) => chat.finish_text(text, flaws),
        ChatEvent::CallStarted(card) => chat.start_call(card, time),
        ChatEvent::CallOutput(call, text) => chat.append_output(call, &text),
        ChatEvent::Progress(call, detail) => chat.progress(call, detail),
        ChatEvent::CallFinished(call, state, output) => chat.finish_call(call, state, &output),
        ChatEvent::WorkFinished(words) => return chat.finish_work(words),
        ChatEvent::QuestionAsked(sheet, undo) => chat.ask(at, time, *sheet, undo),
        ChatEvent::Withdrawn(question) => chat.withdraw(at, time, question),
        ChatEvent::CoveredCalls(words) => chat.set_covered_calls(words),
        ChatEvent::Message(text) => chat.show_message(text),
        ChatEvent::Hint(text) => chat.hint(text),
        ChatEvent::Page(title, text) => chat.page(&title, &text),
        ChatEvent::Pick(picks) => chat.pick(picks),
        ChatEvent::End => {}
    }
    None
}
