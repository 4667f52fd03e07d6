//! The events of a run: lines for a person, or one JSON object for each with `--json`.

use std::sync::Arc;

use byleave_agent::agent_loop::AgentEvent;
use byleave_agent::model::{StreamEvent, ToolCall};
use byleave_gate::core::id::CallId;
use byleave_gate::event::GateEvent;
use byleave_gate::result::{CallOutcome, CallResult};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::console::{Console, Tone, escape_json, one_line, prose};
use crate::short_ids::short;
use crate::time::precise;

/// The maximum length of a line about the result of a call.
const LINE_CHARS_MAX: usize = 200;

/// Prints an event as one line for a program.
pub(super) fn print_event(screen: &mut Console, value: &Value) {
    screen.line(&escape_json(&value.to_string()));
}

/// Waits for the next approval that was given or refused in this process (R6).
pub(super) async fn next_approval(events: &mut Receiver<GateEvent>) -> RunEvent {
    loop {
        match events.recv().await {
            Ok(event) => {
                if let Some(approval) = RunEvent::from_gate(event) {
                    return approval;
                }
            }
            Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "events of the gate were missed"),
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Shows an event. An approval comes before the result of its call.
pub(super) fn show_in_order(event: &RunEvent, approvals: &mut Receiver<GateEvent>, screen: &mut Console) {
    if matches!(event, RunEvent::Called(_)) {
        show_approvals(approvals, screen);
    }
    event.show(screen);
}

/// Shows the approvals until now.
pub(super) fn show_approvals(events: &mut Receiver<GateEvent>, screen: &mut Console) {
    loop {
        match events.try_recv() {
            Ok(event) => RunEvent::from_gate(event).iter().for_each(|approval| approval.show(screen)),
            Err(TryRecvError::Lagged(missed)) => tracing::warn!(missed, "events of the gate were missed"),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        }
    }
}

/// The result of a call.
pub(super) struct CalledTool {
    call: CallId,
    tool: String,
    outcome: &'static str,
    error: Option<String>,
    ms: u64,
    /// What a dry run would do: for a person, and for a program.
    dry_run: Option<(String, Value)>,
}

impl CalledTool {
    fn new(asked: &ToolCall, result: &CallResult) -> Self {
        let dry_run = match &result.outcome {
            CallOutcome::DryRun(plan) => Some((result.to_text(), json!(plan.effects))),
            _ => None,
        };
        Self {
            call: result.call,
            tool: asked.name.clone(),
            outcome: result.outcome.as_str(),
            error: result.error(),
            ms: result.to_report().execution_time_ms,
            dry_run,
        }
    }

    fn show(&self, screen: &mut Console) {
        let error = self.error.as_deref().map(|error| one_line(&format!(": {error}"))).unwrap_or_default();
        let error: String = error.chars().take(LINE_CHARS_MAX).collect();
        let (id, outcome) = (short(&self.call), self.outcome);
        let Some((text, _)) = &self.dry_run else {
            return screen.message(&format!("  ← {id} {outcome} in {}{error}", precise(self.ms)));
        };
        screen.message(&format!("  ← {id} {outcome}"));
        for line in text.lines() {
            let line: String = one_line(line).chars().take(LINE_CHARS_MAX).collect();
            screen.message(&format!("    {line}"));
        }
    }

    fn as_json(&self) -> Value {
        let mut value = json!({
            "event": "called", "call": self.call, "tool": self.tool, "outcome": self.outcome, "error": self.error,
            "execution_time_ms": self.ms,
        });
        if let (Some((_, effects)), Some(fields)) = (&self.dry_run, value.as_object_mut()) {
            fields.insert("effects".into(), effects.clone());
        }
        value
    }
}

/// An event on its way to the screen.
pub(super) enum RunEvent {
    Turn(CallId),
    Text(String),
    Anew,
    Said { text: String, flaws: Vec<String> },
    Calling(CallId, ToolCall),
    Approval { call: CallId, tool: String, parameters: Arc<Value>, approved: bool },
    Called(CalledTool),
    Nothing,
}

impl RunEvent {
    pub(super) fn of(happening: AgentEvent<'_>) -> Self {
        match happening {
            AgentEvent::TurnStarted(call) => Self::Turn(call),
            AgentEvent::Stream(StreamEvent::Text(text)) => Self::Text(text.to_owned()),
            AgentEvent::Stream(StreamEvent::Restarted) => Self::Anew,
            AgentEvent::Stream(StreamEvent::Reasoning(_) | StreamEvent::Call(_)) => Self::Nothing,
            AgentEvent::ModelResponded(said) => {
                let flaws = said.invalid_calls.iter().map(|flaw| flaw.message.clone()).collect();
                Self::Said { text: said.text.clone(), flaws }
            }
            AgentEvent::CallStarted(id, call) => Self::Calling(id, call.clone()),
            AgentEvent::CallFinished(_, asked, result) => Self::Called(CalledTool::new(asked, result)),
        }
    }

    fn from_gate(event: GateEvent) -> Option<Self> {
        match event {
            GateEvent::ToolApproval { call, tool, parameters, approved } => {
                Some(Self::Approval { call, tool, parameters, approved })
            }
            GateEvent::Entry { .. } | GateEvent::Progress { .. } | GateEvent::Output { .. } => None,
        }
    }

    pub(super) fn show(&self, screen: &mut Console) {
        if screen.json() {
            return self.as_json().iter().for_each(|value| print_event(screen, value));
        }
        match self {
            Self::Said { text, flaws } => {
                screen.text(text);
                flaws.iter().for_each(|flaw| screen.message_with_tone(Tone::Careful, "note:", &prose(flaw)));
            }
            Self::Calling(id, call) => {
                let why = call.reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                let arguments = Value::Object(call.args.clone());
                let line: String =
                    one_line(&format!("{} {arguments}{why}", call.name)).chars().take(160).collect();
                screen.message(&format!("  → {} {line}", short(id)));
            }
            Self::Called(called) => called.show(screen),
            Self::Anew => screen.message("  the model was interrupted and starts again"),
            // A person at the terminal has seen the question.
            Self::Turn(_) | Self::Text(_) | Self::Approval { .. } | Self::Nothing => {}
        }
    }

    fn as_json(&self) -> Option<Value> {
        Some(match self {
            Self::Turn(call) => json!({ "event": "turn", "call": call }),
            Self::Text(text) => json!({ "event": "text", "text": text }),
            Self::Anew => json!({ "event": "restarted" }),
            Self::Said { text, flaws } => {
                json!({ "event": "response", "text": text, "invalid_calls": flaws })
            }
            Self::Calling(id, call) => json!({
                "event": "calling", "call": id, "tool": call.name, "arguments": call.args, "reason": call.reason,
            }),
            Self::Approval { call, tool, parameters, approved } => json!({
                "event": "tool_approval", "call": call, "tool": tool, "parameters": parameters, "approved": approved,
            }),
            Self::Called(called) => called.as_json(),
            Self::Nothing => return None,
        })
    }
}
