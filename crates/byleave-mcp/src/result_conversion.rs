//! Converts results: from a server to the gate as an [`Output`], and from the gate to an agent.
//!
//! The gate reviews, redacts and truncates both the text and the data of an output. The blocks of an MCP result are in the
//! data, under one key; the text is generated from them. If the text was changed but the blocks were not, the blocks are not
//! used.

use byleave_gate::core::outcome::Output;
use byleave_gate::core::refusal::Refusal;
use byleave_gate::result::{CallOutcome, CallResult};
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, ErrorData, InputRequiredResult,
    MetaObject,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The key of an MCP server's result in the data of an output.
pub const RESULT_KEY: &str = "mcp";

/// The key of an MCP server's error in the data of an output.
const ERROR: &str = "mcp_error";

/// The metadata key of a refusal's code in a result for an agent.
pub const CODE_KEY: &str = "byleave/code";

/// Converts the response of a server to an output for the gate.
pub fn output_from_response(response: &CallToolResponse) -> Result<Output, serde_json::Error> {
    let (result, is_error) = match response {
        CallToolResponse::Complete(result) => (serde_json::to_value(result)?, result.is_error == Some(true)),
        CallToolResponse::InputRequired(result) => (serde_json::to_value(result)?, false),
        CallToolResponse::Task(result) => (serde_json::to_value(result)?, false),
        // A kind of response that this version does not know. It can be neither checked nor passed on.
        _ => return Ok(Output::failure("the server sent an unsupported kind of response")),
    };
    let text = result_text(&result);
    let error =
        is_error.then(|| if text.is_empty() { "the server reported a failure".into() } else { text.clone() });
    Ok(Output { text, is_error, error, data: Some(json!({ RESULT_KEY: result })), ..Output::default() })
}

/// Converts the protocol error of a server to an output for the gate.
pub fn output_from_error(said: &ErrorData) -> Output {
    let failed = Output::failure(format!("the server refused the call: {}", said.message));
    failed.with_data(json!({ ERROR: said }))
}

/// Returns the protocol error of a server, if it was not changed on the way.
pub fn error_from_result(result: &CallResult) -> Option<ErrorData> {
    let CallOutcome::Failed(output) = &result.outcome else { return None };
    let said = ErrorData::deserialize(output.data.as_ref()?.get(ERROR)?).ok()?;
    (output_from_error(&said).error == output.error).then_some(said)
}

/// Converts the result of a call for an agent. A refusal is an error that the model can read, not a protocol error.
pub fn response_from_result(result: &CallResult) -> CallToolResponse {
    match &result.outcome {
        CallOutcome::Completed(output) | CallOutcome::Failed(output) => {
            let passed_on = output.data.as_ref().and_then(|data| data.get(RESULT_KEY));
            let unchanged =
                passed_on.filter(|passed_on| result_text(passed_on) == output.text && !output.truncated);
            unchanged
                .and_then(response)
                .map_or_else(|| said(result, Some(output)).into(), |response| with_changes(response, result))
        }
        CallOutcome::Answered(output) => said(result, Some(output)).into(),
        CallOutcome::DryRun(_) => said(result, None).into(),
        CallOutcome::Withheld(refusal) | CallOutcome::Refused(refusal) | CallOutcome::Unknown(refusal) => {
            refused(said(result, None), refusal).into()
        }
    }
}

/// Reads the response of a server back from the data of an output.
fn response(result: &Value) -> Option<CallToolResponse> {
    let kind = result.get("resultType").and_then(Value::as_str);
    let read = match kind {
        Some("input_required") => {
            InputRequiredResult::deserialize(result).map(CallToolResponse::InputRequired)
        }
        Some("task") => CreateTaskResult::deserialize(result).map(CallToolResponse::Task),
        _ => CallToolResult::deserialize(result).map(CallToolResponse::Complete),
    };
    read.ok()
}

/// Adds the list of changes to the front of a response.
fn with_changes(response: CallToolResponse, result: &CallResult) -> CallToolResponse {
    match response {
        CallToolResponse::Complete(mut complete) if !result.modifications.is_empty() => {
            complete.content.insert(0, ContentBlock::text(result.modifications_text().trim_end()));
            CallToolResponse::Complete(complete)
        }
        other => other,
    }
}

/// Returns the result as text.
fn said(result: &CallResult, output: Option<&Output>) -> CallToolResult {
    let cut = output.filter(|output| output.truncated).map(|_| "[the output was cut]".to_owned());
    let error = result.error().filter(|error| output.is_none_or(|output| output.text != *error));
    let parts = [Some(result.to_text()), cut, error];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let content = vec![ContentBlock::text(parts.join("\n"))];
    if result.is_success() { CallToolResult::success(content) } else { CallToolResult::error(content) }
}

/// Adds the code of the refusal, for programs, and the address of its page, for the model.
fn refused(mut said: CallToolResult, refusal: &Refusal) -> CallToolResult {
    let code = refusal.code;
    let hint = format!("[byleave] {}: {}", code, code.meaning());
    said.content.push(ContentBlock::text(hint));
    let mut meta = MetaObject::new();
    meta.insert(CODE_KEY.into(), code.as_str().into());
    said.meta = Some(meta);
    said
}

/// Returns the texts of a result for the model, and a note for each other part.
pub fn result_text(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> = blocks.iter().map(block).collect();
    if lines.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        lines.push(structured.to_string());
    }
    lines.join("\n")
}

fn block(block: &Value) -> String {
    let of = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match of("type") {
        "text" => of("text").to_owned(),
        "resource" => {
            let resource = block.get("resource");
            let part = |name: &str| resource.and_then(|resource| resource.get(name)).and_then(Value::as_str);
            part("text")
                .map_or_else(|| format!("[resource {}]", part("uri").unwrap_or_default()), str::to_owned)
        }
        "resource_link" => format!("[resource {}]", of("uri")),
        other => format!("[{other} {}, {} characters of base64]", of("mimeType"), of("data").len()),
    }
}
