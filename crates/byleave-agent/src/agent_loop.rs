//! The agent loop: a turn, its calls, their results, the next turn.
//!
//! The loop is thin on purpose and persists nothing itself. A turn and every call of it go through the gate, with ids derived from the
//! session. The next step is read from the conversation. After a crash, or when a question is answered a day later, the loop continues with
//! the next step and repeats nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_gate::catalog::RegisterError;
use byleave_gate::core::call::{Call as Made, Mode};
use byleave_gate::core::digest::{Digest, canonical_json};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::question::Question;
use byleave_gate::core::refusal::Code;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::{ContentError, Ledger};
use byleave_gate::result::{CallResult, CallStatus};
use byleave_gate::tool::ToolContext;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::conversation::{self, Conversation, ConversationError, ConversationStep, RecordedTurn};
use crate::deferred_tools;
use crate::limits::{LimitReachedError, TaskLimits};
use crate::model::{Model, ModelResponse, StreamEvent, ToolCall, ToolSpec};
use crate::model_challenger::ModelChallenger;
use crate::model_turn::{MODEL_TURN, ModelTurnTool, TurnArguments, TurnInput, TurnSlot, call_id, turn_id};
use crate::persona::{LoadedPersona, Persona, ToolCallFormat, ToolDescription};

/// The interval at which a call that had not started is cancelled again.
const CALL_OFF_AGAIN: Duration = Duration::from_millis(50);

/// The identity of a conversation, and where it works.
#[derive(Clone, Debug)]
pub struct ConversationContext {
    /// The tenant.
    pub tenant: TenantId,
    /// The session of the conversation.
    pub session: SessionId,
    /// The agent that makes the calls.
    pub agent: AgentId,
    /// The working directory of calls.
    pub cwd: String,
    /// The mode for the model's calls.
    pub mode: Mode,
    /// Whether the model's calls are dry runs (L10): nobody is asked, and no tool runs. The turns of the model run. A conversation is a
    /// dry run from its beginning to its end.
    pub dry_run: bool,
}

/// A model with its name and address.
#[derive(Clone)]
pub struct ModelHandle {
    /// Provider and model, as named in the audit log.
    pub name: String,
    /// The endpoint of the model, for the audit log.
    pub endpoint: String,
    /// The host of the model, to be evaluated as an effect. `None` if reaching it is not to be evaluated, for example a model in this process or
    /// on this machine.
    pub host: Option<(String, u16)>,
    /// The model.
    pub model: Arc<dyn Model>,
}

