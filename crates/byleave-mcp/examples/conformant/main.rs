//! A server with everything that the official conformance suite tests. The suite runs on it with and without the gateway in
//! front, and the results must be equal.
//!
//! `conformant stdio` or `conformant http 127.0.0.1:PORT`. Tasks, an extension that is not scored, are not implemented.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    deprecated,
    reason = "a fixture, which must also show what is on its way out"
)]

mod asks;
mod shown;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, CreateMessageRequestParams,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel,
    LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, SamplingMessage, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext, SubscriptionSink};
use rmcp::transport::io::stdio_pipes;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long clients may cache lists.
const TTL_MS: u64 = 60_000;
/// The delay between two notifications of one call, so that the suite sees them separately.
const APART: Duration = Duration::from_millis(20);

type McpResult<T> = Result<T, ErrorData>;
type ServerRequestContext = RequestContext<RoleServer>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ConformantServer::default();
    let typed: Vec<String> = std::env::args().skip(1).collect();
    match typed.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["stdio"] => {
            server.serve(stdio_pipes()).await?.waiting().await?;
        }
        ["http", address] => {
            // The same settings as in the gateway, so that the comparison does not depend on them.
            let config = StreamableHttpServerConfig::default().with_json_response(true);
            let sessions = Arc::new(LocalSessionManager::default());
            let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
            let listener = tokio::net::TcpListener::bind(address).await?.tap_io(|stream| {
                stream.set_nodelay(true).expect("a socket of ours");
            });
            axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
        }
        _ => return Err("usage: conformant stdio | conformant http 127.0.0.1:PORT".into()),
    }
    Ok(())
}

/// Its only state is the set of subscribers.
#[derive(Clone, Default)]
struct ConformantServer {
    listening: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
    listened: Arc<AtomicU64>,
    /// The number of clients whose subscription was accepted.
    accepted: Arc<AtomicU64>,
}

