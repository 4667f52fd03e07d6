//! `tools/call`: converts a client's request to a call, and its outcome to a result.

use std::time::Duration;

use byleave_gate::core::id::{CallId, QuestionId};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, MetaObject, RequestMetaObject,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::call_flow::{CallProgress, ToolCallRequest, follow_call};
use super::connection::ClientConnection;
use super::tool_list;
use crate::result_conversion::{error_from_result, response_from_result};

/// The metadata key of the reason for a call, in the model's words.
const REASON: &str = "byleave/reason";

/// The metadata key that marks a result whose call waits.
const PENDING: &str = "byleave/pending";

/// Makes a call.
pub(super) async fn call(
    at: &ClientConnection,
    request: CallToolRequestParams,
    cx: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let Some(tool) = tool_list::catalog_name(&at.gateway, &request.name) else {
        return Err(ErrorData::invalid_params(format!("unknown tool: {}", request.name), None));
    };
    let job = ToolCallRequest {
        tool,
        arguments: Value::Object(request.arguments.unwrap_or_default()),
        reason: model_reason(&cx.meta),
        responses: request.input_responses,
        state: request.request_state,
    };
    Ok(match follow_call(at, job, cx).await {
        CallProgress::Settled { result, resumed_after: picked_up } => match error_from_result(&result) {
            Some(said) => return Err(said),
            None => noted(response_from_result(&result), picked_up),
        },
        CallProgress::InputRequired(asks) => CallToolResponse::InputRequired(*asks),
        CallProgress::Waiting { call, question } => pending(&request.name, call, question).into(),
        CallProgress::Error(why) => CallToolResult::error(vec![ContentBlock::text(why)]).into(),
        CallProgress::Gone => return Err(client_gone_error()),
    })
}

/// Returns the error for a request that was cancelled or whose client is gone. It is not read.
pub(super) fn client_gone_error() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

/// Returns the reason of a call, in the model's words.
pub(super) fn model_reason(meta: &RequestMetaObject) -> Option<String> {
    meta.get(REASON).and_then(Value::as_str).map(str::to_owned)
}

/// Returns the message about a call that waits.
pub(super) fn waiting_message(what: &str, question: Option<QuestionId>) -> String {
    let why = match question {
        Some(question) => format!("waits for a person's answer to question {question}"),
        None => "waits behind another call that waits for a person's answer".to_owned(),
    };
    format!(
        "[byleave] pending: `{what}` has not run yet; it {why}. A person answers with `byleave inbox`. Make exactly the same call again later to \
         get the result; until then continue with something else, or ask the person."
    )
}

fn pending(tool: &str, call: CallId, question: Option<QuestionId>) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(waiting_message(tool, question))]);
    let mut meta = MetaObject::new();
    let question = question.map(|question| question.to_string());
    meta.insert(PENDING.into(), json!({ "call": call.to_string(), "question": question }));
    result.meta = Some(meta);
    result
}

/// Adds a note that the result is not fresh, if the client was notified before that the call waits.
fn noted(response: CallToolResponse, picked_up: Option<Duration>) -> CallToolResponse {
    match (response, picked_up) {
        (CallToolResponse::Complete(mut result), Some(age)) => {
            let note = format!(
                "[byleave] this is the result of the same call made earlier, which waited for an answer; it was last requested {} s ago",
                age.as_secs()
            );
            result.content.insert(0, ContentBlock::text(note));
            CallToolResponse::Complete(result)
        }
        (other, _) => other,
    }
}
