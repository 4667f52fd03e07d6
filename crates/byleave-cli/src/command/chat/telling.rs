//! What happens in a conversation, as the screen of the chat is told of it.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use byleave::core::id::CallId;
use byleave::event::Event;
use byleave::result::{CallResult, Ending};
use byleave_agent::agent::{Happening, Watcher, Went};
use byleave_agent::conversation::{Came, Conversation};
use byleave_agent::model::Heard;
use byleave_terminal::chat::{Card, Entry, News, State};
use serde_json::{Map, Value};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::show::counted;
use crate::time::precise;

/// Tells of what the loop does.
pub(super) fn watcher(tell: Sender<News>) -> Watcher {
    Arc::new(move |happening| {
        if let Some(news) = news(happening) {
            // Whoever looked has left; then there is nobody to tell.
            drop(tell.send(news));
        }
    })
}

fn news(happening: Happening<'_>) -> Option<News> {
    Some(match happening {
        Happening::Turn(_) => News::Turn,
        Happening::Heard(Heard::Text(text)) => News::Text(text.to_owned()),
        Happening::Heard(Heard::Anew) => News::Anew,
        Happening::Heard(Heard::Thought(_) | Heard::Call(_)) => return None,
        Happening::Said(said) => {
            News::Said(said.text.clone(), said.flaws.iter().map(|flaw| flaw.what.clone()).collect())
        }
        Happening::Calling(id, call) => News::Calling(card(id, &call.name, &call.args, call.reason.clone())),
        Happening::Called(id, _, result) => News::Called(id, ended(result), result.report().output),
    })
}

/// Tells how far calls are and what they print, as long as the gate is there.
pub(super) async fn follow(mut events: Receiver<Event>, tell: Sender<News>) {
    loop {
        let news = match events.recv().await {
            Ok(Event::Printed { call, printed }) => {
                let gap = match printed.left_out {
                    0 => String::new(),
                    bytes => format!("\n[… {bytes} bytes]\n"),
                };
                News::Printed(call, format!("{gap}{}", printed.text))
            }
            Ok(Event::Progress { call, progress }) => News::Progress(call, progress.detail),
            Ok(Event::Entry { .. } | Event::ToolApproval { .. }) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

/// A conversation as far as it has come. What we say of it is told apart from what the model said.
pub(super) fn entries(conversation: &Conversation) -> Vec<Entry> {
    let mut entries = Vec::new();
    for taken in &conversation.turns {
        entries.extend(taken.asked.user.clone().map(Entry::Person));
        let said = match &taken.came {
            None => continue,
            Some(Came::Nothing { why, heard }) => {
                entries
                    .extend(Some(heard).filter(|heard| !heard.trim().is_empty()).cloned().map(Entry::Model));
                entries.push(Entry::Note(why.clone()));
                continue;
            }
            Some(Came::Said(said)) => said,
        };
        if !said.text.trim().is_empty() {
            entries.push(Entry::Model(said.text.clone()));
        }
        entries.extend(said.flaws.iter().map(|flaw| Entry::Note(flaw.what.clone())));
        for (call, made) in said.calls.iter().zip(&taken.made) {
            let mut card = card(made.call, &call.name, &call.args, call.reason.clone());
            // What is still open is gone on with.
            if let Some(result) = &made.result {
                card.state = ended(result);
                card.output = result.report().output;
            }
            entries.push(Entry::Card(card));
        }
    }
    entries
}

fn card(call: CallId, tool: &str, arguments: &Map<String, Value>, why: Option<String>) -> Card {
    let state = State::Works { detail: String::new() };
    Card { call, tool: tool.to_owned(), what: in_short(arguments), why, state, output: String::new() }
}

/// What a call is about: its command, or its path, or whatever there is.
fn in_short(arguments: &Map<String, Value>) -> String {
    let known = ["command", "path", "url", "pattern", "query"];
    let known = known.iter().find_map(|name| arguments.get(*name)?.as_str());
    match known {
        Some(text) => text.to_owned(),
        None if arguments.is_empty() => String::new(),
        None => Value::Object(arguments.clone()).to_string(),
    }
}

fn ended(result: &CallResult) -> State {
    let words = ending_text(&result.ending, result.report().execution_time_ms, result.error().as_deref());
    State::Ended { words, is_good: result.success() }
}

/// Returns the ending of a call in words. A call that ran has a time, however short it was.
fn ending_text(ending: &Ending, ms: u64, why: Option<&str>) -> String {
    let has_run = matches!(ending, Ending::Completed(_) | Ending::Failed(_)) || ms > 0;
    let time = if has_run { format!(" in {}", precise(ms)) } else { String::new() };
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{}{time}{why}", ending.word())
}

/// What the model's work came to, where that needs saying.
pub(super) fn came(went: &Went) -> Option<String> {
    Some(match went {
        Went::Done => return None,
        Went::Waiting(questions) if questions.is_empty() => {
            "another program runs what comes next; /again looks how far it is".to_owned()
        }
        Went::Waiting(questions) => {
            let many = counted(questions.len() as u64, "question");
            format!("{many} to answer with `byleave inbox`; then /again goes on")
        }
        Went::Stopped(reached) => format!("stopped: {reached}; say how to go on"),
        Went::Failed(why) => format!("{why}; /again tries anew"),
        Went::CalledOff => "called off; say how to go on".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use byleave::core::outcome::Output;
    use byleave::core::refusal::{Code, Refusal};

    use super::*;

    #[test]
    fn a_call_that_ran_has_a_time_even_when_it_took_less_than_a_millisecond() {
        let output = Output::text("done");
        let refusal = Refusal::new(Code::Declined, "no");
        let cases = [
            (Ending::Completed(output.clone()), 0, None, "completed in 0.0 s"),
            (Ending::Completed(output.clone()), 1_250, None, "completed in 1.2 s"),
            (Ending::Failed(output), 0, Some("exit status 1"), "failed in 0.0 s: exit status 1"),
            (Ending::Refused(refusal), 0, Some("declined"), "refused: declined"),
        ];
        for (ending, ms, why, words) in cases {
            assert_eq!(ending_text(&ending, ms, why), words);
        }
    }
}
