//! One tool of a server as a tool of the gate (M1). It is sensitive, is checked by the effects of its arguments, and its
//! result is validated.

use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::plan::add_argument_effects;
use byleave_gate::schema::{JsonLimits, Validator};
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ContentBlock,
    ElicitRequest, ErrorData, InputRequest, InputResponses, RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};

use super::client_handler;
use super::connection::{ServerConnection, is_unauthorized, login_error};
use super::server_definition::{DirectoryAccess, ServerDefinition};
use crate::active_callers::Caller;
use crate::protocol_version::is_modern;
use crate::result_conversion;

/// How often a server may ask for input before it answers.
const ROUNDS_MAX: usize = 10;

/// The reason why there is no result.
enum ToolCallError {
    /// A protocol error of the server.
    Said(ErrorData),
    /// Another failure, with a description.
    Broke(String),
}

impl<T: Into<String>> From<T> for ToolCallError {
    fn from(why: T) -> Self {
        Self::Broke(why.into())
    }
}

/// Returns which setting lets a server write, if its own words say that it could not.
fn write_hint(definition: &ServerDefinition, failure: &str) -> Option<String> {
    let failure = failure.to_lowercase();
    if definition.profile.unconfined
        || !["erofs", "read-only file system"].iter().any(|sign| failure.contains(sign))
    {
        return None;
    }
    let name = &definition.name;
    let setting = match definition.profile.workspace {
        DirectoryAccess::None | DirectoryAccess::Read => {
            "a person allows writes in the workspace with `workspace = \"write\"`"
        }
        DirectoryAccess::Write => "a person allows writes elsewhere with `write = [\"/PATH\"]`",
    };
    Some(format!(
        "byleave: the sandbox keeps the server `{name}` from writing there; {setting} in `[server.{name}]` of mcp.toml"
    ))
}

/// One tool of one server.
pub struct ServerTool {
    manifest: Manifest,
    /// Its name at the server.
    name: String,
    reads: bool,
    input: Validator,
    output: Option<Validator>,
    link: ServerConnection,
}

impl ServerTool {
    /// Creates the tool from the server's definition, or returns why the definition is invalid.
    pub(super) fn new(
        link: ServerConnection,
        in_catalog: &str,
        name: &str,
        definition: &Value,
    ) -> Result<Self, String> {
        let manifest = manifest(link.definition(), in_catalog, definition);
        let input = Validator::new(&manifest.input_schema).map_err(|bad| bad.to_string())?;
        let output = definition.get("outputSchema").map(Validator::new).transpose();
        let output = output.map_err(|bad| format!("its output schema is not valid: {bad}"))?;
        let reads = manifest.permission_class == PermissionClass::Readonly;
        Ok(Self { name: name.to_owned(), reads, input, output, link, manifest })
    }

    async fn call(&self, arguments: Value, run: RunContext) -> Output {
        let arguments = self.input.without_nulls(arguments, &JsonLimits::default());
        let Value::Object(arguments) = arguments else {
            return Output::failure("the arguments are not an object");
        };
        let caller = self.link.active_callers().caller(run.call);
        let answered = tokio::select! {
            answered = self.rounds(arguments, caller.as_deref(), &run) => answered,
            // Dropping the request notifies the server.
            () = run.cancel.cancelled() => Err("the call was cancelled".into()),
        };
        match answered {
            Ok(output) => output,
            Err(ToolCallError::Said(said)) => result_conversion::output_from_error(&said),
            Err(ToolCallError::Broke(why)) => Output::failure(why),
        }
    }

    /// Sends the call, and repeats it while the server asks for input that cannot be passed to the client.
    async fn rounds(
        &self,
        arguments: Map<String, Value>,
        caller: Option<&Caller>,
        run: &RunContext,
    ) -> Result<Output, ToolCallError> {
        let mut params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
        params.input_responses = caller.and_then(|caller| caller.input_responses.clone());
        params.request_state = caller.and_then(|caller| caller.request_state.clone());
        for _ in 0..ROUNDS_MAX {
            let answered = self.once(params.clone(), caller, run).await?;
            let CallToolResponse::InputRequired(wanted) = &answered else {
                return self.checked(&answered);
            };
            if caller.is_some_and(|caller| caller.version.as_ref().is_some_and(is_modern)) {
                return result_conversion::output_from_response(&answered)
                    .map_err(|error| ToolCallError::Broke(error.to_string()));
            }
            let Some(caller) = caller else {
                return Err("the server requests input, and there is nobody to ask".into());
            };
            params.input_responses =
                Some(self.fulfilled(wanted.input_requests.clone().unwrap_or_default(), caller).await?);
            params.request_state.clone_from(&wanted.request_state);
        }
        Err(format!("the server requested input {ROUNDS_MAX} times and returned no result").into())
    }

