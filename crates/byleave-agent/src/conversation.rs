//! A conversation, read from the audit log: the turns of a session in order, and the results of their calls.
//!
//! Nothing else of a conversation is stored. It is read from the records, so it is the same after a crash, on another day, or on another
//! screen.

use byleave_gate::core::call::{Call as Received, Millis};
use byleave_gate::core::digest::{ContentRef, Digest};
use byleave_gate::core::entry::CallHeader;
use byleave_gate::core::id::{CallId, SessionId, TenantId};
use byleave_gate::core::outcome::{Outcome, Output};
use byleave_gate::core::record::Record;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::{ContentError, Ledger, LedgerError, LoadedRecord};
use byleave_gate::result::{CallResult, CallStatus, ModifiedPart};

use crate::model::{self, ChatMessage, InvalidToolCall, ModelResponse, StopReason, ToolCall};
use crate::model_turn::{MODEL_TURN, TurnArguments, call_id, turn_id};

/// A conversation up to now.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The turns, oldest first.
    pub turns: Vec<RecordedTurn>,
}

/// One turn.
#[derive(Clone, Debug)]
pub struct RecordedTurn {
    /// The call that the turn is.
    pub call: CallId,
    /// When the turn was received.
    pub at: Millis,
    /// The working directory of the turn.
    pub cwd: String,
    /// The arguments of the turn.
    pub arguments: TurnArguments,
    /// The result; `None` while the turn is open.
    pub result: Option<TurnResult>,
    /// The calls of the turn with their results, in order.
    pub calls: Vec<RecordedCall>,
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnResult {
    /// A response of the model.
    Response(ModelResponse),
    /// No response, or none that may be released.
    NoResponse {
        /// Why.
        reason: String,
        /// The text that was received until then.
        partial_text: String,
    },
}

/// A call that a model asked for.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// The id at the gate.
    pub call: CallId,
    /// When the call was received, if it was.
    pub at: Option<Millis>,
    /// The result; `None` if the call was not made or is still open.
    pub result: Option<CallResult>,
}

/// The next step of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConversationStep {
    /// Wait for a person's message.
    WaitForUser,
    /// Take the open turn.
    Turn,
    /// Make the calls of the last turn.
    Calls,
    /// Take a turn with the results of the calls.
    NextTurn,
    /// Retry: the last turn has no response.
    RetryTurn,
}

/// The reason why a conversation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A stored content cannot be read.
    #[error("cannot read turn {turn} of the conversation: {error}")]
    Content {
        /// The number of the turn.
        turn: u32,
        /// Why.
        error: ContentError,
    },
    /// A call with the id of a turn is not a turn.
    #[error("call {call} is not a turn of a conversation, but has the id of one")]
    NotATurn {
        /// The id of the call.
        call: CallId,
    },
}

