//! A conversation, as the book has it: the turns of a session in order, and what came of the calls of each.
//!
//! Nothing else is kept of one. It is read off the records, so it is the same for who goes on with it after a crash, tomorrow, or on
//! another screen.

use byleave::core::call::{Call as Received, Millis};
use byleave::core::digest::{Digest, Held};
use byleave::core::entry::Heading;
use byleave::core::id::{CallId, SessionId, TenantId};
use byleave::core::outcome::{Outcome, Output};
use byleave::core::record::Record;
use byleave::gate::Gate;
use byleave::ledger::{ContentFault, Ledger, LedgerFault, Loaded};
use byleave::result::{CallResult, Changed, Standing};

use crate::model::{self, Call, Flaw, Message, Said, Stop};
use crate::turn::{Asked, MODEL_TURN, call_id, turn_id};

/// A conversation, as far as it has come.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// Its turns, the oldest first.
    pub turns: Vec<Taken>,
}

/// One turn.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The call that it is.
    pub call: CallId,
    /// When it came in.
    pub at: Millis,
    /// The directory that it works in.
    pub cwd: String,
    /// What was asked.
    pub asked: Asked,
    /// What came of it; nothing yet where it is still open.
    pub came: Option<Came>,
    /// What came of the calls that were asked for in it, in their order.
    pub made: Vec<Made>,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// The model said something.
    Said(Said),
    /// It did not, or nobody may know what.
    Nothing {
        /// Why.
        why: String,
        /// What was heard until then.
        heard: String,
    },
}

/// A call that a model asked for.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its id with the gate.
    pub call: CallId,
    /// When it came in, if it did.
    pub at: Option<Millis>,
    /// What came of it; nothing where it was not made, or is still open.
    pub result: Option<CallResult>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A person's word.
    Rest,
    /// The turn that is open.
    Turn,
    /// The calls of the last turn.
    Calls,
    /// A turn about what came of them.
    Another,
    /// The last turn came to nothing; it can be tried anew.
    Anew,
}

/// Why a conversation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The book broke.
    #[error(transparent)]
    Ledger(#[from] LedgerFault),
    /// A content cannot be had.
    #[error("turn {turn} of the conversation cannot be read: {why}")]
    Content {
        /// Which.
        turn: u32,
        /// Why.
        why: ContentFault,
    },
    /// Something else than a turn has the id of one.
    #[error("call {call} is no turn of a conversation, though it stands where one should")]
    NoTurn {
        /// Which.
        call: CallId,
    },
}

impl Conversation {
    /// Reads a conversation; one that nobody began is empty.
    pub async fn read(
        gate: &Gate,
        ledger: &dyn Ledger,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Self, Unread> {
        let mut turns = Vec::new();
        for turn in 0.. {
            let call = turn_id(tenant, session, turn);
            let Some(loaded) = ledger.load(call).await? else { break };
            turns.push(Taken::read(gate, ledger, call, &loaded, turn).await?);
        }
        Ok(Self { turns })
    }

    /// The messages for the next turn.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        for taken in &self.turns {
            messages.extend(taken.asked.user.clone().map(Message::User));
            let Some(Came::Said(said)) = &taken.came else { continue };
            messages.push(Message::Said(said.clone()));
            if !said.calls.is_empty() {
                let told = said.calls.iter().zip(&taken.made).map(|(call, made)| made.told(call));
                messages.push(Message::Results(told.collect()));
            }
        }
        messages
    }

    /// The turns since a person last said something, that one included.
    pub(crate) fn task(&self) -> &[Taken] {
        let begun = self.turns.iter().rposition(|taken| taken.asked.user.is_some()).unwrap_or(0);
        self.turns.get(begun..).unwrap_or_default()
    }

    /// Why the model's last word is not the end of its task, though it asks for nothing more.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let Some(Came::Said(said)) = self.turns.last().and_then(|taken| taken.came.as_ref()) else {
            return None;
        };
        match &said.stop {
            Stop::Done | Stop::Calls if said.text.trim().is_empty() => Some("the model said nothing".into()),
            Stop::Done | Stop::Calls => None,
            Stop::Length => Some("the model was out of tokens: what it said last is a part".into()),
            Stop::Filtered => Some("the provider held back what the model would have said".into()),
            Stop::Named(word) => Some(format!("the provider ended it, and calls that `{word}`")),
        }
    }

    /// The last turn of which it is known who was asked.
    pub fn last_asked(&self) -> Option<&Taken> {
        self.turns.iter().rev().find(|taken| !taken.asked.model.is_empty())
    }

    pub(crate) fn next(&self) -> Next {
        let Some(last) = self.turns.last() else { return Next::Rest };
        match &last.came {
            None => Next::Turn,
            Some(Came::Nothing { .. }) => Next::Anew,
            Some(Came::Said(_)) if last.made.iter().any(|made| made.result.is_none()) => Next::Calls,
            Some(Came::Said(said)) if !said.calls.is_empty() || !said.flaws.is_empty() => Next::Another,
            Some(Came::Said(_)) => Next::Rest,
        }
    }
}

