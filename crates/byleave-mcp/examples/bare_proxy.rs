//! The minimal proxy for tools: it renames and forwards, and inspects nothing. It is the baseline for the cost of the gateway.
//!
//! `bare_proxy stdio|http://127.0.0.1:PORT|as-is:http://127.0.0.1:PORT -- COMMAND ARGUMENTS…`; `as-is` does not rename.
#![expect(clippy::expect_used, reason = "a fixture")]

use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, RequestContext, RoleClient, RoleServer, RunningService,
};
use rmcp::transport::TokioChildProcess;
use rmcp::transport::io::stdio_pipes;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};

type McpResult<T> = Result<T, ErrorData>;

#[derive(Clone)]
struct BareProxy {
    upstream: Arc<RunningService<RoleClient, ()>>,
    prefix: &'static str,
}

impl ServerHandler for BareProxy {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> McpResult<ListToolsResult> {
        let mut listed = self.upstream.list_tools(page).await.map_err(broken)?;
        for tool in &mut listed.tools {
            tool.name = format!("{}{}", self.prefix, tool.name).into();
        }
        Ok(listed)
    }

    async fn call_tool(
        &self,
        mut call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> McpResult<CallToolResponse> {
        let name = call.name.strip_prefix(self.prefix).map(str::to_owned);
        call.name = name.ok_or_else(|| ErrorData::invalid_params("there is no such tool", None))?.into();
        self.upstream.call_tool_once(call).await.map_err(broken)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let [front, dashes, command, arguments @ ..] = typed.as_slice() else {
        return Err("usage: bare_proxy stdio|http://127.0.0.1:PORT -- COMMAND ARGUMENTS…".into());
    };
    assert_eq!(dashes, "--", "the command stands behind two dashes");
    let mut child = tokio::process::Command::new(command);
    child.args(arguments);
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    let upstream = ().serve_with_lifecycle(TokioChildProcess::new(child)?, lifecycle).await?;
    let (prefix, front) =
        front.strip_prefix("as-is:").map_or(("mcp_up_", front.as_str()), |front| ("", front));
    let proxy = BareProxy { upstream: Arc::new(upstream), prefix };
    match front.strip_prefix("http://") {
        Some(address) => {
            let listener = tokio::net::TcpListener::bind(address).await?.tap_io(|stream| {
                stream.set_nodelay(true).expect("a socket of ours");
            });
            let sessions = Arc::new(LocalSessionManager::default());
            let config = StreamableHttpServerConfig::default();
            let service = StreamableHttpService::new(move || Ok(proxy.clone()), sessions, config);
            axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
        }
        None => {
            proxy.serve(stdio_pipes()).await?.waiting().await?;
        }
    }
    Ok(())
}

fn broken(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