    async fn once(
        &self,
        params: CallToolRequestParams,
        caller: Option<&Caller>,
        run: &RunContext,
    ) -> Result<CallToolResponse, ToolCallError> {
        let connection = self.link.connect().await.map_err(|down| ToolCallError::Broke(down.to_string()))?;
        let mut options = PeerRequestOptions::no_options();
        options.meta = caller.map(passed_on);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut here = self.link.active_calls().register(run);
        let asked = connection.peer().send_cancellable_request(request, options).await;
        let handle = match asked {
            Ok(handle) => handle,
            Err(error) => return Err(self.broke(&error).await),
        };
        here.set_progress_token(handle.progress_token.clone());
        let mut called_off = CancelOnDrop { peer: connection.peer(), id: Some(handle.id.clone()) };
        let answered = handle.await_response().await;
        called_off.id = None;
        here.wait_for_forwarded().await;
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => return Err(self.broke(&error).await),
        };
        match answered {
            ServerResult::CallToolResult(mut result) => {
                self.link.reset_failures();
                if result.is_error == Some(true) {
                    let text = serde_json::to_string(&result.content).unwrap_or_default();
                    result.content.extend(write_hint(self.link.definition(), &text).map(ContentBlock::text));
                }
                Ok(CallToolResponse::Complete(result))
            }
            ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
            ServerResult::CreateTaskResult(result) => Ok(CallToolResponse::Task(result)),
            _ => Err("the server sent a response of the wrong kind".into()),
        }
    }

    async fn broke(&self, error: &ServiceError) -> ToolCallError {
        if is_unauthorized(error) {
            self.link.drop_connection();
            return self.link.note_login_needed().to_string().into();
        }
        if let Some(trouble) = login_error(error) {
            self.link.drop_connection();
            return self.link.unavailable(trouble).to_string().into();
        }
        let why = match error {
            ServiceError::McpError(said) => return ToolCallError::Said(said.clone()),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                let cut = self.link.cut_off_reason();
                let last_words = self.link.last_words().await;
                self.link.drop_connection();
                if let Some(cut) = cut {
                    return format!("the server was disconnected: {cut}").into();
                }
                format!(
                    "the server `{}` ended during the call; the effects of the call are unknown{last_words}",
                    self.link.definition().name
                )
            }
            other => format!("the server sent an invalid response: {other}"),
        };
        why.into()
    }

    /// Validates a result against the tool's output schema. A mismatch means that the result is broken or comes from another
    /// source.
    fn checked(&self, answered: &CallToolResponse) -> Result<Output, ToolCallError> {
        if let (
            CallToolResponse::Complete(CallToolResult { structured_content, is_error, .. }),
            Some(validator),
        ) = (answered, &self.output)
            && *is_error != Some(true)
        {
            let Some(structured) = structured_content else {
                return Err(
                    "the result lacks the structured content that the tool declares; it is not passed on"
                        .into(),
                );
            };
            let wide = JsonLimits::default();
            validator.check(structured, &wide).map_err(|refusal| {
                format!(
                    "the result does not match the output schema of the tool; it is not passed on: {}",
                    refusal.message
                )
            })?;
        }
        result_conversion::output_from_response(answered)
            .map_err(|error| ToolCallError::Broke(error.to_string()))
    }

    /// Asks a client of the older protocol for the input that a server requests.
    async fn fulfilled(
        &self,
        wanted: std::collections::BTreeMap<String, InputRequest>,
        caller: &Caller,
    ) -> Result<InputResponses, ToolCallError> {
        let mut answers = InputResponses::new();
        for (key, request) in wanted {
            let answer = match request {
                InputRequest::Elicitation(ElicitRequest { mut params, .. }) => {
                    client_handler::mark_source(&mut params, self.link.definition().name.as_str());
                    let asked = caller
                        .peer
                        .create_elicitation(params)
                        .await
                        .map_err(|error| ToolCallError::Broke(error.to_string()))?;
                    serde_json::to_value(asked)
                }
                #[expect(deprecated, reason = "servers may still ask for it")]
                InputRequest::CreateMessage(request) if self.link.definition().sampling => {
                    let said = caller
                        .peer
                        .create_message(request.params)
                        .await
                        .map_err(|error| ToolCallError::Broke(error.to_string()))?;
                    serde_json::to_value(said)
                }
                _ => return Err("the server requests input that is not allowed here".into()),
            };
            answers.insert(key, answer.map_err(|error| ToolCallError::Broke(error.to_string()))?);
        }
        Ok(answers)
    }
}

