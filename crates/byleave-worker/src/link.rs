//! The link: one wire to the office, opened again whenever it breaks. What was not answered is said again.

use std::collections::BTreeMap;
use std::time::Duration;

use byleave::ledger::LedgerFault;
use byleave::pending::Pending;
use byleave_core::id::OwnerId;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::wire::{Ask, Frame, Gone, Hello, PROTOCOL, Trouble, Wire};

/// How long the office may take to say its first word.
const WELCOME: Duration = Duration::from_secs(10);
/// How long the office may say nothing at all.
const SILENCE: Duration = Duration::from_secs(30);
/// How often we say that we are alive.
const BEAT: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How many questions wait at most to be taken up by the link.
const WAITING_MAX: usize = 64;

/// Opens wires to the office.
pub trait Dial: Send + Sync + 'static {
    /// Opens one.
    fn dial(&self) -> Pending<'_, Result<Wire, Undialled>>;
}

/// Why there is no wire.
#[derive(Debug)]
pub struct Undialled(pub String);

/// A question on its way.
struct Question {
    ask: Ask,
    reply: oneshot::Sender<Answered>,
    /// How often it was said.
    said: u32,
    /// Nobody waits for the answer any longer than until then.
    until: Instant,
}

/// What came of a question.
pub(crate) struct Answered {
    pub(crate) told: Result<Value, Trouble>,
    /// It was said more than once, so that an earlier time may have had its effect already.
    pub(crate) again: bool,
}

/// One wire to the office, opened again whenever it breaks; closed when this is dropped.
pub(crate) struct Link {
    questions: mpsc::Sender<Question>,
    patience: Duration,
}

impl Link {
    pub(crate) fn open(dial: impl Dial, owner: OwnerId, patience: Duration) -> Self {
        let (questions, asked) = mpsc::channel(WAITING_MAX);
        tokio::spawn(Line { dial: Box::new(dial), owner, asked, open: BTreeMap::new(), next: 0 }.keep());
        Self { questions, patience }
    }

    /// Asks the office, for as long as our patience lasts.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Answered, LedgerFault> {
        let away = |why: &str| LedgerFault::new("cannot ask the office", why);
        let (reply, answered) = oneshot::channel();
        let until = Instant::now() + self.patience;
        let question = Question { ask, reply, said: 0, until };
        self.questions.send(question).await.map_err(|_| away("the link has ended"))?;
        match tokio::time::timeout_at(until, answered).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(_)) => Err(away("the link has ended")),
            Err(_) => Err(away("it has not answered in time; is it running, and within reach?")),
        }
    }
}

/// The task that keeps the wire.
struct Line {
    dial: Box<dyn Dial>,
    owner: OwnerId,
    asked: mpsc::Receiver<Question>,
    /// Not answered yet, by their ids.
    open: BTreeMap<u64, Question>,
    next: u64,
}

/// Why a conversation ended.
enum Ended {
    /// The wire broke.
    Broke,
    /// Nobody asks any more.
    Over,
}

impl Line {
    async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.connect().await {
                Ok(wire) => {
                    pause = PAUSE_MIN;
                    if matches!(self.converse(wire).await, Ended::Over) {
                        return;
                    }
                }
                Err(why) => tracing::debug!(why, "cannot reach the office; trying again"),
            }
            tokio::select! {
                () = self.questions_over() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Takes questions while there is no wire; comes back when nobody asks any more.
    async fn questions_over(&mut self) {
        while let Some(question) = self.asked.recv().await {
            self.take(question);
        }
    }

    fn take(&mut self, question: Question) -> u64 {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.insert(id, question);
        id
    }

    async fn connect(&self) -> Result<Wire, String> {
        let mut wire = self.dial.dial().await.map_err(|Undialled(why)| why)?;
        let hello = Frame::Hello(Hello { protocol: PROTOCOL, owner: self.owner });
        wire.say(&hello).await.map_err(|Gone| "the wire broke at once".to_owned())?;
        let heard = tokio::time::timeout(WELCOME, wire.hear.recv()).await;
        let heard = heard.ok().flatten().ok_or("the office said nothing")?;
        match serde_json::from_str(&heard) {
            Ok(Frame::Welcome { lease_ms }) => {
                tracing::debug!(lease_ms, "the office is there");
                Ok(wire)
            }
            Ok(Frame::Unwelcome { why }) => {
                tracing::warn!(why, "the office turned us away");
                Err(why)
            }
            _ => Err("the office does not speak as offices do".to_owned()),
        }
    }

    async fn converse(&mut self, mut wire: Wire) -> Ended {
        let now = Instant::now();
        self.open.retain(|_, question| question.until > now && !question.reply.is_closed());
        let unanswered: Vec<u64> = self.open.keys().copied().collect();
        for id in unanswered {
            if self.say(&wire, id).await.is_err() {
                return Ended::Broke;
            }
        }
        let mut beat = tokio::time::interval(BEAT);
        let mut heard_at = Instant::now();
        loop {
            let broke = tokio::select! {
                heard = wire.hear.recv() => match heard {
                    Some(text) => {
                        heard_at = Instant::now();
                        self.hear(&text)
                    }
                    None => Err(Gone),
                },
                // Since it was last heard, whatever we said meanwhile.
                () = tokio::time::sleep_until(heard_at + SILENCE) => Err(Gone),
                asked = self.asked.recv() => match asked {
                    Some(question) => {
                        let id = self.take(question);
                        self.say(&wire, id).await
                    }
                    None => return Ended::Over,
                },
                _ = beat.tick() => wire.say(&Frame::Beat).await,
            };
            if let Err(Gone) = broke {
                return Ended::Broke;
            }
        }
    }

    async fn say(&mut self, wire: &Wire, id: u64) -> Result<(), Gone> {
        let Some(question) = self.open.get_mut(&id) else { return Ok(()) };
        question.said = question.said.saturating_add(1);
        wire.say(&Frame::Ask { id, ask: question.ask.clone() }).await
    }

    fn hear(&mut self, text: &str) -> Result<(), Gone> {
        match serde_json::from_str(text) {
            Ok(Frame::Told { id, told }) => {
                if let Some(question) = self.open.remove(&id) {
                    let answered = Answered { told, again: question.said > 1 };
                    // Who asked may have given up.
                    drop(question.reply.send(answered));
                }
                Ok(())
            }
            Ok(Frame::Beat) => Ok(()),
            Ok(_) | Err(_) => {
                tracing::warn!("the office says what offices do not say");
                Err(Gone)
            }
        }
    }
}
