//! The loop: a turn, its calls, what came of them, the next turn.
//!
//! Thin on purpose. A turn and every call that is asked for in it go through the gate, under ids that are worked out from the session;
//! what comes next is read off the conversation. So nothing here need survive: who goes on after a crash, or when a question was
//! answered tomorrow, does what would have come next, and nothing twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave::catalog::NotRegistered;
use byleave::core::call::{Call as Made, Mode};
use byleave::core::digest::{Digest, canonical};
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::question::Question;
use byleave::core::refusal::Code;
use byleave::gate::Gate;
use byleave::ledger::{ContentFault, Ledger};
use byleave::result::{CallResult, Standing};
use byleave::tool::Site;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::conversation::{self, Conversation, Next, Taken, Unread};
use crate::limits::{Limits, Reached};
use crate::model::{Call, Heard, Model, Said, Tool};
use crate::persona::{Calls, Described, Found, Persona};
use crate::turn::{Asked, Desk, Given, MODEL_TURN, ModelTurn, call_id, turn_id};

/// How soon a call is called off again that had not been taken up yet.
const CALL_OFF_AGAIN: Duration = Duration::from_millis(50);

/// Whose conversation it is, and where it works.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Whose book.
    pub tenant: TenantId,
    /// The session that the conversation is.
    pub session: SessionId,
    /// Who makes the calls.
    pub agent: AgentId,
    /// The directory that calls work in.
    pub cwd: String,
    /// How much is asked about the model's calls.
    pub mode: Mode,
}

/// The model that speaks.
#[derive(Clone)]
pub struct Speaker {
    /// Provider and model, as the book names it.
    pub name: String,
    /// Where it is asked, for the book.
    pub endpoint: String,
    /// Where it is, to be judged as an effect; none where reaching it is not to be judged, as for one within this process or on
    /// this machine.
    pub host: Option<(String, u16)>,
    /// The model.
    pub model: Arc<dyn Model>,
}