impl Conversation {
    /// Reads a conversation. A conversation that has not begun is empty.
    pub async fn read(
        gate: &Gate,
        ledger: &dyn Ledger,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Self, ConversationError> {
        let mut turns = Vec::new();
        for turn in 0.. {
            let call = turn_id(tenant, session, turn);
            let Some(loaded) = ledger.load(call).await? else { break };
            turns.push(RecordedTurn::read(gate, ledger, call, &loaded, turn).await?);
        }
        Ok(Self { turns })
    }

    /// Returns the messages for the next turn.
    pub(crate) fn messages(&self) -> Vec<ChatMessage> {
        let mut messages = Vec::new();
        for taken in &self.turns {
            messages.extend(taken.arguments.user.clone().map(ChatMessage::User));
            let Some(TurnResult::Response(said)) = &taken.result else { continue };
            messages.push(ChatMessage::Response(said.clone()));
            if !said.calls.is_empty() {
                let told = said.calls.iter().zip(&taken.calls).map(|(call, made)| made.to_tool_result(call));
                messages.push(ChatMessage::Results(told.collect()));
            }
        }
        messages
    }

    /// Returns the turns since a person's last message, including the one with that message.
    pub(crate) fn current_task(&self) -> &[RecordedTurn] {
        let begun = self.turns.iter().rposition(|taken| taken.arguments.user.is_some()).unwrap_or(0);
        self.turns.get(begun..).unwrap_or_default()
    }

    /// Returns why the model's last response does not finish its task, although it makes no more calls.
    pub(crate) fn unfinished_reason(&self) -> Option<String> {
        let Some(TurnResult::Response(said)) = self.turns.last().and_then(|taken| taken.result.as_ref())
        else {
            return None;
        };
        match &said.stop_reason {
            StopReason::Done | StopReason::Calls if said.text.trim().is_empty() => {
                Some("the model said nothing".into())
            }
            StopReason::Done | StopReason::Calls => None,
            StopReason::Length => Some("the model ran out of tokens: its last message is incomplete".into()),
            StopReason::Filtered => Some("the provider filtered the response of the model".into()),
            StopReason::Other(word) => {
                Some(format!("the provider ended the response for the reason `{word}`"))
            }
        }
    }

    /// Returns the last turn whose model is known.
    pub fn last_known_turn(&self) -> Option<&RecordedTurn> {
        self.turns.iter().rev().find(|taken| !taken.arguments.model.is_empty())
    }

    /// Checks whether the calls of the model are dry runs. `None` if the conversation has not begun.
    pub fn is_dry_run(&self) -> Option<bool> {
        self.last_known_turn().map(|taken| taken.arguments.dry_run)
    }

    pub(crate) fn next_step(&self) -> ConversationStep {
        let Some(last) = self.turns.last() else { return ConversationStep::WaitForUser };
        match &last.result {
            None => ConversationStep::Turn,
            Some(TurnResult::NoResponse { .. }) => ConversationStep::RetryTurn,
            Some(TurnResult::Response(_)) if last.calls.iter().any(|made| made.result.is_none()) => {
                ConversationStep::Calls
            }
            Some(TurnResult::Response(said)) if !said.calls.is_empty() || !said.invalid_calls.is_empty() => {
                ConversationStep::NextTurn
            }
            Some(TurnResult::Response(_)) => ConversationStep::WaitForUser,
        }
    }
}

impl RecordedTurn {
    async fn read(
        gate: &Gate,
        ledger: &dyn Ledger,
        call: CallId,
        loaded: &LoadedRecord,
        turn: u32,
    ) -> Result<Self, ConversationError> {
        let record = &loaded.record;
        let heading = record.header().filter(|heading| heading.tool == MODEL_TURN);
        let heading = heading.ok_or(ConversationError::NotATurn { call })?;
        let unread = |why| ConversationError::Content { turn, error: why };
        let asked = match content(ledger, call, loaded, heading.arguments).await {
            Err(ContentError::Forgotten) => return Ok(Self::forgotten(call, heading, begun(record), turn)),
            asked => asked.map_err(unread)?,
        };
        let came = match record.outcome() {
            Some(_) => Some(TurnResult::read(gate, ledger, call).await.map_err(unread)?),
            None => None,
        };
        let cwd = heading.cwd.clone();
        let mut taken =
            Self { call, at: begun(record), cwd, arguments: asked, result: came, calls: Vec::new() };
        if let Some(TurnResult::Response(said)) = &taken.result {
            for place in 0..said.calls.len() {
                taken.calls.push(RecordedCall::read(gate, ledger, call_id(call, place)).await?);
            }
        }
        Ok(taken)
    }

    /// Returns a turn whose contents were erased.
    fn forgotten(call: CallId, heading: &CallHeader, at: Millis, turn: u32) -> Self {
        let prompt = Digest::compute(&[]);
        let [model, endpoint, persona] = [const { String::new() }; 3];
        let asked = TurnArguments { turn, user: None, model, endpoint, persona, prompt, dry_run: false };
        let came = Some(TurnResult::NoResponse {
            reason: "the turn was erased".into(),
            partial_text: String::new(),
        });
        Self { call, at, cwd: heading.cwd.clone(), arguments: asked, result: came, calls: Vec::new() }
    }

    /// Returns the reason for a call of the turn, in the model's words.
    pub(crate) fn reason_for(&self, call: &ToolCall) -> Option<String> {
        match &self.result {
            Some(TurnResult::Response(said)) => said.reason_for(call),
            _ => None,
        }
    }

    /// Returns the calls of the turn that have no result yet.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        let calls = match &self.result {
            Some(TurnResult::Response(said)) => said.calls.as_slice(),
            _ => &[],
        };
        calls
            .iter()
            .enumerate()
            .filter(|(place, _)| self.calls.get(*place).is_some_and(|made| made.result.is_none()))
    }
}