/// An event in a conversation, for listeners.
#[derive(Clone, Copy, Debug)]
pub enum AgentEvent<'a> {
    /// A turn begins.
    TurnStarted(CallId),
    /// The model sends output.
    Stream(StreamEvent<'a>),
    /// The model has finished its turn.
    ModelResponded(&'a ModelResponse),
    /// A call of the model is about to be made.
    CallStarted(CallId, &'a ToolCall),
    /// A call of the model has a result.
    CallFinished(CallId, &'a ToolCall, &'a CallResult),
}

/// A listener for the events of a conversation.
pub type EventListener = Arc<dyn Fn(AgentEvent<'_>) + Send + Sync>;

/// The outcome of a run of the loop.
#[derive(Clone, Debug, PartialEq)]
pub enum RunOutcome {
    /// The model has finished.
    Done,
    /// Questions wait for a person. The loop can continue after they are answered.
    Waiting(Vec<Question>),
    /// A limit was reached.
    LimitReached(LimitReachedError),
    /// The task failed, with the reason: a turn has no response, or the last response does not finish the task.
    Failed(String),
    /// The run was cancelled.
    Cancelled,
}

/// The behaviour of a loop while a question is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnQuestion {
    /// Waits for the answer, without a limit.
    Wait,
    /// Returns, to be resumed later.
    Exit,
}

/// The reason why the loop could not continue at all.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The conversation cannot be read.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// The tool `model_turn` cannot be registered.
    #[error(transparent)]
    NotRegistered(#[from] RegisterError),
    /// A turn could not be recorded.
    #[error("cannot record the turn: {0}")]
    NotRecorded(String),
    /// A turn waits for another program that works on the same conversation.
    #[error("another program is working on this conversation")]
    Busy,
    /// The conversation is a dry run, and was continued as a real one.
    #[error("this conversation is a dry run, and cannot be continued as a real one")]
    IsDryRun,
    /// The conversation is not a dry run, and was continued as one.
    #[error("this conversation is not a dry run, and cannot be continued as one")]
    IsNotDryRun,
}

/// A conversation with its model and gate.
pub struct Agent {
    gate: Gate,
    ledger: Arc<dyn Ledger>,
    seat: ConversationContext,
    key: String,
    persona: Persona,
    speaker: String,
    endpoint: String,
    limits: TaskLimits,
    watcher: EventListener,
    desk: TurnSlot,
}

/// The outcome of one turn.
enum TurnOutcome {
    /// The turn was taken, with any result.
    Taken,
    /// The turn was cancelled in favour of another with the current prompt.
    Replaced,
    /// The loop ends.
    Went(RunOutcome),
}

impl Agent {
    /// Creates a conversation with its own gate. The turns of its model are calls of a tool that this function registers. It unregisters
    /// the tools that the persona does not have.
    pub fn new(
        gate: Gate,
        ledger: Arc<dyn Ledger>,
        seat: ConversationContext,
        found: LoadedPersona,
        speaker: ModelHandle,
        limits: TaskLimits,
        watcher: EventListener,
    ) -> Result<Self, AgentError> {
        let LoadedPersona { key, persona, .. } = found;
        let desk = TurnSlot::default();
        let hears = Arc::clone(&watcher);
        let ear = Arc::new(move |heard: StreamEvent<'_>| hears(AgentEvent::Stream(heard)));
        let beyond = gate.catalog().list().into_iter().filter(|entry| !persona.allows_tool(entry.name()));
        for entry in beyond.collect::<Vec<_>>() {
            // It is fine if the tool is already gone.
            drop(gate.catalog().unregister(entry.name()));
        }
        gate.set_challenger(ModelChallenger::new(Arc::clone(&speaker.model)));
        let tool = ModelTurnTool::new(speaker.model, speaker.host, desk.clone(), ear);
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

    /// Returns the names of persona and model.
    pub fn persona_and_model(&self) -> (&str, &str) {
        (&self.key, &self.speaker)
    }

    /// Reads the conversation in its current state.
    pub async fn conversation(&self) -> Result<Conversation, ConversationError> {
        Conversation::read(&self.gate, &*self.ledger, &self.seat.tenant, &self.seat.session).await
    }

    /// Reads the conversation to continue it. Otherwise a dry run could drive a real call that somebody has approved meanwhile.
    async fn own_conversation(&self) -> Result<Conversation, AgentError> {
        let conversation = self.conversation().await?;
        match (conversation.is_dry_run(), self.seat.dry_run) {
            (Some(true), false) => Err(AgentError::IsDryRun),
            (Some(false), true) => Err(AgentError::IsNotDryRun),
            _ => Ok(conversation),
        }
    }

    /// Records a person's message. It is durable when this returns; [`Agent::run`] gets the answer.
    ///
    /// Open calls and turns of the conversation stay open. A caller that wants them ended calls [`Agent::run`] first.
    pub async fn add_user_message(&self, text: &str) -> Result<(), AgentError> {
        let conversation = self.own_conversation().await?;
        self.take_in(&conversation, Some(text.to_owned())).await.map(drop)
    }

    /// Runs the loop until it ends or has to wait.
    pub async fn run(
        &self,
        patience: OnQuestion,
        stop: &CancellationToken,
    ) -> Result<RunOutcome, AgentError> {
        let begun = Instant::now();
        let mut conversation = self.own_conversation().await?;
        // A turn without a result is retried once per run.
        let mut may_try_anew = true;
        loop {
            if stop.is_cancelled() {
                return Ok(RunOutcome::Cancelled);
            }
            let over = self.limits.max_time.filter(|most| begun.elapsed() >= *most);
            if let Some(most) = over {
                return Ok(RunOutcome::LimitReached(LimitReachedError::Time(most.as_secs())));
            }
            let next = match conversation.next_step() {
                ConversationStep::RetryTurn if may_try_anew => ConversationStep::NextTurn,
                next => next,
            };
            may_try_anew = false;
            match next {
                ConversationStep::WaitForUser => {
                    return Ok(conversation.unfinished_reason().map_or(RunOutcome::Done, RunOutcome::Failed));
                }
                ConversationStep::RetryTurn => {
                    let why = match conversation.turns.last().and_then(|taken| taken.result.as_ref()) {
                        Some(conversation::TurnResult::NoResponse { reason: why, .. }) => why.clone(),
                        _ => String::new(),
                    };
                    return Ok(RunOutcome::Failed(why));
                }
                ConversationStep::NextTurn => {
                    if let Some(reached) = self.limits.check_turn(conversation.current_task()) {
                        return Ok(RunOutcome::LimitReached(reached));
                    }
                    let taken = self.take_in(&conversation, None).await?;
                    conversation.turns.push(taken);
                }
                ConversationStep::Turn => match self.turn(&mut conversation, patience, begun, stop).await? {
                    TurnOutcome::Taken => {}
                    TurnOutcome::Replaced => may_try_anew = true,
                    TurnOutcome::Went(went) => return Ok(went),
                },
                ConversationStep::Calls => {
                    if let Some(reached) = self.limits.check_calls(conversation.current_task()) {
                        return Ok(RunOutcome::LimitReached(reached));
                    }
                    if let Some(went) = self.calls(&mut conversation, patience, begun, stop).await? {
                        return Ok(went);
                    }
                }
            }
        }
    }

    /// Records a turn before the model is asked.
    async fn take_in(
        &self,
        conversation: &Conversation,
        user: Option<String>,
    ) -> Result<RecordedTurn, AgentError> {
        let turn = u32::try_from(conversation.turns.len())
            .map_err(|_| AgentError::NotRecorded("there are too many".into()))?;
        let (_, _, prompt) = self.brief(conversation);
        let (model, endpoint) = (self.speaker.clone(), self.endpoint.clone());
        let (persona, dry_run) = (self.key.clone(), self.seat.dry_run);
        let asked = TurnArguments { turn, user, model, endpoint, persona, prompt, dry_run };
        let id = turn_id(&self.seat.tenant, &self.seat.session, turn);
        let arguments =
            serde_json::to_value(&asked).map_err(|error| AgentError::NotRecorded(error.to_string()))?;
        // The loop makes this call, not the model, and the person who started the loop wanted that. A deny still holds.
        let call =
            Made { mode: Mode::Yolo, dry_run: false, ..self.made(id, MODEL_TURN.into(), arguments, None) };
        match self.gate.accept(&call).await {
            Ok(()) => {
                let cwd = self.seat.cwd.clone();
                Ok(RecordedTurn { call: id, at: 0, cwd, arguments: asked, result: None, calls: Vec::new() })
            }
            Err(result) => Err(AgentError::NotRecorded(result.error().unwrap_or_default())),
        }
    }

    fn made(&self, id: CallId, tool: String, arguments: Value, reason: Option<String>) -> Made {
        let ConversationContext { tenant, session, agent, cwd, mode, dry_run } = self.seat.clone();
        Made { id, tenant, session, agent, tool, arguments, reason, cwd, mode, dry_run }
    }

    /// Returns the current system prompt, the tools that are sent, and the digest of both (L9).
    fn brief(&self, conversation: &Conversation) -> (String, Vec<ToolSpec>, Digest) {
        let ConversationContext { tenant, session, agent, cwd, .. } = self.seat.clone();
        let site = ToolContext { tenant, session, agent, cwd: cwd.into() };
        let mut entries = self.gate.catalog().list();
        entries.retain(|entry| entry.name() != MODEL_TURN && self.persona.allows_tool(entry.name()));
        let deferred = deferred_tools::defer(&mut entries, self.gate.catalog(), conversation);
        let described: Vec<ToolDescription> = entries
            .iter()
            .map(|entry| {
                let description = entry.describe(&site).into_owned();
                ToolDescription { description, ..ToolDescription::from(entry.manifest()) }
            })
            .collect();
        // The model's provider, or an adapter for it, tells the model how to call tools. A hosted persona has its prompt there.
        let system = match &self.persona.hosted {
            Some(_) => String::new(),
            None => self.persona.system_prompt_with_search(&described, ToolCallFormat::Native, deferred),
        };
        let tools = described.into_iter();
        let tools = tools.map(|ToolDescription { name, description, schema, .. }| ToolSpec {
            name,
            description,
            schema,
        });
        let tools: Vec<ToolSpec> = tools.collect();
        let digest = Digest::compute(canonical_json(&json!([system, tools])).as_bytes());
        (system, tools, digest)
    }

    /// Runs the open turn.
    async fn turn(
        &self,
        conversation: &mut Conversation,
        patience: OnQuestion,
        begun: Instant,
        stop: &CancellationToken,
    ) -> Result<TurnOutcome, AgentError> {
        let messages = conversation.messages();
        let (system, tools, prompt) = self.brief(conversation);
        let Some(taken) = conversation.turns.last_mut() else { return Ok(TurnOutcome::Taken) };
        let (call, asked) = (taken.call, taken.arguments.clone());
        // The prompt has changed, so the recorded digest would be wrong. Another turn replaces this one.
        let replaced = prompt != asked.prompt;
        if replaced {
            self.call_off([call]).await;
        }
        (self.watcher)(AgentEvent::TurnStarted(call));
        let off = CancellationToken::new();
        let given = TurnInput { call, arguments: asked, system, messages, tools };
        let work = self.take(given, patience, &off);
        let (standing, over) = self.unless_called_off(vec![call], begun, stop, &off, work).await;
        let result = match standing {
            CallStatus::Settled(result) => result,
            CallStatus::Waiting { question, .. } => {
                return Ok(TurnOutcome::Went(over.unwrap_or(RunOutcome::Waiting(vec![question]))));
            }
            CallStatus::RunningElsewhere { .. } => {
                return over.map(TurnOutcome::Went).ok_or(AgentError::Busy);
            }
            CallStatus::Blocked { .. } | CallStatus::Ready { .. } => {
                return Ok(TurnOutcome::Went(over.unwrap_or(RunOutcome::Waiting(Vec::new()))));
            }
        };
        let came = conversation::TurnResult::read(&self.gate, &*self.ledger, call).await;
        let came = came.map_err(|why: ContentError| ConversationError::Content {
            turn: taken.arguments.turn,
            error: why,
        })?;
        if let conversation::TurnResult::Response(said) = &came {
            (self.watcher)(AgentEvent::ModelResponded(said));
            let places = 0..said.calls.len();
            taken.calls = places
                .map(|place| conversation::RecordedCall {
                    call: call_id(call, place),
                    at: None,
                    result: None,
                })
                .collect();
        }
        taken.result = Some(came);
        Ok(match over {
            Some(went) => TurnOutcome::Went(went),
            None if is_aborted(&result) => TurnOutcome::Went(RunOutcome::Cancelled),
            None if replaced => TurnOutcome::Replaced,
            None => TurnOutcome::Taken,
        })
    }

    /// Drives a turn until it ends, or until it has to wait and the loop does not wait for questions.
    async fn take(&self, given: TurnInput, patience: OnQuestion, off: &CancellationToken) -> CallStatus {
        let call = given.call;
        loop {
            self.desk.put(given.clone());
            let standing = self.gate.resume(call).await;
            match &standing {
                CallStatus::Settled(_) => return standing,
                CallStatus::RunningElsewhere { .. } if off.is_cancelled() => return standing,
                // This process must not drive the call now, so that the cancellation finds it as it is in the record.
                _ if off.is_cancelled() => tokio::time::sleep(CALL_OFF_AGAIN.saturating_mul(3)).await,
                _ if patience == OnQuestion::Exit => return standing,
                _ => tokio::select! {
                    () = self.gate.wait_for_progress(&standing) => {}
                    () = off.cancelled() => {}
                },
            }
        }
    }

    /// Makes the calls of the last turn that have no result yet.
    async fn calls(
        &self,
        conversation: &mut Conversation,
        patience: OnQuestion,
        begun: Instant,
        stop: &CancellationToken,
    ) -> Result<Option<RunOutcome>, AgentError> {
        let Some(taken) = conversation.turns.last_mut() else { return Ok(None) };
        let (turn, number) = (taken.call, taken.arguments.turn);
        let open: Vec<(usize, ToolCall)> =
            taken.open_calls().map(|(place, call)| (place, call.clone())).collect();
        let mut made = Vec::new();
        for (place, call) in &open {
            let id = call_id(turn, *place);
            let before = conversation::load_received(&*self.ledger, id).await;
            let before = before.map_err(|why| ConversationError::Content { turn: number, error: why })?;
            made.push(before.unwrap_or_else(|| {
                let arguments = Value::Object(call.args.clone());
                self.made(id, call.name.clone(), arguments, taken.reason_for(call))
            }));
        }
        let ids: Vec<CallId> = made.iter().map(|call| call.id).collect();
        ids.iter().zip(&open).for_each(|(id, (_, call))| (self.watcher)(AgentEvent::CallStarted(*id, call)));
        let work = async {
            match patience {
                OnQuestion::Wait => {
                    self.gate.settle_all(made).await.into_iter().map(CallStatus::Settled).collect()
                }
                OnQuestion::Exit => join_all(made.into_iter().map(|call| self.gate.advance(call))).await,
            }
        };
        let off = CancellationToken::new();
        let (standings, over) = self.unless_called_off(ids, begun, stop, &off, work).await;
        let (mut waiting, mut aborted) = (Vec::new(), false);
        for ((place, call), standing) in open.iter().zip(standings) {
            match standing {
                CallStatus::Settled(result) => {
                    (self.watcher)(AgentEvent::CallFinished(result.call, call, &result));
                    aborted |= is_aborted(&result);
                    if let Some(made) = taken.calls.get_mut(*place) {
                        made.result = Some(result);
                    }
                }
                CallStatus::Waiting { question, .. } => waiting.push(question),
                // Such a call waits behind another, or another program drives it.
                CallStatus::Blocked { .. }
                | CallStatus::RunningElsewhere { .. }
                | CallStatus::Ready { .. } => {}
            }
        }
        if over.is_some() || aborted {
            return Ok(over.or(Some(RunOutcome::Cancelled)));
        }
        let is_open = taken.calls.iter().any(|made| made.result.is_none());
        Ok(is_open.then_some(RunOutcome::Waiting(waiting)))
    }

    /// Waits for work on these calls. A stop or the time limit cancels them; then they end, and the work with them.
    async fn unless_called_off<T>(
        &self,
        calls: Vec<CallId>,
        begun: Instant,
        stop: &CancellationToken,
        off: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> (T, Option<RunOutcome>) {
        let time = self.limits.max_time;
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
            () = stop.cancelled() => RunOutcome::Cancelled,
            () = late => RunOutcome::LimitReached(LimitReachedError::Time(time.map_or(0, |most| most.as_secs()))),
        };
        off.cancel();
        let calling_off = async {
            // A call that had not started at the first cancellation is cancelled once it has.
            loop {
                self.call_off(calls.iter().copied()).await;
                tokio::time::sleep(CALL_OFF_AGAIN).await;
            }
        };
        tokio::select! {
            done = &mut work => (done, Some(went)),
            () = calling_off => unreachable!("the loop runs until the work is done"),
        }
    }

    async fn call_off(&self, calls: impl IntoIterator<Item = CallId>) {
        for call in calls {
            if let Err(fault) = self.gate.cancel(call, self.seat.agent.as_str()).await {
                tracing::warn!(%call, %fault, "cannot cancel a call");
            }
        }
    }
}

/// Checks whether a person aborted everything.
fn is_aborted(result: &CallResult) -> bool {
    result.outcome.refusal().is_some_and(|refusal| refusal.code == Code::Aborted)
}
