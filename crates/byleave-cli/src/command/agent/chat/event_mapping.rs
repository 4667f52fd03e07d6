//! Converts events of a conversation to events of the chat screen.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use byleave_agent::agent_loop::{AgentEvent, EventListener, RunOutcome};
use byleave_agent::conversation::{Conversation, TurnResult};
use byleave_agent::model::StreamEvent;
use byleave_gate::core::id::CallId;
use byleave_gate::event::GateEvent;
use byleave_gate::result::{CallOutcome, CallResult};
use byleave_terminal::chat::{CallCard, CallCardState, ChatEvent, TranscriptEntry};
use serde_json::{Map, Value};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::call_display::format_count;
use crate::time::precise;

/// Returns a listener that sends the events of the agent loop.
pub(super) fn event_listener(tell: Sender<ChatEvent>) -> EventListener {
    Arc::new(move |happening| {
        if let Some(news) = news(happening) {
            // If the screen is gone, nobody needs the event.
            drop(tell.send(news));
        }
    })
}

fn news(happening: AgentEvent<'_>) -> Option<ChatEvent> {
    Some(match happening {
        AgentEvent::TurnStarted(_) => ChatEvent::Turn,
        AgentEvent::Stream(StreamEvent::Text(text)) => ChatEvent::Text(text.to_owned()),
        AgentEvent::Stream(StreamEvent::Restarted) => ChatEvent::TurnRestarted,
        AgentEvent::Stream(StreamEvent::Reasoning(_) | StreamEvent::Call(_)) => return None,
        AgentEvent::ModelResponded(said) => ChatEvent::TextFinished(
            said.text.clone(),
            said.invalid_calls.iter().map(|flaw| flaw.message.clone()).collect(),
        ),
        AgentEvent::CallStarted(id, call) => {
            ChatEvent::CallStarted(card(id, &call.name, &call.args, call.reason.clone()))
        }
        AgentEvent::CallFinished(id, _, result) => {
            ChatEvent::CallFinished(id, ended(result), result.to_report().output)
        }
    })
}

/// Sends progress and output of calls as long as the gate exists.
pub(super) async fn forward_events(mut events: Receiver<GateEvent>, tell: Sender<ChatEvent>) {
    loop {
        let news = match events.recv().await {
            Ok(GateEvent::Output { call, chunk: printed }) => {
                let gap = match printed.skipped_bytes {
                    0 => String::new(),
                    bytes => format!("\n[… {bytes} bytes]\n"),
                };
                ChatEvent::CallOutput(call, format!("{gap}{}", printed.text))
            }
            Ok(GateEvent::Progress { call, progress }) => ChatEvent::Progress(call, progress.detail),
            Ok(GateEvent::Entry { .. } | GateEvent::ToolApproval { .. }) | Err(RecvError::Lagged(_)) => {
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

/// Returns the entries of a conversation so far. Notes of the program are separate from the model's text.
pub(super) fn transcript_entries(conversation: &Conversation) -> Vec<TranscriptEntry> {
    let mut entries = Vec::new();
    for taken in &conversation.turns {
        entries.extend(taken.arguments.user.clone().map(TranscriptEntry::Person));
        let said = match &taken.result {
            None => continue,
            Some(TurnResult::NoResponse { reason: why, partial_text: heard }) => {
                entries.extend(
                    Some(heard).filter(|heard| !heard.trim().is_empty()).cloned().map(TranscriptEntry::Model),
                );
                entries.push(TranscriptEntry::Note(why.clone()));
                continue;
            }
            Some(TurnResult::Response(said)) => said,
        };
        if !said.text.trim().is_empty() {
            entries.push(TranscriptEntry::Model(said.text.clone()));
        }
        entries.extend(said.invalid_calls.iter().map(|flaw| TranscriptEntry::Note(flaw.message.clone())));
        for (call, made) in said.calls.iter().zip(&taken.calls) {
            let mut card = card(made.call, &call.name, &call.args, call.reason.clone());
            // A call that is still open is continued.
            if let Some(result) = &made.result {
                card.state = ended(result);
                card.output = result.to_report().output;
            }
            entries.push(TranscriptEntry::Card(card));
        }
    }
    entries
}

fn card(call: CallId, tool: &str, arguments: &Map<String, Value>, why: Option<String>) -> CallCard {
    let state = CallCardState::Running { detail: String::new() };
    CallCard {
        call,
        tool: tool.to_owned(),
        summary: in_short(arguments),
        reason: why,
        state,
        output: String::new(),
    }
}

/// Describes a call by its command, its path, or else its arguments.
fn in_short(arguments: &Map<String, Value>) -> String {
    let known = ["command", "path", "url", "pattern", "query"];
    let known = known.iter().find_map(|name| arguments.get(*name)?.as_str());
    match known {
        Some(text) => text.to_owned(),
        None if arguments.is_empty() => String::new(),
        None => Value::Object(arguments.clone()).to_string(),
    }
}

fn ended(result: &CallResult) -> CallCardState {
    let words = ending_text(&result.outcome, result.to_report().execution_time_ms, result.error().as_deref());
    CallCardState::Ended { description: words, is_success: result.is_success() }
}

/// Returns the ending of a call in words. A call that ran has a time, however short it was.
fn ending_text(ending: &CallOutcome, ms: u64, why: Option<&str>) -> String {
    let has_run = matches!(ending, CallOutcome::Completed(_) | CallOutcome::Failed(_)) || ms > 0;
    let time = if has_run { format!(" in {}", precise(ms)) } else { String::new() };
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{}{time}{why}", ending.as_str())
}

/// Describes the outcome of the model's work, if that is necessary.
pub(super) fn outcome_message(went: &RunOutcome) -> Option<String> {
    Some(match went {
        RunOutcome::Done => return None,
        RunOutcome::Waiting(questions) if questions.is_empty() => {
            "another process runs the next call; /again checks its progress".to_owned()
        }
        RunOutcome::Waiting(questions) => {
            let many = format_count(questions.len() as u64, "question");
            format!("{many} to answer with `byleave inbox`; then continue with /again")
        }
        RunOutcome::LimitReached(reached) => format!("stopped: {reached}; type how to continue"),
        RunOutcome::Failed(why) => format!("{why}; /again retries"),
        RunOutcome::Cancelled => "cancelled; type how to continue".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use byleave_gate::core::outcome::Output;
    use byleave_gate::core::refusal::{Code, Refusal};

    use super::*;

    #[test]
    fn a_call_that_ran_has_a_time_even_when_it_took_less_than_a_millisecond() {
        let output = Output::text("done");
        let refusal = Refusal::new(Code::Declined, "no");
        let cases = [
            (CallOutcome::Completed(output.clone()), 0, None, "completed in 0.0 s"),
            (CallOutcome::Completed(output.clone()), 1_250, None, "completed in 1.2 s"),
            (CallOutcome::Failed(output), 0, Some("exit status 1"), "failed in 0.0 s: exit status 1"),
            (CallOutcome::Refused(refusal), 0, Some("declined"), "refused: declined"),
        ];
        for (ending, ms, why, words) in cases {
            assert_eq!(ending_text(&ending, ms, why), words);
        }
    }
}
