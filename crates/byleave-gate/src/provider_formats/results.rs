//! Converts results of calls to the formats of models and protocols (L2).

use byleave_core::outcome::Output;
use serde_json::{Map, Value, json};

use crate::result::{CallOutcome, CallResult};

/// The result of one call, for the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolReport {
    /// The tool, by the name that the model used.
    pub tool: String,
    /// The id that the model's side gave the call.
    pub call: String,
    /// The arguments as the model wrote them.
    pub arguments: Value,
    /// Whether it ran and reported success.
    pub success: bool,
    /// Its output.
    pub output: String,
    /// Whether the output is truncated.
    pub truncated: bool,
    /// How long it took.
    pub execution_time_ms: u64,
    /// The error, or the reason why it did not run.
    pub error: Option<String>,
    /// Structured data.
    pub data: Option<Value>,
}

impl ToolReport {
    /// Returns the report of a call that ran.
    pub fn for_output(
        tool: impl Into<String>,
        call: impl Into<String>,
        arguments: Value,
        output: Output,
    ) -> Self {
        let error = output.error.or_else(|| output.is_error.then(|| "the tool failed".to_owned()));
        Self {
            tool: tool.into(),
            call: call.into(),
            arguments,
            success: !output.is_error,
            output: output.text,
            truncated: output.truncated,
            execution_time_ms: output.execution_time_ms,
            error,
            data: output.data,
        }
    }

    /// Returns the report of a call that did not run, or whose output is not released.
    pub fn for_refusal(
        tool: impl Into<String>,
        call: impl Into<String>,
        arguments: Value,
        error: impl Into<String>,
    ) -> Self {
        let error = Some(error.into());
        Self { tool: tool.into(), call: call.into(), arguments, error, ..Self::default() }
    }
}

impl CallResult {
    /// Converts the result to a report, from which each provider's messages are made (L2).
    pub fn to_report(&self) -> ToolReport {
        let (truncated, execution_time_ms, data) = match &self.outcome {
            CallOutcome::Completed(output) | CallOutcome::Failed(output) | CallOutcome::Answered(output) => {
                (output.truncated, output.execution_time_ms, output.data.clone())
            }
            _ => (false, 0, None),
        };
        ToolReport {
            tool: self.tool.clone(),
            call: self.call.to_string(),
            arguments: self.arguments.clone(),
            success: self.is_success(),
            output: self.to_text(),
            truncated,
            execution_time_ms,
            error: self.error(),
            data,
        }
    }
}

/// Returns the plain format: `{tool, success, output, truncated, execution_time_ms, error}`.
pub fn result_json(report: &ToolReport) -> Value {
    json!({
        "tool": report.tool,
        "success": report.success,
        "output": report.output,
        "truncated": report.truncated,
        "execution_time_ms": report.execution_time_ms,
        "error": report.error,
    })
}

/// Returns the result as text, for formats that have the flags elsewhere or not at all.
pub fn result_text(report: &ToolReport) -> String {
    let cut = report.truncated.then_some("[the output was cut]");
    let error = report.error.as_ref().map(|error| format!("error: {error}"));
    let output = Some(report.output.as_str()).filter(|output| !output.is_empty());
    let parts = [output, cut, error.as_deref()];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// Returns the messages of one turn for OpenAI: the assistant's with all calls, then one of role `tool` for each.
pub fn openai_messages(reports: &[ToolReport]) -> Vec<Value> {
    let calls = reports.iter().map(|report| {
        json!({
            "id": report.call,
            "type": "function",
            "function": { "name": report.tool, "arguments": report.arguments.to_string() },
        })
    });
    let assistant = json!({ "role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>() });
    // The format has no flag for a failure, so the content includes everything.
    let results = reports.iter().map(|report| {
        json!({ "role": "tool", "tool_call_id": report.call, "content": result_json(report).to_string() })
    });
    std::iter::once(assistant).chain(results).collect()
}

/// Returns the messages of one turn for Anthropic: the assistant's with all uses, the user's with all results.
pub fn anthropic_messages(reports: &[ToolReport]) -> Vec<Value> {
    let uses = reports.iter().map(|report| {
        json!({
            "type": "tool_use",
            "id": report.call,
            "name": report.tool,
            "input": as_object(&report.arguments),
        })
    });
    let results = reports.iter().map(|report| {
        json!({
            "type": "tool_result",
            "tool_use_id": report.call,
            "content": result_text(report),
            "is_error": !report.success,
        })
    });
    vec![
        json!({ "role": "assistant", "content": uses.collect::<Vec<_>>() }),
        json!({ "role": "user", "content": results.collect::<Vec<_>>() }),
    ]
}

/// Returns the contents of one turn for Gemini: the model's with all calls, the user's with all responses.
pub fn gemini_messages(reports: &[ToolReport]) -> Vec<Value> {
    let calls = reports.iter().map(|report| {
        let call = json!({ "id": report.call, "name": report.tool, "args": as_object(&report.arguments) });
        json!({ "functionCall": call })
    });
    let responses = reports.iter().map(|report| {
        let mut response = as_object(&result_json(report));
        // An `error` field means a failure, even if it is empty.
        response.retain(|key, value| key != "tool" && !value.is_null());
        json!({ "functionResponse": { "id": report.call, "name": report.tool, "response": response } })
    });
    vec![
        json!({ "role": "model", "parts": calls.collect::<Vec<_>>() }),
        json!({ "role": "user", "parts": responses.collect::<Vec<_>>() }),
    ]
}

/// Returns a `CallToolResult` of the Model Context Protocol.
pub fn mcp_result(report: &ToolReport) -> Value {
    let mut result = Map::new();
    result.insert("content".into(), json!([{ "type": "text", "text": result_text(report) }]));
    result.insert("isError".into(), (!report.success).into());
    match &report.data {
        Some(data @ Value::Object(_)) => {
            result.insert("structuredContent".into(), data.clone());
        }
        // MCP requires an object here.
        Some(data) => {
            result.insert("structuredContent".into(), json!({ "result": data }));
        }
        None => {}
    }
    Value::Object(result)
}

/// Converts arguments to an object. Other arguments were refused, but must be sent back in a format that is accepted.
fn as_object(value: &Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields.clone(),
        other => Map::from_iter([("arguments".to_owned(), other.clone())]),
    }
}
