//! Formats the answer exactly as each agent reads it.
//!
//! A deny is exit code 2 with a reason on standard error, if the agent supports that, because no reader can lose an exit code. Cursor and
//! Copilot read the reason only from JSON. If the JSON cannot be written, the exit code is 2 as well.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::agent_kind::AgentKind;
use crate::request::{HookEvent, HookRequest};

/// The gate's decision on a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum HookDecision {
    /// Run the tool.
    Allow {
        /// A note for the agent.
        note: Option<String>,
    },
    /// Run the tool with this input instead.
    Rewrite {
        /// The complete new input.
        input: Value,
        /// A note for the agent.
        note: Option<String>,
    },
    /// Ask the person in the agent's own window, and run the tool with this input after a yes.
    Ask {
        /// The complete new input. It starts nothing that nobody was shown.
        input: Value,
        /// The question.
        question: String,
    },
    /// Show a text. Nothing is decided, because the tool has run or the turn is over.
    Notice {
        /// The text, for the person and for the agent.
        text: String,
    },
    /// Do not run the tool.
    Deny {
        /// The reason, and what to do.
        reason: String,
    },
}

/// The output of the hook process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit code: 0, or 2 for a deny.
    pub exit_code: u8,
}

impl HookOutput {
    const fn nothing() -> Self {
        Self { stdout: String::new(), stderr: String::new(), exit_code: 0 }
    }

    fn json(value: &Value) -> Self {
        Self { stdout: format!("{value}\n"), ..Self::nothing() }
    }
}

/// Formats an answer for the agent. Without a parsed request, the answer is always a deny.
pub fn format_response(dialect: AgentKind, heard: Option<&HookRequest>, answer: &HookDecision) -> HookOutput {
    match (answer, heard) {
        // At the end of a turn a deny would make the agent go on.
        (HookDecision::Deny { reason: text } | HookDecision::Notice { text }, Some(heard))
            if heard.kind == HookEvent::TurnEnd =>
        {
            shown_to_person(text)
        }
        (HookDecision::Deny { reason: why }, heard) => deny(dialect, heard, why),
        (_, None) => deny(dialect, None, "the request could not be parsed"),
        (HookDecision::Notice { text }, Some(heard)) => notice(dialect, heard, text),
        (HookDecision::Allow { .. }, Some(heard)) if heard.kind != HookEvent::PreToolUse => {
            HookOutput::nothing()
        }
        (HookDecision::Allow { note }, Some(heard)) => pass(dialect, heard, None, note.as_deref()),
        (HookDecision::Rewrite { input, note }, Some(heard))
            if heard.can_rewrite_input && heard.kind == HookEvent::PreToolUse =>
        {
            pass(dialect, heard, Some(input), note.as_deref())
        }
        (HookDecision::Ask { input, question }, Some(heard))
            if dialect == AgentKind::ClaudeCode && heard.kind == HookEvent::PreToolUse =>
        {
            specific("PreToolUse", "ask", ("updatedInput", Some(input)), Some(question))
        }
        (HookDecision::Ask { .. }, heard) => {
            deny(dialect, heard, "this agent cannot ask; the call did not run")
        }
        (HookDecision::Rewrite { .. }, heard) => deny(
            dialect,
            heard,
            "the call was modified, and this agent does not support modified calls; the call did not run",
        ),
    }
}

fn pass(dialect: AgentKind, heard: &HookRequest, input: Option<&Value>, note: Option<&str>) -> HookOutput {
    match dialect {
        AgentKind::ClaudeCode => specific("PreToolUse", "allow", ("updatedInput", input), note),
        // Codex treats a bare allow as unsupported and marks this hook and all later ones as failed. An empty answer allows the call.
        AgentKind::Codex if input.is_none() => HookOutput::nothing(),
        AgentKind::Codex => specific("PreToolUse", "allow", ("updatedInput", input), None),
        AgentKind::Gemini => {
            let mut said = object([("decision", Some("allow")), ("systemMessage", note)]);
            if let Some(input) = input {
                let inner = json!({ "hookEventName": "BeforeTool", "tool_input": input });
                said.insert("hookSpecificOutput".into(), inner);
            }
            HookOutput::json(&said.into())
        }
        AgentKind::Cursor => {
            let mut said = object([("permission", Some("allow")), ("agent_message", note)]);
            if let Some(input) = input {
                said.insert("updated_input".into(), input.clone());
            }
            HookOutput::json(&said.into())
        }
        AgentKind::Goose => HookOutput::nothing(),
        AgentKind::Copilot if heard.is_editor => {
            specific("PreToolUse", "allow", ("updatedInput", input), note)
        }
        AgentKind::Copilot => {
            let mut said =
                object([("permissionDecision", Some("allow")), ("permissionDecisionReason", note)]);
            if let Some(input) = input {
                said.insert("modifiedArgs".into(), input.clone());
            }
            HookOutput::json(&said.into())
        }
    }
}