impl TurnResult {
    /// Reads the result of a settled turn.
    pub(crate) async fn read(gate: &Gate, ledger: &dyn Ledger, call: CallId) -> Result<Self, ContentError> {
        let loaded = ledger.load(call).await?.ok_or(ContentError::Missing)?;
        let nothing = |why: String| Self::NoResponse { reason: why, partial_text: String::new() };
        let output = match loaded.record.outcome() {
            Some(Outcome::Completed { output }) => *output,
            Some(Outcome::Failed { output }) => {
                let output: Output = content(ledger, call, &loaded, *output).await?;
                let why = output.error.unwrap_or_else(|| "the turn failed".into());
                return Ok(Self::NoResponse { reason: why, partial_text: output.text });
            }
            Some(Outcome::Withheld(refusal) | Outcome::Refused(refusal) | Outcome::Unknown(refusal)) => {
                return Ok(nothing(refusal.to_string()));
            }
            // A text is not a response of a model, which has calls and a reason to stop.
            Some(Outcome::Answered { .. }) => {
                return Ok(nothing(
                    "a person answered in the place of the model, which was not asked".into(),
                ));
            }
            Some(Outcome::DryRun { .. }) | None => return Ok(nothing("the turn was not run".into())),
        };
        let output: Output = content(ledger, call, &loaded, output).await?;
        let said = output.data.map(serde_json::from_value::<ModelResponse>);
        let Some(Ok(mut said)) = said else {
            return Ok(nothing("the response of the model is too long to be stored".into()));
        };
        // Calls in a modified output are no longer the calls of the model.
        if let CallStatus::Settled(result) = gate.resume(call).await
            && let Some(change) =
                result.modifications.iter().find(|change| change.part == ModifiedPart::Output)
        {
            let by = &change.author;
            let calls = std::mem::take(&mut said.calls);
            said.invalid_calls.extend(calls.into_iter().map(|call| InvalidToolCall {
                message: format!("the call of `{}` was not run: {by} modified the response", call.name),
            }));
            said.text = output.text;
        }
        Ok(Self::Response(said))
    }
}

impl RecordedCall {
    async fn read(gate: &Gate, ledger: &dyn Ledger, call: CallId) -> Result<Self, LedgerError> {
        let Some(loaded) = ledger.load(call).await? else { return Ok(Self { call, at: None, result: None }) };
        let at = Some(begun(&loaded.record));
        if loaded.record.outcome().is_none() {
            return Ok(Self { call, at, result: None });
        }
        let result = match gate.resume(call).await {
            CallStatus::Settled(result) => Some(result),
            _ => None,
        };
        Ok(Self { call, at, result })
    }

    /// Returns the result that the model gets.
    pub(crate) fn to_tool_result(&self, asked: &ToolCall) -> model::ToolResult {
        let (call, tool) = (asked.id.clone(), asked.name.clone());
        match &self.result {
            Some(result) => {
                let report = result.to_report();
                model::ToolResult {
                    call_id: call,
                    tool,
                    success: report.success,
                    output: report.output,
                    truncated: report.truncated,
                    execution_time_ms: report.execution_time_ms,
                    error: report.error,
                }
            }
            None => {
                let error =
                    if self.at.is_some() { "the call waits for a person" } else { "the call was not run" };
                model::ToolResult { call_id: call, tool, error: Some(error.into()), ..Default::default() }
            }
        }
    }
}

/// Returns a call exactly as it was received, if it was. A repeat of it is then the same call, even if the mode has changed.
pub(crate) async fn load_received(
    ledger: &dyn Ledger,
    call: CallId,
) -> Result<Option<Received>, ContentError> {
    let Some(loaded) = ledger.load(call).await? else { return Ok(None) };
    let Some(heading) = loaded.record.header().cloned() else { return Ok(None) };
    let reason = match heading.reason {
        Some(held) => Some(content(ledger, call, &loaded, held).await?),
        None => None,
    };
    Ok(Some(Received {
        id: call,
        arguments: content(ledger, call, &loaded, heading.arguments).await?,
        reason,
        tenant: heading.tenant,
        session: heading.session,
        agent: heading.agent,
        tool: heading.tool,
        cwd: heading.cwd,
        mode: heading.mode,
        dry_run: heading.dry_run,
    }))
}

fn begun(record: &Record) -> Millis {
    record.entries().first().map_or(0, |entry| entry.at)
}

/// Reads a content and checks that it is the one that was written.
async fn content<T: serde::de::DeserializeOwned>(
    ledger: &dyn Ledger,
    call: CallId,
    loaded: &LoadedRecord,
    held: ContentRef,
) -> Result<T, ContentError> {
    let key = loaded.key.as_ref().ok_or(ContentError::Forgotten)?;
    let bytes = ledger.content(call, held).await?;
    if key.content_ref(&bytes) != held {
        return Err(ContentError::Corrupted);
    }
    serde_json::from_slice(&bytes).map_err(|_| ContentError::Corrupted)
}