/// Something that happens in a conversation, for who watches.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// A turn begins.
    Turn(CallId),
    /// The model speaks.
    Heard(Heard<'a>),
    /// The model has spoken.
    Said(&'a Said),
    /// A call that it asked for is about to be made.
    Calling(CallId, &'a Call),
    /// What came of one.
    Called(CallId, &'a Call, &'a CallResult),
}

/// Sees what happens.
pub type Watcher = Arc<dyn Fn(Happening<'_>) + Send + Sync>;

/// How far the loop went.
#[derive(Clone, Debug, PartialEq)]
pub enum Went {
    /// The model has said what it had to say.
    Done,
    /// Questions wait for a person; once they are answered it goes on.
    Waiting(Vec<Question>),
    /// A limit was reached.
    Stopped(Reached),
    /// The model could not be heard.
    Failed(String),
    /// It was called off.
    CalledOff,
}

/// What a loop does where a question stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It waits for the answer, however long that takes.
    Stays,
    /// It ends, to be taken up again.
    Leaves,
}

/// Why the loop could not go on at all.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The conversation cannot be read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// Its tool cannot be registered.
    #[error(transparent)]
    NotRegistered(#[from] NotRegistered),
    /// A turn could not be written down.
    #[error("the turn was not taken in: {0}")]
    NotTaken(String),
    /// A turn waits for another that works on the same conversation.
    #[error("another program works on this conversation")]
    Elsewhere,
}

/// A conversation at work.
pub struct Agent {
    gate: Gate,
    ledger: Arc<dyn Ledger>,
    seat: Seat,
    key: String,
    persona: Persona,
    speaker: String,
    endpoint: String,
    limits: Limits,
    watcher: Watcher,
    desk: Desk,
}

/// What became of a turn.
enum Turned {
    /// It was taken, whatever came of it.
    Taken,
    /// It was called off for another that is given what is there now.
    Replaced,
    /// The loop goes no further.
    Went(Went),
}

impl Agent {
    /// A conversation on a gate of its own. The turns of its model are calls of the gate, by a tool that it registers; tools that the
    /// persona does not have it takes away.
    pub fn new(
        gate: Gate,
        ledger: Arc<dyn Ledger>,
        seat: Seat,
        found: Found,
        speaker: Speaker,
        limits: Limits,
        watcher: Watcher,
    ) -> Result<Self, Broken> {
        let Found { key, persona, .. } = found;
        let desk = Desk::default();
        let hears = Arc::clone(&watcher);
        let ear = Arc::new(move |heard: Heard<'_>| hears(Happening::Heard(heard)));
        let beyond = gate.catalog().list().into_iter().filter(|entry| !persona.has(entry.name()));
        for entry in beyond.collect::<Vec<_>>() {
            // Gone already is gone, too.
            drop(gate.catalog().unregister(entry.name()));
        }
        let tool = ModelTurn::new(speaker.model, speaker.host, desk.clone(), ear);
        gate.catalog().replace(tool)?;
        Ok(Self {
            gate,
            ledger,
            seat,
            key,
            persona,
            speaker: speaker.name,
            endpoint: speaker.endpoint,
            limits,
            watcher,
            desk,
        })
    }

    /// Who the model is to be, and which model it is.
    pub fn names(&self) -> (&str, &str) {
        (&self.key, &self.speaker)
    }

    /// The conversation as it stands.
    pub async fn conversation(&self) -> Result<Conversation, Unread> {
        Conversation::read(&self.gate, &*self.ledger, &self.seat.tenant, &self.seat.session).await
    }

    /// Takes a person's word in. Durable when it returns; [`Agent::go`] has it answered.
    ///
    /// Whatever of the conversation is still open stays so: who wants it ended goes first.
    pub async fn say(&self, text: &str) -> Result<(), Broken> {
        let turns = self.conversation().await?.turns.len();
        self.take_in(turns, Some(text.to_owned())).await.map(drop)
    }

    /// Goes as far as it goes.
    pub async fn go(&self, patience: Patience, stop: &CancellationToken) -> Result<Went, Broken> {
        let begun = Instant::now();
        let mut conversation = self.conversation().await?;
        // What came to nothing is tried anew by who comes to it, once.
        let mut may_try_anew = true;
        loop {
            if stop.is_cancelled() {
                return Ok(Went::CalledOff);
            }
            let over = self.limits.time.filter(|most| begun.elapsed() >= *most);
            if let Some(most) = over {
                return Ok(Went::Stopped(Reached::Time(most.as_secs())));
            }
            let next = match conversation.next() {
                Next::Anew if may_try_anew => Next::Another,
                next => next,
            };
            may_try_anew = false;
            match next {
                Next::Rest => return Ok(conversation.unfinished().map_or(Went::Done, Went::Failed)),
                Next::Anew => {
                    let why = match conversation.turns.last().and_then(|taken| taken.came.as_ref()) {
                        Some(conversation::Came::Nothing { why, .. }) => why.clone(),
                        _ => String::new(),
                    };
                    return Ok(Went::Failed(why));
                }
                Next::Another => {
                    if let Some(reached) = self.limits.before_a_turn(conversation.task()) {
                        return Ok(Went::Stopped(reached));
                    }
                    let taken = self.take_in(conversation.turns.len(), None).await?;
                    conversation.turns.push(taken);
                }
                Next::Turn => match self.turn(&mut conversation, patience, begun, stop).await? {
                    Turned::Taken => {}
                    Turned::Replaced => may_try_anew = true,
                    Turned::Went(went) => return Ok(went),
                },
                Next::Calls => {
                    if let Some(reached) = self.limits.before_the_calls(conversation.task()) {
                        return Ok(Went::Stopped(reached));
                    }
                    if let Some(went) = self.calls(&mut conversation, patience, begun, stop).await? {
                        return Ok(went);
                    }
                }
            }
        }
    }

    /// Writes a turn down, before anybody is asked.
    async fn take_in(&self, turn: usize, user: Option<String>) -> Result<Taken, Broken> {
        let turn = u32::try_from(turn).map_err(|_| Broken::NotTaken("there are too many".into()))?;
        let (_, _, prompt) = self.brief();
        let (model, endpoint) = (self.speaker.clone(), self.endpoint.clone());
        let asked = Asked { turn, user, model, endpoint, persona: self.key.clone(), prompt };
        let id = turn_id(&self.seat.tenant, &self.seat.session, turn);
        let arguments = serde_json::to_value(&asked).map_err(|error| Broken::NotTaken(error.to_string()))?;
        // The loop takes it, not the model, and whoever started the loop wanted that. What is denied stays denied.
        let call = self.made(id, MODEL_TURN.into(), arguments, None, Mode::Yolo);
        match self.gate.take_in(&call).await {
            Ok(()) => {
                let cwd = self.seat.cwd.clone();
                Ok(Taken { call: id, at: 0, cwd, asked, came: None, made: Vec::new() })
            }
            Err(result) => Err(Broken::NotTaken(result.error().unwrap_or_default())),
        }
    }

    fn made(&self, id: CallId, tool: String, arguments: Value, reason: Option<String>, mode: Mode) -> Made {
        let Seat { tenant, session, agent, cwd, .. } = self.seat.clone();
        Made { id, tenant, session, agent, tool, arguments, reason, cwd, mode, dry_run: false }
    }

    /// The system prompt, the tools, and the digest of both: as they are now (L9).
    fn brief(&self) -> (String, Vec<Tool>, Digest) {
        let Seat { tenant, session, agent, cwd, .. } = self.seat.clone();
        let site = Site { tenant, session, agent, cwd: cwd.into() };
        let entries = self.gate.catalog().list().into_iter();
        let described: Vec<Described> = entries
            .filter(|entry| entry.name() != MODEL_TURN && self.persona.has(entry.name()))
            .map(|entry| {
                let description = entry.describe(&site).into_owned();
                Described { description, ..Described::from(entry.manifest()) }
            })
            .collect();
        // How to ask for them, the model's provider says, or what stands in for one.
        let system = self.persona.prompt(&described, Calls::Native);
        let tools = described.into_iter();
        let tools =
            tools.map(|Described { name, description, schema, .. }| Tool { name, description, schema });
        let tools: Vec<Tool> = tools.collect();
        let digest = Digest::of(canonical(&json!([system, tools])).as_bytes());
        (system, tools, digest)
    }

    /// Has the open turn taken.
    async fn turn(
        &self,
        conversation: &mut Conversation,
        patience: Patience,
        begun: Instant,
        stop: &CancellationToken,
    ) -> Result<Turned, Broken> {
        let messages = conversation.messages();
        let Some(taken) = conversation.turns.last_mut() else { return Ok(Turned::Taken) };
        let (call, asked) = (taken.call, taken.asked.clone());
        let (system, tools, prompt) = self.brief();
        // What the record says it was given would not be so: then another is taken in its place.
        let replaced = prompt != asked.prompt;
        if replaced {
            self.call_off([call]).await;
        }
        (self.watcher)(Happening::Turn(call));
        let off = CancellationToken::new();
        let given = Given { call, asked, system, messages, tools };
        let work = self.take(given, patience, &off);
        let (standing, over) = self.unless_called_off(vec![call], begun, stop, &off, work).await;
        let result = match standing {
            Standing::Settled(result) => result,
            Standing::Waiting { question, .. } => {
                return Ok(Turned::Went(over.unwrap_or(Went::Waiting(vec![question]))));
            }
            Standing::RunningElsewhere { .. } => return over.map(Turned::Went).ok_or(Broken::Elsewhere),
            Standing::HeldUp { .. } | Standing::Ready { .. } => {
                return Ok(Turned::Went(over.unwrap_or(Went::Waiting(Vec::new()))));
            }
        };
        let came = conversation::Came::read(&self.gate, &*self.ledger, call).await;
        let came = came.map_err(|why: ContentFault| Unread::Content { turn: taken.asked.turn, why })?;
        if let conversation::Came::Said(said) = &came {
            (self.watcher)(Happening::Said(said));
            let places = 0..said.calls.len();
            taken.made = places
                .map(|place| conversation::Made { call: call_id(call, place), at: None, result: None })
                .collect();
        }
        taken.came = Some(came);
        Ok(match over {
            Some(went) => Turned::Went(went),
            None if is_aborted(&result) => Turned::Went(Went::CalledOff),
            None if replaced => Turned::Replaced,
            None => Turned::Taken,
        })
    }

    /// Drives a turn to its end, or to where who does not stay leaves.
    async fn take(&self, given: Given, patience: Patience, off: &CancellationToken) -> Standing {
        let call = given.call;
        loop {
            self.desk.lay(given.clone());
            let standing = self.gate.resume(call).await;
            match &standing {
                Standing::Settled(_) => return standing,
                Standing::RunningElsewhere { .. } if off.is_cancelled() => return standing,
                // Nothing of ours may stand at it then: who calls it off must find it as it lies in the book.
                _ if off.is_cancelled() => tokio::time::sleep(CALL_OFF_AGAIN.saturating_mul(3)).await,
                _ if patience == Patience::Leaves => return standing,
                _ => tokio::select! {
                    () = self.gate.until_it_moves(&standing) => {}
                    () = off.cancelled() => {}
                },
            }
        }
    }

    /// Has the calls of the last turn made that have no result yet.
    async fn calls(
        &self,
        conversation: &mut Conversation,
        patience: Patience,
        begun: Instant,
        stop: &CancellationToken,
    ) -> Result<Option<Went>, Broken> {
        let Some(taken) = conversation.turns.last_mut() else { return Ok(None) };
        let (turn, number) = (taken.call, taken.asked.turn);
        let open: Vec<(usize, Call)> = taken.open().map(|(place, call)| (place, call.clone())).collect();
        let mut made = Vec::new();
        for (place, call) in &open {
            let id = call_id(turn, *place);
            let before = conversation::received(&*self.ledger, id).await;
            let before = before.map_err(|why| Unread::Content { turn: number, why })?;
            made.push(before.unwrap_or_else(|| {
                let arguments = Value::Object(call.args.clone());
                self.made(id, call.name.clone(), arguments, call.reason.clone(), self.seat.mode)
            }));
        }
        let ids: Vec<CallId> = made.iter().map(|call| call.id).collect();
        ids.iter().zip(&open).for_each(|(id, (_, call))| (self.watcher)(Happening::Calling(*id, call)));
        let work = async {
            match patience {
                Patience::Stays => {
                    self.gate.settle_all(made).await.into_iter().map(Standing::Settled).collect()
                }
                Patience::Leaves => join_all(made.into_iter().map(|call| self.gate.advance(call))).await,
            }
        };
        let off = CancellationToken::new();
        let (standings, over) = self.unless_called_off(ids, begun, stop, &off, work).await;
        let (mut waiting, mut aborted) = (Vec::new(), false);
        for ((place, call), standing) in open.iter().zip(standings) {
            match standing {
                Standing::Settled(result) => {
                    (self.watcher)(Happening::Called(result.call, call, &result));
                    aborted |= is_aborted(&result);
                    if let Some(made) = taken.made.get_mut(*place) {
                        made.result = Some(result);
                    }
                }
                Standing::Waiting { question, .. } => waiting.push(question),
                // Behind one that waits, or with another program.
                Standing::HeldUp { .. } | Standing::RunningElsewhere { .. } | Standing::Ready { .. } => {}
            }
        }
        if over.is_some() || aborted {
            return Ok(over.or(Some(Went::CalledOff)));
        }
        let is_open = taken.made.iter().any(|made| made.result.is_none());
        Ok(is_open.then_some(Went::Waiting(waiting)))
    }

    /// Waits for work on these calls. Who stops it, or the time, calls them off; then they end, and the work with them.
    async fn unless_called_off<T>(
        &self,
        calls: Vec<CallId>,
        begun: Instant,
        stop: &CancellationToken,
        off: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> (T, Option<Went>) {
        let time = self.limits.time;
        let late = async {
            match time {
                Some(most) => tokio::time::sleep(most.saturating_sub(begun.elapsed())).await,
                None => std::future::pending().await,
            }
        };
        let mut work = std::pin::pin!(work);
        let went = tokio::select! {
            biased;
            done = &mut work => return (done, None),
            () = stop.cancelled() => Went::CalledOff,
            () = late => Went::Stopped(Reached::Time(time.map_or(0, |most| most.as_secs()))),
        };
        off.cancel();
        let calling_off = async {
            // One that nobody had taken up when it was called off is called off when it is.
            loop {
                self.call_off(calls.iter().copied()).await;
                tokio::time::sleep(CALL_OFF_AGAIN).await;
            }
        };
        tokio::select! {
            done = &mut work => (done, Some(went)),
            () = calling_off => unreachable!("it goes on until the work is done"),
        }
    }

    async fn call_off(&self, calls: impl IntoIterator<Item = CallId>) {
        for call in calls {
            if let Err(fault) = self.gate.cancel(call, self.seat.agent.as_str()).await {
                tracing::warn!(%call, %fault, "a call could not be called off");
            }
        }
    }
}

/// A person stopped everything.
fn is_aborted(result: &CallResult) -> bool {
    result.ending.refusal().is_some_and(|refusal| refusal.code == Code::Aborted)
}
