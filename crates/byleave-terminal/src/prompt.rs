//! The prompt: one question, drawn in place where a program runs.
//!
//! It holds the terminal while it asks; what others of this program want to say waits until it is done ([`crate::floor`]).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use byleave::approve::{Approver, ApproverFault, Reply};
use byleave::pending::Pending;
use byleave_core::escape::{Care, visible};
use byleave_core::question::Grade;
use byleave_core::render::Rendering;
use byleave_core::sheet::Sheet;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::backing::Backing;
use crate::dialogue::{Dialogue, Setting, Step, offered};
use crate::editor;
use crate::floor;
use crate::manner::Manner;
use crate::tty::{Came, Place, Tty};
use crate::words::now;

/// How soon the time that is left, and a question that nobody waits for any more, are looked at again.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A person at a terminal, asked one question at a time, in place.
pub struct Prompt {
    name: String,
    path: PathBuf,
    manner: Manner,
    backing: Arc<dyn Backing>,
    /// Taken by who asks. When something was last typed at a question that was not answered is known to the next.
    turn: Arc<Mutex<Option<Instant>>>,
}

impl Prompt {
    /// The terminal at this path, most often `/dev/tty`.
    pub fn open(
        name: impl Into<String>,
        path: impl AsRef<Path>,
        manner: Manner,
        backing: Arc<dyn Backing>,
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
    fn grade(&self) -> Grade {
        Grade::Terminal
    }
    fn ask<'a>(
        &'a self,
        sheet: &'a Sheet,
        rendering: &'a Rendering,
    ) -> Pending<'a, Result<Reply, ApproverFault>> {
        let is_complete = rendering.complete;
        let asking = Asking {
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
            // If nobody waits any more, the thread must let go of the terminal, or it would take the next answer.
            let _withdraw = Withdraw(Arc::clone(&asking.withdrawn));
            let asked = tokio::task::spawn_blocking(move || {
                let mut turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                asking.hold(&mut turn)
            });
            asked.await.unwrap_or_else(|_| Err(failed("the prompt broke")))
        })
    }
}

struct Withdraw(Arc<AtomicBool>);

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One question, from drawing it to its answer.
struct Asking {
    sheet: Sheet,
    path: PathBuf,
    manner: Manner,
    backing: Arc<dyn Backing>,
    withdrawn: Arc<AtomicBool>,
}

impl Asking {
    fn hold(&self, wrote: &mut Option<Instant>) -> Result<Reply, ApproverFault> {
        // Another question may have had the terminal until now.
        if self.withdrawn.load(Ordering::Relaxed) {
            return Err(failed("the question was withdrawn"));
        }
        let _floor = floor::take();
        let mut tty = Tty::open(&self.path, Place::Inline).map_err(|error| broke(&error))?;
        let held = self.converse(&mut tty, wrote);
        let last = self.last_words(&held);
        tty.leave(&[last]).map_err(|error| broke(&error))?;
        held
    }

    fn converse(&self, tty: &mut Tty, wrote: &mut Option<Instant>) -> Result<Reply, ApproverFault> {
        // What was typed until now was not typed for this question.
        let ahead = tty.ahead().map_err(|error| broke(&error))?;
        let setting = Setting { undo: self.backing.last_change(), ..self.manner.setting() };
        let mut dialogue = Dialogue::new(vec![self.sheet.clone()], offered(&self.sheet), setting);
        if let Some(ago) = wrote.map(|wrote| wrote.elapsed()) {
            dialogue.amid(tty.now(), ago);
        }
        dialogue.ahead(tty.now(), &ahead);
        self.draw(tty, &mut dialogue)?;
        self.backing.waits(&self.sheet);
        let held = self.listen(tty, &mut dialogue);
        // Who has answered is here, and reads.
        *wrote = match &held {
            Ok(_) => None,
            Err(_) => dialogue.wrote(tty.now()).and_then(|ago| Instant::now().checked_sub(ago)).or(*wrote),
        };
        held
    }

    fn listen(&self, tty: &mut Tty, dialogue: &mut Dialogue) -> Result<Reply, ApproverFault> {
        loop {
            if self.withdrawn.load(Ordering::Relaxed) {
                return Err(failed("the question was withdrawn"));
            }
            if now() >= dialogue.expires_at() {
                return Err(failed("the time to answer is over"));
            }
            let keys = match tty.keys(LOOK_UP).map_err(|error| broke(&error))? {
                Came::Keys(keys) => keys,
                Came::End => return Err(failed("the terminal was closed without an answer")),
            };
            for key in keys {
                let step = dialogue.key(tty.now(), &key);
                if let Some(reply) = self.step(tty, dialogue, step)? {
                    return Ok(reply);
                }
            }
            self.draw(tty, dialogue)?;
        }
    }

    fn step(
        &self,
        tty: &mut Tty,
        dialogue: &mut Dialogue,
        step: Step,
    ) -> Result<Option<Reply>, ApproverFault> {
        match step {
            Step::Stay | Step::Back => {}
            Step::Reply(reply) => return Ok(Some(reply)),
            Step::Consider(leave) => {
                self.draw(tty, dialogue)?;
                dialogue.past(self.backing.past(&leave));
            }
            Step::Undo => {
                dialogue.tell(self.backing.undo());
            }
            Step::Editor(text) => {
                let edited =
                    tty.lend(|| editor::edit(&self.manner.editor, &text)).map_err(|error| broke(&error))?;
                dialogue.edited(edited);
            }
        }
        Ok(None)
    }

    fn draw(&self, tty: &mut Tty, dialogue: &mut Dialogue) -> Result<(), ApproverFault> {
        let (columns, rows) = tty.size();
        let wanted = u16::try_from(dialogue.height(columns)).unwrap_or(u16::MAX);
        let area = Rect::new(0, 0, columns, wanted.clamp(4, rows.max(4)));
        let mut buf = Buffer::empty(area);
        let left = Duration::from_millis(dialogue.expires_at().saturating_sub(now()));
        let cursor = dialogue.draw(area, &mut buf, tty.now(), Some(left));
        tty.draw(&buf, cursor).map_err(|error| broke(&error))
    }

    /// What stays on the screen of a question that is gone.
    fn last_words(&self, held: &Result<Reply, ApproverFault>) -> String {
        let tool = visible(&self.sheet.terms.tool, Care::Name);
        let came = match held {
            Ok(Reply::Yes { .. }) => "yes".to_owned(),
            Ok(Reply::No { feedback: None }) => "no".to_owned(),
            Ok(Reply::No { feedback: Some(text) }) => format!("no: {}", visible(text, Care::Text)),
            Ok(Reply::Edit { .. }) => "edited".to_owned(),
            Ok(Reply::Part { paths, .. }) => format!("a part of it: {} kept", paths.len()),
            Ok(Reply::Leave(_)) => "yes, with a leave".to_owned(),
            Ok(Reply::Abort) => "abort".to_owned(),
            Err(fault) => format!("not answered: {}", visible(&fault.to_string(), Care::Text)),
        };
        format!("asked about {tool}: {came}")
    }
}

fn failed(why: &str) -> ApproverFault {
    ApproverFault::Failed(why.to_owned())
}

fn broke(error: &io::Error) -> ApproverFault {
    ApproverFault::Failed(format!("the terminal broke: {error}"))
}