impl Taken {
    async fn read(
        gate: &Gate,
        ledger: &dyn Ledger,
        call: CallId,
        loaded: &Loaded,
        turn: u32,
    ) -> Result<Self, Unread> {
        let record = &loaded.record;
        let heading = record.heading().filter(|heading| heading.tool == MODEL_TURN);
        let heading = heading.ok_or(Unread::NoTurn { call })?;
        let unread = |why| Unread::Content { turn, why };
        let asked = match content(ledger, call, loaded, heading.arguments).await {
            Err(ContentFault::Forgotten) => return Ok(Self::forgotten(call, heading, begun(record), turn)),
            asked => asked.map_err(unread)?,
        };
        let came = match record.settled() {
            Some(_) => Some(Came::read(gate, ledger, call).await.map_err(unread)?),
            None => None,
        };
        let cwd = heading.cwd.clone();
        let mut taken = Self { call, at: begun(record), cwd, asked, came, made: Vec::new() };
        if let Some(Came::Said(said)) = &taken.came {
            for place in 0..said.calls.len() {
                taken.made.push(Made::read(gate, ledger, call_id(call, place)).await?);
            }
        }
        Ok(taken)
    }

    /// A turn whose contents somebody had forgotten.
    fn forgotten(call: CallId, heading: &Heading, at: Millis, turn: u32) -> Self {
        let prompt = Digest::of(&[]);
        let [model, endpoint, persona] = [const { String::new() }; 3];
        let asked = Asked { turn, user: None, model, endpoint, persona, prompt };
        let came = Some(Came::Nothing { why: "it was forgotten".into(), heard: String::new() });
        Self { call, at, cwd: heading.cwd.clone(), asked, came, made: Vec::new() }
    }

    /// What the model asks for in it that has no result yet.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, &Call)> {
        let calls = match &self.came {
            Some(Came::Said(said)) => said.calls.as_slice(),
            _ => &[],
        };
        calls
            .iter()
            .enumerate()
            .filter(|(place, _)| self.made.get(*place).is_some_and(|made| made.result.is_none()))
    }
}

impl Came {
    /// What came of a turn that is settled.
    pub(crate) async fn read(gate: &Gate, ledger: &dyn Ledger, call: CallId) -> Result<Self, ContentFault> {
        let loaded = ledger.load(call).await?.ok_or(ContentFault::Missing)?;
        let nothing = |why: String| Self::Nothing { why, heard: String::new() };
        let output = match loaded.record.settled() {
            Some(Outcome::Completed { output }) => *output,
            Some(Outcome::Failed { output }) => {
                let output: Output = content(ledger, call, &loaded, *output).await?;
                let why = output.error.unwrap_or_else(|| "it failed".into());
                return Ok(Self::Nothing { why, heard: output.text });
            }
            Some(Outcome::Withheld(refusal) | Outcome::Refused(refusal) | Outcome::Unknown(refusal)) => {
                return Ok(nothing(refusal.to_string()));
            }
            Some(Outcome::Rehearsed { .. }) | None => return Ok(nothing("it was not taken".into())),
        };
        let output: Output = content(ledger, call, &loaded, output).await?;
        let said = output.data.map(serde_json::from_value::<Said>);
        let Some(Ok(mut said)) = said else {
            return Ok(nothing("what the model said is too long to be kept whole".into()));
        };
        // What somebody changed is no longer what the model asked for.
        if let Standing::Settled(result) = gate.resume(call).await
            && let Some(change) = result.changes.iter().find(|change| change.what == Changed::Output)
        {
            let by = &change.by;
            let calls = std::mem::take(&mut said.calls);
            said.flaws.extend(calls.into_iter().map(|call| Flaw {
                what: format!("the call of `{}` was not run: {by} changed what was said", call.name),
            }));
            said.text = output.text;
        }
        Ok(Self::Said(said))
    }
}

impl Made {
    async fn read(gate: &Gate, ledger: &dyn Ledger, call: CallId) -> Result<Self, LedgerFault> {
        let Some(loaded) = ledger.load(call).await? else { return Ok(Self { call, at: None, result: None }) };
        let at = Some(begun(&loaded.record));
        if loaded.record.settled().is_none() {
            return Ok(Self { call, at, result: None });
        }
        let result = match gate.resume(call).await {
            Standing::Settled(result) => Some(result),
            _ => None,
        };
        Ok(Self { call, at, result })
    }

    /// What the model is told.
    pub(crate) fn told(&self, asked: &Call) -> model::CallResult {
        let (call, tool) = (asked.id.clone(), asked.name.clone());
        match &self.result {
            Some(result) => {
                let report = result.report();
                model::CallResult {
                    call,
                    tool,
                    success: report.success,
                    output: report.output,
                    truncated: report.truncated,
                    execution_time_ms: report.execution_time_ms,
                    error: report.error,
                }
            }
            None => {
                let error = if self.at.is_some() { "it waits for a person" } else { "it was not run" };
                model::CallResult { call, tool, error: Some(error.into()), ..Default::default() }
            }
        }
    }
}

/// A call just as it came in, where it did: who makes it again makes the same, whatever the mode is now.
pub(crate) async fn received(ledger: &dyn Ledger, call: CallId) -> Result<Option<Received>, ContentFault> {
    let Some(loaded) = ledger.load(call).await? else { return Ok(None) };
    let Some(heading) = loaded.record.heading().cloned() else { return Ok(None) };
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

/// A content, if it is what was written.
async fn content<T: serde::de::DeserializeOwned>(
    ledger: &dyn Ledger,
    call: CallId,
    loaded: &Loaded,
    held: Held,
) -> Result<T, ContentFault> {
    let key = loaded.key.as_ref().ok_or(ContentFault::Forgotten)?;
    let bytes = ledger.content(call, held).await?;
    if key.hold(&bytes) != held {
        return Err(ContentFault::Changed);
    }
    serde_json::from_slice(&bytes).map_err(|_| ContentFault::Changed)
}
