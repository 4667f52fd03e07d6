//! A conversation as people keep it: messages with who said what and when, the calls and what came of them (L6); as Markdown, as one
//! page of HTML, and as JSON.
//!
//! A projection: everything in it is read off the book, and nothing is kept of it.

mod html;
mod markdown;

use byleave::core::call::Millis;
use byleave::core::id::CallId;
use serde::Serialize;
use serde_json::{Map, Value};

pub use html::html;
pub use markdown::markdown;

use crate::conversation::{Conversation, RecordedCall, RecordedTurn, TurnResult};
use crate::limits::TaskUsage;
use crate::model;

/// A conversation to be kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// The session that it is.
    pub session: String,
    /// Who the model was to be.
    pub persona: String,
    /// Provider and model.
    pub model: String,
    /// When it began.
    pub begun: Millis,
    /// What it used.
    pub used: TaskUsage,
    /// What was said and done, in order.
    pub messages: Vec<HistoryMessage>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryMessage {
    /// Its id: that of the call that it stands for, and whose word it is.
    pub id: String,
    /// Whose.
    pub role: MessageRole,
    /// Its text.
    pub content: String,
    /// The model's thoughts, where it shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<String>,
    /// When.
    pub timestamp: Millis,
    /// What the model asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<HistoryCall>,
    /// What came of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<HistoryResult>,
}

/// Whose word a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// A person's.
    User,
    /// The model's.
    Assistant,
    /// A tool's, or that of who stood before it.
    Tool,
}

/// A call that a model asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryCall {
    /// Its id in the book.
    pub call: CallId,
    /// The tool, as the model named it.
    pub tool: String,
    /// The arguments, as the model wrote them.
    pub arguments: Map<String, Value>,
    /// Why, in the model's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryResult {
    /// Its id in the book.
    pub call: CallId,
    /// In a word: how it ended, or that it is open or was not made.
    pub outcome: String,
    /// What the model was told.
    #[serde(flatten)]
    pub told: model::ToolResult,
}

impl History {
    /// What is to be kept of a conversation.
    pub fn of(session: &str, conversation: &Conversation) -> Self {
        let turns = &conversation.turns;
        let last = conversation.last_asked();
        Self {
            session: session.to_owned(),
            persona: last.map_or_else(String::new, |taken| taken.asked.persona.clone()),
            model: last.map_or_else(String::new, |taken| taken.asked.model.clone()),
            begun: turns.first().map_or(0, |taken| taken.at),
            used: TaskUsage::by(turns, None),
            messages: turns.iter().flat_map(messages).collect(),
        }
    }

    /// What it begins with, in a line.
    pub fn first_words(&self) -> &str {
        let first = self.messages.iter().find(|message| message.role == MessageRole::User);
        first.and_then(|message| message.content.lines().next()).unwrap_or_default()
    }

    /// Whether a text stands in it; small and capital letters are the same.
    pub fn has(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let within = |place: &str| place.to_lowercase().contains(&text);
        self.messages.iter().any(|message| {
            within(&message.content)
                || message.calls.iter().any(|call| {
                    within(&call.tool) || within(&Value::Object(call.arguments.clone()).to_string())
                })
        })
    }
}

fn messages(taken: &RecordedTurn) -> Vec<HistoryMessage> {
    let id = |whose: &str| format!("{}-{whose}", taken.call);
    let mut messages = Vec::new();
    if let Some(text) = &taken.asked.user {
        messages.push(plain(id("user"), MessageRole::User, text.clone(), taken.at));
    }
    match &taken.came {
        None => {}
        Some(TurnResult::Nothing { why, heard }) => {
            let gap = if heard.is_empty() { "" } else { "\n\n" };
            let text = format!("{heard}{gap}[byleave] the model could not be heard: {why}");
            messages.push(plain(id("assistant"), MessageRole::Assistant, text, taken.at));
        }
        Some(TurnResult::Said(said)) => {
            let mut content = said.text.clone();
            for flaw in &said.flaws {
                content.push_str(&format!("\n\n[byleave] {}", flaw.what));
            }
            let calls = said.calls.iter().zip(&taken.made).map(|(call, made)| HistoryCall {
                call: made.call,
                tool: call.name.clone(),
                arguments: call.args.clone(),
                reason: call.reason.clone(),
            });
            messages.push(HistoryMessage {
                thoughts: said.thoughts.iter().map(|thought| thought.text.clone()).collect(),
                calls: calls.collect(),
                ..plain(id("assistant"), MessageRole::Assistant, content, taken.at)
            });
            messages
                .extend(said.calls.iter().zip(&taken.made).map(|(call, made)| result(call, made, taken.at)));
        }
    }
    messages
}

fn plain(id: String, role: MessageRole, content: String, timestamp: Millis) -> HistoryMessage {
    HistoryMessage { id, role, content, thoughts: Vec::new(), timestamp, calls: Vec::new(), result: None }
}

fn result(call: &model::ToolCall, made: &RecordedCall, at: Millis) -> HistoryMessage {
    let told = made.told(call);
    let outcome = match &made.result {
        Some(result) => result.ending.word(),
        None if made.at.is_some() => "open",
        None => "not made",
    };
    let content = match (&told.error, told.output.is_empty()) {
        (None, _) => told.output.clone(),
        (Some(error), true) => error.clone(),
        (Some(error), false) => format!("{error}\n{}", told.output),
    };
    HistoryMessage {
        result: Some(HistoryResult { call: made.call, outcome: outcome.to_owned(), told }),
        ..plain(made.call.to_string(), MessageRole::Tool, content, made.at.unwrap_or(at))
    }
}