impl ServerHandler for ConformantServer {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(can)
            .with_server_info(Implementation::new("conformant", "1"))
            .with_instructions("what the conformance suite asks for")
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        shown::tools()
            .into_iter()
            .find(|tool| tool["name"] == name)
            .map(|tool| typed(tool).expect("a tool of ours"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: ServerRequestContext,
    ) -> McpResult<ListToolsResult> {
        let tools = ListToolsResult::with_all_items(typed(json!(shown::tools()))?);
        Ok(tools.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        asked: ServerRequestContext,
    ) -> McpResult<CallToolResponse> {
        if let Some(answer) = shown::answer(&call.name) {
            return Ok(typed::<CallToolResult>(answer)?.into());
        }
        let argument = |name: &str| call.arguments.as_ref()?.get(name)?.as_str().map(str::to_owned);
        match call.name.as_ref() {
            "echo" => Ok(said(&argument("text").unwrap_or_default())),
            "test_tool_with_logging" => {
                for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    log(&asked, LoggingLevel::Info, line).await?;
                    tokio::time::sleep(APART).await;
                }
                Ok(said("logged"))
            }
            "test_logging_tool" => {
                if let Some(level) = asked.meta.log_level() {
                    log(&asked, level, "the request asked for it").await?;
                }
                Ok(said("logged, where that was asked for"))
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    if let Some(token) = asked.meta.get_progress_token() {
                        let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
                        asked.peer.notify_progress(progress).await.map_err(broken)?;
                    }
                    tokio::time::sleep(APART).await;
                }
                Ok(said("all of it"))
            }
            "test_reconnection" => {
                tokio::time::sleep(APART).await;
                Ok(said("still here"))
            }
            "test_custom_header" => {
                argument("value").map(|value| said(&value)).ok_or_else(|| wrong("`value` must be text"))
            }
            "json_schema_2020_12_tool" => Ok(said(&json!(call.arguments).to_string())),
            "test_sampling" => {
                let prompt = SamplingMessage::user_text(argument("prompt").unwrap_or_default());
                let answer =
                    asked.peer.create_message(CreateMessageRequestParams::new(vec![prompt], 100)).await;
                Ok(answer.map_or_else(
                    |error| failed(&error),
                    |answer| said(&format!("LLM response: {}", json!(answer))),
                ))
            }
            "test_missing_capability" if capabilities(&asked).sampling.is_none() => {
                let needed = ClientCapabilities::builder().enable_sampling().build();
                Err(ErrorData::missing_required_client_capability(needed))
            }
            "test_missing_capability" => Ok(said("the client samples")),
            "test_trigger_tool_change" | "test_trigger_prompt_change" => {
                self.all_listen().await;
                let sinks: Vec<SubscriptionSink> = self.held().values().cloned().collect();
                let mut told = 0;
                for sink in sinks {
                    // A client that has disconnected must not prevent notifications to the others.
                    told += usize::from(match call.name.as_ref() {
                        "test_trigger_tool_change" => sink.notify_tool_list_changed().await.is_ok(),
                        _ => sink.notify_prompt_list_changed().await.is_ok(),
                    });
                }
                Ok(said(&format!("told {told}")))
            }
            name if name.starts_with("test_elicitation") => {
                let message = argument("message").unwrap_or_default();
                let form = asks::legacy_form(name, message).ok_or_else(|| wrong("there is no such tool"))?;
                let answer = asked.peer.create_elicitation(form).await;
                Ok(answer.map_or_else(
                    |error| failed(&error),
                    |answer| said(&format!("User response: {}", json!(answer))),
                ))
            }
            name if name.starts_with("test_input_required_result_")
                || name == "test_streaming_elicitation" =>
            {
                asks::round(&call, &capabilities(&asked))
            }
            other => Err(wrong(&format!("there is no tool `{other}`"))),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: ServerRequestContext,
    ) -> McpResult<ListResourcesResult> {
        let resources = ListResourcesResult::with_all_items(typed(shown::resources())?);
        Ok(resources.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: ServerRequestContext,
    ) -> McpResult<ListResourceTemplatesResult> {
        let templates = ListResourceTemplatesResult::with_all_items(typed(shown::templates())?);
        Ok(templates.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        read: ReadResourceRequestParams,
        _: ServerRequestContext,
    ) -> McpResult<ReadResourceResponse> {
        let found = shown::resource(&read.uri).ok_or_else(|| {
            ErrorData::resource_not_found("there is no such resource", Some(json!({ "uri": read.uri })))
        })?;
        let contents = typed::<ReadResourceResult>(found)?;
        Ok(contents.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: ServerRequestContext) -> McpResult<()> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: ServerRequestContext) -> McpResult<()> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: ServerRequestContext,
    ) -> McpResult<ListPromptsResult> {
        let prompts = ListPromptsResult::with_all_items(typed(shown::prompts())?);
        Ok(prompts.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        get: GetPromptRequestParams,
        _: ServerRequestContext,
    ) -> McpResult<GetPromptResponse> {
        if get.name == "test_input_required_result_prompt" {
            let Some(given) = asks::response(get.input_responses.as_ref(), "user_context") else {
                return Ok(asks::before_prompt().into());
            };
            let text = shown::text(&format!("in the context: {}", given["content"]["context"]));
            let result = shown::whole(json!({ "messages": [{ "role": "user", "content": text }] }));
            return Ok(typed::<GetPromptResult>(result)?.into());
        }
        let arguments = json!(get.arguments);
        let argument = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let found = shown::prompt(&get.name, &argument).ok_or_else(|| wrong("there is no such prompt"))?;
        Ok(typed::<GetPromptResult>(found)?.into())
    }

    async fn complete(
        &self,
        complete: CompleteRequestParams,
        _: ServerRequestContext,
    ) -> McpResult<CompleteResult> {
        let words = ["paris", "park", "party"].map(str::to_owned);
        let begun = words.into_iter().filter(|word| word.starts_with(&complete.argument.value)).collect();
        Ok(CompleteResult::new(CompletionInfo::new(begun).map_err(broken)?))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: ServerRequestContext) -> McpResult<()> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> McpResult<()> {
        let key = {
            let mut listening = self.held();
            let key = self.listened.fetch_add(1, Ordering::Relaxed);
            listening.insert(key, context.sink().clone());
            key
        };
        context.cancelled().await;
        self.held().remove(&key);
        Ok(())
    }
}

impl ConformantServer {
    /// Waits for subscriptions that the SDK has confirmed but not yet handed over, because a change in between would be lost. A client
    /// that has disconnected by then never arrives, so the wait is short.
    async fn all_listen(&self) {
        for _ in 0..25 {
            if self.listened.load(Ordering::Relaxed) >= self.accepted.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(APART).await;
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<u64, SubscriptionSink>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn log(asked: &ServerRequestContext, level: LoggingLevel, line: &str) -> McpResult<()> {
    let message = LoggingMessageNotificationParam::new(level, json!(line)).with_logger("conformant");
    asked.peer.notify_logging_message(message).await.map_err(broken)
}

fn capabilities(asked: &ServerRequestContext) -> ClientCapabilities {
    asked.client_capabilities().unwrap_or_default()
}

/// A result with one line of text.
fn said(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn failed(error: &dyn std::error::Error) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into()
}

fn wrong(what: &str) -> ErrorData {
    ErrorData::invalid_params(what.to_owned(), None)
}

fn broken(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn typed<T: DeserializeOwned>(value: Value) -> McpResult<T> {
    serde_json::from_value(value).map_err(broken)
}