/// Formats a text for the person. The agent stops as it would have.
fn shown_to_person(text: &str) -> HookOutput {
    HookOutput::json(&json!({ "systemMessage": text }))
}

/// Formats a text after the use of a tool, for the person and for the agent.
fn notice(dialect: AgentKind, heard: &HookRequest, text: &str) -> HookOutput {
    match dialect {
        _ if heard.kind == HookEvent::PreToolUse => deny(dialect, Some(heard), text),
        AgentKind::ClaudeCode | AgentKind::Codex => {
            HookOutput::json(&json!({ "decision": "block", "reason": text, "systemMessage": text }))
        }
        AgentKind::Gemini => {
            let inner = json!({ "hookEventName": "AfterTool", "additionalContext": text });
            HookOutput::json(&json!({ "systemMessage": text, "hookSpecificOutput": inner }))
        }
        AgentKind::Cursor | AgentKind::Goose | AgentKind::Copilot => deny(dialect, Some(heard), text),
    }
}

fn deny(dialect: AgentKind, heard: Option<&HookRequest>, why: &str) -> HookOutput {
    let why = if why.trim().is_empty() { "denied" } else { why };
    let stderr = format!("byleave: {why}\n");
    // A tool that has already run cannot be denied; the agent only gets the message.
    let is_before = heard.is_none_or(|heard| heard.kind == HookEvent::PreToolUse);
    match dialect {
        AgentKind::ClaudeCode | AgentKind::Codex | AgentKind::Gemini => {
            HookOutput { stderr, exit_code: 2, ..HookOutput::nothing() }
        }
        AgentKind::Goose => {
            let said = object([("decision", Some("block")), ("reason", Some(why))]);
            HookOutput { stderr, exit_code: 2, ..HookOutput::json(&said.into()) }
        }
        AgentKind::Cursor | AgentKind::Copilot if !is_before => {
            HookOutput { stderr, exit_code: 2, ..HookOutput::nothing() }
        }
        AgentKind::Cursor => {
            let said = [("permission", "deny"), ("user_message", why), ("agent_message", why)];
            HookOutput {
                stderr,
                ..HookOutput::json(&object(said.map(|(key, text)| (key, Some(text)))).into())
            }
        }
        AgentKind::Copilot if heard.is_some_and(|heard| heard.is_editor) => {
            HookOutput { stderr, ..specific("PreToolUse", "deny", ("updatedInput", None), Some(why)) }
        }
        AgentKind::Copilot => {
            let said = [("permissionDecision", Some("deny")), ("permissionDecisionReason", Some(why))];
            HookOutput { stderr, ..HookOutput::json(&object(said).into()) }
        }
    }
}

fn specific(event: &str, decision: &str, input: (&str, Option<&Value>), why: Option<&str>) -> HookOutput {
    let said = [
        ("hookEventName", Some(event)),
        ("permissionDecision", Some(decision)),
        ("permissionDecisionReason", why),
    ];
    let mut said = object(said);
    if let (key, Some(input)) = input {
        said.insert(key.into(), input.clone());
    }
    HookOutput::json(&json!({ "hookSpecificOutput": said }))
}

fn object<const N: usize>(fields: [(&str, Option<&str>); N]) -> Map<String, Value> {
    let said = fields.into_iter().filter_map(|(key, text)| Some((key.to_owned(), Value::from(text?))));
    said.collect()
}
