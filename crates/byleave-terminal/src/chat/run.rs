//! Puts the chat on a terminal. News come in and acts go out on channels: the screen always answers.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::id::{CallId, QuestionId};
use byleave_core::sheet::Sheet;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Act, Card, Chat, Entry, Heading, Pick, State};
use crate::editor;
use crate::floor;
use crate::manner::Manner;
use crate::tty::{Came, Place, Tty};
use crate::words::now;

/// How soon the screen looks for what is new.
const LOOK_UP: Duration = Duration::from_millis(40);

/// Something that happened, for the screen.
pub enum News {
    /// Another conversation, as far as it has come.
    Begin(Heading, Vec<Entry>),
    /// What is to be said as soon as the model rests.
    Later(String),
    /// The model begins to speak.
    Turn,
    /// It says something.
    Text(String),
    /// What it was saying counts for nothing.
    Anew,
    /// What it has said, whole, and what is wrong with it.
    Said(String, Vec<String>),
    /// A call is about to be made.
    Calling(Card),
    /// A call has printed something.
    Printed(CallId, String),
    /// A call has come further.
    Progress(CallId, String),
    /// What came of a call, and what it put out.
    Called(CallId, State, String),
    /// It is the person's turn.
    Rests(String),
    /// A question, and what an undo would take back.
    Asked(Box<Sheet>, Option<String>),
    /// A question that need not be answered any more.
    Withdrawn(QuestionId),
    /// What the leave that is considered would have covered.
    Past(Vec<String>),
    /// Something for the person, to stay.
    Told(String),
    /// Something about what the person just did.
    Hint(String),
    /// A page to read: its title, and its text.
    Page(String, String),
    /// Conversations to choose from.
    Pick(Vec<Pick>),
    /// The end.
    End,
}

/// Shows the chat until it is told to end, or the terminal has gone. What the person wants goes to `act`; [`Act::Quit`] does not end
/// it by itself. Returns whether the terminal is still there.
pub fn run(path: &Path, manner: &Manner, news: &Receiver<News>, act: impl Fn(Act)) -> io::Result<bool> {
    let _floor = floor::take();
    let mut tty = Tty::open(path, Place::Full)?;
    let mut chat = Chat::new(manner.setting());
    loop {
        loop {
            match news.try_recv() {
                Ok(News::End) => return Ok(true),
                Ok(news) => {
                    if let Some(word) = take_in(&mut chat, news, tty.now(), now()) {
                        act(Act::Say(word));
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        draw(&mut tty, &mut chat)?;
        let keys = match tty.keys(LOOK_UP)? {
            Came::Keys(keys) => keys,
            Came::End => return Ok(false),
        };
        for key in keys {
            match chat.key(tty.now(), now(), &key) {
                Act::Nothing => {}
                Act::Editor(text) => {
                    act(Act::Lent);
                    let edited = tty.lend(|| editor::edit(&manner.editor, &text))?;
                    act(Act::Back);
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

/// Tells the chat what happened; returns what the person had said for when the model would rest.
fn take_in(chat: &mut Chat, news: News, at: Duration, time: Millis) -> Option<String> {
    match news {
        News::Begin(heading, entries) => chat.begin(heading, entries),
        News::Later(word) => chat.later(word),
        News::Turn => chat.turn(time),
        News::Text(text) => chat.text(&text),
        News::Anew => chat.anew(),
        News::Said(text, flaws) => chat.said(text, flaws),
        News::Calling(card) => chat.calling(card, time),
        News::Printed(call, text) => chat.printed(call, &text),
        News::Progress(call, detail) => chat.progress(call, detail),
        News::Called(call, state, output) => chat.called(call, state, &output),
        News::Rests(words) => return chat.rests(words),
        News::Asked(sheet, undo) => chat.ask(at, time, *sheet, undo),
        News::Withdrawn(question) => chat.withdraw(at, time, question),
        News::Past(words) => chat.past(words),
        News::Told(text) => chat.tell(text),
        News::Hint(text) => chat.hint(text),
        News::Page(title, text) => chat.page(&title, &text),
        News::Pick(picks) => chat.pick(picks),
        News::End => {}
    }
    None
}
