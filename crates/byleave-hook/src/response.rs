//! What an agent reads from its hook: exactly that, in each dialect.
//!
//! A deny is exit code 2 with a reason on standard error wherever an agent understands that, because no reader can lose an exit
//! code. Cursor and Copilot take the reason from JSON alone; who cannot write that ends with 2 as well.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::request::{HookEvent, HookRequest};

/// What the gate says to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum HookDecision {
    /// Go ahead.
    Pass {
        /// For the agent to know.
        note: Option<String>,
    },
    /// Go ahead, with this input instead.
    Rewrite {
        /// The whole of it.
        input: Value,
        /// For the agent to know.
        note: Option<String>,
    },
    /// Do not.
    Deny {
        /// Why, and what to do.
        why: String,
    },
}

/// What the hook's process leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit code: 0, or 2 for a deny.
    pub exit: u8,
}

impl HookOutput {
    const fn nothing() -> Self {
        Self { stdout: String::new(), stderr: String::new(), exit: 0 }
    }

    fn json(value: &Value) -> Self {
        Self { stdout: format!("{value}\n"), ..Self::nothing() }
    }
}

/// Says an answer so that the agent reads it. Without what was heard, all that can be said is a deny.
pub fn format_response(dialect: Dialect, heard: Option<&HookRequest>, answer: &HookDecision) -> HookOutput {
    match (answer, heard) {
        (HookDecision::Deny { why }, heard) => deny(dialect, heard, why),
        (_, None) => deny(dialect, None, "there is nothing to let pass"),
        (HookDecision::Pass { .. }, Some(heard)) if heard.moment != HookEvent::Before => {
            HookOutput::nothing()
        }
        (HookDecision::Pass { note }, Some(heard)) => pass(dialect, heard, None, note.as_deref()),
        (HookDecision::Rewrite { input, note }, Some(heard))
            if heard.rewrites && heard.moment == HookEvent::Before =>
        {
            pass(dialect, heard, Some(input), note.as_deref())
        }
        (HookDecision::Rewrite { .. }, heard) => {
            deny(dialect, heard, "the call was changed, and this agent cannot be told; it did not run")
        }
    }
}

fn pass(dialect: Dialect, heard: &HookRequest, input: Option<&Value>, note: Option<&str>) -> HookOutput {
    match dialect {
        Dialect::ClaudeCode => specific("PreToolUse", "allow", ("updatedInput", input), note),
        // A bare allow is "unsupported" there, the hook counts as failed, and so would every later one: silence lets pass.
        Dialect::Codex if input.is_none() => HookOutput::nothing(),
        Dialect::Codex => specific("PreToolUse", "allow", ("updatedInput", input), None),
        Dialect::Gemini => {
            let mut said = object([("decision", Some("allow")), ("systemMessage", note)]);
            if let Some(input) = input {
                let inner = json!({ "hookEventName": "BeforeTool", "tool_input": input });
                said.insert("hookSpecificOutput".into(), inner);
            }
            HookOutput::json(&said.into())
        }
        Dialect::Cursor => {
            let mut said = object([("permission", Some("allow")), ("agent_message", note)]);
            if let Some(input) = input {
                said.insert("updated_input".into(), input.clone());
            }
            HookOutput::json(&said.into())
        }
        Dialect::Goose => HookOutput::nothing(),
        Dialect::Copilot if heard.is_editor => specific("PreToolUse", "allow", ("updatedInput", input), note),
        Dialect::Copilot => {
            let mut said =
                object([("permissionDecision", Some("allow")), ("permissionDecisionReason", note)]);
            if let Some(input) = input {
                said.insert("modifiedArgs".into(), input.clone());
            }
            HookOutput::json(&said.into())
        }
    }
}

fn deny(dialect: Dialect, heard: Option<&HookRequest>, why: &str) -> HookOutput {
    let why = if why.trim().is_empty() { "denied" } else { why };
    let stderr = format!("byleave: {why}\n");
    // What was used already cannot be denied any more; the agent is told.
    let is_before = heard.is_none_or(|heard| heard.moment == HookEvent::Before);
    match dialect {
        Dialect::ClaudeCode | Dialect::Codex | Dialect::Gemini => {
            HookOutput { stderr, exit: 2, ..HookOutput::nothing() }
        }
        Dialect::Goose => {
            let said = object([("decision", Some("block")), ("reason", Some(why))]);
            HookOutput { stderr, exit: 2, ..HookOutput::json(&said.into()) }
        }
        Dialect::Cursor | Dialect::Copilot if !is_before => {
            HookOutput { stderr, exit: 2, ..HookOutput::nothing() }
        }
        Dialect::Cursor => {
            let said = [("permission", "deny"), ("user_message", why), ("agent_message", why)];
            HookOutput {
                stderr,
                ..HookOutput::json(&object(said.map(|(key, text)| (key, Some(text)))).into())
            }
        }
        Dialect::Copilot if heard.is_some_and(|heard| heard.is_editor) => {
            HookOutput { stderr, ..specific("PreToolUse", "deny", ("updatedInput", None), Some(why)) }
        }
        Dialect::Copilot => {
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