impl Tool for ServerTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        let mut plan = Plan { read_only: self.reads, ..Plan::default() };
        plan.effects.push(Effect::mcp_invoke(self.link.definition().name.as_str(), &self.name));
        add_argument_effects(&mut plan, arguments, site, self.reads);
        let changes = |effect: &Effect| !matches!(effect, Effect::Read { .. } | Effect::Invoke { .. });
        plan.read_only &= !plan.effects.iter().any(changes);
        Some(Box::pin(async move { Ok(plan) }))
    }

    fn is_nonblocking(&self) -> bool {
        true
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(self.call(arguments, run))
    }
}

/// Creates the manifest of the tool. The server's claims are used only if the person trusts it, and then only that the tool
/// reads.
fn manifest(server: &ServerDefinition, name: &str, definition: &Value) -> Manifest {
    let text = |name: &str| definition.get(name).and_then(Value::as_str);
    let hint = |name: &str| definition.pointer(&format!("/annotations/{name}")).and_then(Value::as_bool);
    let schema = definition.get("inputSchema").cloned().unwrap_or_default();
    let description = text("description").or_else(|| text("title")).unwrap_or_default();
    let mut manifest = Manifest::new(name, description, schema);
    let reads = server.trusted && hint("readOnlyHint") == Some(true);
    manifest.permission_class = if reads { PermissionClass::Readonly } else { PermissionClass::Generic };
    manifest.read_only = reads;
    manifest.destructive = hint("destructiveHint").unwrap_or(!reads);
    manifest.sensitive = Some(true);
    // The protocol allows many requests at once. The server must handle that.
    manifest.concurrency_safe = true;
    manifest.server = Some(server.name.to_string());
    manifest.timeout_ms = server.timeout_ms;
    manifest
}

/// Returns the metadata of a request for the server: all except the progress token, which is chosen here.
fn passed_on(caller: &Caller) -> RequestMetaObject {
    let mut meta = caller.meta.clone();
    meta.0.0.remove("progressToken");
    for ours in ["protocolVersion", "clientInfo"] {
        meta.0.0.remove(&format!("io.modelcontextprotocol/{ours}"));
    }
    meta
}

/// Notifies a server of the cancellation if the response was not awaited.
struct CancelOnDrop<'a> {
    peer: &'a rmcp::service::Peer<rmcp::service::RoleClient>,
    id: Option<rmcp::model::RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let params = rmcp::model::CancelledNotificationParam::new(Some(id), Some("cancelled".into()));
                if let Err(error) = peer.notify_cancelled(params).await {
                    tracing::debug!(%error, "cannot notify a server that a call was cancelled");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::upstream::server_definition::{Launch, ServerName};

    // req: M2
    #[test]
    fn a_write_that_the_profile_forbids_names_the_setting() {
        let launch = Launch::Child { command: "x".into(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
        let mut definition = ServerDefinition::new(ServerName::new("files").unwrap(), launch);
        let node = "EROFS: read-only file system, open '/w/x'";
        let hint = |definition: &ServerDefinition, failure: &str| {
            write_hint(definition, failure).unwrap_or_default()
        };
        assert!(hint(&definition, node).contains("`workspace = \"write\"` in `[server.files]`"));
        assert!(hint(&definition, "OSError: [Errno 30] Read-only file system: 'x'").contains("workspace"));
        assert_eq!(write_hint(&definition, "no such file"), None);
        definition.profile.workspace = DirectoryAccess::Write;
        assert!(hint(&definition, node).contains("`write = [\"/PATH\"]`"));
        definition.profile.unconfined = true;
        assert_eq!(write_hint(&definition, node), None);
    }
}
