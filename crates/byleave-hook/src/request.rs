//! Parses what an agent sends to its hook. Each dialect has its own keys; the result is one type.

use std::fmt;

use serde_json::{Map, Value};

use crate::agent_kind::AgentKind;
use crate::agent_tools::shell_command;

/// The time at which an agent starts its hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// Before a tool is used. The agent waits for an answer.
    PreToolUse,
    /// After a tool was used.
    PostToolUse,
    /// At the end of a turn. The answer is a line for the person, or nothing.
    TurnEnd,
    /// When the agent asks its person in its window. The hook notes that, and does not answer.
    PermissionPrompt,
}

/// A parsed request from an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct HookRequest {
    /// When the hook was started.
    pub kind: HookEvent,
    /// The agent's own name for the event.
    pub event: String,
    /// The conversation id.
    pub session: String,
    /// The working directory of this call, if the agent reports one. The model may have chosen it; see [`HookRequest::workspace`].
    pub cwd: Option<String>,
    /// The directory that the user opened, if the agent reports it.
    pub root: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// The MCP server of the tool, if the agent reports it separately from the tool name.
    pub server: Option<String>,
    /// The input of the tool.
    pub input: Value,
    /// The agent's own id for this use, if it has one.
    pub use_id: Option<String>,
    /// The output of the tool, for an event after its use.
    pub response: Option<Value>,
    /// Whether the answer may change the input at this event.
    pub can_rewrite_input: bool,
    /// Whether the request comes from VS Code, which reads other keys than Copilot CLI.
    pub is_editor: bool,
    /// The file in which the agent keeps the session, if the agent names it.
    pub transcript: Option<String>,
    /// The agent's own mode of asking its person, if it names one.
    pub permission_mode: Option<String>,
    /// The agent's id for what its person typed last, if it has one.
    pub prompt: Option<String>,
}

/// The reason why a request could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookParseError {
    /// The input is not a JSON object.
    NotJson(String),
    /// A key is missing or has the wrong type.
    Missing(&'static str),
    /// An unknown event.
    UnknownEvent(String),
}

impl fmt::Display for HookParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(why) => write!(f, "the request of the agent is not a JSON object: {why}"),
            Self::Missing(key) => write!(f, "the request of the agent has no `{key}`"),
            Self::UnknownEvent(event) => write!(f, "the event `{}` is not supported", event.escape_debug()),
        }
    }
}

impl std::error::Error for HookParseError {}

/// Parses an agent's request.
pub fn parse_request(dialect: AgentKind, said: &[u8]) -> Result<HookRequest, HookParseError> {
    let said: Value =
        serde_json::from_slice(said).map_err(|error| HookParseError::NotJson(error.to_string()))?;
    let Value::Object(said) = said else {
        return Err(HookParseError::NotJson("it is another JSON value".into()));
    };
    match dialect {
        AgentKind::ClaudeCode | AgentKind::Codex | AgentKind::Gemini => {
            usual(&said, "hook_event_name", "cwd")
        }
        AgentKind::Goose => usual(&said, "event", "working_dir")
            .map(|heard| HookRequest { can_rewrite_input: false, ..heard }),
        AgentKind::Cursor => cursor(&said),
        AgentKind::Copilot if said.contains_key("toolName") => copilot(&said),
        AgentKind::Copilot => {
            let heard = usual(&said, "hook_event_name", "cwd")?;
            Ok(HookRequest { is_editor: true, root: heard.cwd.clone(), ..heard })
        }
    }
}

type JsonObject = Map<String, Value>;

/// Parses the format that most agents use.
fn usual(said: &JsonObject, event: &'static str, cwd: &str) -> Result<HookRequest, HookParseError> {
    let event = text(said, event).ok_or(HookParseError::Missing(event))?;
    let moment = match event.as_str() {
        "PreToolUse" | "BeforeTool" => HookEvent::PreToolUse,
        "PostToolUse" | "PostToolUseFailure" | "AfterTool" => HookEvent::PostToolUse,
        "PermissionRequest" => HookEvent::PermissionPrompt,
        "Stop" | "AfterAgent" => HookEvent::TurnEnd,
        _ => return Err(HookParseError::UnknownEvent(event)),
    };
    let response = ["tool_response", "tool_result", "tool_output"].iter().find_map(|key| said.get(*key));
    Ok(HookRequest {
        kind: moment,
        event,
        session: text(said, "session_id").unwrap_or_default(),
        cwd: text(said, cwd),
        root: None,
        tool: match text(said, "tool_name") {
            // No tool is used at the end of a turn.
            None if moment == HookEvent::TurnEnd => String::new(),
            tool => tool.ok_or(HookParseError::Missing("tool_name"))?,
        },
        server: said.get("mcp_context").and_then(Value::as_object).and_then(|of| text(of, "server_name")),
        input: input(said, "tool_input")?,
        use_id: text(said, "tool_use_id"),
        response: response.cloned(),
        can_rewrite_input: true,
        is_editor: false,
        transcript: text(said, "transcript_path"),
        permission_mode: text(said, "permission_mode"),
        prompt: text(said, "prompt_id"),
    })
}

