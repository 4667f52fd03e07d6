//! `resources/read`: reads a resource as a call through the gate, like any other action of an agent.
//!
//! Only resources that a server offers can be read. The call uses that server, and the file or host that the address names,
//! if any. This holds whatever the server makes of the address.

use std::sync::Arc;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::host;
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::path_resolution::resolve;
use byleave_gate::result::{CallOutcome, CallResult};
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use rmcp::ErrorData;
use rmcp::model::{
    ErrorCode, InputRequiredResult, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceContents,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize as _;
use serde_json::{Value, json};
use url::Url;

use super::GatewayInner;
use super::call_flow::{CallProgress, ToolCallRequest, follow_call};
use super::call_tool::{client_gone_error, model_reason, waiting_message};
use super::connection::ClientConnection;
use super::prompts_and_resources;
use super::tool_list::RESOURCE_TOOL_PREFIX;
use crate::active_callers::ActiveCallers;
use crate::result_conversion::RESULT_KEY;
use crate::upstream::Servers;

/// The error code of a request that was refused or that waits.
const REFUSED: ErrorCode = ErrorCode(-32_000);

/// Reads a resource.
pub(super) async fn read_resource(
    at: &ClientConnection,
    request: ReadResourceRequestParams,
    cx: &RequestContext<RoleServer>,
) -> Result<ReadResourceResponse, ErrorData> {
    let uri = request.uri;
    let Some(reached) = prompts_and_resources::server_for_resource(&at.gateway, &uri).await else {
        let what = "no server offers this resource; `resources/list` lists those that exist";
        return Err(ErrorData::resource_not_found(what, Some(json!({ "uri": uri }))));
    };
    let tool =
        reader(&at.gateway, reached.server.name()).map_err(|why| ErrorData::internal_error(why, None))?;
    let job = ToolCallRequest {
        tool,
        arguments: json!({ "uri": uri }),
        reason: model_reason(&cx.meta),
        responses: request.input_responses,
        state: request.request_state,
    };
    match follow_call(at, job, cx).await {
        CallProgress::Settled { result, .. } => given_out(&result, &uri),
        CallProgress::InputRequired(asks) => Ok(ReadResourceResponse::InputRequired(*asks)),
        CallProgress::Waiting { question, call } => {
            let data = json!({ "pending": { "call": call.to_string(), "question": question } });
            Err(ErrorData::new(REFUSED, waiting_message(&uri, question), Some(data)))
        }
        CallProgress::Error(why) => Err(ErrorData::new(REFUSED, why, None)),
        CallProgress::Gone => Err(client_gone_error()),
    }
}

fn given_out(result: &CallResult, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    match &result.outcome {
        CallOutcome::Completed(output) => {
            let passed_on = output.data.as_ref().and_then(|data| data.get(RESULT_KEY));
            let unchanged =
                passed_on.filter(|passed_on| text_of(passed_on) == output.text && !output.truncated);
            let read = unchanged.and_then(response);
            // The text was changed, so the rest of the result was not released.
            Ok(read.unwrap_or_else(|| as_text(result, uri)))
        }
        CallOutcome::Answered(_) | CallOutcome::DryRun(_) => Ok(as_text(result, uri)),
        _ => {
            let code = result.outcome.refusal().map(|refusal| refusal.code.as_str());
            let why = result.error().unwrap_or_else(|| "the resource was not read".into());
            Err(ErrorData::new(REFUSED, why, Some(json!({ "code": code }))))
        }
    }
}

fn as_text(result: &CallResult, uri: &str) -> ReadResourceResponse {
    ReadResourceResult::new(vec![ResourceContents::text(result.to_text(), uri)]).into()
}

fn response(result: &Value) -> Option<ReadResourceResponse> {
    let is_asked = result.get("resultType").and_then(Value::as_str) == Some("input_required");
    if is_asked {
        return InputRequiredResult::deserialize(result).ok().map(ReadResourceResponse::InputRequired);
    }
    ReadResourceResult::deserialize(result).ok().map(ReadResourceResponse::Complete)
}

/// Returns the texts of a result, and a note for each other part.
fn text_of(result: &Value) -> String {
    let contents = result.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = |content: &Value, name: &str| content.get(name).and_then(Value::as_str).map(str::to_owned);
    let line = |content: &Value| {
        of(content, "text").unwrap_or_else(|| {
            let size = of(content, "blob").map_or(0, |blob| blob.len());
            format!("[{size} characters of base64]")
        })
    };
    contents.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the tool that reads the resources of a server. It is registered on first use.
fn reader(gateway: &GatewayInner, server: &str) -> Result<String, String> {
    let name = format!("{RESOURCE_TOOL_PREFIX}{server}");
    let catalog = gateway.gate.catalog();
    if !catalog.contains(&name) {
        let reader =
            ResourceReader::new(&name, server, Arc::clone(&gateway.servers), gateway.exchange.clone());
        if let Err(error) = catalog.register(reader)
            && !catalog.contains(&name)
        {
            return Err(error.to_string());
        }
    }
    Ok(name)
}

/// Reads the resources of one server.
struct ResourceReader {
    manifest: Manifest,
    server: String,
    servers: Arc<dyn Servers>,
    exchange: ActiveCallers,
}

impl ResourceReader {
    fn new(name: &str, server: &str, servers: Arc<dyn Servers>, exchange: ActiveCallers) -> Self {
        let schema = json!({
            "type": "object",
            "properties": { "uri": { "type": "string", "maxLength": 8_192 } },
            "required": ["uri"],
            "additionalProperties": false,
        });
        let what = format!("Reads a resource that the MCP server {server} offers.");
        let manifest = Manifest {
            permission_class: PermissionClass::Generic,
            audit_operation: Some("read".into()),
            concurrency_safe: true,
            server: Some(server.to_owned()),
            ..Manifest::new(name, what, schema)
        };
        Self { manifest, server: server.to_owned(), servers, exchange }
    }

    async fn fetch(&self, uri: String, run: &RunContext) -> Output {
        let down = || Output::failure(format!("cannot reach the server {}", self.server));
        let servers = self.servers.list();
        let server = servers.iter().find(|server| server.name() == self.server);
        let Some(peer) = server.and_then(|server| server.peer()) else { return down() };
        let mut params = ReadResourceRequestParams::new(uri);
        if let Some(caller) = self.exchange.caller(run.call) {
            params.input_responses.clone_from(&caller.input_responses);
            params.request_state.clone_from(&caller.request_state);
        }
        let read = tokio::select! {
            read = peer.read_resource_once(params) => read,
            () = run.cancel.cancelled() => return Output::failure("stopped before the server answered"),
        };
        let result = match read {
            Ok(ReadResourceResponse::Complete(result)) => serde_json::to_value(result),
            Ok(ReadResourceResponse::InputRequired(result)) => serde_json::to_value(result),
            Ok(_) => return Output::failure("the server sent an unsupported kind of response"),
            Err(error) => {
                return Output::failure(prompts_and_resources::to_client_error(error).message.into_owned());
            }
        };
        match result {
            Ok(result) => Output::text(text_of(&result)).with_data(json!({ RESULT_KEY: result })),
            Err(error) => Output::failure(error.to_string()),
        }
    }
}

impl Tool for ResourceReader {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        Some(Box::pin(async move {
            let uri = arguments.get("uri").and_then(Value::as_str).unwrap_or_default();
            let mut effects = vec![Effect::mcp_invoke(&self.server, "resources/read")];
            effects.extend(named(uri, site)?);
            Ok(Plan { effects, ..Plan::default() })
        }))
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async move {
            let uri = arguments.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
            self.fetch(uri, &run).await
        })
    }
}

/// Returns the effect on the file or host that an address names, if it names one.
fn named(uri: &str, site: &ToolContext) -> Result<Option<Effect>, ToolError> {
    let Ok(url) = Url::parse(uri) else { return Ok(None) };
    let unclear = || ToolError(format!("`{}` is ambiguous", uri.escape_debug()));
    Ok(match url.scheme() {
        "file" => {
            let path = url.to_file_path().map_err(|()| unclear())?;
            let path = path.to_str().ok_or_else(unclear)?;
            Some(Effect::Read { path: resolve(path, &site.cwd)? })
        }
        "http" | "https" | "ws" | "wss" => {
            let host = url.host_str().and_then(host::normalize).ok_or_else(unclear)?;
            Some(Effect::Reach { host, port: url.port_or_known_default().ok_or_else(unclear)? })
        }
        _ => None,
    })
}
