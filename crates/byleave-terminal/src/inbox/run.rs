//! Puts the inbox on a terminal. What takes time is done on threads of its own: the screen always answers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use byleave::approve::Reply;
use byleave_core::id::QuestionId;
use byleave_core::sheet::Sheet;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Act, Inbox, Item};
use crate::backing::Backing;
use crate::dialogue::offered;
use crate::editor;
use crate::floor;
use crate::manner::Manner;
use crate::tty::{Came, Place, Tty};
use crate::words::now;

/// How soon the screen looks for what is new.
const LOOK_UP: Duration = Duration::from_millis(50);
/// How often the book is looked at.
const LOOK_OUT: Duration = Duration::from_millis(250);

/// What stands behind an inbox. Called on threads of the inbox's own, and may block.
pub trait Clerk: Backing {
    /// A number that is another when the book has changed; cheap.
    fn stamp(&self) -> u64;
    /// The open questions.
    fn open(&self) -> Result<Vec<Item>, String>;
    /// A question, read from the verified record.
    fn sheet(&self, question: QuestionId) -> Result<Sheet, String>;
    /// Gives an answer, drives the call on, and says in words what came of it.
    fn answer(&self, sheet: &Sheet, reply: Reply) -> Result<String, String>;
}

/// Something that happened beside the screen.
enum News {
    /// The open questions, and what an undo would take back.
    Questions(Vec<Item>, Option<String>),
    Told(String),
    Past(Vec<String>),
    Aborted,
    Nothing,
}

/// How the inbox was left.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one, at the end")]
pub enum Left {
    /// The person answered the one question that was to be answered.
    Answered(Sheet, Reply),
    /// The person quit.
    Quit,
    /// The person aborted everything.
    Aborted,
    /// The terminal went away, or the program was told to end.
    Gone,
}

/// Shows the inbox until the person leaves it, or `ends` says so.
pub fn run(path: &Path, manner: &Manner, clerk: &Arc<dyn Clerk>, ends: &AtomicBool) -> io::Result<Left> {
    show(path, manner, clerk, ends, None)
}

/// Shows one question there, opened, until it is answered, put away or gone. Its answer is left to the caller.
pub fn run_one(
    path: &Path,
    manner: &Manner,
    clerk: &Arc<dyn Clerk>,
    ends: &AtomicBool,
    question: QuestionId,
) -> io::Result<Left> {
    show(path, manner, clerk, ends, Some(question))
}

fn show(
    path: &Path,
    manner: &Manner,
    clerk: &Arc<dyn Clerk>,
    ends: &AtomicBool,
    only: Option<QuestionId>,
) -> io::Result<Left> {
    let _floor = floor::take();
    let mut tty = Tty::open(path, Place::Full)?;
    let mut inbox = Inbox::new(manner.setting());
    let (tell, news) = channel();
    let watching = Arc::new(AtomicBool::new(true));
    look_out(Arc::clone(clerk), tell.clone(), Arc::clone(&watching));
    let mut shown = Shown { tty: &mut tty, inbox: &mut inbox, manner, clerk, tell, news, only };
    let read = only.map_or(Ok(()), |question| shown.read(&[question]));
    let left = read.and_then(|()| shown.go(ends));
    watching.store(false, Ordering::Relaxed);
    left
}

/// Tells of the open questions whenever the book has changed.
fn look_out(clerk: Arc<dyn Clerk>, tell: Sender<News>, watching: Arc<AtomicBool>) {
    thread::spawn(move || {
        let mut stamp = None;
        while watching.load(Ordering::Relaxed) {
            let seen = clerk.stamp();
            if stamp != Some(seen) {
                stamp = Some(seen);
                let news = match clerk.open() {
                    Ok(items) => News::Questions(items, clerk.last_change()),
                    Err(why) => News::Told(format!("the open questions cannot be read: {why}")),
                };
                if tell.send(news).is_err() {
                    return;
                }
            }
            thread::sleep(LOOK_OUT);
        }
    });
}

struct Shown<'a> {
    tty: &'a mut Tty,
    inbox: &'a mut Inbox,
    manner: &'a Manner,
    clerk: &'a Arc<dyn Clerk>,
    tell: Sender<News>,
    news: Receiver<News>,
    /// Nothing but this question is answered.
    only: Option<QuestionId>,
}

impl Shown<'_> {
    fn go(mut self, ends: &AtomicBool) -> io::Result<Left> {
        loop {
            while let Ok(news) = self.news.try_recv() {
                match news {
                    News::Questions(items, undo) => {
                        self.inbox.questions(items);
                        self.inbox.last_change(undo);
                    }
                    News::Told(text) => self.inbox.tell(text),
                    News::Past(words) => self.inbox.past(words),
                    News::Nothing => {}
                    News::Aborted => return Ok(Left::Aborted),
                }
            }
            self.draw()?;
            if ends.load(Ordering::Relaxed) {
                return Ok(Left::Gone);
            }
            let keys = match self.tty.keys(LOOK_UP)? {
                Came::Keys(keys) => keys,
                Came::End => return Ok(Left::Gone),
            };
            for key in keys {
                let act = self.inbox.key(self.tty.now(), &key);
                match (act, self.only) {
                    (Act::Quit, _) => return Ok(Left::Quit),
                    (Act::Answer(mut sheets, reply), Some(_)) => {
                        return Ok(sheets.pop().map_or(Left::Quit, |sheet| Left::Answered(sheet, reply)));
                    }
                    (act, _) => self.act(act)?,
                }
            }
            if self.only.is_some() && !self.inbox.is_answering() {
                return Ok(Left::Quit);
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

    fn act(&mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Nothing | Act::Quit => {}
            Act::Read(questions) => self.read(&questions)?,
            Act::Editor(text) => {
                let edited = self.tty.lend(|| editor::edit(&self.manner.editor, &text))?;
                self.inbox.edited(edited);
            }
            Act::Consider(leave) => self.beside(move |clerk| News::Past(clerk.past(&leave))),
            Act::Undo => self.beside(|clerk| News::Told(clerk.undo())),
            Act::Answer(sheets, reply) => {
                let is_abort = reply == Reply::Abort;
                let tell = self.tell.clone();
                self.beside(move |clerk| {
                    for sheet in &sheets {
                        let said = clerk.answer(sheet, reply.clone()).unwrap_or_else(|why| why);
                        tell.send(News::Told(said)).unwrap_or_default();
                    }
                    if is_abort { News::Aborted } else { News::Nothing }
                });
            }
        }
        Ok(())
    }

    fn read(&mut self, questions: &[QuestionId]) -> io::Result<()> {
        let mut sheets = Vec::new();
        for question in questions {
            match self.clerk.sheet(*question) {
                Ok(sheet) => sheets.push(sheet),
                Err(why) => {
                    self.inbox.tell(why);
                    return Ok(());
                }
            }
        }
        let offered = match sheets.as_slice() {
            [sheet] => offered(sheet),
            _ => Err("a leave is given for one call".to_owned()),
        };
        self.inbox.open(sheets, offered, now());
        // What was typed until the question could be seen was not typed for it; but it says whether somebody is writing.
        let ahead = self.tty.ahead()?;
        self.inbox.ahead(self.tty.now(), &ahead);
        self.draw()
    }

    /// Does something that takes time, and tells of it afterwards.
    fn beside(&self, work: impl FnOnce(&dyn Clerk) -> News + Send + 'static) {
        let (clerk, tell) = (Arc::clone(self.clerk), self.tell.clone());
        thread::spawn(move || {
            // Whoever left does not hear it; the book has it.
            tell.send(work(&*clerk)).unwrap_or_default();
        });
    }
}