fn copilot(said: &JsonObject) -> Result<HookRequest, HookParseError> {
    let response = said.get("toolResult").cloned();
    let moment = if response.is_some() { HookEvent::PostToolUse } else { HookEvent::PreToolUse };
    Ok(HookRequest {
        kind: moment,
        event: if moment == HookEvent::PostToolUse { "postToolUse" } else { "preToolUse" }.into(),
        session: text(said, "sessionId").unwrap_or_default(),
        cwd: text(said, "cwd"),
        root: None,
        tool: text(said, "toolName").ok_or(HookParseError::Missing("toolName"))?,
        server: None,
        input: input(said, "toolArgs")?,
        use_id: text(said, "toolCallId"),
        response,
        can_rewrite_input: true,
        is_editor: false,
        transcript: text(said, "transcript_path"),
        permission_mode: text(said, "permission_mode"),
        prompt: text(said, "prompt_id"),
    })
}

fn cursor(said: &JsonObject) -> Result<HookRequest, HookParseError> {
    let event = text(said, "hook_event_name").ok_or(HookParseError::Missing("hook_event_name"))?;
    let one = |key: &str| said.get(key).map(|value| (key.to_owned(), value.clone()));
    let of = |keys: &[&str]| Value::Object(keys.iter().filter_map(|key| one(key)).collect());
    let (moment, tool, input) = match event.as_str() {
        "preToolUse" | "postToolUse" | "postToolUseFailure" => {
            let moment = if event == "preToolUse" { HookEvent::PreToolUse } else { HookEvent::PostToolUse };
            (moment, text(said, "tool_name"), input(said, "tool_input")?)
        }
        "beforeMCPExecution" | "afterMCPExecution" => {
            let moment =
                if event.starts_with("before") { HookEvent::PreToolUse } else { HookEvent::PostToolUse };
            // Cursor identifies the server by its connection, not by a name.
            (moment, text(said, "tool_name").map(|tool| format!("MCP:{tool}")), input(said, "tool_input")?)
        }
        "beforeShellExecution" => (HookEvent::PreToolUse, Some("Shell".into()), of(&["command"])),
        "afterShellExecution" => (HookEvent::PostToolUse, Some("Shell".into()), of(&["command"])),
        "beforeReadFile" => (HookEvent::PreToolUse, Some("Read".into()), of(&["file_path"])),
        "afterFileEdit" => (HookEvent::PostToolUse, Some("Write".into()), of(&["file_path"])),
        _ => return Err(HookParseError::UnknownEvent(event)),
    };
    let root = said.get("workspace_roots").and_then(|roots| roots.get(0)).and_then(Value::as_str);
    let response = ["tool_output", "result_json", "output", "tool_response", "edits"];
    Ok(HookRequest {
        kind: moment,
        session: text(said, "conversation_id").unwrap_or_default(),
        cwd: text(said, "cwd"),
        root: root.map(str::to_owned),
        tool: tool.ok_or(HookParseError::Missing("tool_name"))?,
        server: None,
        input,
        use_id: text(said, "tool_use_id"),
        response: response.iter().find_map(|key| said.get(*key)).cloned(),
        can_rewrite_input: event == "preToolUse",
        event,
        is_editor: false,
        transcript: None,
        permission_mode: None,
        prompt: None,
    })
}

fn text(said: &JsonObject, key: &str) -> Option<String> {
    said.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns an object, which may also be encoded as a string.
fn input(said: &JsonObject, key: &'static str) -> Result<Value, HookParseError> {
    match said.get(key) {
        Some(Value::Object(input)) => Ok(Value::Object(input.clone())),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(input)) => Ok(Value::Object(input)),
            _ => Err(HookParseError::Missing(key)),
        },
        Some(Value::Null) | None => Ok(Value::Object(Map::new())),
        Some(_) => Err(HookParseError::Missing(key)),
    }
}

impl HookRequest {
    /// Returns the workspace, which is also the directory of the rules, given the working directory of the hook process.
    ///
    /// The model must never be able to choose it. Codex reports the `workdir` of a command as `cwd`, but starts the hook in the directory
    /// of the session. The other terminal agents also start it there. Editors report the open directory.
    pub fn workspace(&self, process: &str) -> String {
        self.root.clone().unwrap_or_else(|| process.to_owned())
    }

    /// Checks whether an event after the use of a tool says that the tool failed.
    pub fn is_failure_report(&self) -> bool {
        if self.event.to_ascii_lowercase().ends_with("failure") {
            return true;
        }
        let Some(response) = self.response.as_ref().and_then(Value::as_object) else { return false };
        let is_set = |key: &str| {
            response.get(key).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
        };
        let says_no = |key: &str| response.get(key).and_then(Value::as_bool) == Some(false);
        let result = response.get("resultType").and_then(Value::as_str);
        ["error", "is_error", "isError"].into_iter().any(is_set)
            || says_no("success")
            || result.is_some_and(|result| result != "success")
    }

    /// Returns the path that the agent's report names, if it names one.
    pub fn reported_path(&self) -> Option<&str> {
        let response = self.response.as_ref()?;
        ["filePath", "file_path"].into_iter().find_map(|key| response.get(key)).and_then(Value::as_str)
    }

    /// Returns the command, if the tool is a shell that runs one.
    pub fn command(&self) -> Option<&str> {
        shell_command(&self.tool, &self.input)
    }
}
